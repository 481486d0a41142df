package contracttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// Upstreams that misbehave. The clock of these gateways is the wall's, and turned; what is waited for is
// so long that no machine is too slow.

// breaker is the blocks of a gateway under test.
func breaker(attributes string) string {
	return fmt.Sprintf("breaker {\n  failures = 3\n  window = \"6h\"\n  open_for = \"2h\"\n%s\n}\n", attributes)
}

const (
	openFor   = 2 * time.Hour
	noOutlier = "outliers = false"
)

var (
	failing = upstream.Refuse(upstream.ServerError())
	light   = func(sh shape) string { return allowance(sh, 100) }
)

// requireDown checks a reply where no route is left to call.
func requireDown(t testing.TB, sh shape, a answer) {
	t.Helper()
	requireError(t, sh, a, 503, "upstream_error")
	require.NotContains(t, a.Header, "Retry-After", "GAP-45: only where the store is away")
	require.NotContains(t, a.Header, "X-Should-Retry")
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ERR-28 open and tried "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				at := newClock(1)
				g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: at})
				c := g.rich(t)
				c.Answers(failing)
				for range 3 {
					requireError(t, sh, c.Ask(sh, mode.Field), 502, "upstream_error")
				}
				require.Equal(t, []string{"standard open"}, g.ones(t, "fareway_route_state"))
				before := c.Net()
				requireDown(t, sh, c.Ask(sh, mode.Field, light(sh)))
				require.Len(t, c.Seen(), 3, "it is not called")
				require.Equal(t, before, c.Net())

				at.Turn(openFor)
				requireDown(t, sh, c.Ask(sh, mode.Field)) // 32,768 tokens of allowance are no light request
				require.Len(t, c.Seen(), 3)
				c.Answers(hello)
				outcomeOf(t, sh, c.Ask(sh, mode.Field, light(sh)))
				outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, []string{"standard serves"}, g.ones(t, "fareway_route_state"))
				var changes []string
				for _, line := range g.Log.Lines(t, func(line map[string]any) bool { return line["to"] != nil }) {
					changes = append(changes, line["to"].(string))
				}
				require.Equal(t, []string{"open", "half_open", "serves"}, changes, "a line for each change")
			})
		}
	}
	t.Run("ERR-28 one request at a time tries it", func(t *testing.T) {
		t.Parallel()
		sh, at := shapeOf("chat"), newClock(1)
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: at})
		c, probe := g.rich(t), g.rich(t)
		c.Answers(failing)
		for range 3 {
			c.Ask(sh)
		}
		at.Turn(openFor)
		probe.Blocked(hello)
		done := probe.Start(t, sh, light(sh))
		requireDown(t, sh, c.Ask(sh, light(sh)))
		require.Len(t, c.Seen(), 3)
		g.Upstream.Open(probe.Mark)
		outcomeOf(t, sh, <-done)
		c.Answers(hello)
		outcomeOf(t, sh, c.Ask(sh))
	})
	t.Run("GAP-39 another route is called instead", func(t *testing.T) {
		t.Parallel()
		sh := shapeOf("messages")
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Routes: twoRoutes, Clock: newClock(1)})
		c := g.rich(t)
		c.AnswersBy(byRoute(failing, hello))
		for range 3 {
			outcomeOf(t, sh, c.Ask(sh))
		}
		require.Len(t, c.Seen(), 6)
		outcomeOf(t, sh, c.Ask(sh))
		require.Len(t, c.Seen(), 7)
		require.Equal(t, []string{"first open", "second serves"}, g.ones(t, "fareway_route_state"))
	})
	t.Run("GAP-57 streams that end without usage trip it, where another route serves", func(t *testing.T) {
		t.Parallel()
		unmetered := upstream.Say("Hello")
		unmetered.Usage = upstream.UsageNever
		sh := shapeOf("messages")
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Routes: twoRoutes, Clock: newClock(1)})
		c := g.rich(t)
		c.AnswersBy(byRoute(unmetered, hello))
		for range 3 {
			require.Equal(t, "stream_error", c.Stream(t, sh).Error.Code, "whole, and nobody can be charged for it")
		}
		require.Equal(t, []string{"first open", "second serves"}, g.ones(t, "fareway_route_state"))
		outcomeOf(t, sh, c.Ask(sh, streamField))
		require.Equal(t, "second", c.Route(t))
	})
	t.Run("GAP-57 nor does a client trip it that leaves such a stream", func(t *testing.T) {
		t.Parallel()
		sh := shapeOf("chat")
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: newClock(1)})
		for range 3 {
			c := g.rich(t)
			c.Answers(upstream.Reply{Usage: upstream.UsageNever, Steps: []upstream.Step{upstream.Text("Hel"),
				upstream.Wait(c.Mark), upstream.Text("lo"), upstream.Finish("stop"), upstream.Done()}})
			left := c.Departure()
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			leave()
			requireClosed(t, left)
			c.Upstream.Open(c.Mark)
			require.Equal(t, "client_left", c.Access(l.Header.Get("X-Request-Id"))["reason"])
		}
		require.Equal(t, []string{"standard serves"}, g.ones(t, "fareway_route_state"))
	})
	t.Run("what a request does wrong trips nothing", func(t *testing.T) {
		t.Parallel()
		sh := shapeOf("responses")
		g := startScripted(t, setup{Breaker: breaker(""), Routes: twoRoutes, Clock: newClock(1)})
		c := g.rich(t)
		for _, wrong := range []upstream.Error{upstream.BadRequest("no", "messages"), upstream.ContentFilter(),
			upstream.ContextLength(), upstream.Forbidden()} {
			c.Answers(upstream.Refuse(wrong))
			for range 10 {
				require.NotEqual(t, 200, c.Ask(sh).StatusCode)
			}
		}
		c.Answers(script(used(10, 5), "stop")) // no answer to show (GAP-40)
		for range 10 {
			requireError(t, sh, c.Ask(sh), 502, "no_visible_answer")
		}
		require.Equal(t, []string{"first serves", "second serves"}, g.ones(t, "fareway_route_state"))
		c.Answers(hello)
		outcomeOf(t, sh, c.Ask(sh))
		require.Equal(t, "first", c.Route(t))
	})
	t.Run("what is said of routes outlives a reload, where it is the same upstream", func(t *testing.T) {
		t.Parallel()
		sh := shapeOf("chat")
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: newClock(1)})
		c := g.rich(t)
		c.Answers(failing)
		for range 3 {
			c.Ask(sh)
		}
		g.Reload(func(hcl string) string { return hcl + "\nprofile \"max\" {\n  cost = 1\n  quality = 9\n}\n" })
		requireDown(t, sh, c.Ask(sh))
		g.Reload(func(hcl string) string { return strings.Replace(hcl, `open_for = "2h"`, `open_for = "3h"`, 1) })
		requireDown(t, sh, c.Ask(sh))
		require.Len(t, c.Seen(), 3)
		c.Answers(hello)
		g.Reload(func(hcl string) string {
			return strings.Replace(hcl, "model          = \"standard\"", "model          = \"other\"", 1)
		})
		outcomeOf(t, sh, c.Ask(sh))
	})
}

