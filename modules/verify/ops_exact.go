package verify

import (
	"fmt"
	"net/http"
	"strings"
)

// opsExactChecks are about money on exactGate, where an allowance is a hold of as many microcents, and what the route
// says it used a charge of as many.
func opsExactChecks() []opsCheck {
	checks := []opsCheck{
		{"BILL-02 BILL-04 BILL-05 BILL-06 ACCT-06 ACCT-10 ACCT-11", "what accrues becomes credits (E01)", exactGate,
			requireAccrual},
		{"BILL-04 BILL-06", "a charge on top of what accrued", exactGate, requireAccruedOnTop},
		{"BILL-05", "ten charges that come to more than a credit", exactGate, requireTenCharges},
		onEach("BILL-07 BILL-08 BILL-09 ACCT-05", "a hold beside what accrued (E02)", exactGate, requireHoldBesideAccrued),
		onEach("BILL-18 ERR-18", "98 of 100 credits are spent", exactGate, requireSpendCap),
		onEach("BILL-18", "a reached cap comes before what fits no route (GAP-01, GAP-38)", exactGate, requireCapFirst),
		onEach("BILL-20", "two requests at once that together cross the cap", exactGate, requireCapCrossed),
		onEach("ERR-16 BILL-12", "what a 402 says of credits", standardGate, requireCreditsSaid),
	}
	for _, c := range admissions {
		checks = append(checks, onEach("BILL-15 "+c.clauses, fmt.Sprintf("a hold of %d microcents with %+v", c.hold,
			c.before),
			exactGate, c.run))
	}
	for _, c := range roundedHolds {
		checks = append(checks, onEach("BILL-14 BILL-15 "+c.clause, fmt.Sprintf("credits for an allowance of %d (E05)",
			c.given),
			standardGate, c.run))
	}
	return checks
}

// spend makes a request that holds and costs these microcents.
func (o *ops) spend(s shape, hold, cost int64, members ...string) {
	o.answers(charges(cost))
	a := o.ask(s, append(members, allow(s, hold))...)
	v := s.OutcomeOf(o, a.Status, a.Header, a.Raw)
	if len(v.Usage) > 0 { // a stream on chat says so when it is asked
		o.Equal(cost, v.Billed(o), "billed_microcents")
		o.Equal(any(false), v.Usage["billing_pending"], "billing_pending")
	}
}

func requireAccrual(o *ops) {
	c := o.customer(10)
	c.spend(chat, 250_000, 250_000)
	c.Equal(balance{Balance: 10, Accrued: 250_000, Available: 9}, c.balance(), "the account")
	for i, step := range []struct{ charge, balance, accrued, available, net int64 }{
		{1_336_350, 9, 586_350, 8, 8_413_650},
		{1_234, 9, 587_584, 8, 8_412_416},
		{412_416, 8, 0, 8, 8_000_000},
		{2_999_999, 6, 999_999, 5, 5_000_001},
	} {
		c.spend(shapes[i%len(shapes)], 3_000_000, step.charge, modes[i%len(modes)])
		got := c.balance()
		c.Equal(balance{Balance: step.balance, Accrued: step.accrued, Available: step.available}, got, "the account")
		c.Equal(step.net, got.net(), "NET")
	}
}

func requireAccruedOnTop(o *ops) {
	c := o.customer(10)
	c.spend(responses, 250_000, 250_000, modes[1])
	c.spend(messages, 1_800_000, 1_800_000, modes[1])
	c.Equal(balance{Balance: 8, Accrued: 50_000, Available: 7}, c.balance(), "the account")
}

func requireTenCharges(o *ops) {
	c := o.customer(10)
	for i := range 10 {
		c.spend(shapes[i%len(shapes)], 150_000, 150_000, modes[i%len(modes)])
	}
	c.Equal(balance{Balance: 9, Accrued: 500_000, Available: 8}, c.balance(), "the account")
}

