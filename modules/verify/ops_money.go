package verify

import (
	"context"
	"fmt"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func opsMoneyChecks() []opsCheck {
	allowance := func(s shape, n int) string { return fmt.Sprintf("%q:%d", s.Allowance, n) }
	return []opsCheck{
		onEach("GEN-04 BILL-16 ERR-16 BILL-15", "credit comes first", standardGate, func(o *ops, s shape) {
			c := o.customer(0)
			before := c.balance()
			for _, mode := range modes {
				a := c.ask(s, allowance(s, 10), mode)
				c.Equal(402, a.Status, "the status at a balance of 0")
				c.errorForm(s, a, "budget_exceeded")
			}
			c.untouched(before)
			c.topUp(100)
			c.ok(s, c.ask(s, allowance(s, 10)))
		}),
		{"CNT-06 EP-15", "free calls with a balance of 0", standardGate, func(o *ops) {
			c := o.customer(0)
			for _, p := range places {
				if p.method == "GET" || p.shape.Path == count.Path {
					c.ok(p.shape, c.do(p.call(c.T, nil)))
				}
			}
		}},
		onEach("BILL-03", "the price follows the usage that the route reports", standardGate, requirePrices),
		onEach("BILL-07 BILL-09 ACCT-05", "the hold of a request in progress", standardGate, func(o *ops, s shape) {
			before := o.balance()
			during := o.whileBlocked(s, allowance(s, 2000))
			hold := during.Reserved * microcentsPerCredit
			o.True(hold >= 2000*outputPrice, "the hold of %d microcents does not cover 2,000 tokens", hold)
			o.True(hold < 4096*outputPrice, "the hold of %d microcents covers more than was asked for", hold)
			o.requireSums(during)
			after := o.balance()
			o.Equal(before.Reserved, after.Reserved, "reserved_credits")
			o.Equal(int64(helloCost), before.net()-after.net(), "what NET fell by")
		}),
		onEach("BILL-10", "the hold without an allowance", standardGate, func(o *ops, s shape) {
			before := o.balance()
			c, body := o.liveBlocked(s, o.without(s, s.Allowance, `"stream":true`))
			hold := o.balance().Reserved * microcentsPerCredit
			o.release(c, body)
			o.True(hold >= 32_768*outputPrice && hold < 33_768*outputPrice, "the hold is %d microcents", hold)
			o.Equal(before.Reserved, o.balance().Reserved, "reserved_credits")
		}),
		{"BILL-14 ERR-19", "the largest possible cost and what is available", standardGate, func(o *ops) {
			for _, s := range shapes {
				c := o.customer(5)
				before := c.balance()
				a := c.ask(s, allowance(s, 5000)) // 7.5 credits of output
				c.Equal(402, a.Status, "the status of a request beyond the balance")
				c.errorForm(s, a, "budget_exceeded")
				c.Equal(before, c.balance(), "the account")
				c.ok(s, c.ask(s, allowance(s, 1000)))
			}
		}},
		onEach("BILL-12", "one credit less while usage has accrued", standardGate, func(o *ops, s shape) {
			c := o.customer(1)
			c.ok(s, c.ask(s, allowance(s, 10)))
			b := c.balance()
			c.requireSums(b)
			c.Equal(int64(0), b.Available, "available_credits")
			calls := len(c.calls())
			a := c.ask(s, allowance(s, 10))
			c.Equal(402, a.Status, "the status with nothing available")
			c.errorForm(s, a, "budget_exceeded")
			c.Equal(calls, len(c.calls()), "the number of calls to the route")
		}),
		onEach("BILL-23", "a failed attempt before the one that answers", profileGate, func(o *ops, s shape) {
			o.answersBy(func(*upstream.Request) upstream.Reply {
				if len(o.gate.calls) > 1 {
					return hello
				}
				return upstream.Reply{Steps: []upstream.Step{upstream.Headers(),
					upstream.ReportTokens(upstream.Usage{Prompt: 100}),
					upstream.Fail(upstream.ServerError())}}
			})
			usage := o.stream(s, includeUsage(s)).usage(o.T, s)
			calls := o.calls()
			o.Equal(2, len(calls), "the number of attempts")
			input := map[string]int64{"cheap": 10, "middle": 100, "dear": 1000} // microcents a token; output is five times it
			o.Equal(100*input[calls[0].Model]+(10+2*5)*input[calls[1].Model], o.billed(usage), "billed_microcents")
		}),
		{"BILL-13", "all credits are on hold", standardGate, func(o *ops) {
			c := o.customer(4)
			cl, body := c.liveBlocked(chat, c.body(chat, `"stream":true`, allowance(chat, 2500))) // 3.75 credits of output
			calls := len(c.calls())
			a := c.ask(messages, allowance(messages, 10))
			same := len(c.calls()) == calls
			c.release(cl, body)
			c.Equal(402, a.Status, "the status while all is held")
			c.True(same, "the route was called")
			c.forget()
			c.ok(messages, c.ask(messages, allowance(messages, 10)))
		}},
		onEach("ACCT-05 ACCT-06 ACCT-10", "the account while a request runs, and after it", standardGate,
			requireAccountDuring),
	}
}

// requireAccountDuring looks at the account of a request that succeeds and of one that fails. 1,000 tokens out are 1.5
// credits; the prompt is less than half a credit.
func requireAccountDuring(o *ops, s shape) {
	failing := upstream.Reply{Steps: []upstream.Step{upstream.Fail(upstream.ServerError())}}
	for _, mode := range modes {
		for _, tc := range []struct {
			reply upstream.Reply
			after balance
		}{
			{hello, balance{Balance: 100, Accrued: helloCost, Available: 99}},
			{failing, balance{Balance: 100, Available: 100}},
		} {
			c := o.customer(100)
			_, b := c.blockedWith(tc.reply, s, c.body(s, mode, quote(s.Allowance)+":1000"))
			c.Equal(balance{Balance: 100, Reserved: 2, Available: 98}, c.balance(), "the account during a request")
			c.letGo(b)
			c.Equal(tc.after, c.balance(), "the account after it")
		}
	}
}

// blocked is a request that waits at the route.
type blocked struct {
	gate string // of the upstream
	done chan *answer
}

// liveBlocked sends a request and returns when it waits at the route: admitted, and with its hold. It is answered
// with hello when release is called.
func (o *ops) liveBlocked(s shape, body string) (call, *blocked) {
	return o.blockedWith(hello, s, body)
}

// blockedWith is liveBlocked with another reply.
func (o *ops) blockedWith(r upstream.Reply, s shape, body string) (call, *blocked) {
	name := o.newWait()
	r.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait(name)}, r.Steps...)
	o.answers(r)
	c := call{Path: s.Path, Body: body}
	b := &blocked{gate: name, done: make(chan *answer, 1)}
	go func() {
		defer func() {
			if recover() != nil { // the request could not be sent: AtGate says so, by its time limit
				b.done <- nil
			}
		}()
		b.done <- o.do(c)
	}()
	o.awaitRoute(name)
	return c, b
}