// TestRateLimitsOfUpstreams proves that Retry-After of an upstream is honoured, by routes whose provider has one key.
func TestRateLimitsOfUpstreams(t *testing.T) {
	t.Parallel()
	sh := shapeOf("messages")
	t.Run("LIM-12 GAP-39 the only route is passed over until then, up to a bound", func(t *testing.T) {
		t.Parallel()
		at := newClock(1)
		g := startScripted(t, setup{Breaker: breaker(""), Clock: at})
		c := g.rich(t)
		c.Answers(upstream.Refuse(upstream.RateLimited("86400")))
		for range 3 {
			requireFull(t, sh, c.Ask(sh))
		}
		require.Len(t, c.Seen(), 1)
		require.Equal(t, []string{"standard rate_limited"}, g.ones(t, "fareway_route_state"))
		at.Turn(15 * time.Minute)
		c.Answers(hello)
		outcomeOf(t, sh, c.Ask(sh))
		require.Equal(t, []string{"standard serves"}, g.ones(t, "fareway_route_state"))
	})
	t.Run("another route is called instead, and no breaker opens", func(t *testing.T) {
		t.Parallel()
		at := newClock(1)
		g := startScripted(t, setup{Breaker: breaker(""), Routes: twoRoutes, Clock: at})
		c := g.rich(t)
		c.AnswersBy(byRoute(upstream.Refuse(upstream.RateLimited("600")), hello))
		for range 10 {
			outcomeOf(t, sh, c.Ask(sh))
		}
		require.Len(t, c.Seen(), 11, "the first route once")
		at.Turn(10 * time.Minute)
		c.Answers(hello)
		outcomeOf(t, sh, c.Ask(sh))
		require.Equal(t, "first", c.Route(t))
	})
	t.Run("one that does not say for how long is called where nothing else is left", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Breaker: breaker(""), Clock: newClock(1)})
		c := g.rich(t)
		c.Answers(upstream.Refuse(upstream.RateLimited("")))
		requireFull(t, sh, c.Ask(sh))
		c.Answers(hello)
		outcomeOf(t, sh, c.Ask(sh))
	})
	t.Run("retry_after = false", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Breaker: breaker("retry_after = false"), Clock: newClock(1)})
		c := g.rich(t)
		c.Answers(upstream.Refuse(upstream.RateLimited("600")))
		for range 3 {
			requireFull(t, sh, c.Ask(sh))
		}
		require.Len(t, c.Seen(), 3)
	})
	for name, refusal := range map[string]upstream.Error{
		"out_of_quota": upstream.QuotaExceeded(), "refused": upstream.InvalidKey(),
	} {
		t.Run("a credential that is "+name+" is no route that is down", func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Breaker: breaker(""), Clock: newClock(1), Providers: []string{"other"},
				Routes: []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1, Provider: "other"}}})
			c := g.rich(t)
			c.AnswersBy(byRoute(upstream.Refuse(refusal), hello))
			for range 5 {
				outcomeOf(t, sh, c.Ask(sh))
			}
			require.Len(t, c.Seen(), 6, "the other route is called at once")
			require.Equal(t, []string{"first " + name, "second serves"}, g.ones(t, "fareway_route_state"))
			c.AnswersBy(byRoute(hello, failing))
			outcomeOf(t, sh, c.Ask(sh)) // where nothing else is left it is called, and so it comes back
			require.Equal(t, []string{"first serves", "second serves"}, g.ones(t, "fareway_route_state"))
		})
	}
}

