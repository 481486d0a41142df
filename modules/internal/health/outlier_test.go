package health_test

import (
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/health"
)

const fast, slow = 100 * time.Millisecond, 2 * time.Second

// familiar is a bench whose routes have a past of fast answers.
func familiar(t *testing.T, names ...string) *bench {
	b := newBench(usual, names...)
	for _, r := range b.routes {
		b.attempts(t, r, 40, fast, health.Succeeded)
	}
	b.now = b.now.Add(2 * time.Minute)
	return b
}

func TestOutliersByErrors(t *testing.T) {
	t.Parallel()
	mixed := func(t *testing.T, b *bench, r *health.Route, rounds int) {
		for range rounds { // a third
			b.attempts(t, r, 2, fast, health.Succeeded)
			b.attempt(t, r, fast, health.Failed)
		}
	}
	t.Run("a route that fails more than the others is called last", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "bad", "good")
		mixed(t, b, b.routes[0], 5)
		s := b.routes[0].Look(b.now, false)
		require.Equal(t, health.Ejected, s.State)
		require.Equal(t, b.now.Add(30*time.Second), s.Until)
		require.Contains(t, s.Why, "attempts fail")
		require.Contains(t, b.told[0].Why, "attempts fail")
		require.Equal(t, health.Serves, b.state(b.routes[1]))
		require.NotNil(t, b.routes[0].Begin(b.now, health.Call{Input: 1 << 20}), "whoever has no other may call it")
		b.now = s.Until
		require.Equal(t, health.Serves, b.state(b.routes[0]))
		b.attempt(t, b.routes[0], fast, health.Succeeded)
		require.Equal(t, []health.State{health.Ejected, health.Serves}, b.states())
		require.Zero(t, b.told[1].Until, "for good")
	})
	t.Run("where all fail alike, none is", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "bad", "worse")
		for range 30 {
			for _, r := range b.routes {
				mixed(t, b, r, 1)
			}
		}
		require.LessOrEqual(t, len(b.told), 1, "the first one was the first")
		b.now = b.now.Add(time.Minute)
		b.told = nil
		for range 30 {
			for _, r := range b.routes {
				mixed(t, b, r, 1)
			}
		}
		require.Empty(t, b.told)
	})
	t.Run("the only route never is", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "only")
		mixed(t, b, b.routes[0], 100)
		require.Empty(t, b.told)
	})
	t.Run("at most half are, and those whose breakers are open count", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "a", "b", "c")
		mixed(t, b, b.routes[0], 10)
		mixed(t, b, b.routes[1], 30)
		require.Equal(t, health.Ejected, b.state(b.routes[0]))
		require.Equal(t, health.Serves, b.state(b.routes[1]))
		b = familiar(t, "a", "b", "c")
		b.trip(t, b.routes[0])
		mixed(t, b, b.routes[1], 30)
		require.Equal(t, health.Serves, b.state(b.routes[1]))
	})
	t.Run("it grows with repetition, up to a bound, and is forgotten", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "bad", "good")
		eject := func() time.Duration {
			mixed(t, b, b.routes[0], 5)
			s := b.routes[0].Look(b.now, true)
			require.Equal(t, health.Ejected, s.State)
			pause := s.Until.Sub(b.now)
			b.now = s.Until
			return pause
		}
		for _, seconds := range []float64{30, 60, 120, 240, 300, 300} {
			require.InDelta(t, seconds, eject().Seconds(), 0)
		}
		b.now = b.now.Add(10*time.Minute - 15*fast) // it is ejected ten minutes after the last time was over
		require.Equal(t, 5*time.Minute, eject())
		b.now = b.now.Add(10*time.Minute - 15*fast + time.Nanosecond)
		require.Equal(t, 30*time.Second, eject())
	})
	t.Run("whoever calls it meanwhile does not make it longer", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "bad", "good")
		mixed(t, b, b.routes[0], 5)
		until := b.routes[0].Look(b.now, true).Until
		mixed(t, b, b.routes[0], 5)
		require.True(t, b.now.Before(until))
		require.Equal(t, until, b.routes[0].Look(b.now, true).Until)
		require.Len(t, b.told, 1)
		for _, early := range []time.Duration{1, 0} {
			b.now = until.Add(-early - fast)
			b.attempt(t, b.routes[0], fast, health.Failed)
			require.Equal(t, early == 0, b.routes[0].Look(b.now, true).Until.After(until), "that it is over, to the instant")
		}
	})
	t.Run("outliers = false", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "bad", "good")
		s := usual
		s.Outliers = false
		b.routes[0].Configure(s)
		mixed(t, b, b.routes[0], 30)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
}

