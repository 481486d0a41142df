package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// stopMember sets stop sequences in a shape.
func stopMember(s shape, list ...string) string { return quote(s.Stop) + ":" + array(list) }

// sixty is the usage of replies in which stop sequences are looked for.
var sixty = upstream.Usage{Prompt: 10, Completion: 60}

const sixtyCost = 10*inputPrice + 60*outputPrice

// stopCase is a route's text and where the reply to it ends (E10).
type stopCase struct {
	clauses, text string
	stops         []string
	reply         string
	matched       any // what messages reports; nil where the reply ends by itself
}

var stopCases = []stopCase{
	{"STOP-04 STOP-05 STOP-07", "foo END bar", []string{"END"}, "foo ", "END"},
	{"STOP-06", "abcd", []string{"abcd", "bc"}, "a", "bc"},
	{"STOP-06", "abc", []string{"abc", "b"}, "a", "b"},
	{"STOP-08 MSG-18 STOP-24", "xab", []string{"b", "ab"}, "x", "ab"},
	{"STOP-08", "xab", []string{"ab", "b"}, "x", "ab"},
	{"STOP-07", "abab", []string{"abab", "ab"}, "", "ab"}, // GAP-72: at the very beginning, which is no failure
	{"STOP-07", "aaab", []string{"aab"}, "a", "aab"},      // overlapping itself
	{"STOP-07", "xaaab", []string{"aab"}, "xa", "aab"},
	{"STOP-07", "ENENDx", []string{"END"}, "EN", "END"}, // after a false start
	{"STOP-07", "I am done. DONE!", []string{"DONE"}, "I am done. ", "DONE"},
	{"STOP-07", "one\n\ntwo", []string{"\n\n"}, "one", "\n\n"},
	{"STOP-09", "a→é😀b", []string{"é😀"}, "a→", "é😀"},
	{"STOP-09", "smile 😀 end", []string{"😀"}, "smile ", "😀"},
	{"STOP-09", "éENé", []string{"END"}, "éENé", nil},
	{"STOP-14 STOP-15", "hello", []string{"", "zz", "zz"}, "hello", nil},
}

// run sends the text in one piece and in many: the reply ends at the same place (STOP-10).
func (c stopCase) run(o *ops, s shape) {
	for _, steps := range [][]upstream.Step{{upstream.Text(c.text)}, letters(c.text)} {
		o.answers(script(sixty, "stop", steps...))
		v := o.both(s, stopMember(s, c.stops...))
		o.Equal(c.reply, v.Text, "the text")
		o.requireMatched(s, v, c.matched)
	}
}

// letters makes a step of each character.
func letters(text string) []upstream.Step {
	var steps []upstream.Step
	for _, r := range text {
		steps = append(steps, upstream.Text(string(r)))
	}
	return steps
}

// requireMatched checks that a reply ended at a stop sequence, or by itself where matched is nil.
func (o *ops) requireMatched(s shape, v wire.Verdict, matched any) {
	how := "matched"
	if matched == nil {
		how = "natural"
	}
	o.Equal(s.Ended(how), v.Finish, "the end of the reply")
	if s.Name == "messages" {
		o.Equal(matched, v.StopSequence, "stop_sequence")
	}
}

// heldCase is what a client gets of a route's pieces, delta by delta, where they end like a stop sequence begins
// (E11).
type heldCase struct {
	clauses, stop  string
	deltas, pieces []string
}

var heldCases = []heldCase{
	{"STOP-09", "END", []string{"foo E", "N", "D bar"}, []string{"foo "}},
	{"STOP-27", "END", []string{"abcE", "NX", " tail"}, []string{"abc", "ENX", " tail"}},
	{"STOP-27", "END", []string{"fooE", "NEN", "D"}, []string{"foo", "EN"}}, // a false start before the match
	{"STOP-28", "END", []string{"ab", "EN"}, []string{"ab", "EN"}},          // released at the natural end
	{"STOP-28", "aab", []string{"aa", "a", "b"}, []string{"a"}},
	{"STOP-27", "END", []string{"a", "b", "N", "D"}, []string{"a", "b", "N", "D"}},
}

func (c heldCase) run(o *ops, s shape) {
	var steps []upstream.Step
	for _, d := range c.deltas {
		steps = append(steps, upstream.Text(d))
	}
	o.answers(script(sixty, "stop", steps...))
	o.Equal(c.pieces, o.both(s, stopMember(s, c.stop)).Pieces, "the pieces of text")
}

