package contracttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// one is a gateway whose routes take one attempt at a time.
func one(t testing.TB, names ...string) *scripted {
	var routes []route
	for i, name := range names {
		routes = append(routes, route{Name: name, Quality: 0.9 - 0.1*float64(i), More: "max_concurrent = 1"})
	}
	return startScripted(t, setup{Routes: routes})
}

// requireFull checks a reply of routes that are at capacity.
func requireFull(t testing.TB, sh shape, a answer) {
	t.Helper()
	requireError(t, sh, a, 429, "rate_limit_exceeded")
	require.NotContains(t, a.Header, "Retry-After")
	require.NotContains(t, a.Header, "X-Ratelimit-Reason")
}

// TestCapacity proves max_concurrent (GAP-39): what is full is not called, and takes requests again as soon as an
// attempt has ended, however it ended.
func TestCapacity(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("LIM-12 GAP-39 one route, full "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				g := one(t, "only")
				busy, c := g.rich(t), g.rich(t)
				busy.Blocked(hello)
				done := busy.Start(t, sh, mode.Field)
				requireFull(t, sh, c.Ask(sh, mode.Field))
				c.RequireUntouched(t)
				g.Upstream.Open(busy.Mark)
				outcomeOf(t, sh, <-done)
				outcomeOf(t, sh, c.Ask(sh, mode.Field))
			})
		}
		t.Run("GAP-39 a route that is full is passed over "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := one(t, "first", "second")
			a, b, c := g.rich(t), g.rich(t), g.rich(t)
			for i, busy := range []*caller{a, b} {
				busy.Blocked(hello)
				done := busy.Start(t, sh)
				require.Equal(t, []string{"first", "second"}[i], busy.Route(t))
				defer func() {
					g.Upstream.Open(busy.Mark)
					outcomeOf(t, sh, <-done)
				}()
			}
			requireFull(t, sh, c.Ask(sh))
			c.RequireUntouched(t)
		})
		t.Run("GAP-39 a route that is full does not hide the failure of another "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := one(t, "first", "second")
			busy, c := g.rich(t), g.rich(t)
			busy.Blocked(hello)
			done := busy.Start(t, sh)
			c.Answers(upstream.Refuse(upstream.ServerError()))
			requireError(t, sh, c.Ask(sh), 502, "upstream_error")
			require.Len(t, c.Seen(), 1)
			c.Answers(upstream.Refuse(upstream.RateLimited("6")))
			requireFull(t, sh, c.Ask(sh))
			require.Len(t, c.Seen(), 2)
			g.Upstream.Open(busy.Mark)
			outcomeOf(t, sh, <-done)
		})
	}
	t.Run("GAP-01 GAP-39 what the account cannot pay comes first", func(t *testing.T) {
		t.Parallel()
		sh := shapeOf("chat")
		g := one(t, "only")
		busy, broke, poor := g.rich(t), g.caller(t, 0), g.caller(t, 1)
		busy.Blocked(hello)
		done := busy.Start(t, sh)
		requireError(t, sh, broke.Ask(sh, allowance(sh, 1)), 402, "budget_exceeded")
		requireError(t, sh, poor.Ask(sh, allowance(sh, 10_000)), 402, "budget_exceeded")
		requireFull(t, sh, poor.Ask(sh, allowance(sh, 1)))
		g.Upstream.Open(busy.Mark)
		outcomeOf(t, sh, <-done)
	})
}

