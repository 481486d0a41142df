package contracttest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// shadowed sends every request of the profile "max", which "first" answers, to "second" as well.
const shadowed = `
profile "max" {
  cost    = 0
  quality = 1
  shadow {
    route = "second"
    share = 1
  }
}
`

var shadowRoutes = []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1}}

// compared is what the ledger has of the call that was compared with a reply, when nothing runs any more; false for
// none.
func (s *service) compared(t testing.TB, a answer) (ledger.RequestRecord, bool) {
	t.Helper()
	s.Engine.Wait()
	r, err := s.Engine.Store().Request(t.Context(), ledger.ShadowID(a.Header.Get("X-Request-Id")))
	if errors.Is(err, ledger.ErrNotFound) {
		return r, false
	}
	require.NoError(t, err)
	return r, true
}

// TestShadowIsNobodysCharge, a property over money: however the route that is compared behaves, the client has the
// reply of its own and pays for nothing else, and what the other one used is on record as the operator's.
func TestShadowIsNobodysCharge(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: shadowRoutes, Extra: shadowed})
	for _, sh := range shapes { // one after the other: each waits until nothing runs
		for _, mode := range modes {
			c := g.rich(t)
			rapid.Check(t, func(rt *rapid.T) {
				own := conducts[rapid.IntRange(0, len(conducts)-1).Draw(rt, "own")]
				other := conducts[rapid.IntRange(0, len(conducts)-1).Draw(rt, "other")]
				profile := rapid.SampledFrom([]string{"max", "balanced"}).Draw(rt, "profile")
				c.AnswersBy(func(req *upstream.Request) upstream.Reply {
					if req.Model == "first" {
						return own.reply
					}
					return other.reply
				})
				seen, before := len(c.Seen()), c.Net()
				a := c.Post(sh.Path, sh.Body("PROMPT", mode.Field, askForCalls(sh)), profileHeader(profile)...)
				shadow, made := c.compared(t, a)
				r := c.Record(t, a)
				calls := c.Seen()[seen:]
				answered := r.Status == 200 && calls[0].Model == "first"
				require.Equal(rt, answered && profile == "max" && len(r.Attempts) == 1, made, "%s and %s", own.name, other.name)
				require.Equal(rt, r.Microcents, before-c.Net(), "%s and %s: nothing else is charged", own.name, other.name)
				require.Equal(rt, ledger.Balance{Credits: c.Balance().Credits, Accrued: c.Balance().Accrued}, c.Balance())
				require.Equal(rt, r.Microcents, c.worth(rt, r))
				if !made {
					return
				}
				require.Equal(rt, own.cost, r.Microcents)
				require.Len(rt, calls, 2)
				require.Equal(rt, string(calls[0].Body), reModel(string(calls[1].Body)), "it is asked the same")
				require.Zero(rt, shadow.Microcents+shadow.Held+shadow.Over+shadow.Waived)
				require.Equal(rt, []any{ledger.Shadow, "max", "shadow", true, false, c.Account.ID}, []any{shadow.Endpoint,
					shadow.Profile, shadow.Reason, shadow.Free, shadow.Pending, shadow.Account})
				require.Len(rt, shadow.Attempts, 1)
				tried := shadow.Attempts[0]
				require.True(rt, tried.Operator)
				require.Equal(rt, "second", tried.Route)
				cost, err := ledger.Cost(tried.Usage, tried.Cost)
				require.NoError(rt, err)
				require.Equal(rt, other.cost, cost, other.name)
				d := decided(t, g, a)
				require.Equal(rt, []any{"second", other.cost, string(r.Attempts[0].Outcome)},
					[]any{d.Shadow.Route, d.Shadow.Cost, "finished"})
				require.Equal(rt, d.Shadow.Result == "answered", d.Shadow.Finish != "", other.name)
				require.NotEmpty(rt, d.Shadow.ReplyFinish)
				require.Positive(rt, d.Shadow.ReplyTook+d.Shadow.ReplyFirst+1)
			})
			require.Zero(t, c.Period().Waived)
		}
	}
}

// worth is what the attempts of a record that are the account's come to.
func (c *caller) worth(t require.TestingT, r ledger.RequestRecord) (sum int64) {
	for _, a := range r.Attempts {
		cost, err := ledger.Cost(a.Usage, a.Price)
		require.NoError(t, err)
		sum += cost
	}
	if r.Free {
		return 0
	}
	return sum
}

// reModel is a body for "second" as "first" would get it.
func reModel(body string) string {
	const other, own = `"model":"second"`, `"model":"first"`
	for i := range len(body) - len(other) + 1 {
		if body[i:i+len(other)] == other {
			return body[:i] + own + body[i+len(other):]
		}
	}
	return body
}

