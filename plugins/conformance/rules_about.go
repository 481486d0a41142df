package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	googleproto "google.golang.org/protobuf/proto"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

func describe(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		first, err := p.about(ctx)
		if err != nil {
			return err
		}
		if first.GetName() == "" {
			return errors.New("it has no name")
		}
		again, err := p.about(ctx)
		if err != nil {
			return err
		}
		if !googleproto.Equal(first, again) {
			return errors.New("the second answer is another")
		}
		return nil
	})
}

// eachSetting looks at all settings of a schema; path ends with a dot, or is empty.
func eachSetting(schema settings.Schema, path string, attribute func(path string, a settings.Attribute) error,
	block func(path string, b settings.Block) error) error {
	var problems []error
	for _, a := range schema.Attributes {
		problems = append(problems, attribute(path+a.Name, a))
	}
	for _, b := range schema.Blocks {
		problems = append(problems, block(path+b.Name, b), eachSetting(b.Schema, path+b.Name+".", attribute, block))
	}
	return errors.Join(problems...)
}

var (
	settingName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	types       = []settings.Type{settings.String, settings.Number, settings.Bool, settings.ListString, settings.MapString}
)

// checkSchema is a check of what the provider says of its settings.
func (s *suite) checkSchema(ctx context.Context, check func(settings.Schema) error) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		about, err := p.about(ctx)
		if err != nil {
			return err
		}
		return check(wire.SchemaFromProto(about.GetSchema()))
	})
}

func schema(ctx context.Context, s *suite) error {
	return s.checkSchema(ctx, func(schema settings.Schema) error {
		seen := make(map[string]bool)
		named := func(path, name string) error {
			if !settingName.MatchString(name) {
				return fmt.Errorf("setting %q: a name is made of lower-case letters, digits and underscores", path)
			}
			if seen[path] {
				return fmt.Errorf("setting %s is there twice", path)
			}
			seen[path] = true
			return nil
		}
		return eachSetting(schema, "", func(path string, a settings.Attribute) error {
			if !slices.Contains(types, a.Type) {
				return fmt.Errorf("setting %s has the type %q: there are string, number, bool, list(string) and map(string)",
					path, a.Type)
			}
			return named(path, a.Name)
		}, func(path string, b settings.Block) error { return named(path, b.Name) })
	})
}

func documented(ctx context.Context, s *suite) error {
	return s.checkSchema(ctx, func(schema settings.Schema) error {
		return eachSetting(schema, "", func(path string, a settings.Attribute) error {
			switch {
			case a.Doc == "":
				return fmt.Errorf("setting %s has no doc", path)
			case !a.Required && !a.Secret && !strings.Contains(strings.ToLower(a.Doc), "default"):
				return fmt.Errorf("the doc of setting %s does not say its default", path)
			}
			return nil
		}, func(path string, b settings.Block) error {
			if b.Doc == "" {
				return fmt.Errorf("block %s has no doc", path)
			}
			return nil
		})
	})
}

func capabilities(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		about, err := p.about(ctx)
		if err != nil {
			return err
		}
		can := about.GetCapabilities()
		if can.GetAttempted() && !can.GetEndpoint() {
			return errors.New("it claims attempted and not endpoint: only a provider with Endpoint is told of attempts")
		}
		type rpc struct {
			name    string
			claimed bool
			call    func() error
		}
		calls := []rpc{
			{"CountTokens", can.GetCountTokens(), func() error {
				_, err := p.CountTokens(ctx, &proto.CountTokensRequest{Request: wire.RequestToProto(s.o.Request)})
				return err
			}},
			{"Receipts", can.GetReceipts(), func() error {
				_, err := p.Receipts(ctx, &proto.ReceiptsRequest{Attempts: []string{"never made"}})
				return err
			}},
			{"Endpoint", can.GetEndpoint(), func() error {
				_, err := p.Endpoint(ctx, &proto.EndpointRequest{Model: s.o.Request.Model})
				return err
			}},
			{"Attempted", can.GetAttempted(), func() error {
				_, err := p.Attempted(ctx, &proto.AttemptedRequest{Attempts: []*proto.CarriedAttempt{{Attempt: "never made"}}})
				return err
			}},
			{"Models", can.GetModels(), func() error {
				_, err := p.Models(ctx, &proto.ModelsRequest{})
				return err
			}},
			{"Screen", can.GetScreen(), func() error {
				_, err := p.Screen(ctx, &proto.ScreenRequest{})
				return err
			}},
			{"Predict", can.GetPredict(), func() error {
				_, err := p.Predict(ctx, &proto.PredictRequest{})
				return err
			}},
		}
		if can.GetCancelUsage() || !can.GetEndpoint() { // whose SDK serves it for upstreams that prove usage by themselves
			calls = append(calls, rpc{"Cancel", can.GetCancelUsage(), func() error {
				_, err := p.Cancel(ctx, &proto.CancelRequest{Attempt: "never made"})
				return err
			}})
		}
		var problems []error
		for _, c := range calls {
			served := status.Code(c.call()) != codes.Unimplemented
			switch {
			case served && !c.claimed:
				problems = append(problems, fmt.Errorf("it serves %s and does not claim it", c.name))
			case !served && c.claimed:
				problems = append(problems, fmt.Errorf("it claims %s and does not serve it", c.name))
			}
		}
		return errors.Join(problems...)
	})
}

