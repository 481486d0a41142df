package verify

import (
	"fmt"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// routeError is what becomes of a route's refusal (GAP-96).
type routeError struct {
	clauses string
	err     upstream.Error
	status  int
	code    string
}

var routeErrors = []routeError{
	{"ERR-25 BILL-28", upstream.ServerError(), 502, "upstream_error"},
	{"SSE-44", upstream.Overloaded(), 429, "rate_limit_exceeded"}, // GAP-126
	{"ERR-25", upstream.InvalidKey(), 502, "upstream_error"},
	{"ERR-25", upstream.Forbidden(), 502, "upstream_error"},
	{"ERR-25", upstream.ModelNotFound(), 502, "upstream_error"},
	{"ERR-25", upstream.BadRequest("no", ""), 502, "upstream_error"},
	{"SSE-44", upstream.RateLimited("7"), 429, "rate_limit_exceeded"}, // GAP-39
	{"SSE-44", upstream.ContextLength(), 503, featureUnavailable},     // GAP-96
	{"POL-02 ERR-12", upstream.ContentFilter(), 400, invalid},         // GAP-94
}

// run asks a route that refuses before it accepts, and after.
func (c routeError) run(o *ops, s shape) {
	before := o.balance()
	o.answers(upstream.Refuse(c.err))
	message := ""
	for _, mode := range modes {
		a := o.send(call{Path: s.Path, Body: o.body(s, mode)})
		message = o.requireStatus(s, a, c.status, c.code)
		o.Equal("", a.Header.Get("Retry-After")+a.Header.Get("X-RateLimit-Reason"), "the headers of a limit")
		o.True(c.err.Message == "" || !strings.Contains(message, c.err.Message), "the message is the upstream's: %q",
			message)
	}
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Fail(c.err)}})
	v, _ := o.failedStream(s)
	o.True(v.Started, "the stream has not started")
	o.Equal(wire.Failure{Code: s.WireCode(c.code), Message: message}, *v.Error, "the frame, beside the error in JSON,")
	o.Equal(before, o.balance(), "the account")
}

// requireStatus checks an error reply and returns its message.
func (o *ops) requireStatus(s shape, a *answer, status int, code string) string {
	o.Equal(status, a.Status, "the status of "+a.call.String())
	o.errorForm(s, a, code)
	return str(at(a.JSON(o.T), "error", "message"))
}

// failsBoth asks for a reply in JSON and as a stream, which must fail alike (SSE-35), and returns the message.
func (o *ops) failsBoth(s shape, status int, code string, members ...string) string {
	message := o.requireStatus(s, o.ask(s, members...), status, code)
	v, _ := o.failedStream(s, members...)
	o.True(v.Started, "the stream has not started")
	o.Equal(wire.Failure{Code: s.WireCode(code), Message: message}, *v.Error, "the frame, beside the error in JSON,")
	o.Equal(int64(0), o.balance().Reserved, "reserved_credits")
	return message
}

// reasoned is a reply that is reasoning and nothing else.
func reasoned(tokens int64, finish string) upstream.Reply {
	return script(upstream.Usage{Prompt: 10, Completion: tokens, Reasoning: &tokens}, finish,
		upstream.Reasoning("hm, hm"))
}

// allow is the member for an output allowance.
func allow(s shape, tokens int64) string { return fmt.Sprintf("%q:%d", s.Allowance, tokens) }

