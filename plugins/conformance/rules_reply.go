package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fareway/fareway/plugins/endpoint"
	endpointwire "github.com/fareway/fareway/plugins/endpoint/wire"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// unknown is a field that no version of the protocol has.
func unknown() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 18_999, protowire.BytesType), "of a later version")
}

func unknownFields(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"x-of-a-later-version", "1")
		describe := new(proto.DescribeRequest)
		describe.ProtoReflect().SetUnknown(unknown())
		if _, err := p.Describe(ctx, describe); err != nil {
			return fmt.Errorf("Describe: %w", err)
		}
		req := wire.RequestToProto(s.request("unknown"))
		req.ProtoReflect().SetUnknown(unknown())
		for _, m := range req.GetMessages() {
			m.ProtoReflect().SetUnknown(unknown())
		}
		_, _, err := attempt(ctx, p, req) // how well is another rule
		return err
	})
}

func reply(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		events, failure, err := attempt(ctx, p, wire.RequestToProto(s.request("reply")))
		switch {
		case err != nil || failure == nil:
		case failure.Kind == llm.ErrRejected && s.judges(ctx, p):
			return inapplicable("it screens or predicts, and answers no requests")
		default:
			err = fmt.Errorf("it ended with a failure (%s): %s", failure.Kind, failure.Message)
		}
		if err == nil && replyOf(events).Text() == "" {
			err = errors.New("it has no text; ask for something that this provider answers")
		}
		return err
	})
}

// checkUsage is what a reply used, or what is wrong with it.
func (s *suite) checkUsage(events []llm.Event) (llm.Usage, error) {
	var before llm.Usage
	for _, ev := range events {
		if ev.Kind != llm.EventUsage {
			continue
		}
		u := ev.Usage
		for _, c := range []struct {
			name        string
			before, now *int64
		}{
			{"input", before.Input, u.Input}, {"cache_read", before.CacheRead, u.CacheRead},
			{"cache_write", before.CacheWrite, u.CacheWrite}, {"output", before.Output, u.Output},
			{"reasoning", before.Reasoning, u.Reasoning},
		} {
			if c.now != nil && llm.Tokens(c.now) < llm.Tokens(c.before) {
				return before, fmt.Errorf("%s goes down from %d to %d: a later report adds to what is known", c.name,
					llm.Tokens(c.before), llm.Tokens(c.now))
			}
		}
		before = *u
	}
	used := replyOf(events).Usage
	switch {
	case used == nil || !used.Complete():
		return before, errors.New("the reply has no usage of both input and output: it could not be charged")
	case llm.Tokens(used.Output) <= 0:
		return before, errors.New("the reply has text and no output tokens")
	case llm.Tokens(used.Reasoning) > llm.Tokens(used.Output):
		return before, errors.New("reasoning is more than output, which it is a part of")
	case used.Estimated && !s.o.Request.EstimateUsage:
		return before, errors.New("the usage is estimated, and estimate_usage did not ask for that")
	}
	return *used, nil
}

func usage(ctx context.Context, s *suite) error {
	if s.o.NoUsage {
		return inapplicable("this upstream reports no usage")
	}
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		events, err := s.generate(ctx, p, "usage")
		if err == nil {
			_, err = s.checkUsage(events)
		}
		return err
	})
}

// usageDisjoint asks the same twice: the prompt is as long the second time, also where a part of it was cached.
func usageDisjoint(ctx context.Context, s *suite) error {
	if s.o.NoUsage {
		return inapplicable("this upstream reports no usage")
	}
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		var prompts, cached [2]int64
		for i := range prompts {
			events, err := s.generate(ctx, p, "disjoint")
			if err != nil {
				return err
			}
			used, err := s.checkUsage(events)
			if err != nil {
				return err
			}
			cached[i] = llm.Tokens(used.CacheRead) + llm.Tokens(used.CacheWrite)
			prompts[i] = llm.Tokens(used.Input) + cached[i]
		}
		if more := cached[1] - cached[0]; more > 0 && prompts[1]-prompts[0] == more {
			return fmt.Errorf("the same prompt has %d tokens, and %d when %d more of them are cached: input contains those",
				prompts[0], prompts[1], more)
		}
		return nil
	})
}

func carried(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		about, err := p.about(ctx)
		if err != nil {
			return err
		}
		if !about.GetCapabilities().GetEndpoint() {
			return inapplicable("it does not claim Endpoint")
		}
		events, err := s.carry(ctx, p)
		if err != nil {
			return err
		}
		var order wire.Order
		for _, ev := range events {
			if err := order.Check(ev); err != nil {
				return problem(err)
			}
		}
		switch {
		case !order.Finished():
			return errors.New("the reply has no finish")
		case replyOf(events).Text() == "":
			return errors.New("the reply has no text")
		case s.o.NoUsage:
			return nil
		}
		_, err = s.checkUsage(events)
		return err
	})
}