func unconfigured(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		_, failure, err := attempt(ctx, p, wire.RequestToProto(s.request("unconfigured")))
		switch {
		case err != nil:
			return err
		case failure == nil:
			return errors.New("it was answered")
		case failure.Kind != llm.ErrProtocol:
			return fmt.Errorf("the failure is of the kind %s: %s", failure.Kind, failure.Message)
		}
		return nil
	})
}

// largeText is the size of the request of large, in bytes: over what gRPC libraries take by default.
const largeText = 16 << 20

// large asks before Configure, so that nothing of it reaches an upstream.
func large(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		req := wire.RequestToProto(s.request("large"))
		req.Messages = []*proto.Message{{Role: "user", Parts: []*proto.Part{
			{Kind: &proto.Part_Text{Text: strings.Repeat("long ", largeText/5)}},
		}}}
		_, _, err := attempt(ctx, p, req)
		return err
	})
}

const noSuchSetting = "no_such_setting"

func settingUnknown(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		values, err := change(s.o.Settings, func(all map[string]any) { all[noSuchSetting] = 1 })
		if err != nil {
			return err
		}
		answer, err := p.Configure(ctx, &proto.ConfigureRequest{Settings: values})
		switch {
		case err != nil:
			return fmt.Errorf("Configure: %w", err)
		case answer.GetError() == "":
			return fmt.Errorf("Configure takes the setting %s", noSuchSetting)
		case !strings.Contains(answer.GetError(), noSuchSetting):
			return fmt.Errorf("the error does not name the setting %s: %s", noSuchSetting, answer.GetError())
		}
		return nil
	})
}

func configure(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error { return p.healthy(ctx) })
}

// change is settings with a change.
func change(values settings.Values, how func(all map[string]any)) (settings.Values, error) {
	all := make(map[string]any)
	if err := json.Unmarshal(values, &all); err != nil {
		return nil, fmt.Errorf("reading the settings: they are no JSON object: %w", err)
	}
	how(all)
	return json.Marshal(all)
}

// secrets gives a secret of our own in place of each that the provider takes, and looks for it in all that it says.
func secrets(ctx context.Context, s *suite) error {
	secret := "conformance-" + rand.Text()
	var found bool
	planted := func(schema settings.Schema, more func(all map[string]any)) (settings.Values, error) {
		return change(s.o.Settings, func(all map[string]any) {
			found = plant(schema, all, secret)
			more(all)
		})
	}
	// Refused settings, settings of a wrong type, and an upstream that does not take them.
	for _, more := range []func(map[string]any){
		func(all map[string]any) { all[noSuchSetting] = 1 },
		func(all map[string]any) {
			for name, value := range all {
				if value == secret {
					all[name] = []string{secret}
				}
			}
		},
		func(map[string]any) {},
	} {
		err := s.with(ctx, func(ctx context.Context, p *peer) error {
			about, err := p.about(ctx)
			if err != nil {
				return err
			}
			values, err := planted(wire.SchemaFromProto(about.GetSchema()), more)
			if err != nil {
				return err
			}
			if !found {
				return inapplicable("it has no secret settings")
			}
			return s.confesses(ctx, p, values, secret)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plant puts the secret in place of all secrets, in those blocks that are there; found says that there is one.
func plant(schema settings.Schema, all map[string]any, secret string) (found bool) {
	for _, a := range schema.Attributes {
		if !a.Secret {
			continue
		}
		switch a.Type {
		case settings.String:
			all[a.Name] = secret
		case settings.ListString:
			all[a.Name] = []string{secret}
		case settings.MapString:
			all[a.Name] = map[string]string{"x": secret}
		default:
			continue
		}
		found = true
	}
	for _, b := range schema.Blocks {
		blocks, ok := all[b.Name].([]any)
		if !ok {
			blocks = []any{all[b.Name]}
		}
		for _, one := range blocks {
			if values, ok := one.(map[string]any); ok {
				found = plant(b.Schema, values, secret) || found
			}
		}
	}
	return found
}

// confesses is an error when the provider repeats a secret.
func (s *suite) confesses(ctx context.Context, p *peer, values settings.Values, secret string) error {
	says := func(where, text string) error {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(text, form) {
				return fmt.Errorf("%s repeats a secret setting: %s", where,
					short(strings.ReplaceAll(strings.TrimSpace(text), form, "[the secret]")))
			}
		}
		return nil
	}
	answer, err := p.Configure(ctx, &proto.ConfigureRequest{Settings: values})
	if err != nil {
		return fmt.Errorf("Configure: %w", err)
	}
	problems := []error{says("the error of Configure", answer.GetError())}
	if answer.GetError() == "" {
		health, err := p.Health(ctx, &proto.HealthRequest{})
		if err != nil {
			return fmt.Errorf("Health: %w", err)
		}
		_, failure, err := attempt(ctx, p, wire.RequestToProto(s.request("secret")))
		if err != nil {
			return err
		}
		problems = append(problems, says("the error of Health", health.GetError()))
		if failure != nil {
			problems = append(problems, says("the failure of an attempt", failure.Message))
		}
	}
	if p.process != nil {
		p.process.kill() // all of its output is there then
		problems = append(problems, says("stdout", p.process.stdout.String()), says("stderr", p.process.stderr.String()))
	}
	return errors.Join(problems...)
}
