package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
)

// Stop sequences are looked at by asking for a sentence and stopping at its first blank: whatever the model
// says, the reply holds no blank then. A model that says a single word proves nothing, so such a reply is
// Pending where the check is about a cut.

func stopChecks() []*Check {
	var checks []*Check
	for i, s := range shapes {
		own := []string{"STOP-01", "STOP-02", "STOP-03"}[i]
		form := []string{"CHAT-07 CHAT-29", "RESP-09 RESP-28", "MSG-09"}[i]
		other := map[string]string{"stop": "stop_sequences", "stop_sequences": "stop"}[s.Stop]
		checks = append(checks,
			check(own+" STOP-05 STOP-07 "+form, "stop at a blank, streamed and not, on "+s.Name, func(t *T) {
				for _, value := range blankStops(s) {
					v := t.ok(s, t.ask(s, quote(s.Stop)+":"+value))
					t.requireStopped(s, s.Text(v), s.Finish(v))
					r := t.stream(s, quote(s.Stop)+":"+value)
					t.requireStopped(s, r.Text, r.Finish(s))
					r.requireEnd(t, s)
				}
			}),
			check(own+" HTTP-04", other+" is not read on "+s.Name, func(t *T) {
				v := t.ok(s, t.ask(s, quote(other)+`:[" "]`))
				t.requireWhole(s.Text(v))
			}),
			check("STOP-14", "empty stop sequences on "+s.Name, func(t *T) {
				t.requireWhole(s.Text(t.ok(s, t.ask(s, quote(s.Stop)+`:["",""]`))))
				if s.Name != "messages" {
					t.requireWhole(s.Text(t.ok(s, t.ask(s, quote(s.Stop)+`:""`))))
				}
				v := t.ok(s, t.ask(s, quote(s.Stop)+`:[""," "]`))
				t.requireStopped(s, s.Text(v), s.Finish(v))
			}))
		for _, l := range stopLimits {
			for _, mode := range modes {
				checks = append(checks, check(l.clauses, l.what+" on "+s.Name+" with "+mode, func(t *T) {
					a := t.ask(s, quote(s.Stop)+":"+array(l.stops), mode)
					switch {
					case l.tooMany:
						t.refused(s, a, 400, invalid)
					case a.Status != 200:
						t.unserved(s, a)
					}
				}))
			}
		}
	}
	return checks
}

// stopLimit is a list of stop sequences that is just short enough, or too long (E13).
type stopLimit struct {
	clauses, what string
	stops         []string
	tooMany       bool
}

var stopLimits = []stopLimit{
	{"STOP-16", "16 stop sequences", numberedStops(16), false},
	{"STOP-16 STOP-20", "17 stop sequences", numberedStops(17), true},
	{"STOP-17 STOP-20", "17 of which 10 are empty or repeated",
		append(numberedStops(7), "", "", "", "", "", "@@0@@", "@@0@@", "@@0@@", "@@0@@", "@@0@@"), true},
	{"STOP-17", "17 of which 10 are empty", append(numberedStops(7), make([]string, 10)...), true},
	{"STOP-17", "17 that are the same", slices.Repeat([]string{"x"}, 17), true},
	{"STOP-18 STOP-19", "256 characters", []string{strings.Repeat("@", 256)}, false},
	{"STOP-18 STOP-20", "257 characters", []string{strings.Repeat("@", 257)}, true},
	{"STOP-19", "256 code units of 128 characters", []string{strings.Repeat("😀", 128)}, false},
	{"STOP-19 STOP-20", "257 code units of 129 characters", []string{strings.Repeat("😀", 128) + "@"}, true},
	{"STOP-19", "256 characters of 512 bytes", []string{strings.Repeat("é", 256)}, false},
	{"STOP-19", "256 code units of 32 glyphs", []string{strings.Repeat("👨‍👩‍👧", 32)}, false},
	{"STOP-19 STOP-20", "257 code units, of 32 glyphs and a letter", []string{strings.Repeat("👨‍👩‍👧", 32) + "a"},
		true},
}

func numberedStops(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("@@%d@@", i))
	}
	return list
}

// blankStops are the values of the shape's stop member that name a blank.
func blankStops(s shape) []string {
	if s.Name == "messages" {
		return []string{`[" "]`}
	}
	return []string{`" "`, `["@@@"," "]`}
}

func array(list []string) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = quote(s)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// requireStopped checks a reply that ended at a blank.
func (t *T) requireStopped(s shape, text, finish string) {
	t.True(!strings.Contains(text, " "), "the reply holds the stop sequence: %s", brief(text))
	t.True(oneOf(finish, stopEnds(s)...), "the reply ended with %q", finish)
}

// requireWhole checks that a reply was not cut at its first blank.
func (t *T) requireWhole(text string) {
	if text != "" && !strings.Contains(text, " ") && !strings.ContainsAny(text, ".!?") {
		t.Fatalf("the reply ended before a blank: %s", brief(text))
	}
	t.True(text != "", "the reply is empty")
}

func toolChecks() []*Check {
	var checks []*Check
	for i, s := range shapes {
		own := []string{"TOOL-02 CHAT-04", "TOOL-03 RESP-05", "TOOL-04 MSG-05 MSG-06"}[i]
		checks = append(checks,
			check("GEN-08 TOOL-01 "+[]string{"CHAT-11", "RESP-11", "MSG-11"}[i], "a tool call in native form on "+s.Name,
				func(t *T) {
					c := t.toolCall(s)
					_, err := wire.Decode([]byte(c.Arguments))
					t.True(err == nil, "the arguments are no JSON object: %s", brief(c.Arguments))
					t.True(c.ID != "", "the call has no id")
					t.Equal(toolName, c.Name, "the name of the call")
				}),
			check("GEN-09 "+own, "a tool's result on "+s.Name, func(t *T) {
				v := t.ok(s, t.ask(s, weatherTool(s), s.Answered(prompt, []wire.ToolCall{t.toolCall(s)}, "rain, 12 degrees")))
				t.True(s.Text(v) != "" || len(s.Calls(v)) > 0, "the reply has neither text nor calls")
			}))
	}
	return checks
}

// toolCall is the call that a request with forced tool choice gets.
func (t *T) toolCall(s shape) wire.ToolCall {
	return memo(t, "tool call "+s.Name, func() wire.ToolCall {
		v := t.ok(s, t.ask(s, quote(s.Input)+":"+s.Said(weatherPrompt), weatherTool(s), s.Forced()))
		calls := s.Calls(v)
		if len(calls) == 0 {
			t.Pendingf("the model did not call the tool")
		}
		return calls[0]
	})
}
