package measure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlane: profiles beside single routes and the best random mix of them, by hand.
func TestPlane(t *testing.T) {
	t.Parallel()
	named := func(name string, cost, quality float64) Named {
		return Named{name, Point{Cost: cost, Quality: quality}}
	}
	p := &Plane{Profiles: []Named{named("balanced", 2, 0.7)},
		Routes:   []Named{named("small", 1, 0.5), named("odd", 2, 0.4), named("large", 3, 0.9)},
		Frontier: []Point{{1, 0.5}, {2, 0.8}, {3, 0.9}}}
	for cost, want := range map[float64]float64{0.5: 0.5, 1: 0.5, 2: 0.7, 3: 0.9, 9: 0.9} {
		require.InDelta(t, want, p.Mix(cost), 1e-9, cost)
	}
	cost, ok := p.MixFor(0.8)
	require.True(t, ok)
	require.InDelta(t, 2.5, cost, 1e-9)
	_, ok = p.MixFor(0.95)
	require.False(t, ok, "no mix is better than the best route")
	dir := filepath.Join(t.TempDir(), "report")
	require.NoError(t, p.Report(dir))
	for _, file := range []string{"index.html", "profiles.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		for _, want := range []string{"balanced", "small", "odd", "large", "best random mix"} {
			require.Contains(t, string(text), want)
		}
	}
	free := &Plane{Routes: []Named{named("a", 0, 0.5)}}
	require.NotContains(t, string(free.SVG()), "NaN", "what costs nothing has no logarithm")
	_, ok = new(Plane).MixFor(0.5)
	require.False(t, ok)
	require.Contains(t, string(new(Plane).SVG()), "profiles on the reference workload")
}
