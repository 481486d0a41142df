package exchange

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// observed is how often a histogram of a route was told something.
func observed(t *testing.T, b *bench, name, route string) (times uint64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b.engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == route {
				times += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return times
}

// TestAttemptsAndTheirCostAreCounted: margin is what was charged less the cost, which is by prices of its own.
func TestAttemptsAndTheirCostAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) {
		c.Routes[0].Price = config.Price{Input: 2_000_000, Output: 4_000_000}
		c.Routes[0].Cost = config.Price{Input: 1_000_000, Output: 1_000_000}
	})
	b.upstream.SetModel("first", upstream.Say("Hello"))
	w, call := httptest.NewRecorder(), saying(false, withUsage)
	b.ask(t, t.Context(), w, call)
	require.Equal(t, 200, w.Code)
	used := gaugeOf(t, b.engine, "fareway_tokens_total")
	require.Positive(t, used)
	require.InDelta(t, used, gaugeOf(t, b.engine, "fareway_cost_microcents_total"), 0)
	require.InDelta(t, call.Record.Microcents, gaugeOf(t, b.engine, "fareway_charged_microcents_total"), 0)
	require.Greater(t, call.Record.Microcents, int64(used))
	const attempts, first = "fareway_attempt_duration_seconds", "fareway_time_to_first_token_seconds"
	require.EqualValues(t, 1, observed(t, b, attempts, "first"))
	require.EqualValues(t, 1, observed(t, b, first, "first"))

	b.upstream.SetModel("first", upstream.Refuse(upstream.Error{Status: 500}))
	w = httptest.NewRecorder()
	b.ask(t, t.Context(), w, saying(false, withUsage))
	require.Equal(t, 200, w.Code, "by another route")
	require.EqualValues(t, 2, observed(t, b, attempts, "first"), "a failed one, too")
	require.EqualValues(t, 1, observed(t, b, first, "first"), "which had no token")
	require.EqualValues(t, 1, observed(t, b, attempts, "second"))
}

// TestTheTimeBetweenTokensIsMeasured of what comes in pieces, and of nothing else.
func TestTheTimeBetweenTokensIsMeasured(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(*config.Config) {})
	reply := upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Sleep(5 * time.Millisecond),
		upstream.Text("lo"), upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 2}),
		upstream.Done()}}
	b.upstream.SetModel("first", reply)
	for _, stream := range []bool{true, false} {
		w := httptest.NewRecorder()
		b.ask(t, t.Context(), w, saying(stream, withUsage))
		require.Equal(t, 200, w.Code)
		require.EqualValues(t, 1, observed(t, b, "fareway_inter_token_seconds", "first"), "stream: %t", stream)
		require.EqualValues(t, 1, observed(t, b, "fareway_longest_pause_seconds", "first"), "stream: %t", stream)
	}
	require.EqualValues(t, 2, observed(t, b, "fareway_time_to_first_token_seconds", "first"))
}
