package verify

import (
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// panelHCL is the strategy of the gate on which every reply is worked on in several steps.
var panelHCL = `
strategy "panel" {
  when  = true
  kind  = "panel"
  seats = ["one", "two"]
  judge = "judge"
}
` + moneyPlan(loweredPlan, "spend_cap_credits = 1")

// byModel answers each route with a reply of its own.
func byModel(replies map[string]upstream.Reply) func(*upstream.Request) upstream.Reply {
	return func(req *upstream.Request) upstream.Reply { return replies[req.Model] }
}

// opsStepsChecks are the clauses about replies that are worked on in several steps.
func opsStepsChecks() []opsCheck {
	seat := script(upstream.Usage{Prompt: 100, Completion: 50}, "stop", upstream.Text("x"))
	mute := script(upstream.Usage{Prompt: 400, Completion: 80}, "stop")
	judge := script(upstream.Usage{Prompt: 400, Completion: 80}, "stop", upstream.Text("best"))
	const seatCost, judgeCost = 100*inputPrice + 50*outputPrice, 400*inputPrice + 80*outputPrice
	return []opsCheck{
		onEach("BILL-24", "two seats and a judge", panelGate, func(o *ops, s shape) {
			o.answersBy(byModel(map[string]upstream.Reply{"one": seat, "two": seat, "judge": judge}))
			for range 2 {
				before := o.balance().net()
				o.Equal(int64(2*seatCost+judgeCost), o.billed(o.ok(s, o.ask(s))["usage"]), "billed_microcents")
				o.Equal(int64(2*seatCost+judgeCost), before-o.balance().net(), "the charge in microcents")
			}
		}),
		onEach("SSE-41 SSE-42", "the last step says nothing", panelGate, func(o *ops, s shape) {
			o.answersBy(byModel(map[string]upstream.Reply{"one": seat, "two": seat, "judge": mute}))
			a := o.ask(s)
			o.Equal(502, a.Status, "the status")
			o.errorForm(s, a, "upstream_error")
			code, _, _ := o.failed(s)
			o.Equal("upstream_error", code, "the code of the error frame")
		}),
		onEach("SSE-47 BILL-19", "the cap is reached between two steps", panelGate, func(o *ops, s shape) {
			c := o.customer(1_000_000)
			wait := o.newWait()
			held := seat
			held.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait(wait)}, seat.Steps...)
			c.answersBy(byModel(map[string]upstream.Reply{"one": held, "two": seat, "judge": judge}))
			type end struct {
				code string
				lost any
			}
			ended := make(chan end, 1)
			go func() {
				var e end
				defer func() {
					e.lost = recover()
					ended <- e
				}()
				e.code, _, _ = c.failed(s)
			}()
			o.awaitRoute(wait)
			c.plan(loweredPlan)
			o.gate.up.Open(wait)
			e := <-ended
			if e.lost != nil {
				panic(e.lost)
			}
			o.Equal("budget_exceeded", e.code, "the code of the error frame")
			o.Equal(2, len(c.calls()), "the number of calls to routes")
		}),
	}
}