// TestRetryBudget: an outage is not doubled by those who try again.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	g := startScripted(t, setup{Routes: twoRoutes, Breaker: `
breaker {
  failures = 0
  outliers = false
}
retry_budget {
  ratio          = 0
  min_per_second = 0
}`})
	c := g.rich(t)
	c.AnswersBy(byRoute(failing, hello))
	for range 3 {
		requireError(t, sh, c.Ask(sh), 502, "upstream_error")
	}
	require.Len(t, c.Seen(), 3, "the first failure is the answer")
	// What is too long for one route has failed on none.
	g = startScripted(t, setup{Routes: []route{{Name: "first", Window: 50_000, Quality: 0.9},
		{Name: "second", Window: 100_000, Quality: 0.1}}, Breaker: "retry_budget {\n  ratio = 0\n  min_per_second = 0\n}\n"})
	c = g.rich(t)
	c.AnswersBy(byRoute(upstream.Refuse(upstream.ContextLength()), hello))
	outcomeOf(t, sh, c.Ask(sh))
}

// TestEjection: a route that fails more than the others is called last, and still is where they fail.
func TestEjection(t *testing.T) {
	t.Parallel()
	sh := shapeOf("responses")
	g := startScripted(t, setup{Routes: twoRoutes, Breaker: "breaker {\n  failures = 0\n}\n", Clock: newClock(1)})
	c := g.rich(t)
	c.AnswersBy(byRoute(failing, hello))
	for range 5 {
		outcomeOf(t, sh, c.Ask(sh))
	}
	require.Len(t, c.Seen(), 10)
	require.Equal(t, []string{"first ejected", "second serves"}, g.ones(t, "fareway_route_state"))
	outcomeOf(t, sh, c.Ask(sh))
	require.Len(t, c.Seen(), 11)
	c.AnswersBy(byRoute(hello, failing))
	outcomeOf(t, sh, c.Ask(sh))
	require.Len(t, c.Seen(), 13)
}

// TestAdaptiveConcurrency: with max_concurrent = "auto" there is a limit, which is shown.
func TestAdaptiveConcurrency(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	g := startScripted(t, setup{Routes: []route{{Name: "first", More: `max_concurrent = "auto"`}},
		Breaker: "breaker {\n  retry_after = false\n}\n", Clock: newClock(1)})
	require.EqualValues(t, 20, g.Engine.Current().RouteHealth()[0].Limit)
	c := g.rich(t)
	c.Answers(upstream.Refuse(upstream.RateLimited("1")))
	requireFull(t, sh, c.Ask(sh))
	limit := g.Engine.Current().RouteHealth()[0].Limit
	require.EqualValues(t, 1, limit, "one ran, and was too many")
	busy := g.rich(t)
	busy.Blocked(hello)
	done := busy.Start(t, sh)
	c.Answers(hello)
	requireFull(t, sh, c.Ask(sh))
	g.Upstream.Open(busy.Mark)
	outcomeOf(t, sh, <-done)
	outcomeOf(t, sh, c.Ask(sh))
}

// TestNoBreaker: without a breaker block, no request is turned down that its upstream might answer, and each tries its
// routes anew.
func TestNoBreaker(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	g := startScripted(t, setup{Routes: twoRoutes})
	c := g.rich(t)
	limited := upstream.Overloaded()
	limited.RetryAfter = "600"
	for _, failure := range []upstream.Reply{failing, upstream.Refuse(limited)} {
		c.AnswersBy(byRoute(failure, hello))
		for range 30 {
			before := len(c.Seen())
			require.Equal(t, 200, c.Ask(sh).StatusCode)
			require.Len(t, c.Seen()[before:], 2, "ERR-25")
		}
	}
	require.Equal(t, []string{"first serves", "second serves"}, g.ones(t, "fareway_route_state"))
}
