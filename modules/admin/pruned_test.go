package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestWhatIsSaidOfPrunedRequests: what the journal still has, of amounts only those that there were.
func TestWhatIsSaidOfPrunedRequests(t *testing.T) {
	t.Parallel()
	v := PrunedRequest{ID: "req_1", Settled: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Reason: "ok", Account: "ann",
		Microcents: 100_000_000}
	text := v.text("so that it cannot be refunded", "")
	require.Contains(t, text, `the detail of request "req_1" was pruned, so that it cannot be refunded;`)
	require.Contains(t, text, "to account ann")
	for _, word := range []string{"were left free", "were over what was held", "were refunded", "; adjust"} {
		require.NotContains(t, text, word)
	}
	v.Waived, v.Over, v.Refunded = 1_000_000, 2_000_000, 3_000_000
	text = v.text("gone", "adjust it")
	for _, word := range []string{"were left free", "were over what was held", "were refunded", "; adjust it"} {
		require.Contains(t, text, word)
	}
}

// TestWhatARequestComesToElsewhere: on each candidate by what was proven of it, at that one's price, and nothing of
// one that nobody answered.
func TestWhatARequestComesToElsewhere(t *testing.T) {
	t.Parallel()
	routes := []config.Route{
		{Name: "a", Price: config.Price{Input: 1_000_000, Output: 1_000_000}},
		{Name: "b", Price: config.Price{Input: 2_000_000, Output: 2_000_000}, Cost: config.Price{Output: 1_000_000}},
		{Name: "no candidate"},
	}
	candidates := []routing.Explained{{Route: "a", Allowance: 1000, Output: 100},
		{Route: "b", Allowance: 1000, Output: 300}}
	require.Empty(t, elsewhere(&decisions.Record{}, candidates, routes))
	d := &decisions.Record{Attempts: []decisions.Attempt{{Route: "a",
		Usage: decisions.Usage{Known: true, Output: 50}}}}
	require.Equal(t, []Elsewhere{{"a", 50, 0, 50}, {"b", 300, 150, 150}}, elsewhere(d, candidates, routes),
		"b is expected to say three times as much")
}