func requireHoldBesideAccrued(o *ops, s shape) {
	for _, mode := range modes {
		c := o.customer(10)
		c.spend(s, 250_000, 250_000)
		_, b := c.blockedWith(charges(1_336_350), s, c.body(s, allow(s, 3_301_350), mode))
		c.Equal(balance{Balance: 10, Reserved: 4, Accrued: 250_000, Available: 5}, c.balance(), "the account during it")
		c.letGo(b)
		c.Equal(balance{Balance: 9, Accrued: 586_350, Available: 8}, c.balance(), "the account after it")
	}
}

// admission is an account, and whether a request with a hold of so many microcents is admitted (E03).
type admission struct {
	clauses  string
	before   balance // whole credits, but for what accrued
	hold     int64
	admitted bool
}

var admissions = []admission{
	{"ERR-19 BILL-12", balance{Balance: 6, Accrued: 1, Available: 5}, 5_000_000, true},
	{"ERR-19 BILL-12", balance{Balance: 5, Available: 5}, 5_000_000, true},
	{"ERR-19 BILL-12 BILL-14", balance{Balance: 5, Accrued: 1, Available: 4}, 5_000_000, false},
	{"BILL-12", balance{Balance: 9, Reserved: 4, Available: 5}, 5_000_000, true},
	{"BILL-12 BILL-14", balance{Balance: 9, Reserved: 4, Accrued: 1, Available: 4}, 5_000_000, false},
	{"BILL-12 BILL-13 ERR-16", balance{Balance: 1, Accrued: 1}, 1, false},
	{"BILL-12", balance{Balance: 1, Available: 1}, 1_000_000, true},
	{"BILL-12 BILL-14 ERR-19", balance{Balance: 1, Available: 1}, 1_000_001, false},
	{"BILL-13 BILL-16 ERR-16", balance{}, 1, false},
	{"BILL-14 ERR-19", balance{Balance: 5, Available: 5}, 5_000_001, false},
	{"BILL-12 BILL-13", balance{Balance: 4, Reserved: 4}, 1, false},
}

func (c admission) run(o *ops, s shape) {
	for _, mode := range modes {
		account := o.customer(c.before.Balance)
		if c.before.Accrued > 0 {
			account.spend(chat, c.before.Accrued, c.before.Accrued)
		}
		var running *blocked
		if c.before.Reserved > 0 {
			_, running = account.blockedWith(charges(0), chat, account.body(chat,
				allow(chat, c.before.Reserved*microcentsPerCredit)))
		}
		o.Equal(c.before, account.balance(), "the account")
		calls := len(o.calls())
		account.answers(charges(0))
		a := account.ask(s, allow(s, c.hold), mode)
		if c.admitted {
			s.OutcomeOf(o, a.Status, a.Header, a.Raw)
			calls++
		} else {
			account.requireStatus(s, a, 402, "budget_exceeded")
		}
		o.Equal(calls, len(o.calls()), "the number of calls to the route")
		o.Equal(c.before, account.balance(), "the account after it")
		account.requireFreeCalls()
		if running != nil {
			account.letGo(running)
			o.Equal(200, account.ask(s, allow(s, 1), mode).Status, "the status when the hold is free again")
		}
	}
}

// requireFreeCalls checks that what is never charged goes on.
func (o *ops) requireFreeCalls() {
	for _, p := range places {
		if p.method == http.MethodGet || p.path == count.Path {
			o.Equal(200, o.do(p.call(o.T, nil)).Status, "the status of "+p.path)
		}
	}
}

// roundedHold is an allowance at the standard route's price, and the credits that are too few for it, and enough.
type roundedHold struct {
	clause           string
	given, low, high int64 // given 0: no allowance
}

var roundedHolds = []roundedHold{{"BILL-10", 0, 49, 50}, {"BILL-09", 100, 0, 1}, {"BILL-09", 2000, 3, 4}}

func (c roundedHold) run(o *ops, s shape) {
	for _, mode := range modes {
		body := s.Body("Hello.", mode)
		if c.given > 0 {
			body = s.Body("Hello.", mode, allow(s, c.given))
		}
		few := o.customer(c.low)
		before, calls := few.balance(), len(o.calls())
		few.requireStatus(s, few.do(call{Path: s.Path, Body: body}), 402, "budget_exceeded")
		o.Equal(calls, len(o.calls()), "the number of calls to the route")
		o.Equal(before, few.balance(), "the account with too few credits")
		enough := o.customer(c.high)
		_, b := enough.liveBlocked(s, body)
		o.Equal(balance{Balance: c.high, Reserved: c.high}, enough.balance(), "the account during the request")
		enough.letGo(b)
		o.Equal(balance{Balance: c.high, Accrued: helloCost, Available: c.high - 1}, enough.balance(),
			"the account after it")
	}
}

