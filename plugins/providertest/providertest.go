// Package providertest is the suite that the author of a provider plugin runs: it speaks to the provider as
// the gateway does, through real gRPC, and checks what the gateway relies on. Package upstream below it is a
// scriptable model service, in any of the three request shapes, to run a provider against.
package providertest

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fareway/fareway/plugins/endpoint"
	endpointwire "github.com/fareway/fareway/plugins/endpoint/wire"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
)

// Options say how to use the provider under test.
type Options struct {
	// Settings are valid settings, with which the provider can answer Request. nil: none.
	Settings settings.Values
	// Request is answered by some text. nil: a short greeting to the model "test-model".
	Request *llm.Request
	// NoUsage is for an upstream that never reports usage.
	NoUsage bool
	// Command starts the plugin's binary. With it most checks run against that process; without it the
	// provider is served inside the test.
	Command []string
}

// deadline is how long a provider may take for what it should do at once.
const deadline = 10 * time.Second

// Run checks a provider. fresh makes a new one, not yet configured, each time.
func Run(t *testing.T, fresh func() provider.Provider, o Options) {
	t.Helper()
	if o.Settings == nil {
		o.Settings = settings.Values("{}")
	}
	if o.Request == nil {
		o.Request = &llm.Request{
			Model: "test-model", MaxTokens: 100,
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hello, how are you?")}}},
		}
	}
	s := suite{fresh: fresh, options: o}
	t.Run("settings are documented", s.documented)
	t.Run("settings are checked", s.settings)
	t.Run("requests before the settings are refused", s.unconfigured)
	t.Run("replies are legal and metered", s.reply)
	t.Run("requests are independent", s.independent)
	t.Run("a caller who leaves is noticed", s.cancellation)
	t.Run("optional parts", s.optional)
}

type suite struct {
	fresh   func() provider.Provider
	options Options
}

func (s suite) documented(t *testing.T) {
	answer, err := s.connect(t).Describe(t.Context(), &proto.DescribeRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, answer.GetName())
	requireDocs(t, "", wire.SchemaFromProto(answer.GetSchema()))
}

func requireDocs(t *testing.T, path string, schema settings.Schema) {
	for _, a := range schema.Attributes {
		require.NotEmpty(t, a.Doc, "setting %s%s has no doc tag; say effect, unit, danger and default", path, a.Name)
		if !a.Required && !a.Secret {
			require.Contains(t, strings.ToLower(a.Doc), "default", "the doc of setting %s%s does not say its default", path,
				a.Name)
		}
	}
	for _, b := range schema.Blocks {
		require.NotEmpty(t, b.Doc, "block %s%s has no doc tag", path, b.Name)
		requireDocs(t, path+b.Name+".", b.Schema)
	}
}

func (s suite) settings(t *testing.T) {
	answer, err := s.connect(t).Configure(t.Context(), &proto.ConfigureRequest{Settings: []byte(`{"no_such_setting": 1}`)})
	require.NoError(t, err)
	require.Contains(t, answer.GetError(), "no_such_setting")
	health, err := s.configured(t).Health(t.Context(), &proto.HealthRequest{})
	require.NoError(t, err)
	require.Empty(t, health.GetError())
}

func (s suite) unconfigured(t *testing.T) {
	_, end := s.generate(t, s.connect(t), "before")
	require.Equal(t, llm.ErrProtocol, llm.KindOf(end))
}

func (s suite) reply(t *testing.T) {
	rpc := s.configured(t)
	t.Run("made by the provider", func(t *testing.T) {
		events, end := s.generate(t, rpc, "reply")
		require.NoError(t, end)
		s.legal(t, events)
	})
	if !s.capabilities(t, rpc).GetEndpoint() {
		return
	}
	t.Run("made by the gateway", func(t *testing.T) {
		events, end := s.carry(t, rpc, "carried")
		require.NoError(t, end)
		s.legal(t, events)
	})
}

// legal checks the events of a reply that ended well.
func (s suite) legal(t *testing.T, events []llm.Event) {
	var reply llm.Reply
	var order wire.Order
	for _, ev := range events {
		require.NoError(t, order.Check(ev))
		reply.Add(ev)
	}
	reply.Close()
	require.True(t, order.Finished(), "the reply has no finish")
	require.NotEmpty(t, reply.Text())
	if !s.options.NoUsage {
		require.True(t, reply.Usage.Complete(), "the reply has no usage of both input and output: it could not be charged")
		require.Positive(t, llm.Tokens(reply.Usage.Output))
		require.LessOrEqual(t, llm.Tokens(reply.Usage.Reasoning), llm.Tokens(reply.Usage.Output),
			"reasoning is a part of output")
	}
}

func (s suite) independent(t *testing.T) {
	rpc := s.configured(t)
	ends := make([]error, 8)
	var all sync.WaitGroup
	for i := range ends {
		all.Go(func() { _, ends[i] = s.generate(t, rpc, "independent "+string(rune('a'+i))) })
	}
	all.Wait()
	require.NoError(t, errors.Join(ends...))
}

