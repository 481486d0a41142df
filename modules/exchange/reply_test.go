package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/stop"
	"github.com/fareway/fareway/plugins/llm"
)

func text(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }

func call(index int, name string) llm.Event {
	return llm.Event{Kind: llm.EventToolCall, Index: index, ID: "call_" + name, Name: name}
}

func arguments(index int, s string) llm.Event {
	return llm.Event{Kind: llm.EventToolArguments, Index: index, Text: s}
}

func finish(r llm.FinishReason) llm.Event { return llm.Event{Kind: llm.EventFinish, Finish: r} }

// cut runs events through a reply and returns what passed, with the ending.
func cut(t *testing.T, stops []string, events ...llm.Event) (*reply, []llm.Event, ending, *failure) {
	t.Helper()
	r := &reply{matcher: stop.New(stops).Matcher()}
	var passed []llm.Event
	for _, ev := range events {
		r.addEvent(ev, func(ev llm.Event) {
			passed = append(passed, ev)
			r.fold.Add(ev)
		})
	}
	r.fold.Close()
	e, f := r.end()
	return r, passed, e, f
}

func matched(s string) *string { return &s }

func TestReplyEndings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stops  []string
		events []llm.Event
		passed []llm.Event
		ending ending
		fails  failureKind
	}{{
		name:   "STOP-07 STOP-09 match across deltas",
		stops:  []string{"END"},
		events: []llm.Event{text("foo E"), text("N"), text("D bar"), finish(llm.FinishStop)},
		passed: []llm.Event{text("foo ")},
		ending: ending{finish: llm.FinishStop, stop: matched("END")},
	}, {
		name:   "STOP-27 STOP-28 a fragment that becomes nothing is released",
		stops:  []string{"END"},
		events: []llm.Event{text("ab"), text("EN"), finish(llm.FinishStop)},
		passed: []llm.Event{text("ab")},
		ending: ending{finish: llm.FinishStop, rest: "EN"},
	}, {
		name:   "STOP-11 STOP-12 text around a call is matched separately",
		stops:  []string{"END"},
		events: []llm.Event{text("abEN"), call(0, "f"), arguments(0, "{}"), text("Dcd"), finish(llm.FinishToolCalls)},
		passed: []llm.Event{text("ab"), text("EN"), call(0, "f"), arguments(0, "{}"), text("Dcd")},
		ending: ending{finish: llm.FinishToolCalls},
	}, {
		name:   "STOP-13 a call after a match is dropped with its arguments",
		stops:  []string{"END"},
		events: []llm.Event{text("a END b"), call(0, "f"), arguments(0, "{}"), text("c"), finish(llm.FinishToolCalls)},
		passed: []llm.Event{text("a ")},
		ending: ending{finish: llm.FinishStop, stop: matched("END")},
	}, {
		name:  "STOP-34 an earlier call is kept, with arguments that come late",
		stops: []string{"END"},
		events: []llm.Event{text("x"), call(0, "f"), arguments(0, "{"), text("y END z"), call(1, "g"), arguments(1, "{}"),
			arguments(0, "}"), finish(llm.FinishToolCalls)},
		passed: []llm.Event{text("x"), call(0, "f"), arguments(0, "{"), text("y "), arguments(0, "}")},
		ending: ending{finish: llm.FinishStop, stop: matched("END")},
	}, {
		name:   "arguments are not matched",
		stops:  []string{"END"},
		events: []llm.Event{call(0, "f"), arguments(0, `{"q":"END"}`), finish(llm.FinishStop)},
		passed: []llm.Event{call(0, "f"), arguments(0, `{"q":"END"}`)},
		ending: ending{finish: llm.FinishToolCalls},
	}, {
		name:   "reasoning is neither matched nor shown",
		stops:  []string{"END"},
		events: []llm.Event{{Kind: llm.EventReasoning, Text: "END"}, text("a"), finish(llm.FinishStop)},
		passed: []llm.Event{text("a")},
		ending: ending{finish: llm.FinishStop},
	}, {
		name:   "a match at position 0 is a visible answer",
		stops:  []string{"END"},
		events: []llm.Event{text("END"), finish(llm.FinishStop)},
		ending: ending{finish: llm.FinishStop, stop: matched("END")},
	}, {
		name:   "STOP-25 the content policy outranks a match",
		stops:  []string{"END"},
		events: []llm.Event{text("a END b"), finish(llm.FinishPolicy)},
		passed: []llm.Event{text("a ")},
		ending: ending{finish: llm.FinishPolicy},
	}, {
		name:   "a length after a match changes nothing",
		stops:  []string{"END"},
		events: []llm.Event{text("a END b"), finish(llm.FinishLength)},
		passed: []llm.Event{text("a ")},
		ending: ending{finish: llm.FinishStop, stop: matched("END")},
	}, {
		name:   "POL-06 a policy ending without text gets the fixed text, which is not matched",
		stops:  []string{"blocked"},
		events: []llm.Event{finish(llm.FinishPolicy)},
		ending: ending{finish: llm.FinishPolicy, rest: policyText},
	}, {
		name:   "POL-06 with text nothing is appended, and the withheld fragment is released",
		stops:  []string{"END"},
		events: []llm.Event{text("HelEN"), finish(llm.FinishPolicy)},
		passed: []llm.Event{text("Hel")},
		ending: ending{finish: llm.FinishPolicy, rest: "EN"},
	}, {
		name:   "ERR-22 length without text",
		events: []llm.Event{{Kind: llm.EventReasoning, Text: "hm"}, finish(llm.FinishLength)},
		fails:  noVisibleText,
	}, {
		name:   "ERR-26 stop without text",
		events: []llm.Event{text(""), finish(llm.FinishStop)},
		fails:  noVisibleText,
	}, {
		name:   "a withheld fragment alone is a visible answer",
		stops:  []string{"END"},
		events: []llm.Event{text("EN"), finish(llm.FinishStop)},
		ending: ending{finish: llm.FinishStop, rest: "EN"},
	}, {
		name:   "CHAT-31 one visible character, then length",
		events: []llm.Event{text("H"), finish(llm.FinishLength)},
		passed: []llm.Event{text("H")},
		ending: ending{finish: llm.FinishLength},
	}, {
		name:   "arguments that are not JSON",
		events: []llm.Event{call(0, "f"), arguments(0, `{"a":`), finish(llm.FinishToolCalls)},
		passed: []llm.Event{call(0, "f"), arguments(0, `{"a":`)},
		fails:  invalidArguments,
	}, {
		name:   "arguments that are cut by the allowance",
		events: []llm.Event{call(0, "f"), arguments(0, `{"a":`), finish(llm.FinishLength)},
		passed: []llm.Event{call(0, "f"), arguments(0, `{"a":`)},
		ending: ending{finish: llm.FinishLength},
	}, {
		name:   "no arguments mean {}",
		events: []llm.Event{call(0, "f"), finish(llm.FinishUnknown)},
		passed: []llm.Event{call(0, "f")},
		ending: ending{finish: llm.FinishToolCalls},
	}, {
		name:   "an upstream that says tool_calls without one",
		events: []llm.Event{text("a"), finish(llm.FinishToolCalls)},
		passed: []llm.Event{text("a")},
		ending: ending{finish: llm.FinishStop},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, passed, end, fails := cut(t, tt.stops, tt.events...)
			require.Equal(t, tt.passed, passed)
			if tt.fails != "" {
				require.NotNil(t, fails)
				require.Equal(t, tt.fails, fails.kind)
				return
			}
			require.Nil(t, fails)
			require.Equal(t, tt.ending, end)
		})
	}
}

// TestWordsOfARoute: the route's own words for the end of a reply, and not for one that is known (GAP-114).
func TestWordsOfARoute(t *testing.T) {
	t.Parallel()
	for said, want := range map[llm.FinishReason]struct {
		finish llm.FinishReason
		says   string
	}{
		"stop":         {llm.FinishStop, ""},
		"End_Of_It":    {llm.FinishLength, ""},
		"error":        {"error", `for the reason "error"`},
		"a whole text": {"a whole text", "a reason that is no word"},
	} {
		r := &reply{words: map[string]llm.FinishReason{"end_of_it": llm.FinishLength, "stop": llm.FinishPolicy}}
		r.addEvent(finish(said), nil)
		require.Equal(t, want.finish, r.finish)
		f := r.unfinished()
		if want.says == "" {
			require.Nil(t, f)
			continue
		}
		require.Equal(t, llm.ErrUpstream, f.kind)
		require.ErrorContains(t, f.err, want.says)
		if want.finish != "error" {
			require.NotContains(t, f.err.Error(), "text", "it may be a text of the reply")
		}
	}
}