// requireSpendCap is BILL-18's example.
func requireSpendCap(o *ops, s shape) {
	const credit = microcentsPerCredit
	for _, mode := range modes {
		c := o.customer(1_000_000)
		c.plan(cappedPlan)
		c.spend(s, 49*credit, 49*credit)
		c.spend(s, 49*credit, 49*credit)
		c.answers(charges(0))
		calls, before := len(c.calls()), c.balance()
		for _, worst := range []int64{3 * credit, 2*credit + 1} {
			message := c.requireStatus(s, c.ask(s, allow(s, worst), mode), 402, "budget_exceeded")
			c.True(strings.Contains(message, "spend cap") && strings.Contains(message,
				"and 2.000000 are available: an output allowance of at most "), "the message is %q (GAP-137)", message)
			c.True(!strings.Contains(message, "100.0"), "the message tells the cap, which is the operator's to tell")
		}
		c.Equal(calls, len(c.calls()), "the number of calls to the route")
		c.Equal(before, c.balance(), "the account")
		c.Equal(200, c.ask(s, allow(s, 2*credit), mode).Status, "the status of what the cap covers")
		c.spend(s, 2*credit, 2*credit, mode)
		c.requireStatus(s, c.ask(s, allow(s, 1), mode), 402, "budget_exceeded")
		c.requireFreeCalls()
		c.plan(raisedPlan)
		c.answers(charges(0))
		c.Equal(200, c.ask(s, allow(s, credit), mode).Status, "the status under a higher cap")
	}
}

func requireCapFirst(o *ops, s shape) {
	const credit = microcentsPerCredit
	o.plan(cappedPlan)
	o.refused(s, o.ask(s, allow(s, 2_000_000_000)), 503, featureUnavailable)
	o.spend(s, 50*credit, 50*credit)
	o.spend(s, 50*credit, 50*credit)
	o.requireStatus(s, o.ask(s, allow(s, 2_000_000_000)), 402, "budget_exceeded")
}

// requireCapCrossed: requests in flight finish, and what they hold is not counted.
func requireCapCrossed(o *ops, s shape) {
	const credit = microcentsPerCredit
	for _, mode := range modes {
		c := o.customer(1_000_000)
		c.plan(cappedPlan)
		c.spend(s, 40*credit, 40*credit)
		before := c.balance()
		var waiting []*blocked
		for range 2 {
			_, b := c.blockedWith(charges(50*credit), s, c.body(s, allow(s, 50*credit), mode))
			waiting = append(waiting, b)
		}
		for _, b := range waiting {
			o.Equal(200, o.letGo(b).Status, "the status of a request in flight")
		}
		o.Equal(int64(100*credit), before.net()-c.balance().net(), "what NET fell by")
		c.requireStatus(s, c.ask(s, allow(s, 1), mode), 402, "budget_exceeded")
	}
}

// requireCreditsSaid: a 402 says whether nothing is left, running requests hold what is left, or it is too little;
// only the second is worth trying again.
func requireCreditsSaid(o *ops, s shape) {
	const tooLittle = "do not cover the request's largest possible cost"
	for _, mode := range modes {
		says := func(c *ops, text string, allowance int64) {
			message := c.requireStatus(s, c.ask(s, mode, allow(s, allowance)), 402, "budget_exceeded")
			c.True(strings.Contains(message, text), "the message is %q", message)
		}
		says(o.customer(0), "no credits left", 1000)
		c := o.customer(2)
		says(c, tooLittle, 10_000)
		_, b := c.liveBlocked(s, c.body(s, mode, allow(s, 1000)))
		says(c, "held by requests that run", 1000)
		says(c, tooLittle, 10_000)
		c.letGo(b)
		says(c, tooLittle, 1000)
	}
}