// TestShadowKeepsFloors: what an account requires and what a request needs hold for it, too, and it is not made where
// its route answered itself.
func TestShadowKeepsFloors(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "first", Quality: 0.9, More: `region = "eu"`},
		{Name: "second", Quality: 0.1, Offers: " ", More: `region = "us"`},
	}, Extra: shadowed + `
profile "budget" {
  cost    = 0
  quality = 1
  shadow {
    route = "first"
    share = 1
  }
}
`})
	for _, sh := range shapes {
		for _, mode := range modes {
			free, floor := g.rich(t), g.rich(t)
			floor.SetRequires(ledger.RequiresChange{Regions: &[]string{"eu"}})
			ask := func(c *caller, profile string, fields ...string) (decisions.Record, bool) {
				t.Helper()
				a := c.Post(sh.Path, sh.Body("PROMPT", append(fields, mode.Field)...), profileHeader(profile)...)
				outcomeOf(t, sh, a)
				_, made := c.compared(t, a)
				return decided(t, g, a), made
			}
			d, made := ask(free, "max")
			require.True(t, made)
			require.Equal(t, "answered", d.Shadow.Result)
			require.Equal(t, []string{"first", "second"}, free.called())
			d, made = ask(floor, "max")
			require.False(t, made)
			require.Nil(t, d.Shadow)
			d, made = ask(free, "max", askForCalls(sh))
			require.False(t, made, "it offers no tools")
			require.Nil(t, d.Shadow)
			d, made = ask(free, "budget")
			require.False(t, made)
			require.Equal(t, "same_route", d.Shadow.Result)
			require.Equal(t, []string{"first"}, floor.called())
			require.Equal(t, []string{"first", "first", "first", "second"}, free.called())
		}
	}
	require.EqualValues(t, len(shapes)*len(modes)*2, g.outcome(t, "second", "not_a_candidate"))
	require.EqualValues(t, len(shapes)*len(modes), g.outcome(t, "first", "same_route"))
	require.EqualValues(t, len(shapes)*len(modes), g.outcome(t, "second", "answered"))
}

// outcome is how many calls for comparison came to that.
func (s *service) outcome(t testing.TB, route, outcome string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "fareway_shadow_calls_total" && labels["route"] == route && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestShadowDelaysNothing: a reply ends though the call beside it hangs, there are at most 32
// such calls, and none outlives the begin of a shutdown (the harness looks for goroutines, permits and upstream
// calls).
func TestShadowDelaysNothing(t *testing.T) {
	t.Parallel()
	const most = 32
	g := startScripted(t, setup{Routes: shadowRoutes, Extra: shadowed})
	c := g.rich(t)
	hang := upstream.Reply{Steps: append([]upstream.Step{upstream.Headers(), upstream.Wait("nobody opens it")},
		hello.Steps...)}
	c.AnswersBy(func(req *upstream.Request) upstream.Reply {
		if req.Model == "first" {
			return hello
		}
		return hang
	})
	var answers []answer
	for i := range most + 3 {
		sh, mode := shapes[i%len(shapes)], modes[i%len(modes)]
		a := c.Post(sh.Path, sh.Body("PROMPT", mode.Field), profileHeader("max")...)
		outcomeOf(t, sh, a)
		answers = append(answers, a)
		if i < most { // it is under way before the next one
			require.NoError(t, g.Upstream.AtGate(within(t), "nobody opens it", i+1))
		}
	}
	require.EqualValues(t, (most+3)*helloCost, 1_000_000*1_000_000-c.Net())
	require.EqualValues(t, 3, g.outcome(t, "second", "too_many"))
	g.Engine.Drain()
	require.EqualValues(t, most, g.outcome(t, "second", "shutdown"))
	require.EqualValues(t, (most+3)*helloCost, 1_000_000*1_000_000-c.Net())
	for i, a := range answers {
		shadow, made := c.compared(t, a)
		require.Equal(t, i < most, made)
		if made {
			require.Equal(t, "failed", string(shadow.Attempts[0].Outcome))
			require.True(t, shadow.Attempts[0].Operator)
		}
	}
}

// TestShadowTakesAShare: which requests are compared depends on their ids alone.
func TestShadowTakesAShare(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: shadowRoutes, Extra: `
profile "max" {
  cost    = 0
  quality = 1
  shadow {
    route = "second"
    share = 0.5
  }
}
`})
	c, sh := g.rich(t), shapes[0]
	of := g.Engine.Current().Config.Profiles
	share := of[slices.IndexFunc(of, func(p config.Profile) bool { return p.Name == "max" })].Shadow
	some := 0
	for range 40 {
		a := c.Post(sh.Path, sh.Body("PROMPT"), profileHeader("max")...)
		outcomeOf(t, sh, a)
		_, made := c.compared(t, a)
		require.Equal(t, share.Takes(a.Header.Get("X-Request-Id")), made)
		if made {
			some++
		}
	}
	require.Len(t, c.Seen(), 40+some, fmt.Sprint(some))
	require.EqualValues(t, some, g.outcome(t, "second", "answered"))
	var requests, attempts, cost int64
	require.NoError(t, g.Engine.Store().Usage(t.Context(), ledger.UsageQuery{Query: ledger.Query{Account: c.Account.ID}},
		func(u ledger.UsageRow) error {
			requests, attempts, cost = u.Requests, u.Attempts, u.Cost
			return nil
		}))
	require.Equal(t, []int64{40, int64(40 + some), int64(40+some) * helloCost}, []int64{requests, attempts, cost},
		"the operator sees what it cost, and the client's requests")
}