// carry makes an attempt by the provider's endpoint, as the gateway does, and reads it to its end.
func (s *suite) carry(ctx context.Context, p *peer) (events []llm.Event, err error) {
	source := &endpoint.Source{Ask: func(ctx context.Context, model string, refused bool) (*endpoint.Endpoint, error) {
		answer, err := p.Endpoint(ctx, &proto.EndpointRequest{Model: model, Refused: refused})
		if err != nil {
			return nil, err
		}
		if f := answer.GetFailure(); f != nil {
			return nil, wire.FailureFromProto(f)
		}
		return endpointwire.FromProto(answer.GetEndpoint()), nil
	}}
	var client endpoint.Client
	defer client.CloseIdle()
	call, err := client.Call(ctx, source, s.request("carried"))
	if err != nil {
		return nil, err
	}
	defer call.Close()
	err = call.Each(func(ev llm.Event) error { events = append(events, ev); return nil })
	return events, err
}

func everything(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		req := wire.RequestToProto(s.request("everything"))
		text := func(text string) []*proto.Part { return []*proto.Part{{Kind: &proto.Part_Text{Text: text}}} }
		req.Messages = []*proto.Message{
			{Role: "system", Parts: text("Be brief.")},
			{Role: "user", Parts: text("What is the weather in Bern and in Zürich? 🌦")},
			{Role: "assistant", Parts: []*proto.Part{
				{Kind: &proto.Part_Text{Text: "I look."}},
				{Kind: &proto.Part_Call{Call: &proto.PastToolCall{Id: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}}},
				{Kind: &proto.Part_Call{Call: &proto.PastToolCall{Id: "call_2", Name: "weather"}}},
			}},
			{Role: "tool", CallId: "call_1", Parts: text("sunny")},
			{Role: "tool", CallId: "call_2", IsError: true, Parts: text("which city?")},
			{Role: "user", Parts: text("So?")},
		}
		req.Tools = []*proto.Tool{{Name: "weather", Description: "The weather of a city.",
			Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}}
		req.ToolChoice = &proto.ToolChoice{Mode: "none"}
		req.Temperature, req.Stop = new(0.5), []string{"\n\n", "END"}
		_, _, err := attempt(ctx, p, req)
		return err
	})
}

func concurrent(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		problems := make([]error, 9)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { _, problems[i] = s.generate(ctx, p, fmt.Sprint("concurrent ", i)) })
		}
		all.Go(func() { problems[8] = p.healthy(ctx) })
		all.Wait()
		return errors.Join(problems...)
	})
}

func abandoned(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		for range 16 {
			call, leave := context.WithCancel(ctx)
			stream, err := p.Generate(call, wire.RequestToProto(s.request("abandoned")))
			if err == nil {
				_, err = stream.Recv()
			}
			leave()
			if err != nil {
				return fmt.Errorf("Generate: %w", err)
			}
		}
		if _, err := s.generate(ctx, p, "after"); err != nil {
			return fmt.Errorf("after 16 callers have left: %w", err)
		}
		return p.healthy(ctx)
	})
}

func optional(ctx context.Context, s *suite) error {
	return s.ask(ctx, func(ctx context.Context, p *peer) error {
		about, err := p.about(ctx)
		if err != nil {
			return err
		}
		can := about.GetCapabilities()
		var problems []error
		claimed := false
		for _, c := range []struct {
			claimed bool
			check   func(context.Context, *peer) error
		}{
			{can.GetCountTokens(), s.countTokens}, {can.GetReceipts(), receipts},
			{can.GetCancelUsage(), s.cancel}, {can.GetModels(), models}, {can.GetScreen(), s.screen},
			{can.GetPredict(), s.predict},
		} {
			if c.claimed {
				claimed = true
				problems = append(problems, c.check(ctx, p))
			}
		}
		if !claimed {
			return inapplicable("it claims none")
		}
		return errors.Join(problems...)
	})
}

func (s *suite) countTokens(ctx context.Context, p *peer) error {
	answer, err := p.CountTokens(ctx, &proto.CountTokensRequest{Request: wire.RequestToProto(s.o.Request)})
	switch {
	case err != nil:
		return fmt.Errorf("CountTokens: %w", err)
	case answer.GetFailure() != nil:
		return fmt.Errorf("CountTokens ended with a failure: %s", answer.GetFailure().GetMessage())
	case answer.GetTokens() <= 0:
		return fmt.Errorf("CountTokens counts %d", answer.GetTokens())
	}
	return nil
}