var (
	callF = wire.ToolCall{ID: "call_1", Name: "f", Arguments: `{"q":"END"}`}
	callG = wire.ToolCall{ID: "call_2", Name: "g", Arguments: `{}`}
)

// callSteps are a call as the route makes it.
func callSteps(index int, c wire.ToolCall) []upstream.Step {
	return []upstream.Step{upstream.ToolCall(index, c.ID, c.Name), upstream.Arguments(index, c.Arguments)}
}

// callCase is a reply with the stop sequence END around tool calls (E12).
type callCase struct {
	clauses string
	steps   []upstream.Step
	pieces  []string
	calls   []wire.ToolCall
	ended   string
}

var callCases = []callCase{
	{"STOP-11 STOP-12", slices.Concat([]upstream.Step{upstream.Text("abEN")}, callSteps(0, callF),
		[]upstream.Step{upstream.Text("Dcd")}), []string{"ab", "EN", "Dcd"}, []wire.ToolCall{callF}, "tool_calls"},
	{"STOP-13", slices.Concat([]upstream.Step{upstream.Text("a END b")}, callSteps(0, callF),
		[]upstream.Step{upstream.Text("c")}), []string{"a "}, nil, "matched"},
	{"STOP-34 STOP-13", slices.Concat([]upstream.Step{upstream.Text("x")}, callSteps(0, callF),
		[]upstream.Step{upstream.Text("y END z")}, callSteps(1, callG)), []string{"x", "y "}, []wire.ToolCall{callF},
		"matched"},
	{"STOP-11", callSteps(0, callF), nil, []wire.ToolCall{callF}, "tool_calls"}, // GAP-71: arguments are no text
}

// twoFunctions declares what callCases call.
func twoFunctions(s shape) string { return s.Tools(wire.Function{Name: "f"}, wire.Function{Name: "g"}) }

func (c callCase) run(o *ops, s shape) {
	o.answers(script(sixty, "tool_calls", c.steps...))
	v := o.both(s, stopMember(s, "END"), twoFunctions(s))
	o.Equal(c.pieces, v.Pieces, "the pieces of text")
	o.Equal(c.calls, v.Calls, "the calls")
	o.Equal(s.Ended(c.ended), v.Finish, "the end of the reply")
}

// stopForm is a way to write stop sequences, and the text of a reply to it that would be threeParts.
type stopForm struct {
	clause  string
	shape   shape
	members string
	text    string
}

const threeParts = "one X two Y three"

var stopForms = []stopForm{
	{"STOP-01", chat, `"stop":"X"`, "one "},
	{"STOP-01", chat, `"stop":["Y","X"]`, "one "},
	{"STOP-01", chat, `"stop_sequences":["X"]`, threeParts},
	{"STOP-02", responses, `"stop":"X"`, "one "},
	{"STOP-02", responses, `"stop":["Y","X"]`, "one "},
	{"STOP-02", responses, `"stop_sequences":["X"]`, threeParts},
	{"STOP-03", messages, `"stop_sequences":["Y","X"]`, "one "},
	{"STOP-03", messages, `"stop":["X"]`, threeParts},
	{"STOP-14", chat, `"stop":""`, threeParts},
	{"STOP-14", responses, `"stop":""`, threeParts},
	{"STOP-14", chat, `"stop":["",""]`, threeParts},
	{"STOP-14", chat, `"stop":["","Y"]`, "one X two "},
	{"STOP-14", responses, `"stop":["","Y"]`, "one X two "},
	{"STOP-14", messages, `"stop_sequences":["","Y"]`, "one X two "},
	{"STOP-15", chat, `"stop":["Y","Y"]`, "one X two "},
	{"STOP-15", responses, `"stop":["Y","Y"]`, "one X two "},
	{"STOP-15", messages, `"stop_sequences":["Y","Y"]`, "one X two "},
}

