package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/health"
)

// However requests come, what is bounded is never done for more of them than that, and not all at once after a while.
func TestShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.SampledFrom([]float64{0.01, 0.05, 0.25, 1}).Draw(t, "share")
		var s health.Share
		requests, taken, row := 0, 0, 0
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "a request") {
				s.Request(share)
				requests, row = requests+1, 0
				continue
			}
			if s.Take() {
				taken, row = taken+1, row+1
			}
			require.LessOrEqual(t, float64(taken), share*float64(requests)+1e-9)
			require.LessOrEqual(t, row, 10)
		}
	})
	var s health.Share
	for range 20 {
		require.False(t, s.Take())
		s.Request(0.05)
	}
	require.True(t, s.Take(), "one of twenty")
	require.False(t, s.Take())
}

// An attempt that lost to a faster one would have taken longer still. Left out, the times that are known of a route
// would only be those that were in time, and each hedge would make the next one earlier.
func TestOutrunIsRemembered(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	call := health.Call{Input: 10}
	quantile := func(lost health.Outcome) time.Duration {
		g := health.NewGroup(now, nil)
		r := g.Route("a", health.Settings{})
		for n := range 100 {
			a := r.Begin(now, call)
			if n%10 == 9 { // one of ten is slow, and lost after a second
				a.End(now.Add(time.Second), lost)
				continue
			}
			a.First(now.Add(100 * time.Millisecond))
			a.End(now.Add(200*time.Millisecond), health.Succeeded)
		}
		after, known := r.FirstToken(call, 0.95)
		require.True(t, known)
		return after
	}
	require.GreaterOrEqual(t, quantile(health.Outrun), time.Second)
	require.Less(t, quantile(health.Nothing), 200*time.Millisecond)
	// A second attempt that lost at once says nothing of how long its first token would have taken.
	g := health.NewGroup(now, nil)
	r := g.Route("a", health.Settings{})
	for range 40 {
		a := r.Begin(now, call)
		a.First(now.Add(100 * time.Millisecond))
		a.End(now.Add(200*time.Millisecond), health.Succeeded)
		r.Begin(now, call).End(now.Add(time.Millisecond), health.Outrun)
	}
	median, _ := r.FirstToken(call, 0.5)
	require.GreaterOrEqual(t, median, 100*time.Millisecond)
}
