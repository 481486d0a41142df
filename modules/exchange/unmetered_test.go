package exchange

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestAnUpstreamThatReportsNoUsage: each of its replies is told of, and the log says it once.
func TestAnUpstreamThatReportsNoUsage(t *testing.T) {
	t.Parallel()
	unmetered := upstream.Say("Hello")
	unmetered.Usage = upstream.UsageNever
	zeros := upstream.Reply{Steps: []upstream.Step{upstream.Text("Hello"), upstream.Finish("stop"),
		upstream.ReportTokens(upstream.Usage{}), upstream.Done()}}
	asked := func(t *testing.T, b *bench, reply upstream.Reply) (attempt string) {
		b.upstream.SetModel("first", reply)
		w, call := httptest.NewRecorder(), saying(false, withUsage)
		b.ask(t, t.Context(), w, call)
		require.Equal(t, 200, w.Code)
		return ledger.AttemptID(call.ID, 1)
	}
	t.Run("a route with a price", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain")
		text := b.engine.Current().Config.Routes[0].Unmetered()
		for range 2 {
			require.Equal(t, text, b.engine.FailureOf(t.Context(), asked(t, b, unmetered)))
			require.Equal(t, text, b.engine.LastFailure("first").Text)
		}
		require.Len(t, b.log.about("an upstream reports no usage"), 1)
		require.Empty(t, b.engine.FailureOf(t.Context(), asked(t, b, upstream.Say("Hello"))))
		require.Empty(t, b.engine.LastFailure("first").Text)
	})
	t.Run("GAP-108 zeros for a text are no report", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain")
		require.Equal(t, b.engine.Current().Config.Routes[0].Unmetered(), b.engine.FailureOf(t.Context(), asked(t, b, zeros)))
		require.Len(t, b.log.about("the upstream's usage is no usage"), 1)
		b.upstream.SetModel("first", zeros)
		w, call := httptest.NewRecorder(), saying(true, withUsage)
		b.ask(t, t.Context(), w, call)
		require.Contains(t, w.Body.String(), `"code":"stream_error"`, "as of one that reports none")
		require.NotContains(t, w.Body.String(), "[DONE]")
	})
	t.Run("GAP-108 nor where they are counted here", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain", func(c *config.Config) { c.Routes[0].Metering = config.MeteringEstimate })
		require.Empty(t, b.engine.FailureOf(t.Context(), asked(t, b, zeros)))
		require.Empty(t, b.engine.LastFailure("first").Text)
	})
	t.Run("a free one", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain", func(c *config.Config) { c.Routes[0].Price = config.Price{} })
		require.Empty(t, b.engine.FailureOf(t.Context(), asked(t, b, unmetered)))
		require.Empty(t, b.engine.LastFailure("first").Text)
		b.upstream.SetModel("first", zeros)
		w, call := httptest.NewRecorder(), saying(true, withUsage)
		b.ask(t, t.Context(), w, call)
		require.Contains(t, w.Body.String(), "[DONE]", "GAP-108 zeros prove what nothing costs")
	})
}
