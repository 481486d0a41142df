package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/health"
)

// of makes attempts of an account.
func (b *bench) of(t require.TestingT, r *health.Route, account string, n int, o health.Outcome) {
	call := light
	call.Account = account
	for range n {
		a := r.Begin(b.now, call)
		require.NotNil(t, a, "%s is let through", account)
		b.now = b.now.Add(time.Millisecond)
		if o == health.Succeeded {
			a.First(b.now)
		}
		a.End(b.now, o)
	}
}

func (b *bench) off(r *health.Route, account string) bool {
	_, off := r.HeldOff(b.now, account)
	return off
}

func TestFailuresOfOneAccount(t *testing.T) {
	t.Parallel()
	const ok, no = health.Succeeded, health.Failed
	n := int(usual.Failures)
	for name, c := range map[string]struct {
		make  func(t *testing.T, b *bench, r *health.Route)
		state health.State
		off   string // the account that is kept off
	}{
		"GAP-126 nobody else uses it": {func(t *testing.T, b *bench, r *health.Route) { b.of(t, r, "a", n, no) },
			health.Open, ""},
		"GAP-126 others use it": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n, no)
		}, health.Serves, "a"},
		"GAP-126 one too few": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n-1, no)
		}, health.Serves, ""},
		"GAP-126 it was served in between": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n-1, no)
			b.of(t, r, "a", 1, ok)
			b.of(t, r, "a", n-1, no)
		}, health.Serves, ""},
		"GAP-126 others used it long ago": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.now = b.now.Add(usual.Window + time.Second)
			b.of(t, r, "a", n, no)
		}, health.Open, ""},
		"GAP-126 a second account meets them": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n-1, no)
			b.of(t, r, "b", 1, no)
		}, health.Open, ""},
		"GAP-126 a second account meets what the first has met once": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", 1, no)
			b.of(t, r, "b", n-1, no)
		}, health.Open, ""},
		"GAP-126 a third one, of a route that both use": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n, no)
			b.of(t, r, "c", 1, no)
		}, health.Open, "a"},
		"GAP-126 a second one meets them long after": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n-1, no)
			b.now = b.now.Add(usual.Window + time.Second)
			b.of(t, r, "a", 1, ok)
			b.of(t, r, "b", n-1, no)
		}, health.Serves, ""},
		"GAP-126 no connection, whoever met it": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n, health.Unreached)
		}, health.Open, ""},
		"GAP-126 what both have met counts for a while": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, no)
			b.of(t, r, "a", 1, no)
			b.of(t, r, "b", 1, no)
			b.of(t, r, "a", n-4, no)
			require.Equal(t, health.Serves, b.state(r))
			b.of(t, r, "a", 1, no)
		}, health.Open, ""},
		"GAP-126 what both have met long ago": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, no)
			b.of(t, r, "a", 1, no)
			b.now = b.now.Add(usual.Window + time.Second)
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", n, no)
		}, health.Serves, "a"},
		"GAP-126 nobody's count for all": {func(t *testing.T, b *bench, r *health.Route) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "", n, no)
		}, health.Open, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(usual, "r")
			b.now = b.now.Add(time.Hour)
			r := b.routes[0]
			c.make(t, b, r)
			require.Equal(t, c.state, b.state(r))
			for _, account := range []string{"a", "b", "c", ""} {
				require.Equal(t, c.off == account && account != "", b.off(r, account), account)
			}
			if c.off == "" {
				return
			}
			call := light
			call.Account = c.off
			require.Nil(t, r.Begin(b.now, call), "it is kept off")
			if c.state == health.Serves {
				b.of(t, r, "b", 1, ok)
			}
			until, _ := r.HeldOff(b.now, c.off)
			require.WithinRange(t, until, b.now.Add(usual.OpenFor-time.Second), b.now.Add(usual.OpenFor))
			b.now = until
			require.False(t, b.off(r, c.off), "for OpenFor")
			b.now = until.Add(-time.Nanosecond)
			require.True(t, b.off(r, c.off))
		})
	}
	t.Run("GAP-126 it is not ejected for one account", func(t *testing.T) {
		t.Parallel()
		s := usual
		s.Failures = 0
		b := newBench(s, "r", "s", "t")
		for _, r := range b.routes {
			b.of(t, r, "b", 8, ok)
		}
		b.of(t, b.routes[0], "a", 20, no)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
}

// probe is a probe of an account, which ends so before its first token.
func (b *bench) probe(t *testing.T, r *health.Route, account string, o health.Outcome) {
	t.Helper()
	require.Equal(t, health.HalfOpen, b.state(r), "%s may try it", account)
	b.of(t, r, account, 1, o)
}

func TestProbesOfOneAccount(t *testing.T) {
	t.Parallel()
	const ok, no = health.Succeeded, health.Failed
	n := int(usual.Failures)
	// opened is a route that two accounts used and found dead, when it may be tried.
	opened := func(t *testing.T) (*bench, *health.Route) {
		b := newBench(usual, "r")
		r := b.routes[0]
		b.of(t, r, "b", 1, ok)
		b.of(t, r, "a", n-1, no)
		b.of(t, r, "b", 1, no)
		require.Equal(t, health.Open, b.state(r))
		b.now = r.Look(b.now, true).Until
		return b, r
	}
	pause := func(b *bench, r *health.Route) time.Duration { return r.Look(b.now, true).Until.Sub(b.now) }
	t.Run("GAP-126 it keeps only that account off, and another one tries", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		b.probe(t, r, "a", no)
		require.True(t, b.off(r, "a"))
		require.False(t, b.off(r, "b"))
		until, _ := r.HeldOff(b.now, "a")
		require.Equal(t, usual.OpenFor, until.Sub(b.now))
		b.probe(t, r, "b", ok)
		require.Equal(t, health.Serves, b.state(r))
		require.True(t, b.off(r, "a"), "whatever others find")
	})
	t.Run("GAP-126 again, as often as it likes", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		for range 5 {
			b.probe(t, r, "a", no)
			b.now = b.now.Add(usual.OpenFor)
		}
		b.probe(t, r, "b", ok)
		require.Equal(t, health.Serves, b.state(r))
	})
	t.Run("GAP-126 a second account opens it, for twice as long", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		b.probe(t, r, "a", no)
		b.probe(t, r, "b", no)
		require.Equal(t, health.Open, b.state(r))
		require.Equal(t, 2*usual.OpenFor, pause(b, r))
		require.False(t, b.off(r, "b"))
		// What was met before it opened again is no second account's.
		b.now = r.Look(b.now, true).Until
		b.probe(t, r, "b", no)
		require.True(t, b.off(r, "b"))
		b.probe(t, r, "a", ok)
		require.Equal(t, health.Serves, b.state(r))
	})
	t.Run("GAP-126 who used it before it opened first", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		for range 4 { // each time for longer, far beyond the window
			b.of(t, r, "a", 1, health.Unreached)
			require.Equal(t, health.Open, b.state(r), "no connection, whoever met it")
			b.now = r.Look(b.now, true).Until
		}
		b.probe(t, r, "a", no)
		require.True(t, b.off(r, "a"))
		require.Equal(t, health.HalfOpen, b.state(r))
	})
	t.Run("GAP-126 nobody else uses it", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "r")
		r := b.routes[0]
		b.of(t, r, "b", 1, ok)
		b.now = b.now.Add(usual.Window + time.Second)
		b.of(t, r, "a", n, no)
		b.now = r.Look(b.now, true).Until
		b.probe(t, r, "a", no)
		require.Equal(t, health.Open, b.state(r))
		require.Equal(t, 2*usual.OpenFor, pause(b, r))
		require.False(t, b.off(r, "a"))
	})
	t.Run("GAP-126 nobody's counts", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		b.probe(t, r, "", no)
		require.Equal(t, health.Open, b.state(r))
	})
	t.Run("GAP-126 nobody's use hides nobody", func(t *testing.T) {
		t.Parallel()
		b := newBench(usual, "r")
		r := b.routes[0]
		b.of(t, r, "b", 1, ok)
		b.of(t, r, "", n, no)
		b.now = r.Look(b.now, true).Until
		b.probe(t, r, "a", no)
		require.Equal(t, health.HalfOpen, b.state(r))
	})
	t.Run("GAP-126 it breaks off behind its first token", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		call := light
		call.Account = "a"
		a := r.Begin(b.now, call)
		a.First(b.now)
		require.Equal(t, health.Serves, b.state(r))
		a.End(b.now, no)
		require.Equal(t, health.Serves, b.state(r))
		require.True(t, b.off(r, "a"))
		b.of(t, r, "b", n, no)
		require.Equal(t, health.Open, b.state(r))
	})
	t.Run("GAP-126 once it has served, it is another time", func(t *testing.T) {
		t.Parallel()
		b, r := opened(t)
		b.probe(t, r, "b", ok)
		b.now = b.now.Add(usual.Window + time.Second)
		b.of(t, r, "a", n, no)
		b.now = r.Look(b.now, true).Until
		b.probe(t, r, "a", no)
		require.Equal(t, health.Open, b.state(r), "b was here before it opened that time, not this")
	})
}