func opsStopChecks() []opsCheck {
	var checks []opsCheck
	for _, c := range stopCases {
		does := fmt.Sprintf("%q with the stops %q", c.text, c.stops)
		checks = append(checks, onEach(c.clauses+" STOP-10", does, standardGate, c.run))
	}
	for _, c := range heldCases {
		checks = append(checks, onEach(c.clauses, fmt.Sprintf("%q with the stop %q", c.deltas, c.stop), standardGate, c.run))
	}
	for i, c := range callCases {
		checks = append(checks, onEach(c.clauses, fmt.Sprint("stop sequences around tool calls, case ", i), standardGate,
			c.run))
	}
	for _, f := range stopForms {
		checks = append(checks, opsCheck{f.clause, f.shape.Name + " with " + f.members, standardGate, func(o *ops) {
			o.answers(script(sixty, "stop", upstream.Text(threeParts)))
			o.Equal(f.text, o.both(f.shape, f.members).Text, "the text")
		}})
	}
	for _, l := range stopLimits {
		ids := l.clauses
		if l.tooMany {
			ids += " STOP-21"
		}
		checks = append(checks, onEach(ids, l.what, standardGate, l.runOwn))
	}
	return append(checks,
		onEach("STOP-12", "text is released before the call's first event", standardGate, requireReleasedBeforeCall),
		onEach("STOP-15 STOP-22 STOP-23", "the first four are sent to the route, and all cut", standardGate,
			requireFourSent),
		onEach("STOP-23 STOP-24 MSG-19", "a route that stops by itself", standardGate, requireHonouredAlike),
		onEach("STOP-04", "on every route", profileGate, requireStopsOnEveryRoute),
		onEach("STOP-25", "the content policy after a match", standardGate, requirePolicyAfterMatch),
		onEach("STOP-24", "the allowance after a match changes nothing (GAP-73)", standardGate, requireMatchBeforeAllowance),
		onEach("STOP-26 STOP-32", "a failure after a match", standardGate, requireFailureAfterMatch),
		onEach("STOP-29 STOP-30 STOP-33", "the route goes on after a match", singleGate, requireRouteGoesOn),
		atOnce("STOP-31", "the time limit after a match", hastyGate, requireLimitAfterMatch),
		onEach("STOP-27", "only what could become a stop sequence waits", standardGate, requireOnlyFragmentsWait),
		onEach("STOP-28", "what waits is shorter than the longest stop sequence", standardGate, requireShortWaits))
}

func requireReleasedBeforeCall(o *ops, s shape) {
	o.answers(script(sixty, "tool_calls", append([]upstream.Step{upstream.Text("abEN")}, callSteps(0, callF)...)...))
	raw := string(o.stream(s, stopMember(s, "END"), twoFunctions(s)).Raw)
	released := strings.Index(raw, `"EN"`)
	o.True(released > 0 && released < strings.Index(raw, callF.ID), "the text comes at %d, the call at %d", released,
		strings.Index(raw, callF.ID))
}

func requireFourSent(o *ops, s shape) {
	o.answers(script(sixty, "stop", upstream.Text("1 e 2")))
	o.Equal("1 ", o.both(s, stopMember(s, "", "@a", "@a", "@b", "@c", "@d", "e")).Text, "the text")
	o.Equal([]string{"@a", "@b", "@c", "@d"}, o.sent().Stop, "the route's stop sequences")
}

// requireHonouredAlike has a route that goes on past a stop sequence, and one that ends there (E14).
func requireHonouredAlike(o *ops, s shape) {
	reply := script(sixty, "stop", upstream.Text("a END b"))
	for _, matched := range []any{"END", nil} {
		reply.Honour.Stop = matched == nil
		o.answers(reply)
		v := o.both(s, stopMember(s, "END"))
		o.Equal("a ", v.Text, "the text")
		o.requireMatched(s, v, matched)
	}
}

func requireStopsOnEveryRoute(o *ops, s shape) {
	o.answers(script(sixty, "stop", upstream.Text("a END b")))
	for profile, route := range profileRoutes {
		for _, mode := range modes {
			a := o.do(call{Path: s.Path, Body: o.body(s, mode, stopMember(s, "END")),
				Header: http.Header{"X-Service-Profile": {profile}}})
			o.Equal("a ", s.OutcomeOf(o, a.Status, a.Header, a.Raw).Text, "the text")
			o.Equal(route, o.sent().Model, "the route")
		}
	}
}

// requirePolicyAfterMatch is the first of the ends that come after a match (E15).
func requirePolicyAfterMatch(o *ops, s shape) {
	o.answers(script(sixty, "content_filter", upstream.Text("a END b")))
	v := o.both(s, stopMember(s, "END"))
	o.Equal("a ", v.Text, "the text")
	o.Equal(s.Ended("policy"), v.Finish, "the end of the reply")
	o.Equal(nil, v.StopSequence, "stop_sequence")
}

func requireMatchBeforeAllowance(o *ops, s shape) {
	o.answers(script(sixty, "length", upstream.Text("a END b")))
	v := o.both(s, stopMember(s, "END"))
	o.Equal("a ", v.Text, "the text")
	o.requireMatched(s, v, "END")
}