func TestOutliersByLatency(t *testing.T) {
	t.Parallel()
	t.Run("first tokens that come much later than they did", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "slow", "good")
		b.attempts(t, b.routes[0], 4, slow, health.Succeeded)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
		b.attempt(t, b.routes[0], slow, health.Succeeded)
		require.Equal(t, health.Ejected, b.state(b.routes[0]))
		require.Contains(t, b.routes[0].Look(b.now, true).Why, "first tokens")
		require.Contains(t, b.told[0].Why, "first tokens")
	})
	t.Run("those that come late while its breaker is open eject it no more", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "slow", "good")
		for range 10 {
			require.NotNil(t, b.routes[0].Begin(b.now, light))
		}
		b.trip(t, b.routes[0])
		b.now = b.now.Add(slow)
		require.Nil(t, b.routes[0].Begin(b.now, light))
		require.Equal(t, []health.State{health.Open}, b.states())
	})
	t.Run("twice as long is not much later", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "slow", "good")
		b.attempts(t, b.routes[0], 60, 2*fast, health.Succeeded)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
	t.Run("a route that always took long", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "thinks", "quick")
		b.attempts(t, b.routes[1], 60, fast, health.Succeeded)
		b.attempts(t, b.routes[0], 200, slow, health.Succeeded)
		require.Empty(t, b.told)
	})
	t.Run("that the others fail now and then says nothing of how late they are", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "slow", "fails")
		for range 4 { // a quarter
			b.attempts(t, b.routes[1], 3, fast, health.Succeeded)
			b.attempt(t, b.routes[1], fast, health.Failed)
		}
		b.attempts(t, b.routes[0], 5, slow, health.Succeeded)
		require.Equal(t, health.Serves, b.state(b.routes[1]))
		require.Equal(t, health.Ejected, b.state(b.routes[0]))
	})
	t.Run("the others have become slower likewise", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "a", "b")
		for range 4 {
			for _, r := range b.routes {
				b.attempts(t, r, 1, slow, health.Succeeded)
			}
		}
		b.attempts(t, b.routes[0], 4, fast, health.Succeeded)
		b.attempts(t, b.routes[1], 1, slow, health.Succeeded)
		told := len(b.told)
		for range 20 {
			b.attempts(t, b.routes[0], 1, slow, health.Succeeded)
		}
		require.LessOrEqual(t, len(b.told)-told, 1)
	})
	t.Run("first tokens that do not come at all count before anything has failed", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "stalls", "good")
		r := b.routes[0]
		var waiting []*health.Attempt
		for range 6 {
			waiting = append(waiting, r.Begin(b.now, light))
			b.now = b.now.Add(slow)
		}
		require.Equal(t, health.Ejected, b.state(r))
		for _, a := range waiting { // each counts once
			a.First(b.now)
			a.End(b.now, health.Succeeded)
		}
		require.Len(t, b.told, 1)
	})
	t.Run("clients that leave what does not come count, too", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "stalls", "good")
		b.attempts(t, b.routes[0], 6, slow, health.Nothing)
		require.Equal(t, health.Ejected, b.state(b.routes[0]))
	})
	t.Run("longer prompts are compared with their like", func(t *testing.T) {
		t.Parallel()
		b := familiar(t, "one", "two")
		for range 60 {
			a := b.routes[0].Begin(b.now, health.Call{Input: 100_000})
			b.now = b.now.Add(slow)
			a.First(b.now)
			a.End(b.now, health.Succeeded)
		}
		require.Empty(t, b.told)
		took, ok := b.routes[0].FirstToken(health.Call{Input: 100_000}, 0.95)
		require.True(t, ok)
		require.InDelta(t, slow.Seconds(), took.Seconds(), 0.5)
		took, _ = b.routes[0].FirstToken(health.Call{Input: 100}, 0.95)
		require.InDelta(t, fast.Seconds(), took.Seconds(), 0.025)
		_, ok = b.routes[0].FirstToken(health.Call{Input: 10_000}, 0.95)
		require.False(t, ok, "nothing is known")
	})
	t.Run("how long a reply is in one piece is the client's affair", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "one", "two")
		whole := func(took time.Duration) {
			a := b.routes[0].Begin(b.now, health.Call{Whole: true})
			b.now = b.now.Add(took)
			a.End(b.now, health.Succeeded)
		}
		for range 40 {
			whole(time.Second)
		}
		for range 40 {
			whole(9 * time.Second)
		}
		require.Empty(t, b.told)
	})
}