// judges reports whether the provider claims to screen or to predict, which some do and answer nothing.
func (s *suite) judges(ctx context.Context, p *peer) bool {
	about, err := p.about(ctx)
	can := about.GetCapabilities()
	return err == nil && (can.GetScreen() || can.GetPredict())
}

// texts are what a model would read of the suite's request.
func (s *suite) texts() (texts []llm.ScreenText) {
	for _, m := range s.o.Request.Messages {
		texts = append(texts, llm.ScreenText{Role: string(m.Role), Text: m.Text()})
	}
	return texts
}

// predict may end with a failure: what it needs may not be there in a test.
func (s *suite) predict(ctx context.Context, p *peer) error {
	routes := []llm.PredictRoute{{Name: "small", Model: "one", Quality: 0.5}, {Name: "large", Model: "two", Quality: 0.9}}
	request := llm.PredictRequest{Texts: s.texts(), InputTokens: 10, Routes: routes}
	bare := llm.PredictRequest{InputTokens: 1, Tools: true, Routes: append(routes, llm.PredictRoute{Name: "third"})}
	for _, list := range [][]llm.PredictRequest{{request}, {request, bare, request}, {}} {
		answer, err := p.Predict(ctx, wire.PredictRequestsToProto(list))
		if err != nil {
			return fmt.Errorf("Predict: %w", err)
		}
		if answer.GetFailure() != nil {
			continue
		}
		if err := wire.CheckPredictions(list, wire.PredictionsFromProto(answer)); err != nil {
			return fmt.Errorf("Predict: %w", problem(err))
		}
	}
	return nil
}

// screen may end with a failure: the upstream of a test need not judge.
func (s *suite) screen(ctx context.Context, p *peer) error {
	for _, list := range [][]llm.ScreenText{s.texts(), {{Role: "of a later version", Text: "Hello."}}} {
		answer, err := p.Screen(ctx, &proto.ScreenRequest{Texts: wire.TextsToProto(list)})
		if err != nil {
			return fmt.Errorf("Screen: %w", err)
		}
		if answer.GetFailure() != nil {
			continue
		}
		if err := wire.CheckVerdict(wire.VerdictFromProto(answer)); err != nil {
			return fmt.Errorf("Screen: %w", problem(err))
		}
	}
	return nil
}

// models may end with a failure: the upstream of a test need not have a list.
func models(ctx context.Context, p *peer) error {
	answer, err := p.Models(ctx, &proto.ModelsRequest{})
	if err != nil {
		return fmt.Errorf("Models: %w", err)
	}
	seen := make(map[string]bool)
	for _, m := range answer.GetModels() { // as they are: the gateway leaves out what is wrong
		id := m.GetId()
		switch {
		case id == "":
			return errors.New("Models: a model has no id")
		case seen[id]:
			return fmt.Errorf("Models: the model %q is there twice", id)
		case m.GetContextWindow() < 0 || m.GetMaxOutput() < 0:
			return fmt.Errorf("Models: the model %q has a negative size; 0 is what is not known", id)
		}
		seen[id] = true
	}
	return nil
}

func receipts(ctx context.Context, p *peer) error {
	answer, err := p.Receipts(ctx, &proto.ReceiptsRequest{Attempts: []string{"never made"}})
	switch {
	case err != nil:
		return fmt.Errorf("Receipts: %w", err)
	case answer.GetFailure() != nil:
		return fmt.Errorf("Receipts ended with a failure: %s", answer.GetFailure().GetMessage())
	case len(answer.GetReceipts()) > 0:
		return errors.New("Receipts has a receipt of an attempt that was never made: leave those out")
	}
	return nil
}

func (s *suite) cancel(ctx context.Context, p *peer) error {
	if _, err := p.Cancel(ctx, &proto.CancelRequest{Attempt: "never made"}); err != nil {
		return fmt.Errorf("Cancel of what does not run is no error, and repeatable: %w", err)
	}
	req := wire.RequestToProto(s.request("canceled"))
	asked := false
	_, failure, err := attempt(ctx, p, req, func() error {
		if asked {
			return nil
		}
		asked = true
		_, err := p.Cancel(ctx, &proto.CancelRequest{Attempt: req.GetAttempt()})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("an attempt that Cancel stops: %w", err)
	case failure != nil && failure.Kind != llm.ErrCanceled:
		return fmt.Errorf("an attempt that Cancel stops ends with a failure of the kind %s and not CANCELED: %s",
			failure.Kind, failure.Message)
	}
	return nil
}
