package contracttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func TestChat(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const invalid, unsupported = "invalid_request_error", "unsupported_field"
	const f = `{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object",` +
		`"properties":{"q":{"type":"integer"}}}}}`
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",` +
		`"arguments":"{\"q\":1}"}}]}`
	g.runRows(t, shapeOf("chat"), slices.Concat(
		[]row{
			{name: "CHAT-01 CHAT-02 CHAT-04 all roles", members: `"messages":[
				{"role":"system","content":"S"},{"role":"developer","content":[{"type":"text","text":"D"}]},
				{"role":"user","content":[{"type":"text","text":"PROMPT"},{"type":"text","text":"!"}]},` + call + `,
				{"role":"tool","tool_call_id":"c1","content":"R"},{"role":"assistant","content":"A"},{"role":"user",` +
				`"content":"U"}]`,
				sent: map[string]string{"messages": `[{"role":"system","content":"S"},{"role":"system","content":"D"},
				{"role":"user","content":[{"type":"text","text":"PROMPT"},{"type":"text","text":"!"}]},` + call +
					`,{"role":"tool","tool_call_id":"c1","content":"R"},
				{"role":"assistant","content":"A"},{"role":"user","content":"U"}]`}},
			{name: "CHAT-03 developer",
				members: `"messages":[{"role":"developer","content":"D"},{"role":"user","content":"PROMPT"}]`,
				sent:    map[string]string{"messages": `[{"role":"system","content":"D"},{"role":"user","content":"PROMPT"}]`}},
			{name: "CHAT-03 system", members: `"messages":[{"role":"system","content":"D"},{"role":"user","content":"PROMPT"}]`,
				sent: map[string]string{"messages": `[{"role":"system","content":"D"},{"role":"user","content":"PROMPT"}]`}},
			{name: "CHAT-06 temperature", members: `"temperature":0.3`, sent: map[string]string{"temperature": "0.3"}},
			{name: "CHAT-06 temperature zero", members: `"temperature":0`, sent: map[string]string{"temperature": "0"}},
			{name: "CHAT-06 temperature highest", members: `"temperature":2`, sent: map[string]string{"temperature": "2"}},
			{name: "CHAT-06 CHAT-10 temperature absent", sent: map[string]string{"temperature": "", "stop": "", "tools": "",
				"user": ""}},
			{name: "CHAT-06 temperature null", members: `"temperature":null`, sent: map[string]string{"temperature": ""}},
			{name: "CHAT-07 a string", members: `"stop":"X"`, sent: map[string]string{"stop": `["X"]`}},
			{name: "CHAT-07 an array", members: `"stop":["X","Y"]`, sent: map[string]string{"stop": `["X","Y"]`}},
			{name: "CHAT-07 null", members: `"stop":null`, sent: map[string]string{"stop": ""}},
			{name: "CHAT-11 a function", members: `"tools":[` + f + `]`,
				sent: map[string]string{"tools": `[` + f + `]`, "tool_choice": ""}},
			{name: "CHAT-11 no functions", members: `"tools":[]`, sent: map[string]string{"tools": ""}},
			{name: "CHAT-11 no parameters", members: `"tools":[{"type":"function","function":{"name":"f"}}]`,
				sent: map[string]string{"tools": `[{"type":"function","function":{"name":"f","parameters":{"type":"object",` +
					`"properties":{}}}}]`}},
			{name: "CHAT-13 auto", members: `"tool_choice":"auto","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": "", "tools": `[` + f + `]`}},
			{name: "CHAT-14 none", members: `"tool_choice":"none","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"none"`}},
			{name: "CHAT-15 required", members: `"tool_choice":"required","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"required"`}},
			{name: "CHAT-16 named", members: `"tool_choice":{"type":"function","function":{"name":"f"}},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `{"type":"function","function":{"name":"f"}}`}},
			{name: "CHAT-16 named, flat", members: `"tool_choice":{"type":"function","name":"f"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `{"type":"function","function":{"name":"f"}}`}},
			{name: "CHAT-16 undeclared", members: `"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + f +
				`]`, code: invalid},
			{name: "CHAT-16 not a choice", members: `"tool_choice":"always","tools":[` + f + `]`, code: invalid},
			{name: "CHAT-15 required without tools", members: `"tool_choice":"required"`, code: invalid},
			{name: "CHAT-17 parallel off", members: `"parallel_tool_calls":false,"tools":[` + f + `]`,
				sent: map[string]string{"parallel_tool_calls": ""}},
			{name: "CHAT-18 GAP-31 low", members: `"reasoning_effort":"low"`, sent: map[string]string{"reasoning_effort": ""}},
			{name: "CHAT-18 medium", members: `"reasoning_effort":"medium"`, sent: map[string]string{"reasoning_effort": ""}},
			{name: "CHAT-18 high", members: `"reasoning_effort":"high"`, sent: map[string]string{"reasoning_effort": ""}},
			{name: "CHAT-18 null", members: `"reasoning_effort":null`, sent: map[string]string{"reasoning_effort": ""}},
			{name: "CHAT-04 no tool_call_id", members: `"messages":[{"role":"user","content":"PROMPT"},` + call +
				`,{"role":"tool","content":"R"}]`, code: invalid},
			{name: "CHAT-04 an orphan",
				members: `"messages":[{"role":"user","content":"PROMPT"},{"role":"tool","tool_call_id":"c1","content":"R"}]`,
				code:    invalid},
			{name: "CHAT-22 null", members: `"n":null`, sent: map[string]string{"n": ""}},
		},
		acceptedRows("CHAT-20", "top_p", `0.1`, `"x"`, `null`),
		acceptedRows("CHAT-21", "user", `"someone"`, `7`),
		acceptedRows("CHAT-24", "seed", `null`),
		acceptedRows("CHAT-25", "logprobs", `null`),
		acceptedRows("CHAT-26", "frequency_penalty", `null`),
		acceptedRows("CHAT-27", "presence_penalty", `null`),
		acceptedRows("CHAT-28 STRUCT-01", "response_format", `null`),
		refusedRows("CHAT-02 ERR-10", "messages", invalid, `null`, `[]`, `"PROMPT"`, `[7]`, `[{"content":"PROMPT"}]`,
			`[{"role":"function","content":"PROMPT"}]`, `[{"role":"robot","content":"PROMPT"}]`, `[{"role":"user"}]`,
			`[{"role":"user","content":[{"type":"nonsense"}]}]`),
		refusedRows("CHAT-05", "max_tokens", invalid, `0`, `-1`, `"10"`, `1.5`),
		refusedRows("CHAT-05", "max_completion_tokens", invalid, `0`, `-1`, `"10"`, `1.5`),
		refusedRows("CHAT-06", "temperature", invalid, `2.1`, `-0.1`, `"1"`),
		refusedRows("CHAT-07", "stop", invalid, `5`, `{}`, `[1]`),
		refusedRows("CHAT-08", "stream", invalid, `"true"`, `1`),
		refusedRows("CHAT-10", "stream_options", invalid, `{"include_usage":"yes"}`, `7`),
		refusedRows("CHAT-11 ERR-11", "tools", invalid, `{}`, `[7]`, `[{"type":"function"}]`, `[{"function":{"name":"f"}}]`,
			`[{"type":"function","function":{}}]`,
			`[{"type":"function","function":{"name":"a b"}}]`, `[{"type":"function","function":{"name":"f","parameters":[]}}]`,
			`[`+f+`,`+f+`]`),
		refusedRows("CHAT-12 ERR-13", "tools", unsupported, `[{"type":"custom","custom":{"name":"x"}}]`,
			`[{"type":"web_search"}]`, `[`+f+`,{"type":"code_interpreter"}]`),
		refusedRows("CHAT-16", "tool_choice", unsupported, `{"type":"allowed_tools"}`),
		refusedRows("CHAT-19", "reasoning_effort", invalid, `"minimal"`, `"none"`, `"HIGH"`, `""`, `3`),
		refusedRows("CHAT-23 VER-06 ERR-13", "n", unsupported, `2`, `128`),
		refusedRows("CHAT-22", "n", invalid, `0`, `-1`, `1.5`, `"1"`),
		refusedRows("CHAT-24 VER-06 ERR-13", "seed", unsupported, `0`, `42`, `false`),
		refusedRows("CHAT-25 VER-06 ERR-13", "logprobs", unsupported, `false`, `true`, `0`),
		refusedRows("CHAT-26 VER-06 ERR-13", "frequency_penalty", unsupported, `0`, `0.5`, `false`),
		refusedRows("CHAT-27 VER-06 ERR-13", "presence_penalty", unsupported, `0`, `-1`, `false`),
		refusedRows("CHAT-28 STRUCT-01 STRUCT-02 VER-08 ERR-13", "response_format", unsupported, `{"type":"text"}`,
			`{"type":"json_object"}`,
			`{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`, `"x"`, `{}`, `false`),
	))

	t.Run("CHAT-22 one choice", func(t *testing.T) {
		t.Parallel()
		for _, mode := range modes {
			a := g.rich(t).Ask(shapeOf("chat"), `"n":1`, mode.Field)
			outcomeOf(t, shapeOf("chat"), a)
			require.NotContains(t, string(a.Raw), `"index":1`)
			if mode.Name == "json" {
				require.Len(t, a.At(t, "choices"), 1)
				require.EqualValues(t, "0", a.At(t, "choices", 0, "index"))
			}
		}
	})
	t.Run("CHAT-05 the allowance caps the reply", func(t *testing.T) {
		t.Parallel()
		for members, tokens := range map[string]string{
			`"max_tokens":3`: "3", `"max_completion_tokens":3`: "3", `"max_tokens":10.0`: "10",
			`"max_tokens":5,"max_completion_tokens":2`: "2", `"max_tokens":2,"max_completion_tokens":5`: "2",
		} {
			for _, mode := range modes {
				c := g.rich(t)
				c.Answers(wordy)
				o := outcomeOf(t, shapeOf("chat"), c.Ask(shapeOf("chat"), members, mode.Field))
				require.Equal(t, "length", o.Finish)
				c.requireSent(t, map[string]string{"max_tokens": tokens, "max_completion_tokens": ""})
			}
		}
	})
	t.Run("CHAT-09 CHAT-10 usage when asked for", func(t *testing.T) {
		t.Parallel()
		for options, chunks := range map[string]int{``: 0, `,"stream_options":{}`: 0,
			`,"stream_options":{"include_usage":false}`: 0, `,"stream_options":null`: 0,
			`,"stream_options":{"include_usage":true}`: 1} {
			a := g.rich(t).Ask(shapeOf("chat"), `"stream":true`+options)
			outcomeOf(t, shapeOf("chat"), a)
			require.Equal(t, chunks, strings.Count(string(a.Raw), `"choices":[]`), options)
			if chunks == 0 {
				require.NotContains(t, string(a.Raw), `"usage"`)
				continue
			}
			frames := streamFrames(t, a.Raw)
			last := decoded(t, frames[len(frames)-2])
			require.Empty(t, last["choices"])
			require.NotNil(t, last["usage"])
			require.Contains(t, frames[len(frames)-3], `"finish_reason":"stop"`)
		}
	})
}

// wordy keeps to the output limit that the gateway sends, and says more words than any test allows.
var wordy = func() upstream.Reply {
	r := upstream.Say(strings.Repeat("word ", 100))
	r.Honour.MaxTokens = true
	return r
}()