// TestLateFrom: a first token is late that comes later than three times the median, and than a quarter of a second; a
// reply in one piece that comes later than ten times, and than five seconds.
func TestLateFrom(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call  health.Call
		past  time.Duration
		times int64 // of the median
		least time.Duration
	}{
		"a quick route":               {light, time.Millisecond, 3, 250 * time.Millisecond},
		"a slow route":                {light, 2 * time.Second, 3, 250 * time.Millisecond},
		"a large prompt":              {health.Call{Input: 100_000}, 2 * time.Second, 3, 250 * time.Millisecond},
		"a short reply in one piece":  {health.Call{Whole: true}, time.Millisecond, 10, 5 * time.Second},
		"a longer reply in one piece": {health.Call{Whole: true}, 700 * time.Millisecond, 10, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 6 {
				late, way := n%2 > 0, n/2
				b := newBench(usual, "one", "two")
				one := func(took time.Duration) {
					a := b.routes[0].Begin(b.now, tt.call)
					b.now = b.now.Add(took)
					a.End(b.now, health.Succeeded)
				}
				for range 32 {
					one(tt.past)
				}
				b.now = b.now.Add(2 * time.Minute)
				median, ok := b.routes[0].FirstToken(tt.call, 0.5)
				require.True(t, ok)
				limit := max(time.Duration(tt.times*int64(median)), tt.least)
				if late {
					limit++
				}
				switch way {
				case 0: // they come
					for range 5 {
						one(limit)
					}
				case 1: // nobody waits any longer
					for range 5 {
						a := b.routes[0].Begin(b.now, tt.call)
						b.now = b.now.Add(limit)
						a.End(b.now, health.Nothing)
					}
				case 2: // they are waited for
					for range 5 {
						b.routes[0].Begin(b.now, tt.call)
					}
					b.now = b.now.Add(limit)
					b.routes[0].Begin(b.now, tt.call)
				}
				require.Equal(t, late, b.state(b.routes[0]) == health.Ejected, "after %v, way %d", limit, way)
			}
		})
	}
}

// TestOutlierShares: an outlier has failed, or been late, at least five times within a minute: three in ten of its
// attempts, or half of its first tokens.
func TestOutlierShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		well, ill int
		took      time.Duration // by the ill ones
		outcome   health.Outcome
		out       bool
	}{
		{14, 6, fast, health.Failed, true}, {15, 6, fast, health.Failed, false},
		{11, 5, fast, health.Failed, true}, {8, 4, fast, health.Failed, false},
		{5, 5, slow, health.Succeeded, true}, {6, 5, slow, health.Succeeded, false},
		{7, 7, slow, health.Succeeded, true}, {4, 4, slow, health.Succeeded, false},
	} {
		b := familiar(t, "ill", "well")
		b.attempts(t, b.routes[0], tt.well, fast, health.Succeeded)
		b.attempts(t, b.routes[0], tt.ill, tt.took, tt.outcome)
		require.Equal(t, tt.out, b.state(b.routes[0]) == health.Ejected, "%+v", tt)
	}
	for _, late := range []time.Duration{0, 1} {
		s := usual
		s.Failures = 0
		b := newBench(s, "ill", "well")
		b.attempts(t, b.routes[0], 5, 15*time.Second+late, health.Failed)
		require.Equal(t, late == 0, b.state(b.routes[0]) == health.Ejected, "five within a minute and %d", late)
	}
}

// TestOutliersAreWorseThanTheOthers: an outlier does at least twice as badly as the others, whose shares are known
// from five attempts on.
func TestOutliersAreWorseThanTheOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		well, ill int // of the other route's attempts
		late      bool
		state     health.State
	}{
		{"a third fails, and of the others three in twenty", 17, 3, false, health.Ejected},
		{"a third fails, and of the others four in twenty", 16, 4, false, health.Serves},
		{"all are late, and of the others two in five", 6, 4, true, health.Ejected},
		{"all are late, and of the others four in seven", 3, 4, true, health.Serves},
		{"all are late, and of the others too few are known", 0, 4, true, health.Ejected},
		{"all are late, and of the others just half, of few that are known", 2, 3, true, health.Serves},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := familiar(t, "bad", "other")
			bad, other := b.routes[0], b.routes[1]
			b.attempts(t, other, tt.well, fast, health.Succeeded)
			if tt.late {
				b.attempts(t, other, tt.ill, slow, health.Succeeded)
				b.attempts(t, bad, 5, slow, health.Succeeded)
			} else {
				b.attempts(t, other, tt.ill, fast, health.Failed)
				for range 5 {
					b.attempts(t, bad, 2, fast, health.Succeeded)
					b.attempt(t, bad, fast, health.Failed)
				}
			}
			require.Equal(t, tt.state, b.state(bad))
			require.Equal(t, health.Serves, b.state(other))
		})
	}
}

// TestOutliersAreComparedWithTheUsualOne: one of the others that is worst makes nobody else's failures usual, nor does
// the best one make them unusual, in whatever order they are.
func TestOutliersAreComparedWithTheUsualOne(t *testing.T) {
	t.Parallel()
	for ill := range uint8(1 << 5) { // which of the five others are
		b := familiar(t, "bad", "v", "w", "x", "y", "z")
		for i := range 5 {
			n := 4 * int(ill>>i&1)
			b.attempts(t, b.routes[i+1], 14-n, fast, health.Succeeded)
			b.attempts(t, b.routes[i+1], n, fast, health.Failed)
		}
		for range 5 {
			b.attempts(t, b.routes[0], 2, fast, health.Succeeded)
			b.attempt(t, b.routes[0], fast, health.Failed)
		}
		want := health.Ejected
		if bits.OnesCount8(ill) > 2 {
			want = health.Serves
		}
		require.Equal(t, want, b.state(b.routes[0]), "%05b", ill)
	}
}
