// Package providertest is the suite that the author of a provider plugin runs: it speaks to the provider as
// the gateway does, through real gRPC, and checks what the gateway relies on (package conformance has the rules; on a
// program, `fareway gateway plugin test` checks them). Package upstream below it is a
// scriptable model service, in any of the three request shapes, to run a provider against.
package providertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fareway/fareway/plugins/conformance"
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
	// Command starts the plugin's binary. With it the rules are checked on that process, those about processes, too;
	// without it the provider is served inside the test.
	Command []string
}

// deadline is how long a provider may take for what it should do at once, on a busy machine, too.
const deadline = 30 * time.Second

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
	err := conformance.Check(t.Context(), conformance.Options{
		Command: o.Command, Settings: o.Settings, Request: o.Request, NoUsage: o.NoUsage, Limit: deadline,
		Dial: func(ctx context.Context) (grpc.ClientConnInterface, func() error, error) { return serve(ctx, fresh()) },
	}, func(r conformance.Result) bool {
		t.Run(r.Rule, func(t *testing.T) {
			if r.Outcome == conformance.Fail {
				t.Errorf("%s\n%s\n%s", r.Text, r.Problem, r.Advice)
			}
		})
		return true
	})
	require.NoError(t, err)
	t.Run("a caller who leaves is noticed", func(t *testing.T) { cancellation(t, fresh(), o) })
}

// cancellation calls the provider itself: over the wire one cannot tell whether Generate has returned.
func cancellation(t *testing.T, p provider.Provider, o Options) {
	require.NoError(t, provider.Configure(t.Context(), p, o.Settings))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	returned := make(chan error, 1)
	req := *o.Request
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

// serve serves a provider in this process.
func serve(ctx context.Context, p provider.Provider) (grpc.ClientConnInterface, func() error, error) {
	listener := bufconn.Listen(1 << 20)
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- provider.ServeListener(ctx, listener, p) }()
	conn, err := grpc.NewClient("passthrough:provider",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	stop := func() error {
		if conn != nil {
			_ = conn.Close() // its only error is that it is closed
		}
		end()
		return <-served
	}
	if err != nil {
		_ = stop() // nothing was served
		return nil, nil, err
	}
	return conn, stop, nil
}