// TestCapacityIsGivenBack ends an attempt in every way, one after the other, on a route that takes one.
func TestCapacityIsGivenBack(t *testing.T) {
	t.Parallel()
	sh := shapeOf("messages")
	g := one(t, "only")
	for name, reply := range map[string]upstream.Reply{
		"refused":      upstream.Refuse(upstream.ServerError()),
		"full":         upstream.Refuse(upstream.RateLimited("1")),
		"policy":       upstream.Refuse(upstream.ContentFilter()),
		"cut":          {Steps: []upstream.Step{upstream.Text("Hel"), upstream.Cut()}},
		"reset":        {Steps: []upstream.Step{upstream.Headers(), upstream.Reset()}},
		"no answer":    script(used(10, 5), "stop"),
		"not the JSON": {Steps: []upstream.Step{upstream.Headers(), upstream.Raw("nonsense"), upstream.Done()}},
	} {
		for _, mode := range modes {
			c := g.rich(t)
			c.Answers(reply)
			c.Ask(sh, mode.Field)
			require.NotEmpty(t, c.Seen(), "%s %s: the slot before was not given back", name, mode.Name)
		}
	}
	poor := g.caller(t, 1)
	requireError(t, sh, poor.Ask(sh, allowance(sh, 10_000)), 402, "budget_exceeded")
	outcomeOf(t, sh, poor.Ask(sh, allowance(sh, 10)))

	// A client that left counts until its reply has been read to the end (GAP-47).
	left, c := g.rich(t), g.rich(t)
	left.Blocked(hello)
	gone := left.Departure()
	ctx, leave := context.WithCancel(within(t))
	l := left.Send(t, ctx, sh, streamField).Live()
	l.Start(sh)
	leave()
	requireClosed(t, gone)
	requireFull(t, sh, c.Ask(sh))
	g.Upstream.Open(left.Mark)
	left.Access(l.Header.Get("X-Request-Id"))
	outcomeOf(t, sh, c.Ask(sh))
}

// TestCapacityOfFallbacks: an attempt gives its place back when it ends, not when the request does.
func TestCapacityOfFallbacks(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("GAP-39 the first route is free again while the second works "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := one(t, "first", "second")
			moved, c := g.rich(t), g.rich(t)
			wait := hello
			wait.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait(moved.Mark)}, wait.Steps...)
			moved.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), wait))
			done := moved.Start(t, sh)
			outcomeOf(t, sh, c.Ask(sh))
			require.Equal(t, "first", c.Route(t))
			g.Upstream.Open(moved.Mark)
			outcomeOf(t, sh, <-done)
		})
		t.Run("GAP-39 GAP-49 a fallback that is not paid for takes no place "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := one(t, "first", "second")
			poor, busy, c := g.caller(t, 1), g.rich(t), g.rich(t)
			poor.AnswersBy(byRoute(worked(used(3000, 0)), hello))
			require.Equal(t, "budget_exceeded", poor.Stream(t, sh, allowance(sh, 300), askForCalls(sh)).Error.Code)
			busy.Blocked(hello)
			done := busy.Start(t, sh)
			outcomeOf(t, sh, c.Ask(sh))
			require.Equal(t, "second", c.Route(t))
			g.Upstream.Open(busy.Mark)
			outcomeOf(t, sh, <-done)
		})
	}
}

// TestCapacityAndHealth tells a route that is full from one that is away: it is the healthy ones that count.
func TestCapacityAndHealth(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	g := startScripted(t, setup{Carry: "process", Providers: []string{"other"}, Routes: []route{
		{Name: "first", More: "max_concurrent = 1"}, {Name: "second", Provider: "other"},
	}})
	busy, c := g.rich(t), g.rich(t)
	busy.Blocked(hello)
	done := busy.Start(t, sh)
	require.Equal(t, "first", busy.Route(t))
	for range 5 { // each restart waits twice as long as the one before, which leaves time to ask
		g.awaitProvider(t, "other")
		g.kill(t, "other")
	}
	full := c.Ask(sh)
	g.Upstream.Open(busy.Mark)
	outcomeOf(t, sh, <-done)
	t.Run("LIM-12 GAP-39 one is away and the other is full", func(t *testing.T) {
		t.Parallel()
		requireFull(t, sh, full)
	})
	g.awaitProvider(t, "other")
	outcomeOf(t, sh, c.Ask(sh))
}
