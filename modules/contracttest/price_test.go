package contracttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestPriceTiers: the input of a request, cached or not, decides what all of it costs, and a hold is that of the
// dearest tier that the bound of its prompt can reach.
func TestPriceTiers(t *testing.T) {
	t.Parallel()
	tiered := route{Name: "tiered", Window: 1_000_000, Input: "0.01", Output: "0.02", // a token 1 and 2 microcents
		Tiers: "cache_read = 0\nabove \"1000\" {\n input = 0.03\n output = 0.04\n cache_read = 0.01\n}"}
	g := startScripted(t, setup{Routes: []route{tiered}})
	cached := func(prompt, read, completion int64) upstream.Usage {
		return upstream.Usage{Prompt: prompt, Completion: completion, Cached: &read}
	}
	for i, tt := range []struct {
		name  string
		usage upstream.Usage
		cost  int64
	}{
		{"BILL-03 below the tier", used(999, 10), 999 + 20},
		{"BILL-03 at the tier", used(1_000, 10), 3_000 + 40},
		{"GAP-109 what was cached counts", cached(1_000, 600, 10), 1_200 + 600 + 40},
		{"GAP-109 cached below the tier", cached(999, 900, 10), 99 + 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sh, mode := alternate(i)
			c := g.rich(t)
			c.Answers(script(tt.usage, "stop", upstream.Text("x")))
			o := outcomeOf(t, sh, c.Ask(sh, allowance(sh, 10_000), mode))
			require.Equal(t, tt.cost, o.Billed(t))
		})
	}
	t.Run("GAP-49 GAP-110 the hold is that of a tier only where the bound reaches it", func(t *testing.T) {
		t.Parallel()
		// On a gateway of its own: what the others are told of their short prompts is learned to be the route's template.
		c := startScripted(t, setup{Routes: []route{tiered}}).rich(t)
		c.Answers(script(used(5_000, 10), "stop", upstream.Text("x"))) // more than it can be
		o := outcomeOf(t, shapes[0], c.Ask(shapes[0], allowance(shapes[0], 10)))
		require.Less(t, o.Billed(t), int64(1_000+20), "a short prompt is held at the first prices, and charged no more")
	})
}

// TestPriceFromADay: a request is charged by the day on which it came.
func TestPriceFromADay(t *testing.T) {
	t.Parallel()
	day := time.Now().UTC().AddDate(0, 0, 3).Truncate(24 * time.Hour)
	now := newClock(1)
	g := startScripted(t, setup{Clock: now, Routes: []route{{Name: "moving", Input: "0.01", Output: "0.01",
		More: "price \"" + day.Format(time.DateOnly) + "\" {\n input = 0.02\n output = 0.02\n}"}}})
	c := g.rich(t)
	ask := func() int64 {
		c.Answers(script(used(10, 10), "stop", upstream.Text("x")))
		return outcomeOf(t, shapes[0], c.Ask(shapes[0], allowance(shapes[0], 100))).Billed(t)
	}
	require.EqualValues(t, 20, ask())
	now.Turn(day.Sub(now.Now()) - time.Minute*30)
	require.EqualValues(t, 20, ask())
	now.Turn(time.Hour)
	require.EqualValues(t, 40, ask())
}