// cancellation calls the provider itself: a server cannot tell whether Generate has returned.
func (s suite) cancellation(t *testing.T) {
	p := s.fresh()
	require.NoError(t, provider.Configure(t.Context(), p, s.options.Settings))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	returned := make(chan error, 1)
	req := *s.options.Request
	req.Attempt = "abandoned"
	go func() {
		returned <- p.Generate(ctx, &req, func(llm.Event) error {
			leave()
			return ctx.Err()
		})
	}()
	select {
	case err := <-returned:
		require.Error(t, err, "Generate must return the error of send")
	case <-time.After(deadline):
		t.Fatalf("Generate went on for %s after its caller had left", deadline)
	}
}

func (s suite) optional(t *testing.T) {
	rpc := s.configured(t)
	can := s.capabilities(t, rpc)
	if can.GetCountTokens() {
		answer,
			err := rpc.CountTokens(t.Context(), &proto.CountTokensRequest{Request: wire.RequestToProto(s.options.Request)})
		require.NoError(t, err)
		require.Nil(t, answer.GetFailure())
		require.Positive(t, answer.GetTokens())
	}
	if can.GetReceipts() {
		answer, err := rpc.Receipts(t.Context(), &proto.ReceiptsRequest{Attempts: []string{"never made"}})
		require.NoError(t, err)
		require.Nil(t, answer.GetFailure())
		require.Empty(t, answer.GetReceipts(), "an attempt without a record is left out")
	}
	if can.GetAttempted() {
		require.True(t, can.GetEndpoint(), "only a provider with Endpoint is told of attempts")
		told := []*proto.CarriedAttempt{{Attempt: "never made"}}
		_, err := rpc.Attempted(t.Context(), &proto.AttemptedRequest{Attempts: told})
		require.NoError(t, err)
	}
	_, err := rpc.Cancel(t.Context(), &proto.CancelRequest{Attempt: "never made"})
	if can.GetCancelUsage() {
		require.NoError(t, err, "cancelling what is not running is no error")
	} else {
		require.Error(t, err)
	}
}

// generate makes an attempt and reads it to its end: nil after a finish, otherwise what went wrong.
func (s suite) generate(t *testing.T, rpc proto.ProviderClient, attempt string) ([]llm.Event, error) {
	req := *s.options.Request
	req.Attempt = attempt
	stream, err := rpc.Generate(t.Context(), wire.RequestToProto(&req))
	if err != nil {
		return nil, err
	}
	var events []llm.Event
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		for _, ev := range message.GetEvents() {
			if f := ev.GetFailure(); f != nil {
				return events, wire.FailureFromProto(f)
			}
			events = append(events, wire.EventFromProto(ev))
		}
	}
}

// carry makes an attempt by the provider's endpoint, as the gateway does, and reads it to its end.
func (s suite) carry(t *testing.T, rpc proto.ProviderClient, attempt string) ([]llm.Event, error) {
	source := &endpoint.Source{Ask: func(ctx context.Context, model string, refused bool) (*endpoint.Endpoint, error) {
		answer, err := rpc.Endpoint(ctx, &proto.EndpointRequest{Model: model, Refused: refused})
		if err != nil {
			return nil, err
		}
		if f := answer.GetFailure(); f != nil {
			return nil, wire.FailureFromProto(f)
		}
		return endpointwire.FromProto(answer.GetEndpoint()), nil
	}}
	req := *s.options.Request
	req.Attempt = attempt
	var client endpoint.Client
	defer client.CloseIdle()
	call, err := client.Call(t.Context(), source, &req)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	var events []llm.Event
	err = call.Each(func(ev llm.Event) error { events = append(events, ev); return nil })
	return events, err
}

// capabilities are what the provider says it can do.
func (s suite) capabilities(t *testing.T, rpc proto.ProviderClient) *proto.Capabilities {
	about, err := rpc.Describe(t.Context(), &proto.DescribeRequest{})
	require.NoError(t, err)
	return about.GetCapabilities()
}

// configured is a provider that is ready for requests.
func (s suite) configured(t *testing.T) proto.ProviderClient {
	rpc := s.connect(t)
	answer, err := rpc.Configure(t.Context(), &proto.ConfigureRequest{Settings: s.options.Settings})
	require.NoError(t, err)
	require.Empty(t, answer.GetError())
	return rpc
}

// connect starts a provider.
func (s suite) connect(t *testing.T) proto.ProviderClient {
	if len(s.options.Command) > 0 {
		return s.start(t)
	}
	listener := bufconn.Listen(1 << 20)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- provider.ServeListener(ctx, listener, s.fresh()) }()
	conn, err := grpc.NewClient("passthrough:provider",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		stop()
		require.NoError(t, <-served)
	})
	return proto.NewProviderClient(conn)
}

// start starts the plugin's binary.
func (s suite) start(t *testing.T) proto.ProviderClient {
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{wire.Version: {wire.PluginName: binary{}}},
		Cmd:              exec.Command(s.options.Command[0], s.options.Command[1:]...),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		StartTimeout:     deadline,
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(c.Kill)
	conn, err := c.Client()
	require.NoError(t, err, "the plugin's binary did not start")
	raw, err := conn.Dispense(wire.PluginName)
	require.NoError(t, err)
	return raw.(proto.ProviderClient)
}

// binary is the host's half of what go-plugin knows of a plugin.
type binary struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCClient implements plugin.GRPCPlugin.
func (binary) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return proto.NewProviderClient(conn), nil
}

// GRPCServer is the plugin's half.
func (binary) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a test is no plugin")
}

var _ plugin.GRPCPlugin = binary{}