func opsErrorChecks() []opsCheck {
	var checks []opsCheck
	for i, c := range routeErrors {
		checks = append(checks, onEach(c.clauses+" SSE-29 SSE-35 SSE-44 SSE-45",
			fmt.Sprintf("the route refuses, %d: %s", i, c.err.Message), standardGate, c.run))
	}
	return append(checks,
		onEach("ERR-25", "the route answers with a proxy's page", standardGate, func(o *ops, s shape) {
			o.answers(upstream.Refuse(upstream.BadGateway()))
			for _, mode := range modes {
				o.requireStatus(s, o.ask(s, mode), 502, "upstream_error")
			}
		}),
		onEach("ERR-26 ERR-27 SSE-35", "no visible answer (E22)", standardGate, requireNothingVisible),
		onEach("ERR-22 SSE-39 SSE-40 SSE-35 ALLOW-20", "reasoning uses up the allowance (E22)", standardGate, requireUsedUp),
		onEach("ERR-33 SSE-37", "the route's connection breaks", standardGate, requireBroken),
		onEach("ERR-33 BILL-28 USE-02", "the route never says what it used (GAP-57)", standardGate, requireUnproven),
		onEach("SSE-38", "the route fails at its last moment", standardGate, requireLateFailure),
		onEach("SSE-29 SSE-30 SSE-31 SSE-32 SSE-33 SSE-34 SSE-35 SSE-36 SSE-38 SSE-49 BILL-32",
			"the route fails after two deltas", standardGate, requireFailureInside),
		onEach("SSE-50 BILL-21", "a failed stream is settled", standardGate, requireFailureSettled),
		onEach("BILL-33", "the record of a failed request", standardGate, requireFailureRecorded),
		onEach("ERR-32 BILL-25", "arguments of a call that are no JSON", standardGate, requireArgumentsJudged),
		onEach("ERR-32", "arguments that the allowance cuts off (GAP-84)", standardGate, requireCutArguments),
		atOnce("ERR-31 LIM-14 SSE-28 SSE-25 SSE-26 SSE-27 SSE-21 SSE-35", "a route that never replies", hastyGate,
			requireTimeLimit))
}

func requireNothingVisible(o *ops, s shape) {
	names := func(message string) bool { return strings.Contains(message, "max_tokens") }
	o.answers(reasoned(12, "stop"))
	message := o.failsBoth(s, 502, "no_visible_answer", allow(s, 50))
	o.True(!names(message), "the message names max_tokens: %q", message)
	o.answers(reasoned(50, "stop"))
	message = o.failsBoth(s, 502, "no_visible_answer", allow(s, 50))
	o.True(strings.Contains(message, "the max_tokens budget (50)"), "the message does not name the client's limit: %q",
		message)
	o.answers(reasoned(32_768, "stop")) // the default is not the client's own
	a := o.do(call{Path: s.Path, Body: s.Body(prompt)})
	message = o.requireStatus(s, a, 502, "no_visible_answer")
	o.True(!names(message), "the message names max_tokens: %q", message)
	o.answers(script(sixty, "tool_calls", callSteps(0, callG)...))
	o.Equal(s.Ended("tool_calls"), o.both(s, twoFunctions(s)).Finish, "the end of a reply that is a call")
}

func requireUsedUp(o *ops, s shape) {
	before := o.balance()
	o.answers(reasoned(50, "length"))
	o.failsBoth(s, 422, invalid, allow(s, 50))
	o.Equal(int64(2*(10*inputPrice+50*outputPrice)), before.net()-o.balance().net(), "what NET fell by (GAP-55)")
	o.answers(script(sixty, "length", upstream.Reasoning("hm"), upstream.Text(" ")))
	v := o.both(s, allow(s, 60))
	o.Equal(" ", v.Text, "the text of a reply with one character")
	o.Equal(s.Ended("length"), v.Finish, "the end of it")
}

func requireBroken(o *ops, s shape) {
	for _, end := range []upstream.Step{upstream.Cut(), upstream.Reset()} {
		o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), end}})
		v, _ := o.failedStream(s)
		o.Equal("stream_error", v.Error.Code, "the code of the frame")
		for _, members := range []string{"", weatherTool(s)} {
			o.requireStatus(s, o.ask(s, members), 502, "upstream_error")
		}
	}
}

func requireUnproven(o *ops, s shape) {
	reply := hello
	reply.Usage = upstream.UsageNever
	o.answers(reply)
	before := o.balance()
	v, _ := o.failedStream(s)
	o.Equal("stream_error", v.Error.Code, "the code of the frame")
	o.Equal([]string{"Hel", "lo"}, v.Pieces, "the text before it")
	got := o.ok(s, o.ask(s))
	o.Equal("Hello", s.Text(got), "the text in JSON")
	o.Equal(any(true), at(got, "usage", "billing_pending"), "billing_pending")
	o.Equal(int64(0), o.billed(got["usage"]), "billed_microcents")
	o.Equal(before, o.balance(), "the account")
}

