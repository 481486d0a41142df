package routing_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestLeaveOut: what is kept fits, the first that is left out does not, and it and all behind it are left out.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 6).Draw(t, "costs")
		room := rapid.Int64Range(0, 9).Draw(t, "room")
		var all []*routing.Candidate
		steps := make([]routing.Step, len(costs))
		for i, cost := range costs {
			c := &routing.Candidate{Route: &config.Route{Name: strconv.Itoa(i)}, Allowance: cost}
			all = append(all, c)
			steps[i] = c
		}
		f := &routing.First{Steps: steps}
		if rapid.Bool().Draw(t, "within a list") { // as a strategy of one route after the other is
			f = &routing.First{Steps: []routing.Step{f}}
		}
		require.Same(t, all[0], f.Start())
		kept := slices.IndexFunc(costs, func(cost int64) bool { return cost > room })
		if kept < 0 {
			kept = len(costs)
		}
		left, ok := f.LeaveOut(func(c *routing.Candidate) routing.Worst { return routing.Worst{Microcents: c.Allowance} },
			func(w routing.Worst) bool { return w.Microcents <= room })
		require.Equal(t, kept > 0, ok, "GAP-137 only a first choice that does not fit is refused")
		if !ok {
			require.Empty(t, left)
			require.Equal(t, all, slices.Collect(f.Calls()), "nothing is left out then")
			return
		}
		require.Equal(t, all[kept:], append([]*routing.Candidate{}, left...))
		require.Equal(t, all[:kept], slices.Collect(f.Calls()))
	})
}

// several is a step of two calls, which are both made.
type several struct{ routing.Step }

func (s several) Worst(func(*routing.Candidate) routing.Worst) routing.Worst {
	return routing.Worst{Microcents: 7, Tokens: 3}
}

func TestLeaveOutOfAStrategy(t *testing.T) {
	t.Parallel()
	c := &routing.Candidate{Route: &config.Route{Name: "a"}}
	cost := func(*routing.Candidate) routing.Worst { return routing.Worst{Microcents: 1, Tokens: 4} }
	within := func(microcents, tokens int64) func(routing.Worst) bool {
		return func(w routing.Worst) bool { return w.Microcents <= microcents && w.Tokens <= tokens }
	}
	of := func() *routing.First { return &routing.First{Steps: []routing.Step{several{c}, c}} }
	_, ok := of().LeaveOut(cost, within(6, 9))
	require.False(t, ok, "GAP-137 a strategy is one: the sum of its calls")
	f := of()
	left, ok := f.LeaveOut(cost, within(7, 3))
	require.True(t, ok)
	require.Equal(t, []*routing.Candidate{c}, left, "GAP-137 tokens alike")
	require.Len(t, f.Steps, 1)
	f = of()
	left, ok = f.LeaveOut(cost, within(7, 4))
	require.True(t, ok)
	require.Empty(t, left)
	require.Len(t, f.Steps, 2)
}

func TestGiven(t *testing.T) {
	t.Parallel()
	plain := config.Route{Name: "plain"}
	special := config.Route{Name: "special", Specialty: []config.Specialty{config.LongContext}}
	for _, c := range []struct {
		route              *config.Route
		sent, given, wants int64
	}{
		{&plain, 32_768, 100, 100},
		{&plain, 100, 32_768, 100},
		{&special, 32_768, 100, routing.RaisedAllowance},
		{&special, 32_768, 5_000, 5_000},
		{&special, 300, 100, 300}, // its window has no more
	} {
		first := &routing.Candidate{Route: c.route, Allowance: c.sent}
		require.Equal(t, c.wants, first.Given(c.given).Allowance)
		require.Equal(t, c.sent, first.Allowance)
	}
}
