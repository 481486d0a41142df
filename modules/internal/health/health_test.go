package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/health"
)

var usual = health.Settings{Failures: 5, Window: 30 * time.Second, OpenFor: 15 * time.Second, Outliers: true}

// bench is routes with a clock that tests turn, and what was told of them.
type bench struct {
	now    time.Time
	group  *health.Group
	routes []*health.Route
	told   []health.Change
}

func newBench(s health.Settings, names ...string) *bench {
	b := &bench{now: time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)}
	b.group = health.NewGroup(b.now, func(c health.Change) { b.told = append(b.told, c) })
	for _, name := range names {
		b.routes = append(b.routes, b.group.Route(name, s))
	}
	b.group.Use(b.routes)
	return b
}

var light = health.Call{Input: 100, Light: true}

// attempt makes one that takes so long, on a route.
func (b *bench) attempt(t require.TestingT, r *health.Route, took time.Duration, o health.Outcome) {
	a := r.Begin(b.now, light)
	require.NotNil(t, a)
	b.now = b.now.Add(took)
	if o == health.Succeeded {
		a.First(b.now)
	}
	a.End(b.now, o)
}

func (b *bench) attempts(t require.TestingT, r *health.Route, n int, took time.Duration, o health.Outcome) {
	for range n {
		b.attempt(t, r, took, o)
	}
}

func (b *bench) state(r *health.Route) health.State { return r.Look(b.now, true).State }

