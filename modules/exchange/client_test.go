package exchange

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// contextThatIsLeft is the context of a request whose client can leave.
func contextThatIsLeft(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(t.Context())
}

// contextThatEnds is one that ends for a reason.
func contextThatEnds(cause error) (context.Context, func()) {
	ctx, end := context.WithCancelCause(context.Background())
	return ctx, func() { end(cause) }
}

// TestClientsThatLeave: what is under way upstream is read to its end where the provider cannot prove what it used
// (GAP-47), is charged, and is shown to nobody.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	whole := hello("stop")
	whole.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait("go")}, whole.Steps...)
	t.Run("GAP-47 a stream", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain")
		b.upstream.SetModel("first", whole)
		ctx, leave := contextThatIsLeft(t)
		w := &watched{httptest.NewRecorder(), func(string) {
			leave()
			b.upstream.Open("go")
		}}
		call := generating(true)
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { b.ask(t, ctx, w, call) }, "it must not look whole")
		require.NotContains(t, w.Body.String(), "Hel")
		r := b.record(t, call)
		require.Equal(t, gateway.ReasonLeft, r.Reason)
		require.Equal(t, []ledger.Outcome{ledger.Finished}, outcomes(r))
		require.EqualValues(t, helloCost, r.Microcents)
		require.Empty(t, b.log.about("level=ERROR"))
	})
	t.Run("GAP-47 a reply in one piece", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain")
		b.upstream.SetModel("first", whole)
		ctx, leave := contextThatIsLeft(t)
		go func() {
			_ = b.upstream.AtGate(t.Context(), "go", 1)
			leave()
			b.upstream.Open("go")
		}()
		call := generating(false)
		b.ask(t, ctx, httptest.NewRecorder(), call)
		r := b.record(t, call)
		require.Equal(t, gateway.ReasonLeft, r.Reason)
		require.EqualValues(t, helloCost, r.Microcents)
		require.Len(t, b.called(t, 0), 1)
	})
	t.Run("GAP-47 nobody waits for another attempt", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain")
		b.upstream.SetModel("first", upstream.Reply{
			Steps: []upstream.Step{upstream.Wait("go"), upstream.Fail(upstream.ServerError())}})
		ctx, leave := contextThatIsLeft(t)
		go func() {
			_ = b.upstream.AtGate(t.Context(), "go", 1)
			leave()
			b.upstream.Open("go")
		}()
		call := generating(false)
		b.ask(t, ctx, httptest.NewRecorder(), call)
		require.Equal(t, []string{"first"}, b.called(t, 0))
		require.Equal(t, []ledger.Outcome{ledger.Failed}, outcomes(b.record(t, call)))
	})
	t.Run("GAP-112 one that takes nothing has left", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "prover", func(c *config.Config) { c.Gateway.ClientStall = 20 * time.Millisecond })
		b.upstream.SetModel("first", upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Silence()}})
		call := generating(true)
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { b.ask(t, t.Context(), newStalling(), call) })
		r := b.record(t, call)
		require.Equal(t, gateway.ReasonLeft, r.Reason)
		require.EqualValues(t, 10*300+7*1_500, r.Microcents)
		require.Len(t, b.log.about("a client took nothing for too long"), 1)
		require.InDelta(t, 1, gaugeOf(t, b.engine, "fareway_stalled_clients_total"), 0)
	})
}
