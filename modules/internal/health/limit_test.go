package health_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/health"
)

// upstream is one that works on so many requests at a time, each for so long; the others wait in it. It refuses what
// is beyond its queue.
type upstream struct {
	slots, queue int
	works        time.Duration
}

// load keeps as many attempts running as the route lets, for so many rounds, and returns the limit of each round. A
// round is the time in which the upstream works once.
func (u *upstream) load(t require.TestingT, b *bench, rounds int, refused *int) (limits []int64) {
	r := b.routes[0]
	var waiting []*health.Attempt
	for range rounds {
		for int64(len(waiting)) < r.Limit() {
			a := r.Begin(b.now, light)
			require.NotNil(t, a)
			if len(waiting) >= u.slots+u.queue {
				a.End(b.now, health.Refused)
				*refused++
				break
			}
			waiting = append(waiting, a)
		}
		b.now = b.now.Add(u.works)
		for _, a := range waiting[:min(u.slots, len(waiting))] {
			a.First(b.now)
			a.End(b.now, health.Succeeded)
		}
		waiting = slices.Clone(waiting[min(u.slots, len(waiting)):])
		limits = append(limits, r.Limit())
	}
	return limits
}

func adaptive() *bench {
	s := usual
	s.Adaptive, s.Outliers, s.Failures = true, false, 0
	return newBench(s, "only")
}

func mean(limits []int64) float64 {
	sum := 0.0
	for _, l := range limits {
		sum += float64(l)
	}
	return sum / float64(len(limits))
}

// TestLimitAdapts: max_concurrent = "auto", against upstreams of several sizes.
func TestLimitAdapts(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]*upstream{
		"one at a time": {1, math.MaxInt32, 200 * time.Millisecond},
		"eight":         {8, math.MaxInt32, 200 * time.Millisecond},
		"a hundred":     {100, math.MaxInt32, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refused int
			limits := u.load(t, adaptive(), 600, &refused)
			late := mean(limits[300:])
			require.GreaterOrEqual(t, late, float64(u.slots), "it is used")
			require.LessOrEqual(t, late, float64(5*u.slots), "and not flooded")
		})
	}
	t.Run("an upstream that refuses", func(t *testing.T) {
		t.Parallel()
		u := &upstream{10, 0, 200 * time.Millisecond}
		var refused int
		limits := u.load(t, adaptive(), 1000, &refused)
		require.InDelta(t, 10, mean(limits[500:]), 5)
		require.Less(t, refused, 500, "of 1,000 rounds, in each of which one is refused otherwise")
	})
	t.Run("an upstream that becomes smaller, and larger again", func(t *testing.T) {
		t.Parallel()
		u := &upstream{50, math.MaxInt32, 200 * time.Millisecond}
		b := adaptive()
		var refused int
		u.load(t, b, 300, &refused)
		u.slots, u.queue = 5, 5
		small := u.load(t, b, 300, &refused)
		require.LessOrEqual(t, mean(small[200:]), 20.0)
		u.slots, u.queue = 50, math.MaxInt32
		require.GreaterOrEqual(t, mean(u.load(t, b, 600, &refused)[300:]), 40.0)
	})
}

// TestLimitLearnsWhatIsUsual: where first tokens come later for good, however many attempts run, the limit is halved
// once to see that, and then grows again.
func TestLimitLearnsWhatIsUsual(t *testing.T) {
	t.Parallel()
	for _, works := range []time.Duration{600 * time.Millisecond, 5 * time.Second} {
		u := &upstream{math.MaxInt32, math.MaxInt32, 100 * time.Millisecond}
		b := adaptive()
		var refused int
		before := u.load(t, b, 100, &refused)[99]
		u.works = works
		limits := u.load(t, b, 300, &refused)
		require.GreaterOrEqual(t, slices.Min(limits), before*7/10/2, "%s", works)
		require.LessOrEqual(t, slices.Min(limits), before/2, "%s", works)
		require.Greater(t, limits[299], before, "%s", works)
	}
}

