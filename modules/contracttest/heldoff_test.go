package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccountsThatAreHeldOff proves GAP-126 for breakers: what only one account meets is no other's affair.
func TestAccountsThatAreHeldOff(t *testing.T) {
	t.Parallel()
	states := func(t *testing.T, g *scripted) []string { return g.ones(t, "fareway_route_state") }
	t.Run("GAP-126 its failures keep only that account off", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run(sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					at := newClock(1)
					g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: at})
					hostile, other := g.rich(t), g.rich(t)
					hostile.Answers(failing)
					other.Answers(hello)
					outcomeOf(t, sh, other.Ask(sh, mode.Field))
					for range 3 {
						requireError(t, sh, hostile.Ask(sh, mode.Field), 502, "upstream_error")
					}
					before := hostile.Net()
					requireDown(t, sh, hostile.Ask(sh, mode.Field))
					require.Len(t, hostile.Seen(), 3, "it is not called")
					require.Equal(t, before, hostile.Net())
					outcomeOf(t, sh, other.Ask(sh, mode.Field))
					require.Equal(t, []string{"standard serves"}, states(t, g))

					at.Turn(openFor)
					hostile.Answers(hello)
					outcomeOf(t, sh, hostile.Ask(sh, mode.Field))
				})
			}
		}
	})
	sh := shapeOf("chat")
	t.Run("GAP-126 another route serves it meanwhile", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Routes: twoRoutes, Clock: newClock(1)})
		hostile, other := g.rich(t), g.rich(t)
		hostile.AnswersBy(byRoute(failing, hello))
		other.Answers(hello)
		outcomeOf(t, sh, other.Ask(sh))
		for range 5 {
			outcomeOf(t, sh, hostile.Ask(sh))
			require.Equal(t, "second", hostile.Route(t))
		}
		require.Len(t, hostile.Seen(), 3+5)
		outcomeOf(t, sh, other.Ask(sh))
		require.Equal(t, "first", other.Route(t))
	})
	t.Run("GAP-126 a second account that meets them closes it to all", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: newClock(1)})
		a, b := g.rich(t), g.rich(t)
		b.Answers(hello)
		outcomeOf(t, sh, b.Ask(sh))
		a.Answers(failing)
		b.Answers(failing)
		a.Ask(sh)
		a.Ask(sh)
		b.Ask(sh)
		require.Equal(t, []string{"standard open"}, states(t, g))
		requireDown(t, sh, g.rich(t).Ask(sh))
	})
	t.Run("GAP-126 a probe that fails for one account is followed by another's", func(t *testing.T) {
		t.Parallel()
		at := newClock(1)
		g := startScripted(t, setup{Breaker: breaker(noOutlier), Clock: at})
		hostile, other := g.rich(t), g.rich(t)
		hostile.Answers(failing)
		other.Answers(failing)
		hostile.Ask(sh)
		other.Ask(sh)
		hostile.Ask(sh)
		require.Equal(t, []string{"standard open"}, states(t, g))
		other.Answers(hello)
		for range 3 {
			at.Turn(openFor)
			requireError(t, sh, hostile.Ask(sh, light(sh)), 502, "upstream_error")
			requireDown(t, sh, hostile.Ask(sh, light(sh)))
			require.Equal(t, []string{"standard half_open"}, states(t, g))
		}
		outcomeOf(t, sh, other.Ask(sh, light(sh)))
		require.Equal(t, []string{"standard serves"}, states(t, g))
		outcomeOf(t, sh, other.Ask(sh))
	})
}