func requireLateFailure(o *ops, s shape) {
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Finish("stop"),
		upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 2}), upstream.Cut()}})
	v, _ := o.failedStream(s)
	o.Equal("stream_error", v.Error.Code, "the code of the frame")
	o.Equal("", v.Finish, "the finish")
}

func requireFailureInside(o *ops, s shape) {
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Text("lo"),
		upstream.Fail(upstream.ServerError())}})
	o.failsBoth(s, 502, "upstream_error")
	v, _ := o.failedStream(s)
	o.Equal([]string{"Hel", "lo"}, v.Pieces, "the text before the error frame")
}

func requireFailureSettled(o *ops, s shape) {
	before := o.balance()
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"),
		upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 300}), upstream.Fail(upstream.ServerError())}})
	_, a := o.failedStream(s)
	o.requireRecorded(a, before, 10*inputPrice+300*outputPrice)
	o.Equal(int64(0), o.balance().Reserved, "reserved_credits")
}

// requireRecorded checks what a failed request has cost, by its record and by the account, and that it does not say
// so.
func (o *ops) requireRecorded(a *answer, before balance, cost int64) {
	r := o.record(a)
	o.Equal(any(float64(cost)), r["microcents"], "the charge of the record")
	o.Equal(any(false), r["pending"], "whether the record's charge is pending")
	o.Equal(cost, before.net()-o.balance().net(), "what NET fell by")
	o.True(!strings.Contains(string(a.Raw), "billed_microcents"), "the error says a charge: %s", brief(string(a.Raw)))
}

func requireFailureRecorded(o *ops, s shape) {
	before := o.balance()
	o.answers(upstream.Refuse(upstream.ServerError()))
	o.requireRecorded(o.ask(s), before, 0)
	o.answers(reasoned(50, "length"))
	a := o.ask(s, allow(s, 50))
	o.Equal(422, a.Status, "the status")
	o.requireRecorded(a, before, 10*inputPrice+50*outputPrice)
	before = o.balance()
	_, a = o.failedStream(s, allow(s, 50))
	o.requireRecorded(a, before, 10*inputPrice+50*outputPrice)
}

// halfACall is a reply whose call has half of its arguments.
func halfACall(finish string) upstream.Reply {
	return script(sixty, finish, upstream.ToolCall(0, "c1", toolName), upstream.Arguments(0, `{"city":`))
}

func requireArgumentsJudged(o *ops, s shape) {
	before := o.balance()
	o.answers(halfACall("tool_calls"))
	v, streamed := o.failedStream(s, weatherTool(s))
	o.Equal("validator_failed", v.Error.Code, "the code of the frame")
	o.Equal("", v.Finish, "the finish")
	whole := o.ask(s, weatherTool(s))
	o.requireStatus(s, whole, 502, "upstream_error")
	for _, a := range []*answer{streamed, whole} {
		o.Equal(any(0.0), o.record(a)["microcents"], "the charge of the record")
	}
	o.Equal(before, o.balance(), "the account")
}

func requireCutArguments(o *ops, s shape) {
	o.answers(halfACall("length"))
	for _, mode := range modes {
		a := o.ask(s, weatherTool(s), mode)
		o.Equal(s.Ended("length"), s.OutcomeOf(o, a.Status, a.Header, a.Raw).Finish, "the end of the reply")
	}
}

func requireTimeLimit(o *ops, s shape) {
	before := o.balance()
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
	start := time.Now()
	v, _ := o.failedStream(s)
	took := time.Since(start)
	o.True(v.Started && len(v.Pieces) == 0, "the stream has started: %v, with the text %q", v.Started, v.Pieces)
	most := int(took/(200*time.Millisecond)) + 1 // a busy machine is late with its limit of 1 s
	o.True(v.KeepAlives >= 2 && v.KeepAlives <= most, "%d keep-alives came in %v, one is due every 0.2 s", v.KeepAlives,
		took)
	a := o.ask(s)
	message := o.requireStatus(s, a, 504, "upstream_error")
	o.Equal("", a.Header.Get("Retry-After"), "Retry-After")
	o.Equal(wire.Failure{Code: "upstream_error", Message: message}, *v.Error, "the frame, beside the error in JSON,")
	o.Equal(before, o.balance(), "the account")
}
