package contracttest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// inTurn are replies one after the other; the last one stays.
func inTurn(replies ...upstream.Reply) func(*upstream.Request) upstream.Reply {
	var n atomic.Int64
	return func(*upstream.Request) upstream.Reply {
		return replies[min(int(n.Add(1)), len(replies))-1]
	}
}

func backIn(seconds string) upstream.Reply { return upstream.Refuse(upstream.RateLimited(seconds)) }

// sends sends requests at the same time.
func (c *caller) sends(t testing.TB, sh shape, n int) <-chan answer {
	t.Helper()
	answers := make(chan answer, n)
	var asking sync.WaitGroup
	for range n {
		asking.Go(func() { answers <- c.Ask(sh) })
	}
	t.Cleanup(asking.Wait)
	return answers
}

// waits is until so many requests wait for a route.
func (g *scripted) waits(t testing.TB, route string, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return g.Engine.Waiting(route) == n }, 10*time.Second, time.Millisecond)
}

// TestRoutesThatSayWhenTheyAreBack proves GAP-139.
func TestRoutesThatSayWhenTheyAreBack(t *testing.T) {
	t.Parallel()
	const speed = 4 // a busy machine may take a tenth of a second for anything
	for name, block := range map[string]string{"with a breaker": breaker(""), "without": ""} {
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run("GAP-139 it is waited for, and called once more "+name+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					at := newClock(speed)
					g := startScripted(t, setup{Breaker: block, Clock: at})
					c := g.rich(t)
					c.AnswersBy(inTurn(backIn("2"), hello))
					began := at.Now()
					outcomeOf(t, sh, c.Ask(sh, mode.Field))
					require.GreaterOrEqual(t, at.Now().Sub(began), 2*time.Second)
					require.Len(t, c.Seen(), 2)
				})
			}
			t.Run("GAP-139 once, and not for long "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				g := startScripted(t, setup{Breaker: block, Clock: newClock(speed)})
				c := g.rich(t)
				c.AnswersBy(inTurn(backIn("1"), backIn("1"), hello))
				requireFull(t, sh, c.Ask(sh))
				require.Len(t, c.Seen(), 2, "once more")
				for _, seconds := range []string{"6", ""} {
					g := startScripted(t, setup{Breaker: block, Clock: newClock(speed)})
					c := g.rich(t)
					c.AnswersBy(inTurn(backIn(seconds), hello))
					requireFull(t, sh, c.Ask(sh))
					require.Len(t, c.Seen(), 1)
				}
			})
		}
		for header, value := range map[string]string{
			"Retry-After": "0", "retry-after": "0.25", "Retry-After-Ms": "0", "retry-after-ms": "1200.5",
			"RETRY-AFTER": "Sun, 06 Nov 1994 08:49:37 GMT",
		} {
			t.Run("GAP-139 now is a time, too "+name+" "+header+" "+value, func(t *testing.T) {
				t.Parallel()
				g := startScripted(t, setup{Breaker: block, Clock: newClock(speed)})
				c := g.rich(t)
				refused := backIn("")
				refused.Header = map[string]string{header: value}
				c.AnswersBy(inTurn(refused, hello))
				outcomeOf(t, shapeOf("chat"), c.Ask(shapeOf("chat")))
				require.Len(t, c.Seen(), 2)
			})
		}
		t.Run("GAP-139 where other routes have failed "+name, func(t *testing.T) {
			t.Parallel()
			sh := shapeOf("chat")
			g := startScripted(t, setup{Breaker: block, Routes: twoRoutes, Clock: newClock(speed)})
			c := g.rich(t)
			var calls atomic.Int64
			c.AnswersBy(func(r *upstream.Request) upstream.Reply {
				if calls.Add(1) == 1 {
					return backIn("1")
				}
				return byRoute(hello, failing)(r)
			})
			outcomeOf(t, sh, c.Ask(sh))
			require.Len(t, c.Seen(), 3)
		})
	}
	sh := shapeOf("chat")
	t.Run("GAP-139 no wait where another route can take it", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Breaker: breaker(""), Routes: twoRoutes, Clock: newClock(1)})
		c := g.rich(t)
		c.AnswersBy(byRoute(backIn("5"), hello))
		for range 3 {
			outcomeOf(t, sh, c.Ask(sh))
			require.Equal(t, "second", c.Route(t))
		}
		require.Len(t, c.Seen(), 4)
	})
	// two are a gateway whose route is back in some seconds, by a clock that stands, and an account whose request waits
	// for that; then replies come in turn. The other one is always answered.
	two := func(t *testing.T, gateway, seconds string, then ...upstream.Reply) (g *scripted, at *clock, a, b *caller,
		first <-chan answer) {
		t.Helper()
		at = newClock(0)
		g = startScripted(t, setup{Gateway: gateway, Breaker: breaker(noOutlier), Clock: at})
		a, b = g.rich(t), g.rich(t)
		a.AnswersBy(inTurn(append([]upstream.Reply{backIn(seconds)}, then...)...))
		b.Answers(hello)
		first = a.sends(t, sh, 1)
		g.waits(t, "standard", 1)
		return g, at, a, b, first
	}
	t.Run("GAP-139 the one that met it is the probe, the others start behind it", func(t *testing.T) {
		t.Parallel()
		g, at, _, b, first := two(t, "", "3", hello)
		require.Equal(t, []string{"standard"}, g.ones(t, "fareway_route_waiting"))
		others := b.sends(t, sh, 9)
		requireFull(t, sh, <-others) // the ninth of one account, at once
		g.waits(t, "standard", 9)
		require.Empty(t, b.Seen(), "nobody is called before")
		outcomeOf(t, sh, at.Pass(t, first))
		for range 8 {
			outcomeOf(t, sh, <-others)
		}
		require.Len(t, b.Seen(), 8)
		require.Zero(t, g.Engine.Waiting("standard"))
	})
	t.Run("GAP-139 how long it waited is in the access line and the decision log", func(t *testing.T) {
		t.Parallel()
		g, at, a, _, first := two(t, "", "3", hello)
		answer := at.Pass(t, first)
		outcomeOf(t, sh, answer)
		waited := decided(t, g, answer).Waited
		require.InDelta(t, 3, waited.Seconds(), 0.5)
		require.InDelta(t, float64(waited), a.Access(answer.Header.Get("X-Request-Id"))["waited"], 1e6)
	})
	t.Run("GAP-139 what the probe met sends the others on", func(t *testing.T) {
		t.Parallel()
		for name, probe := range map[string]upstream.Reply{"late": backIn("60"), "failed": failing} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g, at, _, b, first := two(t, "", "4", probe)
				second := b.sends(t, sh, 1)
				g.waits(t, "standard", 2)
				require.NotEqual(t, 200, at.Pass(t, first).StatusCode)
				requireFull(t, sh, at.Pass(t, second))
				require.Empty(t, b.Seen())
			})
		}
	})
	t.Run("GAP-139 who waits behind a probe that is refused waits on", func(t *testing.T) {
		t.Parallel()
		g, at, _, b, first := two(t, "", "4", backIn("1"))
		second := b.sends(t, sh, 1)
		g.waits(t, "standard", 2)
		requireFull(t, sh, at.Pass(t, first))
		outcomeOf(t, sh, at.Pass(t, second))
		require.Len(t, b.Seen(), 1)
	})
	t.Run("GAP-139 who arrives later holds when its turn comes", func(t *testing.T) {
		t.Parallel()
		g, at, _, _, first := two(t, "", "1", hello)
		poor := g.caller(t, 1)
		second := make(chan answer, 1)
		go func() { second <- poor.Ask(sh, allowance(sh, 10_000)) }()
		g.waits(t, "standard", 2)
		poor.RequireUntouched(t)
		outcomeOf(t, sh, at.Pass(t, first))
		requireError(t, sh, at.Pass(t, second), 402, "budget_exceeded")
		poor.RequireUntouched(t)
	})
	t.Run("GAP-139 the client leaves", func(t *testing.T) {
		t.Parallel()
		g, at, _, b, first := two(t, "", "3", hello)
		ctx, leave := context.WithCancel(within(t))
		left := b.Send(t, ctx, sh)
		g.waits(t, "standard", 2)
		leave()
		require.ErrorIs(t, <-left.err, context.Canceled)
		g.waits(t, "standard", 1)
		b.RequireUntouched(t)
		outcomeOf(t, sh, at.Pass(t, first))
		require.Empty(t, b.Seen())
	})
	t.Run("GAP-139 GAP-98 the gateway ends", func(t *testing.T) {
		t.Parallel()
		g, _, a, b, first := two(t, "drain_timeout = \"20ms\"\n", "3", hello)
		second := b.sends(t, sh, 1)
		g.waits(t, "standard", 2)
		g.Engine.Drain()
		for _, ended := range []answer{<-first, <-second} {
			require.GreaterOrEqual(t, ended.StatusCode, 500)
		}
		require.Len(t, a.Seen(), 1)
		require.Empty(t, b.Seen())
		require.Zero(t, a.Balance().Held)
		b.RequireUntouched(t)
	})
	t.Run("GAP-64 GAP-139 a stream is not opened for it", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Gateway: "keepalive = \"500ms\"\n", Clock: newClock(0)})
		c := g.rich(t)
		c.AnswersBy(inTurn(backIn("2"), hello))
		requireFull(t, sh, c.Ask(sh, `"stream":true`))
		require.Len(t, c.Seen(), 1)
	})
	t.Run("GAP-139 of several keys the first that is back", func(t *testing.T) {
		t.Parallel()
		blocks, _ := credentials(t, map[string]string{"main": "sk-main-139", "spare": "sk-spare-139"})
		for name, block := range map[string]string{"with": breaker(""), "without": ""} {
			g := startScripted(t, setup{Breaker: block, Clock: newClock(speed), Keys: blocks})
			c := g.rich(t)
			c.AnswersBy(inTurn(backIn("60"), backIn("2"), hello))
			outcomeOf(t, sh, c.Ask(sh))
			require.Len(t, c.Seen(), 3, name)
		}
	})
}
