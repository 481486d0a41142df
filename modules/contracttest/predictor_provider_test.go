package contracttest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// sageBlocks are a provider that predicts, and the block that names it.
const sageBlocks = `
provider "sage" {
  plugin        = "sage"
  start_timeout = "1m"
}
predictor {
  provider = "sage"
`

// classified counts requests that the provider was asked about, by what came of it.
func (s *service) classified(t testing.TB, outcome string) (n uint64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "fareway_predictor_seconds" && l.GetName() == "outcome" && l.GetValue() == outcome {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}

// TestPredictorOfOnesOwn: a provider with the capability compares routes, and the model stands behind it.
func TestPredictorOfOnesOwn(t *testing.T) {
	t.Parallel()
	t.Run("GAP-131 what it knows decides", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Routes: twoRoutes, Extra: sageBlocks + "deadline = \"10s\"\n}\n"})
		for _, sh := range shapes {
			for _, test := range []struct{ text, route, outcome string }{
				{"a cup of tea", "first", "unknown"}, {"now upside down", "second", "known"},
				{"half known", "second", "known"}, // of which the model's word counts
				{"mumble", "first", "failed"}, {"stumble", "first", "failed"},
			} {
				t.Run(test.text+" "+sh.Name, func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					outcomeOf(t, sh, c.asking(sh, test.text))
					require.Equal(t, test.route, c.Route(t))
					require.Positive(t, g.classified(t, test.outcome))
				})
			}
		}
	})
	t.Run("GAP-131 nobody waits longer than the deadline", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Routes: twoRoutes, Extra: sageBlocks + "deadline = \"20ms\"\n}\n"})
		c, sh := g.rich(t), shapeOf("chat")
		outcomeOf(t, sh, c.asking(sh, "dawdle upside down"))
		require.Equal(t, "first", c.Route(t), "the model predicts")
		require.Equal(t, uint64(1), g.classified(t, "late"))
		outcomeOf(t, sh, c.asking(sh, "upside down"))
		require.Equal(t, "first", c.Route(t))
		require.Equal(t, uint64(1), g.classified(t, "skipped"), "it is late with the other")
	})
	t.Run("GAP-131 where there is nothing to choose it is not asked", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Extra: sageBlocks + "}\n"})
		c, sh := g.rich(t), shapeOf("chat")
		outcomeOf(t, sh, c.asking(sh, "stumble"))
		require.Zero(t, g.classified(t, "failed"))
	})
}
