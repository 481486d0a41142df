package contracttest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// stopField is the member that sets stop sequences in a shape.
func stopField(sh shape, stops ...string) string {
	list, err := json.Marshal(stops)
	if err != nil {
		panic(err)
	}
	if sh.Name == "messages" {
		return `"stop_sequences":` + string(list)
	}
	return `"stop":` + string(list)
}

// finishes is how the endings of a reply read in each shape.
var finishes = map[string]map[string]string{
	"stop":       {"chat": "stop", "responses": "completed", "messages": "end_turn"},
	"matched":    {"chat": "stop", "responses": "completed", "messages": "stop_sequence"},
	"tool_calls": {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"},
	"length":     {"chat": "length", "responses": "incomplete/max_output_tokens", "messages": "max_tokens"},
	"policy":     {"chat": "content_filter", "responses": "incomplete/content_filter", "messages": "refusal"},
}

// askBoth asks for a reply in JSON and as a stream, which must say the same, and returns the stream.
func askBoth(t testing.TB, c *caller, sh shape, fields ...string) verdict {
	t.Helper()
	streamed := c.Stream(t, sh, fields...)
	require.True(t, streamed.Complete, "the stream failed: %v", streamed.Error)
	a := c.Ask(sh, fields...)
	whole := outcomeOf(t, sh, a)
	require.Equal(t, whole, streamed.outcome)
	if sh.Name == "messages" {
		require.Equal(t, a.At(t, "stop_sequence"), streamed.StopSequence)
	}
	return streamed
}

// letters makes a text step for each byte.
func letters(s string) []upstream.Step {
	var steps []upstream.Step
	for _, r := range s {
		steps = append(steps, upstream.Text(string(r)))
	}
	return steps
}

// TestWhichStopSequenceCounts is worked example E10, with the route's text in one delta and in many.
func TestWhichStopSequenceCounts(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, tt := range []struct {
		name, text string
		stops      []string
		reply      string
		matched    any
	}{
		{"STOP-04 STOP-05 STOP-07 not returned", "foo END bar", []string{"END"}, "foo ", "END"},
		{"STOP-06 earliest completion", "abcd", []string{"abcd", "bc"}, "a", "bc"},
		{"STOP-06 inside another", "abc", []string{"abc", "b"}, "a", "b"},
		{"STOP-08 longest at the same character", "xab", []string{"b", "ab"}, "x", "ab"},
		{"STOP-08 in any order", "xab", []string{"ab", "b"}, "x", "ab"},
		{"STOP-07 at the very beginning", "abab", []string{"abab", "ab"}, "", "ab"},
		{"STOP-07 overlapping itself", "aaab", []string{"aab"}, "a", "aab"},
		{"STOP-07 after a false start", "ENENDx", []string{"END"}, "EN", "END"},
		{"STOP-07 case-sensitive", "I am done. DONE!", []string{"DONE"}, "I am done. ", "DONE"},
		{"STOP-07 line feeds", "one\n\ntwo", []string{"\n\n"}, "one", "\n\n"},
		{"STOP-09 characters of several bytes", "a→é😀b", []string{"é😀"}, "a→", "é😀"},
		{"STOP-14 STOP-15 nothing matches", "hello", []string{"", "zz", "zz"}, "hello", nil},
	} {
		for _, sh := range shapes {
			t.Run(tt.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for _, steps := range [][]upstream.Step{{upstream.Text(tt.text)}, letters(tt.text)} {
					c.Answers(script(used(10, 60), "stop", steps...))
					v := askBoth(t, c, sh, stopField(sh, tt.stops...))
					require.Equal(t, tt.reply, v.Text)
					want := finishes["matched"]
					if tt.matched == nil {
						want = finishes["stop"]
					}
					require.Equal(t, want[sh.Name], v.Finish)
					if sh.Name == "messages" {
						require.Equal(t, tt.matched, v.StopSequence)
					}
				}
			})
		}
	}
}

// TestWithholding is worked example E11: what the client gets, delta by delta.
func TestWithholding(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, tt := range []struct {
		name           string
		stop           string
		deltas, pieces []string
	}{
		{"STOP-09 a match over three deltas", "END", []string{"foo E", "N", "D bar"}, []string{"foo "}},
		{"STOP-27 released when it cannot become one", "END", []string{"abcE", "NX", " tail"},
			[]string{"abc", "ENX", " tail"}},
		{"STOP-27 a false start before the match", "END", []string{"fooE", "NEN", "D"}, []string{"foo", "EN"}},
		{"STOP-28 released at the natural end", "END", []string{"ab", "EN"}, []string{"ab", "EN"}},
		{"STOP-28 the longest end that could match", "aab", []string{"aa", "a", "b"}, []string{"a"}},
		{"STOP-27 nothing that starts a sequence", "END", []string{"a", "b", "N", "D"}, []string{"a", "b", "N", "D"}},
	} {
		for _, sh := range shapes {
			t.Run(tt.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				var steps []upstream.Step
				for _, d := range tt.deltas {
					steps = append(steps, upstream.Text(d))
				}
				c.Answers(script(used(10, 60), "stop", steps...))
				require.Equal(t, tt.pieces, askBoth(t, c, sh, stopField(sh, tt.stop)).Pieces)
			})
		}
	}
	for _, sh := range shapes {
		t.Run("STOP-27 at once, while the route is silent "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "stop", upstream.Text("abcE"), upstream.Wait(c.Mark), upstream.Text("X"),
				upstream.Wait(c.Mark+"2"), upstream.Text("!")))
			l := c.Open(t, sh, stopField(sh, "END"))
			l.Start(sh)
			require.Equal(t, "abc", l.Text(sh))
			c.Upstream.Open(c.Mark)
			require.Equal(t, "EX", l.Text(sh))
			c.Upstream.Open(c.Mark + "2")
			l.End()
			require.Equal(t, "abcEX!", judge(t, sh, l).Text)
		})
	}
}