// trip opens the breaker of a route.
func (b *bench) trip(t require.TestingT, r *health.Route) {
	b.attempts(t, r, int(usual.Failures), time.Millisecond, health.Failed)
	require.Equal(t, health.Open, b.state(r))
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	const ok, no = health.Succeeded, health.Failed
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, b *bench, r *health.Route)
		state health.State
	}{
		{"one failure too few", func(t *testing.T, b *bench, r *health.Route) { b.attempts(t, r, 4, 0, no) }, health.Serves},
		{"failures in the window", func(t *testing.T, b *bench, r *health.Route) { b.attempts(t, r, 5, 0, no) }, health.Open},
		{"failures over a longer time", func(t *testing.T, b *bench, r *health.Route) {
			b.attempts(t, r, 10, 8*time.Second, no)
		}, health.Serves},
		{"half of the attempts", func(t *testing.T, b *bench, r *health.Route) {
			b.attempts(t, r, 5, 0, ok)
			b.attempts(t, r, 5, 0, no)
		}, health.Open},
		{"a busy route that is mostly well", func(t *testing.T, b *bench, r *health.Route) {
			for range 20 {
				b.attempts(t, r, 3, 0, ok)
				b.attempts(t, r, 2, 0, no)
			}
		}, health.Serves},
		{"a busy route that has died, a moment before", func(t *testing.T, b *bench, r *health.Route) {
			b.attempts(t, r, 60, 0, ok)
			b.attempts(t, r, 9, 0, no)
		}, health.Serves},
		{"a busy route that has died", func(t *testing.T, b *bench, r *health.Route) {
			b.attempts(t, r, 60, 0, ok)
			b.attempts(t, r, 10, 0, no)
		}, health.Open},
		{"what says nothing of the route", func(t *testing.T, b *bench, r *health.Route) {
			b.attempts(t, r, 100, 0, health.Nothing)
			b.attempts(t, r, 100, 0, health.Refused)
		}, health.Serves},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(usual, "only")
			tt.make(t, b, b.routes[0])
			require.Equal(t, tt.state, b.state(b.routes[0]))
		})
	}
	t.Run("failures within the window, to the instant", func(t *testing.T) {
		t.Parallel()
		for _, late := range []time.Duration{0, 1} {
			s := usual
			s.Failures = 2
			b := newBench(s, "only")
			b.attempts(t, b.routes[0], 2, s.Window+late, no)
			require.Equal(t, late == 0, b.state(b.routes[0]) == health.Open)
		}
	})
	t.Run("failures = 0 never does", func(t *testing.T) {
		t.Parallel()
		b := newBench(health.Settings{OpenFor: time.Second, Window: time.Minute}, "only")
		b.attempts(t, b.routes[0], 200, 0, no)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
	t.Run("what the operator says takes effect at once", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "only")
		b.trip(t, b.routes[0])
		off := usual
		off.Failures = 0
		b.routes[0].Configure(off)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
		b.attempts(t, b.routes[0], 50, 0, no)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
}

func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (*bench, *health.Route) {
		b := newBench(usual, "only")
		b.trip(t, b.routes[0])
		return b, b.routes[0]
	}
	t.Run("ERR-28 open, nothing is let through", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor - time.Nanosecond)
		require.Nil(t, r.Begin(b.now, light))
		s := r.Look(b.now, true)
		require.Equal(t, b.now.Add(time.Nanosecond), s.Until)
		require.NotEmpty(t, s.Why)
	})
	t.Run("one light request tries it, and closes it", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor)
		require.Equal(t, health.Open, r.Look(b.now, false).State, "another one is too dear")
		require.Nil(t, r.Begin(b.now, health.Call{Input: 5000}))
		require.Equal(t, health.HalfOpen, b.state(r))
		probe := r.Begin(b.now, light)
		require.NotNil(t, probe)
		require.Equal(t, health.Open, b.state(r), "one at a time")
		require.Nil(t, r.Begin(b.now, light))
		probe.First(b.now)
		require.Equal(t, health.Serves, b.state(r), "its first token is enough")
		probe.End(b.now, health.Succeeded)
		require.Equal(t, health.Serves, b.state(r))
		require.Equal(t, []health.State{health.Open, health.HalfOpen, health.Serves}, b.states())
		require.Zero(t, b.told[1].Until, "however long it takes")
		require.Zero(t, b.told[2].Until, "for good")
	})
	t.Run("any request tries it after as long again", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(2*usual.OpenFor - time.Nanosecond)
		require.Nil(t, r.Begin(b.now, health.Call{Input: 5000}))
		b.now = b.now.Add(time.Nanosecond)
		require.NotNil(t, r.Begin(b.now, health.Call{Input: 5000}))
	})
	t.Run("a probe that fails opens it for twice as long, up to a bound", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		pause := usual.OpenFor
		for range 8 {
			b.now = b.now.Add(pause)
			b.attempt(t, r, time.Second, health.Failed)
			pause = min(2*pause, 5*time.Minute)
			require.Equal(t, b.now.Add(pause), r.Look(b.now, true).Until)
		}
	})
	t.Run("a probe that breaks after its first token does, too", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor)
		probe := r.Begin(b.now, light)
		probe.First(b.now)
		require.Equal(t, health.Serves, b.state(r))
		probe.End(b.now, health.Failed)
		require.Equal(t, b.now.Add(2*usual.OpenFor), r.Look(b.now, true).Until)
	})
	t.Run("a probe that says nothing is none", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor)
		b.attempt(t, r, time.Second, health.Nothing)
		require.Equal(t, health.HalfOpen, b.state(r))
		b.attempt(t, r, time.Second, health.Succeeded)
		require.Equal(t, health.Serves, b.state(r))
		b.attempts(t, r, 5, 0, health.Failed)
		require.Equal(t, b.now.Add(usual.OpenFor), r.Look(b.now, true).Until, "and it begins anew")
	})
	t.Run("a probe that hangs keeps the others away for a while only", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor)
		require.NotNil(t, r.Begin(b.now, light))
		b.now = b.now.Add(usual.OpenFor)
		require.NotNil(t, r.Begin(b.now, light))
	})
	t.Run("for five seconds at least", func(t *testing.T) {
		t.Parallel()
		s := usual
		s.OpenFor = time.Second
		b := newBench(s, "only")
		r := b.routes[0]
		b.trip(t, r)
		b.now = b.now.Add(s.OpenFor)
		require.NotNil(t, r.Begin(b.now, light))
		b.now = b.now.Add(5*time.Second - time.Nanosecond)
		require.Nil(t, r.Begin(b.now, light))
		b.now = b.now.Add(time.Nanosecond)
		require.NotNil(t, r.Begin(b.now, light))
	})
	t.Run("one that hung and answers says nothing when the next one has failed", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(usual.OpenFor)
		hung := r.Begin(b.now, light)
		b.now = b.now.Add(usual.OpenFor)
		b.attempt(t, r, time.Second, health.Failed)
		until := r.Look(b.now, true).Until
		hung.First(b.now)
		hung.End(b.now, health.Succeeded)
		require.Equal(t, health.Open, b.state(r))
		require.Equal(t, until, r.Look(b.now, true).Until)
	})
	t.Run("what began before it opened says nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "only")
		r := b.routes[0]
		var before []*health.Attempt
		for range 20 {
			before = append(before, r.Begin(b.now, light))
		}
		b.trip(t, r)
		until := r.Look(b.now, true).Until
		b.now = b.now.Add(time.Second)
		before[0].First(b.now)
		before[0].End(b.now, health.Succeeded)
		before[1].End(b.now, health.Failed)
		require.Equal(t, until, r.Look(b.now, true).Until)
		b.now = until
		b.attempt(t, r, 0, health.Succeeded)
		for _, a := range before[2:] {
			a.End(b.now, health.Failed)
		}
		require.Equal(t, health.Serves, b.state(r))
	})
	t.Run("what nobody has tried for long is forgotten", func(t *testing.T) {
		t.Parallel()
		b, r := open(t)
		b.now = b.now.Add(21*usual.OpenFor - time.Nanosecond)
		require.Equal(t, health.HalfOpen, b.state(r))
		b.now = b.now.Add(time.Nanosecond)
		require.Equal(t, health.Serves, b.state(r))
		for range 10 {
			require.NotNil(t, r.Begin(b.now, health.Call{Input: 5000}))
		}
		require.Equal(t, []health.State{health.Open, health.Serves}, b.states())
		require.Zero(t, b.told[1].Until, "for good")
		b.trip(t, r)
		require.Equal(t, b.now.Add(usual.OpenFor), r.Look(b.now, true).Until, "and it begins anew")
	})
}

func (b *bench) states() (list []health.State) {
	for _, c := range b.told {
		list = append(list, c.To)
	}
	return list
}

// TestAttemptsEndOnce: whoever releases an attempt need not know whether it has ended, and nobody has to have one.
func TestAttemptsEndOnce(t *testing.T) {
	t.Parallel()
	b := newBench(usual, "only")
	a := b.routes[0].Begin(b.now, light)
	for range 10 {
		a.End(b.now, health.Failed)
	}
	require.Equal(t, health.Serves, b.state(b.routes[0]))
	var none *health.Attempt
	none.First(b.now)
	none.End(b.now, health.Failed)
}