// TestAccountsKeptOffAreBounded: GAP-126. Of a route's accounts 1,024 are kept off it at most; whoever is one too
// many is kept off, and the others are let in again.
func TestAccountsKeptOffAreBounded(t *testing.T) {
	t.Parallel()
	s := usual
	s.Failures = 1
	b := newBench(s, "r")
	r := b.routes[0]
	account := func(i int) string { return fmt.Sprint("a", i) }
	fail := func(i int) {
		r.Begin(b.now, health.Call{Account: "b"})
		beside := r.Begin(b.now, health.Call{Account: account(i)})
		r.Begin(b.now, health.Call{Account: account(i)}).End(b.now, health.Failed)
		beside.End(b.now, health.Succeeded) // or the next one would be the second that met it
	}
	for i := range 1024 {
		fail(i)
	}
	for i := range 1024 {
		require.True(t, b.off(r, account(i)), i)
	}
	fail(1024)
	require.True(t, b.off(r, account(1024)))
	require.False(t, b.off(r, account(0)))
	b.now = b.now.Add(usual.OpenFor + time.Second)
	require.False(t, b.off(r, account(1024)))
}

// TestHowLongAccountsCount: GAP-126. What is said of an account counts for the window, to the instant: after just as
// long as the window it is as it was, and an instant later it is forgotten.
func TestHowLongAccountsCount(t *testing.T) {
	t.Parallel()
	const ok, no = health.Succeeded, health.Failed
	for name, tt := range map[string]struct {
		failures int64
		make     func(t *testing.T, b *bench, r *health.Route, late time.Duration)
		within   health.State
		held     string // whom it keeps off within the window
		after    health.State
		free     string // whom after it
	}{
		"that others use the route": {1, func(t *testing.T, b *bench, r *health.Route, late time.Duration) {
			b.now = b.now.Add(b.window(late, func() { b.of(t, r, "b", 1, ok) }) - time.Millisecond)
			b.of(t, r, "a", 1, no)
		}, health.Serves, "a", health.Open, ""},
		"what it alone has met": {2, func(t *testing.T, b *bench, r *health.Route, late time.Duration) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", 1, no)
			b.now = b.now.Add(b.window(late, func() { b.of(t, r, "b", 1, ok) }) - time.Millisecond)
			b.of(t, r, "a", 1, no)
		}, health.Serves, "a", health.Serves, ""},
		"what it alone has met, for a second one that meets it": {2, func(t *testing.T, b *bench, r *health.Route,
			late time.Duration) {
			b.of(t, r, "b", 1, ok)
			b.of(t, r, "a", 1, no)
			b.now = b.now.Add(b.window(late, func() {}) - time.Millisecond)
			b.of(t, r, "b", 1, no)
		}, health.Open, "", health.Serves, ""},
		"that one has met what counted for all": {2, func(t *testing.T, b *bench, r *health.Route, late time.Duration) {
			b.of(t, r, "a", 1, no)
			b.now = b.now.Add(b.window(late, func() { r.Begin(b.now, health.Call{Account: "c"}) }) - time.Millisecond)
			b.of(t, r, "b", 1, no)
		}, health.Open, "", health.Serves, ""},
		"that two have met it": {4, func(t *testing.T, b *bench, r *health.Route, late time.Duration) {
			b.of(t, r, "a", 1, no)
			b.of(t, r, "b", 1, no)
			b.now = b.now.Add(b.window(late, func() {
				b.of(t, r, "a", 1, no)
				r.Begin(b.now, health.Call{Account: "c"})
			}))
			for _, a := range []*health.Attempt{r.Begin(b.now, health.Call{Account: "a"}),
				r.Begin(b.now, health.Call{Account: "a"})} {
				a.End(b.now, no)
			}
		}, health.Open, "", health.Serves, ""},
	} {
		t.Run("GAP-126 "+name, func(t *testing.T) {
			t.Parallel()
			for _, late := range []time.Duration{0, 1} {
				s := usual
				s.Failures = tt.failures
				b := newBench(s, "r")
				r := b.routes[0]
				tt.make(t, b, r, late)
				state, off := tt.within, tt.held
				if late > 0 {
					state, off = tt.after, tt.free
				}
				require.Equal(t, state, b.state(r), "%d later", late)
				for _, account := range []string{"a", "b", "c"} {
					require.Equal(t, off == account, b.off(r, account), "%s, %d later", account, late)
				}
			}
		})
	}
}

// window is how long it takes from now until the window of now is over, and so much more, when meanwhile has run.
func (b *bench) window(late time.Duration, meanwhile func()) time.Duration {
	end := b.now.Add(usual.Window + late)
	meanwhile()
	return end.Sub(b.now)
}