func requireFailureAfterMatch(o *ops, s shape) {
	for _, end := range []upstream.Step{upstream.Fail(upstream.ServerError()), upstream.Cut()} {
		o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("a END b"), end}})
		a := o.ask(s, stopMember(s, "END"))
		o.Equal(502, a.Status, "the status")
		o.errorForm(s, a, "upstream_error")
		v, _ := o.failedStream(s, stopMember(s, "END"))
		o.Equal([]string{"a "}, v.Pieces, "the text before the error frame")
	}
}

func requireRouteGoesOn(o *ops, s shape) {
	goOn := o.newWait()
	o.answers(script(sixty, "stop", upstream.Text("a END b"), upstream.Wait(goOn), upstream.Text(" and more END")))
	before := o.balance()
	o.watch(s, joined(stopMember(s, "END"), includeUsage(s)), func(l *live) {
		l.reads("a ")
		l.keptAlive(3)
		o.gate.up.Open(goOn)
		l.ends()
		v := s.Judge(o, l.Frames)
		o.True(v.Complete, "the stream failed: %s", brief(v.Error))
		o.Equal("a ", v.Text, "the text")
		o.requireMatched(s, v, "END")
		o.Equal(int64(sixtyCost), v.Billed(o), "billed_microcents: all that the route generated")
		o.Equal(int64(sixtyCost), before.net()-o.balance().net(), "what NET fell by")
		a := o.ask(s, stopMember(s, "END"))
		o.Equal(v.Outcome, s.OutcomeOf(o, a.Status, a.Header, a.Raw), "the reply in JSON")
	})
}

func requireLimitAfterMatch(o *ops, s shape) {
	o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("a END b"), upstream.Silence()}})
	v, _ := o.failedStream(s, stopMember(s, "END"))
	o.Equal([]string{"a "}, v.Pieces, "the text before the error frame")
	o.True(v.KeepAlives > 0, "no keep-alive came")
	a := o.ask(s, stopMember(s, "END"))
	o.Equal(504, a.Status, "the status when not streamed")
	o.errorForm(s, a, "upstream_error")
	o.Equal(wire.Failure{Code: "upstream_error", Message: str(at(a.JSON(o.T), "error", "message"))}, *v.Error,
		"the frame")
	o.True(strings.Contains(v.Error.Message, "time limit"), "the message is %q", v.Error.Message)
}

func requireOnlyFragmentsWait(o *ops, s shape) {
	fragment, harmless := o.newWait(), o.newWait()
	o.answers(script(sixty, "stop", upstream.Text("abcE"), upstream.Wait(fragment), upstream.Text("X"),
		upstream.Wait(harmless), upstream.Text(" END")))
	o.watch(s, stopMember(s, "END"), func(l *live) {
		l.reads("abc")
		o.gate.up.Open(fragment)
		l.reads("abcEX")
		o.gate.up.Open(harmless)
		l.ends()
		o.Equal("abcEX ", l.Text, "the text")
		l.requireEnd(o.T, s)
	})
}

func requireShortWaits(o *ops, s shape) {
	pieces, stops := []string{"aa", "aa", "xyx", "aaxy", "ax", "aa"}, []string{"aaab", "xyz"}
	var steps []upstream.Step
	var waits []string
	for _, p := range pieces {
		waits = append(waits, o.newWait())
		steps = append(steps, upstream.Text(p), upstream.Wait(waits[len(waits)-1]))
	}
	o.answers(script(sixty, "stop", steps...))
	o.watch(s, stopMember(s, stops...), func(l *live) {
		received := ""
		for i, p := range pieces {
			received += p
			for len(l.Text) < len(received)-(len(stops[0])-1) {
				_, ok := l.next()
				o.True(ok, "the stream ended after %q", l.Text)
			}
			o.True(strings.HasPrefix(received, l.Text), "the text is %q where the route said %q", l.Text, received)
			o.gate.up.Open(waits[i])
		}
		l.ends()
		o.Equal(received, l.Text, "the text at the end")
		l.requireEnd(o.T, s)
	})
}

// runOwn checks that what is too long reaches neither route nor money (STOP-21).
func (l stopLimit) runOwn(o *ops, s shape) {
	if !l.tooMany {
		o.Equal("Hello", o.both(s, stopMember(s, l.stops...)).Text, "the text")
		return
	}
	before := o.balance()
	for _, mode := range modes {
		o.refused(s, o.ask(s, mode, stopMember(s, l.stops...)), 400, invalid)
	}
	o.untouched(before)
}

// answersText makes the upstream say pieces of text.
func (o *ops) answersText(pieces ...string) {
	var steps []upstream.Step
	for _, p := range pieces {
		steps = append(steps, upstream.Text(p))
	}
	o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "stop", steps...))
}
