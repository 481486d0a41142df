package verify

import (
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func opsErrorChecks() []opsCheck {
	cut := upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Text("lo"), upstream.Cut()}}
	failing := upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Text("lo"),
		upstream.Fail(upstream.ServerError())}}
	return []opsCheck{
		onEach("ERR-25 SSE-44 SSE-45 BILL-28", "the route fails", standardGate, func(o *ops, s shape) {
			before := o.balance()
			o.answers(upstream.Refuse(upstream.ServerError()))
			for _, mode := range modes {
				a := o.ask(s, mode)
				o.Equal(502, a.Status, "the status")
				o.errorForm(s, a, "upstream_error")
				o.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry")
			}
			o.Equal(before, o.balance(), "the account")
		}),
		onEach("ERR-26 ERR-27", "no visible answer", standardGate, func(o *ops, s shape) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "stop"))
			a := o.ask(s)
			o.Equal(502, a.Status, "the status")
			o.errorForm(s, a, "no_visible_answer")
			o.True(!strings.Contains(str(at(a.JSON(o.T), "error", "message")), "max_tokens"), "the message names max_tokens")
			o.answers(script(upstream.Usage{Prompt: 10, Completion: int64(o.limits.Allowance)}, "stop"))
			a = o.ask(s)
			o.Equal(502, a.Status, "the status at the allowance")
			o.True(strings.Contains(str(at(a.JSON(o.T), "error", "message")), "max_tokens"),
				"the message does not name max_tokens")
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "tool_calls", upstream.ToolCall(0, "c1", toolName),
				upstream.Arguments(0, `{}`)))
			o.ok(s, o.ask(s, weatherTool(s)))
		}),
		onEach("ERR-22 SSE-39 SSE-40 ALLOW-20", "reasoning uses up the allowance", standardGate, func(o *ops, s shape) {
			before := o.balance()
			used := int64(o.limits.Allowance)
			o.answers(script(upstream.Usage{Prompt: 10, Completion: used, Reasoning: &used}, "length",
				upstream.Reasoning("Hm.")))
			a := o.ask(s)
			o.Equal(422, a.Status, "the status")
			o.errorForm(s, a, invalid)
			o.True(before.net()-o.balance().net() >= used*outputPrice, "the reasoning was not charged")
			code, _, _ := o.failed(s)
			o.Equal(invalid, code, "the code of the frame")
			o.answers(script(upstream.Usage{Prompt: 10, Completion: used, Reasoning: &used}, "length",
				upstream.Reasoning("Hm."),
				upstream.Text("H")))
			o.Equal(s.Ended("length"), s.Finish(o.ok(s, o.ask(s))), "the end of a reply with one character")
		}),
		onEach("ERR-33 SSE-37", "the route's connection breaks", standardGate, func(o *ops, s shape) {
			o.answers(cut)
			code, _, _ := o.failed(s)
			o.Equal("stream_error", code, "the code of the frame")
			a := o.ask(s)
			o.Equal(502, a.Status, "the status when not streamed")
			o.True(s.Code(a.JSON(o.T)) != "stream_error", "stream_error stands in a JSON body")
		}),
		onEach("SSE-29 SSE-30 SSE-31 SSE-32 SSE-33 SSE-34 SSE-35 SSE-36 SSE-38 SSE-49 BILL-32",
			"the route fails after two deltas", standardGate, func(o *ops, s shape) {
				o.answers(failing)
				code, streamed, before := o.failed(s)
				a := o.ask(s)
				o.Equal(s.Code(a.JSON(o.T)), code, "the code of the frame beside that of the status")
				message := str(at(a.JSON(o.T), "error", "message"))
				o.True(strings.Contains(string(streamed.Raw), quote(message)), "the frame has another message than the status: %q",
					message)
				o.jsonError(a)
				o.True(len(before) > 0, "nothing came before the error")
			}),
		onEach("SSE-50 BILL-21", "a failed stream is settled", standardGate, func(o *ops, s shape) {
			before := o.balance()
			o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"),
				upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 300}), upstream.Fail(upstream.ServerError())}})
			_, a, _ := o.failed(s)
			r := o.record(a)
			o.Equal(any(float64(10*inputPrice+300*outputPrice)), r["microcents"], "the charge of the record")
			after := o.balance()
			o.Equal(int64(10*inputPrice+300*outputPrice), before.net()-after.net(), "what NET fell by")
			o.Equal(int64(0), after.Reserved, "reserved_credits")
		}),
		onEach("BILL-33", "the record of a failed request", standardGate, func(o *ops, s shape) {
			recorded := func(a *answer, before balance, cost int64) {
				r := o.record(a)
				o.Equal(any(float64(cost)), r["microcents"], "the charge of the record")
				o.Equal(any(false), r["pending"], "whether the record's charge is pending")
				o.Equal(cost, before.net()-o.balance().net(), "what NET fell by")
				o.True(!strings.Contains(string(a.Raw), "billed_microcents"), "the error says a charge: %s", brief(string(a.Raw)))
			}
			before := o.balance()
			o.answers(upstream.Refuse(upstream.ServerError()))
			recorded(o.ask(s), before, 0)
			used := int64(o.limits.Allowance)
			o.answers(script(upstream.Usage{Prompt: 10, Completion: used, Reasoning: &used}, "length",
				upstream.Reasoning("Hm.")))
			a := o.ask(s)
			o.Equal(422, a.Status, "the status")
			recorded(a, before, 10*inputPrice+used*outputPrice)
			before = o.balance()
			_, a, _ = o.failed(s)
			recorded(a, before, 10*inputPrice+used*outputPrice)
		}),
		onEach("ERR-32 BILL-25", "arguments of a call that are no JSON", standardGate, func(o *ops, s shape) {
			before := o.balance()
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 60}, "tool_calls", upstream.ToolCall(0, "c1", toolName),
				upstream.Arguments(0, `{"city":`)))
			code, streamed, _ := o.failed(s, weatherTool(s))
			o.Equal("validator_failed", code, "the code of the frame")
			a := o.ask(s, weatherTool(s))
			o.Equal(502, a.Status, "the status when not streamed")
			o.errorForm(s, a, "upstream_error")
			for _, a := range []*answer{streamed, a} {
				o.Equal(any(0.0), o.record(a)["microcents"], "the charge of the record")
			}
			o.Equal(before, o.balance(), "the account")
		}),
		atOnce("ERR-31 LIM-14 SSE-28 SSE-25 SSE-26 SSE-27 SSE-21", "a route that never replies", hastyGate,
			func(o *ops, s shape) {
				o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
				start := time.Now()
				code, _, before := o.failed(s)
				took := time.Since(start)
				o.Equal("upstream_error", code, "the code of the frame")
				n := 0
				for _, f := range before {
					if !f.IsKeepAlive() {
						continue
					}
					n++
					if s.Name == "messages" {
						o.True(f.Event == "ping" && f.Data == `{"type":"ping"}`, "a keep-alive is %s", brief(f))
					} else {
						o.True(f.Comment == "keepalive" && f.Data == "", "a keep-alive is %s", brief(f))
					}
				}
				most := int(took/(200*time.Millisecond)) + 1 // a busy machine is late with its limit of 1 s
				o.True(n >= 2 && n <= most, "%d keep-alives came in %v, one is due every 0.2 s", n, took)
				// On a slow machine the first keep-alive may come before the route accepts (GAP-64).
				first := slices.IndexFunc(before, func(f frame) bool { return !f.IsKeepAlive() })
				o.True(first >= 0 && first < len(before)-1, "no first event came while the route was silent")
				a := o.ask(s)
				o.Equal(504, a.Status, "the status when not streamed")
				o.errorForm(s, a, "upstream_error")
			}),
	}
}
