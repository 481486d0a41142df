package routing

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// TestLearnedIsAProbability: whatever was learned of routes, and however kinds of work add up, what is expected of a
// route is from 0 to 1, and of strategies made of such routes a number (GAP-131).
func TestLearnedIsAProbability(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &config.Route{Name: "r", Model: "m"}
		var effects [predict.NumKinds]Effect
		for k := range effects {
			effects[k] = Effect{Reliability: rapid.Float64Range(0.5, 1).Draw(t, "reliability"),
				Good: rapid.Float64Range(0, 100).Draw(t, "good"), Bad: rapid.Float64Range(0, 100).Draw(t, "bad")}
		}
		var kinds [predict.NumKinds]float32
		sum := float32(0)
		for k := range kinds {
			kinds[k] = float32(rapid.IntRange(1, 9).Draw(t, "share"))
			sum += kinds[k]
		}
		for k := range kinds {
			kinds[k] /= sum // which may add up to a little more than 1
		}
		learned := Learned{LearnedOf{"r", "m"}: &effects}
		seat := func(q float64) *Candidate {
			return &Candidate{Route: &config.Route{}, Quality: learned.on(r, &kinds, q), Cost: 1}
		}
		a := seat(rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "a"))
		b := seat(rapid.SampledFrom([]float64{0, 0.7, 1}).Draw(t, "b"))
		for _, c := range []*Candidate{a, b} {
			require.GreaterOrEqual(t, c.Quality, 0.0)
			require.LessOrEqual(t, c.Quality, 1.0)
		}
		quality, cost := (&Agree{Seats: []*Candidate{a, b}, Escalate: seat(1)}).Expect()
		require.False(t, math.IsNaN(quality) || math.IsNaN(cost), "%v %v", quality, cost)
	})
	one := [predict.NumKinds]Effect{}
	for k := range one {
		one[k] = NoEffect
	}
	thirds := [predict.NumKinds]float32{0.1, 0.2, 0.3, 0.2, 0.2000001}
	require.LessOrEqual(t, Learned{LearnedOf{"r", "m"}: &one}.on(&config.Route{Name: "r", Model: "m"}, &thirds, 1), 1.0)
}
