package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func opsStopChecks() []opsCheck {
	stop := func(s shape, list ...string) string { return quote(s.stop) + ":" + array(list) }
	// cuts checks that a route's text ends at the same place, streamed and not.
	cuts := func(o *ops, s shape, list []string, pieces []string, want string) {
		o.answersText(pieces...)
		o.Equal(want, s.text(o.ok(s, o.ask(s, stop(s, list...)))), fmt.Sprintf("the reply to %q with %q", pieces, list))
		r := o.stream(s, stop(s, list...))
		o.Equal(want, r.Text, fmt.Sprintf("the stream of %q with %q", pieces, list))
		r.requireEnd(o.T, s)
	}
	return []opsCheck{
		onEach("STOP-04 STOP-06 STOP-07 STOP-08 STOP-09 STOP-10", "where replies end", standardGate, func(o *ops, s shape) {
			for _, tc := range []struct {
				stops, pieces []string
				want          string
			}{
				{[]string{"abcd", "bc"}, []string{"abcd"}, "a"},
				{[]string{"b", "ab"}, []string{"xab"}, "x"},
				{[]string{"ab", "b"}, []string{"xab"}, "x"},
				{[]string{"END"}, []string{"foo E", "N", "D bar"}, "foo "},
				{[]string{"END"}, []string{"é", "E", "N", "é"}, "éENé"},
				{[]string{"\n\n"}, []string{"one\n", "\ntwo"}, "one"},
				{[]string{"aab"}, []string{"xaaa", "b"}, "xa"},
				{[]string{"😀"}, []string{"smile 😀 end"}, "smile "},
			} {
				cuts(o, s, tc.stops, tc.pieces, tc.want)
			}
		}),
		{"MSG-18 STOP-08 STOP-24", "the stop sequence that is reported", standardGate, func(o *ops) {
			o.answersText("a xab")
			v := o.ok(messages, o.ask(messages, stop(messages, "b", "ab")))
			o.Equal("stop_sequence", messages.finish(v), "the stop_reason")
			o.Equal("ab", str(v["stop_sequence"]), "the stop_sequence")
		}},
		{"MSG-19 STOP-24", "a route that stops by itself", standardGate, func(o *ops) {
			r := script(upstream.Usage{Prompt: 10, Completion: 5}, "stop", upstream.Text("a END b"))
			r.Honour.Stop = true
			o.answers(r)
			v := o.ok(messages, o.ask(messages, stop(messages, "END")))
			o.Equal("end_turn", messages.finish(v), "the stop_reason")
			o.True(v["stop_sequence"] == nil, "the stop_sequence is %s", brief(v["stop_sequence"]))
			o.Equal("a ", messages.text(v), "the text")
		}},
		onEach("STOP-11 STOP-12", "text around a tool call is matched by itself", standardGate, func(o *ops, s shape) {
			o.answers(withCall("abEN", "Dcd"))
			v := o.ok(s, o.ask(s, s.tools(), stop(s, "END")))
			o.Equal("abENDcd", s.text(v), "the text")
			o.Equal(1, len(s.calls(v)), "the number of calls")
			o.Equal("abENDcd", o.stream(s, s.tools(), stop(s, "END")).Text, "the text of the stream")
		}),
		onEach("STOP-13", "what follows a match is dropped", standardGate, func(o *ops, s shape) {
			o.answers(withCall("a END", "more"))
			v := o.ok(s, o.ask(s, s.tools(), stop(s, "END")))
			o.Equal("a ", s.text(v), "the text")
			o.Equal(0, len(s.calls(v)), "the number of calls")
			o.True(oneOf(s.finish(v), s.stopped()...), "the reply ended with %q", s.finish(v))
		}),
		onEach("STOP-34", "a match after a tool call", standardGate, func(o *ops, s shape) {
			o.answers(withCall("text", "a END b"))
			v := o.ok(s, o.ask(s, s.tools(), stop(s, "END")))
			o.Equal("texta ", s.text(v), "the text")
			o.Equal(1, len(s.calls(v)), "the number of calls")
		}),
		onEach("STOP-15 STOP-22", "the first four are sent to the route", standardGate, func(o *ops, s shape) {
			o.answersText("nothing")
			o.ok(s, o.ask(s, stop(s, "", "@a", "@a", "@b", "@c", "@d", "@e")))
			o.Equal([]string{"@a", "@b", "@c", "@d"}, o.sent().Stop, "the route's stop sequences")
		}),
		onEach("STOP-23", "the fifth cuts too", standardGate, func(o *ops, s shape) {
			cuts(o, s, []string{"@1", "@2", "@3", "@4", "END"}, []string{"a EN", "D b"}, "a ")
			r := script(upstream.Usage{Prompt: 10, Completion: 5}, "stop", upstream.Text("a END b"))
			r.Honour.Stop = true
			o.answers(r)
			o.Equal("a ", s.text(o.ok(s, o.ask(s, stop(s, "END")))), "the reply of a route that stops by itself")
		}),
		onEach("STOP-21", "too many stop sequences never reach the route", standardGate, func(o *ops, s shape) {
			before := o.balance()
			o.refused(s, o.ask(s, stop(s, slices.Repeat([]string{"x"}, 17)...)), 400, invalid)
			o.untouched(before)
		}),
		onEach("STOP-25", "the content policy after a match", standardGate, func(o *ops, s shape) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "content_filter", upstream.Text("a END b")))
			want := map[string]string{"chat": "content_filter", "responses": "incomplete/content_filter",
				"messages": "refusal"}[s.Name]
			v := o.ok(s, o.ask(s, stop(s, "END")))
			o.Equal(want, s.finish(v), "the end of the reply")
			o.Equal("a ", s.text(v), "the text")
			o.Equal(want, o.stream(s, stop(s, "END")).finish(s), "the end of the stream")
		}),
		onEach("STOP-26 STOP-32", "a failure after a match", standardGate, func(o *ops, s shape) {
			o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("a END b"), upstream.Fail(upstream.ServerError())}})
			a := o.ask(s, stop(s, "END"))
			o.Equal(502, a.Status, "the status")
			o.errorForm(s, a, "upstream_error")
			code, _, _ := o.failed(s, stop(s, "END"))
			o.Equal("upstream_error", code, "the code of the frame")
		}),
		onEach("STOP-33", "billing covers what follows a match", standardGate, func(o *ops, s shape) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 60}, "stop", upstream.Text("a END"),
				upstream.Text(strings.Repeat(" more", 50))))
			v := o.ok(s, o.ask(s, stop(s, "END")))
			o.Equal(int64(10*inputPrice+60*outputPrice), o.billed(v["usage"]), "billed_microcents")
			r := o.stream(s, stop(s, "END"), includeUsage(s))
			o.Equal(int64(10*inputPrice+60*outputPrice), o.billed(r.usage(o.T, s)), "billed_microcents of the stream")
		}),
	}
}

// answersText makes the upstream say pieces of text.
func (o *ops) answersText(pieces ...string) {
	var steps []upstream.Step
	for _, p := range pieces {
		steps = append(steps, upstream.Text(p))
	}
	o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "stop", steps...))
}

// withCall is a reply with a tool call between two texts.
func withCall(before, after string) upstream.Reply {
	return script(upstream.Usage{Prompt: 10, Completion: 20}, "tool_calls",
		upstream.Text(before), upstream.ToolCall(0, "c1", toolName), upstream.Arguments(0, `{}`), upstream.Text(after))
}
