package verify

import (
	"fmt"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// Plans of capsGate.
const (
	cappedPlan, raisedPlan, loweredPlan, budgetPlan, fairPlan, monthlyPlan = "capped", "raised", "lowered", "budget",
		"fair", "monthly"

	monthlyCredits = 500
)

var capsHCL = moneyPlan(cappedPlan, "spend_cap_credits = 100") + moneyPlan(raisedPlan, "spend_cap_credits = 101") +
	moneyPlan(loweredPlan, "spend_cap_credits = 1") +
	moneyPlan(budgetPlan, "token_budget = 10000") + moneyPlan(fairPlan, "fair_use_microcents = 30000") +
	moneyPlan(monthlyPlan, fmt.Sprint("monthly_credits = ", monthlyCredits))

// moneyPlan is a plan with one limit of money and none of requests.
func moneyPlan(name, limit string) string {
	return strings.Replace(unlimited, "plan \"trial\" {", fmt.Sprintf("plan %q {\n  %s", name, limit), 1)
}

// charges is a reply that costs so many microcents on capsGate.
func charges(microcents int64) upstream.Reply {
	return script(upstream.Usage{Prompt: 1, Completion: microcents}, "stop", upstream.Text("x"))
}

// opsCapsChecks are about what an account may spend, and what it gets.
func opsCapsChecks() []opsCheck {
	const credit = microcentsPerCredit
	allowance := func(s shape, n int64) string { return fmt.Sprintf("%q:%d", s.Allowance, n) }
	spend := func(o *ops, s shape, microcents int64) {
		o.answers(charges(microcents))
		o.Equal(microcents, o.billed(o.ok(s, o.ask(s, allowance(s, max(microcents, 1))))["usage"]), "billed_microcents")
	}
	// over checks that a request is refused before it reaches a route.
	over := func(o *ops, s shape, members ...string) {
		calls, before := len(o.calls()), o.balance()
		for _, mode := range modes {
			a := o.ask(s, append(members, mode)...)
			o.Equal(402, a.Status, "the status over the limit")
			o.errorForm(s, a, "budget_exceeded")
		}
		o.Equal(calls, len(o.calls()), "the number of calls to the route")
		o.Equal(before, o.balance(), "the account")
	}
	return []opsCheck{
		onEach("BILL-17 ERR-17", "9,500 of 10,000 tokens are used", capsGate, func(o *ops, s shape) {
			o.plan(budgetPlan)
			// By output: a prompt that is too long for its text would be learned to be the route's template (GAP-49).
			o.answers(script(upstream.Usage{Completion: 9500}, "stop", upstream.Text("x")))
			o.ok(s, o.ask(s, allowance(s, 9500)))
			over(o, s, allowance(s, 600))
			o.answers(charges(0))
			o.ok(s, o.ask(s, allowance(s, 100)))
			o.plan("trial")
			o.ok(s, o.ask(s, allowance(s, 600)))
		}),
		onEach("BILL-19 SSE-35", "the cap is lowered while the first route works", capsGate, func(o *ops, s shape) {
			for _, mode := range modes {
				o := o.customer(1_000_000)
				o.forget()
				o.plan(cappedPlan)
				spend(o, s, 2*credit)
				gone := o.newWait()
				o.answersBy(func(r *upstream.Request) upstream.Reply {
					if r.Model == "first" {
						return upstream.Reply{Steps: []upstream.Step{upstream.Wait(gone), upstream.Fail(upstream.ServerError())}}
					}
					return charges(0)
				})
				calls, before := len(o.calls()), o.balance()
				done := make(chan *answer, 1)
				go func() {
					defer close(done)
					defer func() { _ = recover() }() // it could not be sent; awaitRoute tells
					done <- o.ask(s, allowance(s, 1000), mode)
				}()
				o.awaitRoute(gone)
				o.plan(loweredPlan)
				o.gate.up.Open(gone)
				a := <-done
				o.True(a != nil, "the request got no reply")
				o.Equal(402, a.Status, "the status of the request")
				o.errorForm(s, a, "budget_exceeded")
				o.Equal(calls+1, len(o.calls()), "the number of calls to routes")
				o.Equal(before, o.balance(), "the account")
			}
		}),
		onEach("BILL-26 BILL-27", "replies that the default allowance cuts off before they begin", capsGate,
			func(o *ops, s shape) {
				o.plan(fairPlan)
				worth := o.balance().net()
				for _, step := range []struct{ used, charged int64 }{{20_000, 0}, {10_001, 1}, {1, 1}, {10_000, 10_000}} {
					o.answers(script(upstream.Usage{Completion: step.used}, "length", upstream.Reasoning("Hm.")))
					a := o.do(call{Path: s.Path, Body: o.without(s, s.Allowance)})
					o.Equal(422, a.Status, "the status")
					o.Equal(any(float64(step.charged)), o.record(a)["microcents"], "the charge of the record")
					worth -= step.charged
					o.Equal(worth, o.balance().net(), "NET")
				}
			}),
		onEach("BILL-11", "the hold on a route that can bill past the allowance", pastGate, func(o *ops, s shape) {
			const longest = standardLimit * outputPrice
			few := o.customer(longest / microcentsPerCredit)
			over(few, s, allowance(s, 100))
			c, b := o.liveBlocked(s, o.body(s, allowance(s, 100)))
			hold := o.balance().Reserved * microcentsPerCredit
			o.release(c, b)
			o.True(hold >= longest && hold <= longest+2*microcentsPerCredit, "the hold is %d microcents", hold)
			o.Equal(int64(100), o.sent().MaxTokens, "the allowance that was sent")
		}),
		{"ACCT-08", "the end of a period", capsGate, func(o *ops) {
			o.plan(monthlyPlan)
			before, end := o.balance(), o.periodEnd()
			o.True(end.After(time.Now()), "the period is over: %s", end)
			o.endPeriod()
			for range 3 {
				o.Equal(before.Balance+monthlyCredits, o.balance().Balance, "balance_credits")
			}
			o.ok(chat, o.ask(chat))
			o.Equal(before.Balance+monthlyCredits, o.balance().Balance, "balance_credits after a request that cost nothing")
			o.True(o.periodEnd().After(end), "the end of the period has not moved on from %s", end)
		}},
	}
}

// endPeriod ends the account's period. No clock can be turned here, so its end is moved to this moment.
func (o *ops) endPeriod() {
	o.withLedger(func(run func(sql string, args ...any)) {
		run(`UPDATE accounts SET period_end = ? WHERE id = ?`, time.Now().UnixNano(), o.account.ID)
	})
}

// periodEnd is the account's current_period_end.
func (o *ops) periodEnd() time.Time {
	v := o.ok(lookups, o.do(call{Path: "/v1/account"}))
	end, err := time.Parse(time.RFC3339, str(at(v, "credits", "current_period_end")))
	o.True(err == nil, "current_period_end is %s", brief(at(v, "credits", "current_period_end")))
	return end
}
