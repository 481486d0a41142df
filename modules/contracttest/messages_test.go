package contracttest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const invalid, unsupported = "invalid_request_error", "unsupported_field"
	const f = `{"name":"f","description":"does f","input_schema":{"type":"object","properties":{"q":{"type":"integer"}}}}`
	const sentF = `{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object",` +
		`"properties":{"q":{"type":"integer"}}}}}`
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"q":1}}]}`
	const sentCall = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"f","arguments":"{\"q\":1}"}}]}`
	const user = `{"role":"user","content":"PROMPT"}`
	result := func(members string) string {
		return `[` + user + `,` + call + `,{"role":"user","content":[{"type":"tool_result",` + members + `}]}]`
	}
	messages := func(list string) map[string]string { return map[string]string{"messages": list} }
	parts := func(a, b string) string { // which stay apart (GAP-127)
		return `[{"type":"text","text":"` + a + `"},{"type":"text","text":"` + b + `"}]`
	}
	g.runRows(t, shapeOf("messages"), slices.Concat(
		[]row{
			{name: "MSG-02 no max_tokens", sent: map[string]string{"max_tokens": "32768", "temperature": "", "stop": "",
				"tools": ""}},
			{name: "MSG-03 a string", members: `"system":"S"`, sent: messages(`[{"role":"system","content":"S"},` + user + `]`)},
			{name: "MSG-03 blocks",
				members: `"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}},{"type":"text","text":"T"}]`,
				sent:    messages(`[{"role":"system","content":` + parts("S", "T") + `},` + user + `]`)},
			{name: "MSG-04 blocks",
				members: `"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT"},{"type":"text","text":"!"}]},` +
					`{"role":"assistant","content":[{"type":"text","text":"A"}]},{"role":"user","content":"U"}]`,
				sent: messages(
					`[{"role":"user","content":` + parts(
						"PROMPT",
						"!",
					) + `},{"role":"assistant","content":"A"},{"role":"user","content":"U"}]`,
				)},
			{name: "MSG-04 a system turn (GAP-26)", members: `"messages":[` + user +
				`,{"role":"system","content":"S"},{"role":"user","content":"U"}]`,
				sent: messages(`[` + user + `,{"role":"system","content":"S"},{"role":"user","content":"U"}]`)},
			{name: "MSG-05 tool_use", members: `"messages":` + result(`"tool_use_id":"c1","content":"R"`),
				sent: messages(`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":"R"}]`)},
			{name: "MSG-05 text and thinking beside it", members: `"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"A"},` +
				`{"type":"tool_use","id":"c1","name":"f","input":{}}]},{"role":"user","content":[{"type":"text","text":"U"},` +
				`{"type":"tool_result","tool_use_id":"c1","content":"R"}]}]`,
				sent: messages(`[` + user +
					`,{"role":"assistant","content":"A","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",` +
					`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"R"},{"role":"user","content":"U"}]`)},
			{name: "MSG-06 a string", members: `"messages":` + result(`"tool_use_id":"c1","content":"R"`),
				sent: messages(`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":"R"}]`)},
			{name: "MSG-06 blocks", members: `"messages":` +
				result(`"tool_use_id":"c1","content":[{"type":"text","text":"R"},{"type":"text","text":"S"}]`),
				sent: messages(
					`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":` + parts("R", "S") + `}]`,
				)},
			{name: "MSG-06 no content", members: `"messages":` + result(`"tool_use_id":"c1"`),
				sent: messages(`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":""}]`)},
			{name: "MSG-08 temperature", members: `"temperature":0.7`, sent: map[string]string{"temperature": "0.7"}},
			{name: "MSG-08 temperature zero", members: `"temperature":0`, sent: map[string]string{"temperature": "0"}},
			{name: "MSG-09 stop sequences", members: `"stop_sequences":["X","Y"]`, sent: map[string]string{"stop": `["X","Y"]`}},
			{name: "MSG-09 null", members: `"stop_sequences":null`, sent: map[string]string{"stop": ""}},
			{name: "MSG-09 stop is not read", members: `"stop":7`, sent: map[string]string{"stop": ""}},
			{name: "MSG-11 a client tool", members: `"tools":[` + f + `]`,
				sent: map[string]string{"tools": `[` + sentF + `]`, "tool_choice": ""}},
			{name: "MSG-12 MSG-13 MSG-14 VER-09 a server-side tool (GAP-81)",
				members: `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}]`,
				sent: map[string]string{"tools": `[{"type":"function","function":{"name":"web_search","parameters":{` +
					`"type":"object","properties":{}}}}]`}},
			{name: "MSG-12 a server-side tool without a name (GAP-136)",
				members: `"mcp_servers":[{"type":"url","url":"https://mcp.example","name":"docs"}],` +
					`"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"},` + f + `]`,
				sent: map[string]string{"tools": `[` + sentF + `]`}},
			{name: "MSG-12 and no other tool (GAP-136)", members: `"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"}]`,
				sent: map[string]string{"tools": "", "tool_choice": ""}},
			{name: "MSG-15 auto", members: `"tool_choice":{"type":"auto"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": "", "tools": `[` + sentF + `]`}},
			{name: "MSG-15 GAP-83 auto, parallel off",
				members: `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"tools":[` + f + `]`,
				sent:    map[string]string{"tool_choice": "", "parallel_tool_calls": ""}},
			{name: "MSG-15 any", members: `"tool_choice":{"type":"any"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"required"`}},
			{name: "MSG-15 tool", members: `"tool_choice":{"type":"tool","name":"f"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `{"type":"function","function":{"name":"f"}}`}},
			{name: "MSG-15 none", members: `"tool_choice":{"type":"none"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"none"`}},
			{name: "MSG-15 undeclared", members: `"tool_choice":{"type":"tool","name":"g"},"tools":[` + f + `]`, code: invalid},
		},
		acceptedRows("MSG-16", "thinking", `{"type":"enabled","budget_tokens":1024}`, `"junk"`),
		acceptedRows("MSG-17 STRUCT-05 VER-08", "output_format", `{"type":"json_schema","schema":{"type":"object"}}`,
			`{"type":"nonsense"}`, `7`),
		acceptedRows("MSG-17 STRUCT-06 VER-08", "output_config",
			`{"format":{"type":"json_schema","schema":{"type":"object"}}}`, `7`),
		acceptedRows("STRUCT-06 VER-08", "output_config",
			`{"format":{"type":"json_schema","schema":{}}},"output_format":{"type":"json_schema","schema":{}}`),
		acceptedRows("ALLOW-03", "max_completion_tokens", `1`, `"x"`),
		refusedRows("MSG-02", "max_tokens", invalid, `0`, `-1`, `"5"`, `1.5`),
		refusedRows("MSG-03", "system", invalid, `7`, `[7]`, `[{"type":"nonsense"}]`),
		refusedRows("MSG-04 ERR-10", "messages", invalid, `null`, `[]`, `"PROMPT"`, `[7]`, `[{"content":"PROMPT"}]`,
			`[{"role":"robot","content":"PROMPT"}]`, `[{"role":"tool","content":"PROMPT"}]`,
			`[{"role":"user"}]`, `[{"role":"user","content":[{"type":"nonsense"}]}]`,
			`[{"role":"user","content":[{"text":"PROMPT"}]}]`),
		refusedRows("MSG-04 (GAP-27)", "messages", unsupported,
			`[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"x"}}]}]`),
		refusedRows("MSG-05", "messages", invalid, `[`+user+
			`,{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]`,
			`[`+user+`,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":"x"}]}]`),
		refusedRows("MSG-06", "messages", invalid, result(`"content":"R"`), result(`"tool_use_id":"other","content":"R"`)),
		refusedRows("MSG-08", "temperature", invalid, `1.1`, `"1"`, `-0.5`),
		refusedRows("MSG-09", "stop_sequences", invalid, `"X"`, `[1]`, `{}`),
		refusedRows("MSG-10", "stream", invalid, `1`, `"true"`),
		refusedRows("MSG-11", "tools", invalid, `{}`, `[{"input_schema":{}}]`, `[{"name":"f","input_schema":[]}]`,
			`[{"name":"a b"}]`, `[`+f+`,`+f+`]`),
		acceptedRows("MSG-12 GAP-136", "tools", `[{"type":"web_search_20250305"}]`, `[{"type":"x","name":"not a name"}]`),
		refusedRows("MSG-12 GAP-136", "tools", invalid, `[{"type":"custom"}]`, `[{}]`),
		refusedRows("MSG-15", "tool_choice", invalid, `{"type":"x"}`, `"auto"`, `{}`, `{"type":"any"}`),
	))

	t.Run("MSG-13 MSG-14 TOOL-01 VER-09 a call of a server-side tool is the client's", func(t *testing.T) {
		t.Parallel()
		for _, mode := range modes {
			c := g.rich(t)
			c.Answers(upstream.Call("c1", "web_search", `{"query":"x"}`))
			a := c.Ask(shapeOf("messages"), `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, mode.Field)
			o := outcomeOf(t, shapeOf("messages"), a)
			require.Equal(t, "tool_use", o.Finish)
			require.Equal(t, []toolCall{{"c1", "web_search", `{"query":"x"}`}}, o.Calls)
			require.NotContains(t, string(a.Raw), "server_tool_use")
			require.NotContains(t, string(a.Raw), "web_search_tool_result")
			require.Len(t, c.Seen(), 1)
		}
	})
	t.Run("MSG-10 CHAT-08 RESP-10 streamed only when true", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			for members, kind := range map[string]string{`"foo":1`: "application/json", `"stream":false`: "application/json",
				`"stream":null`: "application/json", `"stream":true`: "text/event-stream; charset=utf-8"} {
				require.Equal(t, kind, g.rich(t).Ask(sh, members).Header.Get("Content-Type"))
			}
		}
	})
	t.Run("HTTP-11 every member that clients need", func(t *testing.T) {
		t.Parallel()
		a := g.rich(t).Ask(shapeOf("messages"))
		got := a.JSON(t)
		require.Regexp(t, `^msg_[0-9a-f]+$`, got["id"])
		delete(got, "id")
		delete(got, "usage")
		require.Equal(t, map[string]any{"type": "message", "role": "assistant", "model": "service/auto",
			"stop_reason":   "end_turn",
			"stop_sequence": nil, "content": []any{map[string]any{"type": "text", "text": "Hello"}}}, got)
	})
}
