package verify

import (
	"fmt"
	"strings"
)

// Stop sequences are looked at by asking for a sentence and stopping at its first blank: whatever the model
// says, the reply holds no blank then. A model that says a single word proves nothing, so such a reply is
// Pending where the check is about a cut.

func stopChecks() []*Check {
	var checks []*Check
	for i, s := range shapes {
		own := []string{"STOP-01", "STOP-02", "STOP-03"}[i]
		form := []string{"CHAT-07 CHAT-29", "RESP-09 RESP-28", "MSG-09"}[i]
		other := map[string]string{"stop": "stop_sequences", "stop_sequences": "stop"}[s.stop]
		checks = append(checks,
			check(own+" STOP-05 STOP-07 "+form, "stop at a blank, streamed and not, on "+s.Name, func(t *T) {
				for _, value := range s.stopForms() {
					v := t.ok(s, t.ask(s, quote(s.stop)+":"+value))
					t.requireStopped(s, s.text(v), s.finish(v))
					r := t.stream(s, quote(s.stop)+":"+value)
					t.requireStopped(s, r.Text, r.finish(s))
					r.requireEnd(t, s)
				}
			}),
			check(own+" HTTP-04", other+" is not read on "+s.Name, func(t *T) {
				v := t.ok(s, t.ask(s, quote(other)+`:[" "]`))
				t.requireWhole(s.text(v))
			}),
			check("STOP-14", "empty stop sequences on "+s.Name, func(t *T) {
				t.requireWhole(s.text(t.ok(s, t.ask(s, quote(s.stop)+`:["",""]`))))
				if s.Name != "messages" {
					t.requireWhole(s.text(t.ok(s, t.ask(s, quote(s.stop)+`:""`))))
				}
				v := t.ok(s, t.ask(s, quote(s.stop)+`:[""," "]`))
				t.requireStopped(s, s.text(v), s.finish(v))
			}))
		limit := func(ids, what string, list []string, code string) {
			for _, mode := range modes {
				checks = append(checks, check(ids, what+" on "+s.Name+" with "+mode, func(t *T) {
					a := t.ask(s, quote(s.stop)+":"+array(list), mode)
					switch {
					case code != "":
						t.refused(s, a, 400, code)
					case a.Status != 200:
						t.unserved(s, a)
					}
				}))
			}
		}
		numbered := func(n int) []string {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf("@@%d@@", i))
			}
			return list
		}
		limit("STOP-16", "16 stop sequences", numbered(16), "")
		limit("STOP-16 STOP-20", "17 stop sequences", numbered(17), invalid)
		limit("STOP-17 STOP-20", "17 of which 10 are empty or repeated",
			append(numbered(7), "", "", "", "", "", "@@0@@", "@@0@@", "@@0@@", "@@0@@", "@@0@@"), invalid)
		limit("STOP-18 STOP-19", "256 characters", []string{strings.Repeat("@", 256)}, "")
		limit("STOP-18 STOP-20", "257 characters", []string{strings.Repeat("@", 257)}, invalid)
		limit("STOP-19", "256 code units of 128 characters", []string{strings.Repeat("😀", 128)}, "")
		limit("STOP-19 STOP-20", "257 code units of 129 characters", []string{strings.Repeat("😀", 128) + "@"}, invalid)
		limit("STOP-19", "256 characters of 512 bytes", []string{strings.Repeat("é", 256)}, "")
	}
	return checks
}

// stopForms are the values of the shape's stop member that name a blank.
func (s shape) stopForms() []string {
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
	t.True(oneOf(finish, s.stopped()...), "the reply ended with %q", finish)
}

// requireWhole checks that a reply was not cut at its first blank.
func (t *T) requireWhole(text string) {
	if text != "" && !strings.Contains(text, " ") && !strings.ContainsAny(text, ".!?") {
		t.Failf("the reply ended before a blank: %s", brief(text))
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
					_, err := decode([]byte(c.Arguments))
					t.True(err == nil, "the arguments are no JSON object: %s", brief(c.Arguments))
					t.True(c.ID != "", "the call has no id")
					t.Equal(toolName, c.Name, "the name of the call")
				}),
			check("GEN-09 "+own, "a tool's result on "+s.Name, func(t *T) {
				v := t.ok(s, t.ask(s, s.tools(), s.answered(t.toolCall(s), "rain, 12 degrees")))
				t.True(s.text(v) != "" || len(s.calls(v)) > 0, "the reply has neither text nor calls")
			}))
	}
	return checks
}

// toolCall is the call that a request with forced tool choice gets.
func (t *T) toolCall(s shape) toolCall {
	return memo(t, "tool call "+s.Name, func() toolCall {
		v := t.ok(s, t.ask(s, quote(s.input)+":"+s.said("What is the weather in Oslo? Use the tool."), s.tools(), s.forced()))
		calls := s.calls(v)
		if len(calls) == 0 {
			t.Pendingf("the model did not call the tool")
		}
		return calls[0]
	})
}