// newWait names another gate of the upstream's. What waits there when the check ends is let through.
func (o *ops) newWait() string {
	o.gate.waits++
	return fmt.Sprint("gate-", o.gate.waits)
}

// awaitRoute waits until a request is at a gate of the upstream.
func (o *ops) awaitRoute(wait string) {
	ctx, cancel := context.WithTimeout(o.ctx, o.limits.Timeout)
	defer cancel()
	if err := o.gate.up.AtGate(ctx, wait, 1); err != nil {
		o.Fatalf("waiting for the route's request: %v", err)
	}
}

// openWaits lets everything through that still waits.
func (g *gate) openWaits() {
	for i := range g.waits {
		g.up.Open(fmt.Sprint("gate-", i+1))
	}
}

// letGo lets a request go on that waits at the route, and waits until everything of it is over.
func (o *ops) letGo(b *blocked) *answer {
	o.gate.up.Open(b.gate)
	a := <-b.done
	o.True(a != nil, "a request that waited at the route got no reply")
	o.record(a)
	return a
}

// release is letGo for one that must be answered.
func (o *ops) release(c call, b *blocked) *answer {
	a := o.letGo(b)
	o.True(a.Status == 200, "%s failed after it had waited", c)
	return a
}

// whileBlocked is the account while a request with these members is at the route.
func (o *ops) whileBlocked(s shape, members ...string) balance {
	c, b := o.liveBlocked(s, o.body(s, members...))
	during := o.balance()
	o.release(c, b)
	return during
}

// requirePrices: a route that reports a longer prompt than it can be would be learned to add a template (GAP-49).
func requirePrices(o *ops, s shape) {
	for _, used := range []upstream.Usage{{Prompt: 9, Completion: 700}, {Completion: 1}, {Prompt: 1}} {
		o.answers(script(used, "stop", upstream.Text("x")))
		before := o.balance()
		cost := used.Prompt*inputPrice + used.Completion*outputPrice
		o.Equal(cost, o.both(s, allow(s, 1000)).Billed(o), "billed_microcents")
		o.Equal(2*cost, before.net()-o.balance().net(), "what NET fell by")
	}
}