// TestStopSequencesAndToolCalls is worked example E12.
func TestStopSequencesAndToolCalls(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	f := toolCall{"call_1", "f", `{"q":"END"}`}
	call := func(index int, c toolCall) []upstream.Step {
		return []upstream.Step{upstream.ToolCall(index, c.ID, c.Name), upstream.Arguments(index, c.Arguments)}
	}
	g2 := toolCall{"call_2", "g", `{}`}
	text := func(s string) []upstream.Step { return []upstream.Step{upstream.Text(s)} }
	for _, tt := range []struct {
		name   string
		steps  []upstream.Step
		text   string
		pieces []string
		calls  []toolCall
		finish string
	}{
		{"STOP-11 STOP-12 matched separately", slices.Concat(text("abEN"), call(0, f), text("Dcd")), "abENDcd",
			[]string{"ab", "EN", "Dcd"}, []toolCall{f}, "tool_calls"},
		{"STOP-13 a later call is dropped", slices.Concat(text("a END b"), call(0, f), text("c")), "a ", []string{"a "}, nil,
			"matched"},
		{"STOP-34 STOP-13 an earlier call is kept", slices.Concat(text("x"), call(0, f), text("y END z"), call(1, g2)), "xy ",
			[]string{"x", "y "}, []toolCall{f}, "matched"},
		{"GAP-71 arguments are no text", call(0, f), "", nil, []toolCall{f}, "tool_calls"},
	} {
		for _, sh := range shapes {
			t.Run(tt.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(script(used(10, 60), "tool_calls", tt.steps...))
				v := askBoth(t, c, sh, stopField(sh, "END"), tools(sh, function{Name: "f"}, function{Name: "g"}))
				require.Equal(t, tt.text, v.Text)
				require.Equal(t, tt.pieces, v.Pieces)
				require.Equal(t, tt.calls, v.Calls)
				require.Equal(t, finishes[tt.finish][sh.Name], v.Finish)
			})
		}
	}
	for _, sh := range shapes {
		t.Run("STOP-12 released before the call's first event "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "tool_calls", slices.Concat(text("abEN"), call(0, f))...))
			l := c.Open(t, sh, stopField(sh, "END"))
			l.End()
			released := strings.Index(l.Raw.String(), `"EN"`)
			require.Positive(t, released)
			require.Less(t, released, strings.Index(l.Raw.String(), "call_1"))
		})
	}
}

// TestStopSequenceForms proves what each shape accepts as stop sequences.
func TestStopSequenceForms(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	reply := script(used(10, 60), "stop", upstream.Text("one X two Y three"))
	const whole = "one X two Y three"
	for _, tt := range []struct{ name, shape, field, text string }{
		{"STOP-01 a string", "chat", `"stop":"X"`, "one "},
		{"STOP-01 an array", "chat", `"stop":["Y","X"]`, "one "},
		{"STOP-01 another shape's field is ignored", "chat", `"stop_sequences":["X"]`, whole},
		{"STOP-02 a string", "responses", `"stop":"X"`, "one "},
		{"STOP-02 an array", "responses", `"stop":["Y","X"]`, "one "},
		{"STOP-02 another shape's field is ignored", "responses", `"stop_sequences":["X"]`, whole},
		{"STOP-03 an array", "messages", `"stop_sequences":["Y","X"]`, "one "},
		{"STOP-03 another shape's field is ignored", "messages", `"stop":["X"]`, whole},
		{"STOP-14 an empty string", "chat", `"stop":""`, whole},
		{"STOP-14 an empty string", "responses", `"stop":""`, whole},
		{"STOP-14 empty strings", "chat", `"stop":["",""]`, whole},
		{"STOP-14 beside another", "chat", `"stop":["","Y"]`, "one X two "},
		{"STOP-14 beside another", "responses", `"stop":["","Y"]`, "one X two "},
		{"STOP-14 beside another", "messages", `"stop_sequences":["","Y"]`, "one X two "},
		{"STOP-15 repeated", "chat", `"stop":["Y","Y"]`, "one X two "},
		{"STOP-15 repeated", "responses", `"stop":["Y","Y"]`, "one X two "},
		{"STOP-15 repeated", "messages", `"stop_sequences":["Y","Y"]`, "one X two "},
	} {
		t.Run(tt.name+" "+tt.shape, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(reply)
			require.Equal(t, tt.text, askBoth(t, c, shapeOf(tt.shape), tt.field).Text)
		})
	}
}
