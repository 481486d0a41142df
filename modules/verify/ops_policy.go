package verify

import (
	"fmt"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// screeningCost is what a screened request costs in enforcing mode, in microcents.
const screeningCost = 1_350

// forbidden is what the rule of the gates that screen looks for.
const forbidden = "quixotic zeppelin"

// policyHCL is the screening of a gate, with a response cache and the suspension of accounts.
func policyHCL(mode string) string {
	return fmt.Sprintf(`
screening {
  mode = %q
  rule "forbidden" {
    terms = [%q]
  }
}
cache "memory" {
  ttl = "1h"
}
plan "strict" {
  suspend_after_declines {
    count  = 3
    window = "1h"
  }
}
`, mode, forbidden)
}

// opsPolicyChecks are the clauses about the content policy before routing, and about the response cache.
func opsPolicyChecks() []opsCheck {
	bad := func(s shape) string { return quote(s.Input) + ":" + s.Said("a "+forbidden) }
	return []opsCheck{
		onEach("POL-01 BILL-31 ERR-12", "blocked before routing", policyGate, func(o *ops, s shape) {
			for _, mode := range modes {
				before := o.balance().net()
				a := o.ask(s, bad(s), mode)
				o.refused(s, a, 400, invalid)
				o.True(strings.Contains(string(a.Raw), "blocked by a content filter"), "the reply is %s", brief(string(a.Raw)))
				o.Equal(int64(screeningCost), before-o.balance().net(), "the charge in microcents")
			}
			o.Equal(0, len(o.calls()), "the number of calls to the route")
		}),
		onEach("BILL-30", "what screening costs", policyGate, func(o *ops, s shape) {
			before := o.balance().net()
			o.ok(s, o.ask(s))
			o.Equal(int64(helloCost+screeningCost), before-o.balance().net(), "the charge in microcents")
		}),
		onEach("BILL-30", "what monitoring costs", monitorGate, func(o *ops, s shape) {
			before := o.balance().net()
			o.ok(s, o.ask(s, bad(s)))
			o.Equal(int64(helloCost), before-o.balance().net(), "the charge in microcents")
		}),
		onEach("PROF-21 PROF-22", "the response cache knows profiles", monitorGate, requireCachePerProfile),
		{"STATE-02", "an account that goes on with declined requests", policyGate, func(o *ops) {
			s := shapes[0]
			loose, strict := o.customer(1_000_000), o.customer(1_000_000)
			strict.as("POST", "/fareway/accounts/"+strict.account.Name+"/plan", map[string]any{"plan": "strict"})
			for range 4 {
				o.refused(s, loose.ask(s, bad(s)), 400, invalid)
			}
			o.refused(s, strict.ask(s, bad(s)), 400, invalid)
			strict.ok(s, strict.ask(s))
			strict.answers(upstream.Refuse(upstream.ContentFilter()))
			o.refused(s, strict.ask(s), 400, invalid)
			o.refused(s, strict.ask(s, bad(s)), 400, invalid)
			a := strict.ask(s)
			o.Equal(403, a.Status, "the status of the suspended account's request")
			o.errorForm(s, a, "permission_denied")
			o.refused(s, loose.ask(s, bad(s)), 400, invalid)
		}},
	}
}

// requireCachePerProfile asks the same under profiles, however they are chosen: each is called once.
func requireCachePerProfile(o *ops, s shape) {
	asks := []struct {
		fresh                  bool
		header, model, members string
	}{
		{true, "", "auto", ""}, // balanced, by default
		{false, "", "auto", ""},
		{true, "budget", "auto", ""},
		{true, "max", "auto", ""},
		{false, "BUDGET", "auto", ""},
		{false, "", "budget", ""},
		{false, "", "max", ""},
		{false, "", "balanced", ""},
		{false, "balanced", "max", ""},
		{false, "", "auto", `"reasoning_effort":"high"`},
		{false, "", "auto", `"reasoning_effort":"low"`},
		{false, "", "auto", `"reasoning_effort":"medium"`},
	}
	calls := 0
	for _, ask := range asks {
		if ask.members != "" && s.Name == "messages" {
			continue
		}
		if ask.fresh {
			calls++
		}
		a := o.do(call{Path: s.Path, Body: o.body(s, `"temperature":0`, `"model":"service/`+ask.model+`"`, ask.members),
			Header: asProfile(ask.header)})
		o.Equal(200, a.Status, "the status")
		o.Equal(calls, len(o.calls()), fmt.Sprintf("the number of calls to the route after %+v", ask))
	}
}