// TestLimitDrops: an attempt that the upstream did not serve lowers the limit, once in a second; what began to be
// served does not, and nothing that says nothing of the route.
func TestLimitDrops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome health.Outcome
		served  bool // its first token came
		drops   bool
	}{
		{health.Refused, false, true}, {health.Refused, true, true},
		{health.Failed, false, true}, {health.Failed, true, false},
		{health.Unreached, false, true}, {health.Unreached, true, false},
		{health.Nothing, false, false}, {health.Outrun, false, false}, {health.Succeeded, true, false},
	} {
		t.Run(fmt.Sprintf("%d served %v", tt.outcome, tt.served), func(t *testing.T) {
			t.Parallel()
			b := adaptive()
			b.now = b.now.Add(time.Hour)
			r := b.routes[0]
			var running []*health.Attempt
			for range 10 {
				running = append(running, r.Begin(b.now, light))
			}
			end := func(a *health.Attempt) {
				if tt.served {
					a.First(b.now)
				}
				a.End(b.now, tt.outcome)
			}
			end(running[0])
			if !tt.drops {
				require.GreaterOrEqual(t, r.Limit(), int64(20))
				return
			}
			require.EqualValues(t, 7, r.Limit(), "of the ten that ran seven tenths")
			b.now = b.now.Add(time.Second - time.Nanosecond)
			end(running[1])
			require.EqualValues(t, 7, r.Limit(), "what was under way together is refused together")
			b.now = b.now.Add(time.Nanosecond)
			end(running[2])
			require.Less(t, r.Limit(), int64(7))
		})
	}
}

// TestLimitForgivesOne: one first token that comes late among early ones lowers nothing; many do.
func TestLimitForgivesOne(t *testing.T) {
	t.Parallel()
	b := adaptive()
	r := b.routes[0]
	b.attempts(t, r, 40, fast, health.Succeeded)
	before := r.Limit()
	b.attempt(t, r, 50*fast, health.Succeeded)
	require.GreaterOrEqual(t, r.Limit(), before)
	b.attempts(t, r, 20, 50*fast, health.Succeeded)
	require.Less(t, r.Limit(), before)
}

// TestLimitBounds: whatever comes, at least one attempt may run, and no more than a thousand.
func TestLimitBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := adaptive()
		for range rapid.IntRange(0, 300).Draw(t, "attempts") {
			took := time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "took"))
			b.attempt(t, b.routes[0], took, rapid.SampledFrom([]health.Outcome{health.Succeeded, health.Refused,
				health.Failed}).Draw(t, "outcome"))
			require.GreaterOrEqual(t, b.routes[0].Limit(), int64(1))
			require.LessOrEqual(t, b.routes[0].Limit(), int64(1000))
		}
	})
}

// TestFirstToken: a quantile is never under the true one, and at most a quarter over it.
func TestFirstToken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(health.Settings{}, "only")
		times := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Float64Range(float64(2*time.Millisecond), float64(2*time.Minute)).Draw(t, "took"))
		}), 0, 200).Draw(t, "times")
		for _, took := range times {
			b.attempt(t, b.routes[0], took, health.Succeeded)
		}
		share := rapid.SampledFrom([]float64{0.01, 0.5, 0.95, 1}).Draw(t, "share")
		got, ok := b.routes[0].FirstToken(light, share)
		require.Equal(t, len(times) >= 20, ok)
		if !ok {
			return
		}
		slices.Sort(times)
		true1 := times[int(math.Ceil(share*float64(len(times))))-1]
		require.GreaterOrEqual(t, got, true1)
		require.LessOrEqual(t, float64(got), 1.25*float64(true1))
	})
}

// BenchmarkLook is what each route costs in the plan of each request.
func BenchmarkLook(b *testing.B) {
	bench := newBench(usual, "only")
	r := bench.routes[0]
	b.Run("serves", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Look(bench.now, true)
		}
	})
	b.Run("serves, on all cores", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.Look(bench.now, true)
			}
		})
	})
	bench.trip(b, r)
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Look(bench.now, true)
		}
	})
}

// BenchmarkAttempt is what an attempt costs.
func BenchmarkAttempt(b *testing.B) {
	bench := newBench(usual, "only")
	r, now := bench.routes[0], bench.now
	one := func() {
		a := r.Begin(now, light)
		a.First(now.Add(fast))
		a.End(now.Add(2*fast), health.Succeeded)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			one()
		}
	})
	b.Run("on all cores", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one()
			}
		})
	})
	budget := health.NewBudget(now, 0.2, 10)
	b.Run("budget", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			budget.Request(now)
		}
	})
}
