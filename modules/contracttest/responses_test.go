package contracttest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResponses(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const invalid, unsupported = "invalid_request_error", "unsupported_field"
	const f = `{"type":"function","name":"f","description":"does f","parameters":{"type":"object",` +
		`"properties":{"q":{"type":"integer"}}}}`
	const sentF = `{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object",` +
		`"properties":{"q":{"type":"integer"}}}}}`
	const call = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"q\":1}"}`
	const sentCall = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"f","arguments":"{\"q\":1}"}}]}`
	const user = `{"role":"user","content":"PROMPT"}`
	messages := func(list string) map[string]string { return map[string]string{"messages": list} }
	g.runRows(t, shapeOf("responses"), slices.Concat(
		[]row{
			{name: "ALLOW-02 RESP-07 max_tokens is not read", members: `"max_tokens":1,"max_completion_tokens":"x"`,
				sent: map[string]string{"max_tokens": "32768", "max_completion_tokens": ""}},
			{name: "RESP-02 a string", sent: map[string]string{"messages": `[` + user + `]`, "temperature": "", "stop": "",
				"tools": ""}},
			{name: "RESP-03 RESP-04 items", members: `"input":[{"role":"system","content":"S"},{"type":"message",` +
				`"role":"developer","content":[{"type":"input_text","text":"D"}]},
				{"role":"user","content":[{"type":"input_text","text":"PROMPT"},{"type":"input_text","text":"!"}]},
				{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A"}]},{"role":"user","content":"U"}]`,
				sent: messages(
					`[{"role":"system","content":"S"},{"role":"system","content":"D"},{"role":"user","content":[` +
						`{"type":"text","text":"PROMPT"},{"type":"text","text":"!"}]},` +
						`{"role":"assistant","content":"A"},{"role":"user","content":"U"}]`)},
			{name: "RESP-03 reasoning in the history is passed over",
				members: `"input":[` + user + `,{"type":"reasoning","id":"rs_1","summary":[]},{"role":"user","content":"U"}]`,
				sent:    messages(`[` + user + `,{"role":"user","content":"U"}]`)},
			{name: "RESP-05 a tool result", members: `"input":[` + user + `,` + call +
				`,{"type":"function_call_output","call_id":"c1","output":"R"}]`,
				sent: messages(`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":"R"}]`)},
			{name: "RESP-05 a tool result in parts", members: `"input":[` + user + `,` + call +
				`,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"R"}]}]`,
				sent: messages(`[` + user + `,` + sentCall + `,{"role":"tool","tool_call_id":"c1","content":"R"}]`)},
			{name: "RESP-06 instructions", members: `"instructions":"I","input":[{"role":"system","content":"S"},` + user + `]`,
				sent: messages(`[{"role":"system","content":"I"},{"role":"system","content":"S"},` + user + `]`)},
			{name: "RESP-08 temperature", members: `"temperature":1.5`, sent: map[string]string{"temperature": "1.5"}},
			{name: "RESP-08 temperature zero", members: `"temperature":0`, sent: map[string]string{"temperature": "0"}},
			{name: "RESP-09 a string", members: `"stop":"X"`, sent: map[string]string{"stop": `["X"]`}},
			{name: "RESP-09 an array", members: `"stop":["X","Y"]`, sent: map[string]string{"stop": `["X","Y"]`}},
			{name: "RESP-11 a function", members: `"tools":[` + f + `]`,
				sent: map[string]string{"tools": `[` + sentF + `]`, "tool_choice": ""}},
			{name: "RESP-19 auto", members: `"tool_choice":"auto","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": "", "tools": `[` + sentF + `]`}},
			{name: "RESP-19 none", members: `"tool_choice":"none","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"none"`}},
			{name: "RESP-19 required", members: `"tool_choice":"required","tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `"required"`}},
			{name: "RESP-19 named", members: `"tool_choice":{"type":"function","name":"f"},"tools":[` + f + `]`,
				sent: map[string]string{"tool_choice": `{"type":"function","function":{"name":"f"}}`}},
			{name: "RESP-19 undeclared", members: `"tool_choice":{"type":"function","name":"g"},"tools":[` + f + `]`,
				code: invalid},
			{name: "RESP-19 not a choice", members: `"tool_choice":"always","tools":[` + f + `]`, code: invalid},
			{name: "RESP-19 hosted", members: `"tool_choice":{"type":"web_search"},"tools":[` + f + `]`, code: unsupported},
			{name: "RESP-11 additional tools (GAP-102)", members: `"input":[{"type":"additional_tools","tools":[` + f + `]},` +
				user + `]`, sent: map[string]string{"tools": `[` + sentF + `]`}},
			{name: "RESP-18 additional hosted tools (GAP-102)",
				members: `"input":[{"type":"additional_tools","tools":[{"type":"web_search"}]},` + user + `]`, code: unsupported},
		},
		acceptedRows("RESP-20 GAP-31", "reasoning_effort", `"low"`, `"medium"`, `"high"`, `null`),
		acceptedRows("RESP-22", "reasoning", `{"effort":"high"}`, `{"effort":"bogus"}`, `7`),
		acceptedRows("RESP-24", "store", `false`, `null`),
		acceptedRows("RESP-25", "background", `false`, `null`),
		acceptedRows("RESP-26", "previous_response_id", `null`),
		acceptedRows("RESP-27 STRUCT-04 VER-08", "text", `{"format":{"type":"text"}}`, `{"format":{"type":"json_object"}}`,
			`{"format":{"type":"json_schema","name":"x","schema":{}}}`, `{"format":{"type":"nonsense"}}`, `5`),
		acceptedRows("STRUCT-03", "response_format", `null`),
		refusedRows("RESP-02 ERR-10", "input", invalid, `null`, `""`, `[]`, `5`, `{}`),
		refusedRows("RESP-03", "input", invalid, `[{"role":"robot","content":"PROMPT"}]`, `[{"content":"PROMPT"}]`,
			`[{"type":"nonsense"}]`, `[7]`,
			`[{"role":"user","content":[{"type":"nonsense","text":"x"}]}]`),
		refusedRows("RESP-04 (GAP-27)", "input", unsupported, `[{"type":"item_reference","id":"msg_1"}]`,
			`[{"role":"user","content":[{"type":"input_file","file_id":"x"}]}]`),
		refusedRows("RESP-05", "input", invalid, `[`+user+`,`+call+`,{"type":"function_call_output","output":"R"}]`,
			`[`+user+`,{"type":"function_call_output","call_id":"c1","output":"R"}]`,
			`[`+user+`,`+call+`,{"type":"function_call_output","call_id":"c1"}]`),
		refusedRows("RESP-06", "instructions", invalid, `7`),
		refusedRows("RESP-07", "max_output_tokens", invalid, `0`, `-1`, `"5"`, `1.5`),
		refusedRows("RESP-08", "temperature", invalid, `2.1`, `"1"`),
		refusedRows("RESP-09", "stop", invalid, `5`, `[1]`, `{}`),
		refusedRows("RESP-10", "stream", invalid, `"yes"`, `1`),
		refusedRows("RESP-11", "tools", invalid, `{}`, `[{"type":"function"}]`, `[{"name":"f"}]`,
			`[{"type":"function","name":"f","parameters":[]}]`, `[`+f+`,`+f+`]`),
		refusedRows("RESP-12 VER-07 ERR-13", "tools", unsupported, `[{"type":"web_search"}]`,
			`[{"type":"web_search_preview"}]`),
		refusedRows("RESP-13 VER-07 ERR-13", "tools", unsupported, `[{"type":"file_search","vector_store_ids":[]}]`),
		refusedRows("RESP-14 VER-07 ERR-13", "tools", unsupported,
			`[{"type":"code_interpreter","container":{"type":"auto"}}]`),
		refusedRows("RESP-15 VER-07 ERR-13", "tools", unsupported, `[{"type":"computer_use_preview"}]`),
		refusedRows("RESP-16 VER-07 ERR-13", "tools", unsupported, `[{"type":"image_generation"}]`),
		refusedRows("RESP-17 VER-07 ERR-13", "tools", unsupported,
			`[{"type":"mcp","server_label":"x","server_url":"https://x"}]`,
			`[`+f+`,{"type":"mcp","server_label":"x","server_url":"https://x"}]`),
		refusedRows("RESP-18 VER-07 ERR-13", "tools", unsupported, `[{"type":"local_shell"}]`,
			`[{"type":"custom","name":"x"}]`, `[{"type":"whatever"}]`, `[{"type":"namespace","name":"x"}]`),
		refusedRows("RESP-21", "reasoning_effort", invalid, `"minimal"`, `""`, `3`),
		refusedRows("RESP-23 VER-07 ERR-13", "store", unsupported, `true`),
		refusedRows("RESP-23", "store", invalid, `"yes"`),
		refusedRows("RESP-25 VER-07 ERR-13", "background", unsupported, `true`),
		refusedRows("RESP-26 VER-07 ERR-13", "previous_response_id", unsupported, `"resp_123"`, `""`),
		refusedRows("STRUCT-02 STRUCT-03 VER-08 ERR-13", "response_format", unsupported, `{"type":"text"}`,
			`{"type":"json_object"}`, `{}`, `false`),
	))

	t.Run("RESP-01 RESP-02 nothing but a model", func(t *testing.T) {
		t.Parallel()
		requireError(t, shapeOf("responses"), g.rich(t).Post("/v1/responses", `{"model":"auto"}`), 400, invalid)
	})
	t.Run("HTTP-11 GAP-116 every member that clients need", func(t *testing.T) {
		t.Parallel()
		a := g.rich(t).Ask(shapeOf("responses"), `"instructions":"I","temperature":0.5,"max_output_tokens":50,"tools":[`+f+
			`],"tool_choice":"auto"`)
		got := a.JSON(t)
		require.Regexp(t, `^resp_[0-9a-f]+$`, got["id"])
		item := a.At(t, "output", 0).(map[string]any)
		require.Regexp(t, `^msg_`, item["id"])
		delete(item, "id")
		require.Equal(t, map[string]any{"type": "message", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": "Hello", "annotations": []any{},
				"logprobs": []any{}}}}, item)
		for name, want := range map[string]any{
			"object": "response", "status": "completed", "error": nil, "incomplete_details": nil, "instructions": "I",
			"max_output_tokens": json.Number("50"), "model": "service/auto", "parallel_tool_calls": true,
			"previous_response_id": nil,
			"store":                false, "temperature": json.Number("0.5"),
			"text":        map[string]any{"format": map[string]any{"type": "text"}},
			"tool_choice": "auto", "top_p": json.Number("1"), "metadata": map[string]any{}, "background": false,
			"truncation": "disabled", "service_tier": "default", "top_logprobs": json.Number("0"),
			"presence_penalty": json.Number("0"), "frequency_penalty": json.Number("0"), "max_tool_calls": nil,
			"safety_identifier": nil, "prompt_cache_key": nil, "reasoning": map[string]any{"effort": nil, "summary": nil},
		} {
			require.Contains(t, got, name)
			require.Equal(t, want, got[name], name)
		}
		require.Len(t, got["tools"], 1)
		created, err := got["created_at"].(json.Number).Int64()
		require.NoError(t, err)
		completed, err := got["completed_at"].(json.Number).Int64()
		require.NoError(t, err)
		require.Positive(t, created)
		require.GreaterOrEqual(t, completed, created)
	})
}
