package responses_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// with makes a request with a short input and more members.
func with(members string) string { return `{"model":"auto","input":"hi",` + members + `}` }

func items(list string) string { return `{"model":"auto","input":[` + list + `]}` }

const (
	call = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"q\":1}"}`
	tool = `{"type":"function","name":"f","description":"does f","parameters":{"type":"object",` +
		`"properties":{"api_key":{"type":"string"}}},"strict":true}`
)

func TestDecodeInput(t *testing.T) {
	t.Parallel()
	called := llm.Part{Call: &llm.ToolCall{ID: "c1", Name: "f", Arguments: llm.Plain(`{"q":1}`)}}
	result := llm.Message{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("ok")}}
	for _, tt := range []struct {
		name string
		body string
		want []llm.Message
	}{
		{"RESP-02 a string", `{"input":"hi"}`, []llm.Message{text(llm.RoleUser, "hi")}},
		{"RESP-03 role messages",
			items(
				`{"role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"output_text",` +
					`"text":"b"}]},{"role":"user","content":[{"type":"input_text","text":"c"},{"type":"input_text","text":"d"}]}`),
			[]llm.Message{text(llm.RoleUser, "a"), text(llm.RoleAssistant, "b"), text(llm.RoleUser, "c", "d")}},
		{"RESP-06 GAP-26 instructions come first, developer is system",
			`{"input":[{"role":"developer","content":"d"},{"role":"system","content":"s"},{"role":"user","content":"u"}],` +
				`"instructions":"i"}`,
			[]llm.Message{text(llm.RoleSystem, "i"), text(llm.RoleSystem, "d"), text(llm.RoleSystem, "s"),
				text(llm.RoleUser, "u")}},
		{"RESP-05 TOOL-03 a call and its output", items(call +
			`,{"type":"function_call_output","call_id":"c1","output":"ok"}`),
			[]llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{called}}, result}},
		{"RESP-05 output as text parts", items(call +
			`,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"ok"}]}`),
			[]llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{called}}, result}},
		{"an assistant's text and calls side by side are one turn",
			items(`{"role":"user","content":"u"},{"role":"assistant","content":"a"},` + call +
				`,{"type":"reasoning","id":"rs_1","summary":[]},{"role":"assistant","content":"b"},` +
				`{"type":"function_call_output","call_id":"c1","output":"ok"}`),
			[]llm.Message{text(llm.RoleUser, "u"), {Role: llm.RoleAssistant,
				Parts: []llm.Part{llm.Text("a"), called, llm.Text("b")}}, result}},
		{"calls with their outputs between them are turns of their own",
			items(call +
				`,{"type":"function_call_output","call_id":"c1","output":"ok"},{"type":"function_call","call_id":"c2","name":"f",` +
				`"arguments":""}`),
			[]llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{called}}, result,
				{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "c2", Name: "f"}}}}}},
		{"GAP-27 reasoning items are left out", items(
			`{"type":"reasoning","summary":[],"encrypted_content":"x"},{"role":"user","content":"u"}`),
			[]llm.Message{text(llm.RoleUser, "u")}},
		{"GAP-27 refusals are text", items(`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`),
			[]llm.Message{text(llm.RoleAssistant, "no")}},
		{"GAP-102 additional_tools is no message", items(`{"type":"additional_tools","role":"developer","tools":[` + tool +
			`]},{"role":"user","content":"u"}`),
			[]llm.Message{text(llm.RoleUser, "u")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, familytest.Plain(accepted(t, tt.body).LLM.Messages))
		})
	}
}

func TestDecodeFields(t *testing.T) {
	t.Parallel()
	t.Run("RESP-07 ALLOW-02 max_output_tokens is the output allowance", func(t *testing.T) {
		t.Parallel()
		require.EqualValues(t, 100, accepted(t, with(`"max_output_tokens":100`)).LLM.MaxTokens)
		require.EqualValues(t, 10, accepted(t, with(`"max_output_tokens":10.0`)).LLM.MaxTokens)
		require.Zero(t, accepted(t, with(`"max_tokens":100`)).LLM.MaxTokens)
	})
	t.Run("RESP-08 temperature", func(t *testing.T) {
		t.Parallel()
		got := accepted(t, with(`"temperature":1.5`)).LLM.Temperature
		require.NotNil(t, got)
		require.InDelta(t, 1.5, *got, 0)
	})
	t.Run("RESP-09 STOP-02 stop is a string or an array", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"X"}, accepted(t, with(`"stop":"X"`)).LLM.Stop)
		require.Equal(t, []string{"X", "Y"}, accepted(t, with(`"stop":["X","Y"],"stop_sequences":["Z"]`)).LLM.Stop)
	})
	t.Run("STOP-14 STOP-15 empty and repeated entries are dropped", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, accepted(t, with(`"stop":""`)).LLM.Stop)
		require.Equal(t, []string{"a", "b"}, accepted(t, with(`"stop":["","a","a","b"]`)).LLM.Stop)
	})
	t.Run("RESP-10 stream", func(t *testing.T) {
		t.Parallel()
		require.True(t, accepted(t, with(`"stream":true`)).Stream)
		require.False(t, accepted(t, with(`"stream":null`)).Stream)
	})
	t.Run("RESP-20 reasoning_effort", func(t *testing.T) {
		t.Parallel()
		for _, effort := range []string{"low", "medium", "high"} {
			require.Equal(t, effort, accepted(t, with(`"reasoning_effort":"`+effort+`"`)).Effort)
		}
		require.Empty(t, accepted(t, with(`"reasoning_effort":null`)).Effort)
	})
	t.Run("RESP-22 RESP-24 RESP-26 RESP-27 STRUCT-04 HTTP-04 HTTP-05 what is not read, false or null cannot fail",
		func(t *testing.T) {
			t.Parallel()
			plain := accepted(t, with(`"stream":false`))
			for _, members := range []string{
				`"reasoning":{"effort":"high"}`, `"reasoning":{"effort":"bogus"}`, `"text":5`,
				`"text":{"format":{"type":"nonsense"}}`,
				`"text":{"format":{"type":"json_schema","schema":{}}}`, `"store":false`, `"store":null`, `"background":false`,
				`"previous_response_id":null`, `"response_format":null`, `"seed":0`, `"n":2`, `"truncation":"auto"`,
				`"frequency_penalty":0`,
				`"client_metadata":{"session_id":"x"}`, `"include":["x"]`, `"parallel_tool_calls":false`, `"stop_sequences":5`,
			} {
				require.Equal(t, plain, accepted(t, with(members)), members)
			}
		})
}

func TestDecodeTools(t *testing.T) {
	t.Parallel()
	want := []llm.Tool{{Name: "f", Description: "does f", Strict: true,
		Schema: []byte(`{"type":"object","properties":{"api_key":{"type":"string"}}}`)}}
	for name, body := range map[string]string{
		"RESP-11 AUTH-18 flat":     with(`"tools":[` + tool + `]`),
		"nested as in chat":        with(`"tools":[{"type":"function","function":` + tool + `}]`),
		"GAP-102 in an input item": items(`{"type":"additional_tools","tools":[` + tool + `]},{"role":"user","content":"u"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, accepted(t, body).LLM.Tools)
		})
	}
	t.Run("GAP-29 no parameters are an object of any form", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object"}`)}},
			accepted(t, with(`"tools":[{"type":"function","name":"f"}]`)).LLM.Tools)
	})
	for choice, want := range map[string]llm.ToolChoice{
		`"auto"`:                         {},
		`"none"`:                         {Mode: llm.ToolNone},
		`"required"`:                     {Mode: llm.ToolRequired},
		`{"type":"function","name":"f"}`: {Mode: llm.ToolNamed, Name: "f"},
		`{"type":"function","function":{"name":"f"}}`: {Mode: llm.ToolNamed, Name: "f"},
	} {
		t.Run("RESP-19 tool_choice "+choice, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, accepted(t, with(`"tools":[`+tool+`],"tool_choice":`+choice)).LLM.ToolChoice)
			require.Equal(t, want, accepted(t, `{"input":[{"type":"additional_tools","tools":[`+tool+
				`]},{"role":"user","content":"u"}],"tool_choice":`+choice+`}`).LLM.ToolChoice)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const picture = `{"type":"input_image","image_url":"data:image/png;base64,aGk="}`
	hosted := func(clause, declaration string) refusal {
		return refusal{clause + " " + declaration, with(`"tools":[` + tool + `,` + declaration + `]`),
			families.UnsupportedField, "tools[1]"}
	}
	for _, tt := range []refusal{
		{"RESP-02 ERR-10 input missing", `{"model":"auto"}`, families.InvalidRequest, "input is required"},
		{"RESP-02 input a number", `{"input":5}`, families.InvalidRequest, "input must be"},
		{"GAP-26 input empty", `{"input":""}`, families.InvalidRequest, "input must not be empty"},
		{"GAP-26 input without items", items(``), families.InvalidRequest, "input must not be empty"},
		{"GAP-26 input of reasoning and tools only", items(`{"type":"reasoning"},{"type":"additional_tools"}`),
			families.InvalidRequest, "input must have a message"},
		{"GEN-02 a chat request", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`, families.InvalidRequest,
			"input is required"},
		{"GAP-26 unknown role", items(`{"role":"tool","content":"x"}`), families.InvalidRequest, "input[0].role"},
		{"an item that is nothing", items(`{}`), families.InvalidRequest, "input[0]"},
		{"GAP-27 unknown item", items(`{"type":"hologram"}`), families.InvalidRequest, "input[0].type"},
		{"GAP-27 unknown part", items(`{"role":"user","content":[{"type":"hologram"}]}`), families.InvalidRequest,
			"input[0].content[0].type"},
		{"GAP-27 item_reference", items(`{"type":"item_reference","id":"msg_1"}`), families.UnsupportedField, "input[0]"},
		{"GAP-27 file", items(`{"role":"user","content":[{"type":"input_file","file_id":"x"}]}`), families.UnsupportedField,
			"input[0].content[0]"},
		{"RESP-05 output without call_id", items(call + `,{"type":"function_call_output","output":"x"}`),
			families.InvalidRequest, "input[1].call_id is required"},
		{"GAP-28 GAP-103 output without its call", items(`{"type":"function_call_output","call_id":"c9","output":"x"}`),
			families.InvalidRequest, "whole conversation"},
		{"output missing", items(call + `,{"type":"function_call_output","call_id":"c1"}`), families.InvalidRequest,
			"input[1].output is required"},
		{"RESP-06 instructions that are no text", with(`"instructions":5`), families.InvalidRequest,
			"instructions must be a string"},
		{"RESP-07 max_output_tokens 0", with(`"max_output_tokens":0`), families.InvalidRequest, "max_output_tokens"},
		{"RESP-07 max_output_tokens negative", with(`"max_output_tokens":-1`), families.InvalidRequest, "max_output_tokens"},
		{"RESP-07 max_output_tokens a string", with(`"max_output_tokens":"5"`), families.InvalidRequest, "max_output_tokens"},
		{"GAP-25 temperature over 2", with(`"temperature":2.5`), families.InvalidRequest, "temperature"},
		{"RESP-09 stop a number", with(`"stop":5`), families.InvalidRequest, "stop"},
		{"STOP-16 17 sequences", with(`"stop":["a"` + strings.Repeat(`,"a"`, 16) + `]`), families.InvalidRequest, "16"},
		{"STOP-19 257 code units", with(`"stop":"` + strings.Repeat("😀", 128) + `a"`), families.InvalidRequest, "256"},
		{"RESP-10 stream a string", with(`"stream":"yes"`), families.InvalidRequest, "stream"},
		{"RESP-11 function without a name", with(`"tools":[{"type":"function"}]`), families.InvalidRequest, "tools[0].name"},
		{"tool without a type", with(`"tools":[{"name":"f"}]`), families.InvalidRequest, "tools[0].type"},
		{"GAP-102 other tools in additional_tools", items(
			`{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[]}]}`), families.UnsupportedField,
			"input[0].tools[0]"},
		{"RESP-19 unknown tool_choice", with(`"tools":[` + tool + `],"tool_choice":"sometimes"`), families.InvalidRequest,
			"tool_choice"},
		{"GAP-29 hosted tool_choice", with(`"tools":[` + tool + `],"tool_choice":{"type":"web_search"}`),
			families.UnsupportedField, "tool_choice"},
		{"GAP-29 required without tools", with(`"tool_choice":"required"`), families.InvalidRequest, "tool_choice"},
		{"RESP-21 unknown effort", with(`"reasoning_effort":"minimal"`), families.InvalidRequest, "reasoning_effort"},
		{"RESP-23 ERR-13 store", with(`"store":true`), families.UnsupportedField, "store"},
		{"RESP-25 background", with(`"background":true`), families.UnsupportedField, "background"},
		{"RESP-26 previous_response_id", with(`"previous_response_id":"resp_123"`), families.UnsupportedField,
			"previous_response_id"},
		{"RESP-26 previous_response_id empty", with(`"previous_response_id":""`), families.UnsupportedField,
			"previous_response_id"},
		{"STRUCT-02 response_format text", with(`"response_format":{"type":"text"}`), families.UnsupportedField,
			"response_format"},
		{"STRUCT-03 response_format", with(`"response_format":false`), families.UnsupportedField, "response_format"},
		{"GAP-01 what is not offered comes before other rules", with(`"stop":5,"store":true`), families.UnsupportedField,
			"store"},
		hosted("RESP-12", `{"type":"web_search"}`),
		hosted("RESP-12", `{"type":"web_search_preview"}`),
		hosted("RESP-13", `{"type":"file_search","vector_store_ids":[]}`),
		hosted("RESP-14", `{"type":"code_interpreter","container":{"type":"auto"}}`),
		hosted("RESP-15", `{"type":"computer_use_preview"}`),
		hosted("RESP-16", `{"type":"image_generation"}`),
		hosted("RESP-17", `{"type":"mcp","server_label":"x","server_url":"https://x"}`),
		hosted("RESP-18", `{"type":"custom","name":"g"}`),
		hosted("RESP-18", `{"type":"whatever"}`),

		{"MEDIA-04 image of a user", items(`{"role":"user","content":[{"type":"input_text","text":"see"},` + picture + `]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-04 audio of a user", items(`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-03 image of a developer", items(`{"role":"developer","content":[` + picture + `]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-05 image of an assistant", items(`{"role":"assistant","content":[` + picture + `]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-09 image in an output", items(call + `,{"type":"function_call_output","call_id":"c1","output":[` + picture +
			`]}`), families.UnsupportedContent, "not supported yet"},
		{"GAP-27 screenshot",
			items(`{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"x"}}`),
			families.UnsupportedContent, "not supported yet"},
		{"GAP-01 media comes before what is not offered",
			`{"input":[{"role":"user","content":[` + picture + `]}],"store":true}`, families.UnsupportedContent,
			"not supported yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := decoded(t, tt.body)
			require.NotNil(t, err)
			require.Equal(t, tt.code, err.Code)
			require.Equal(t, 400, err.Status)
			require.Contains(t, err.Message, tt.text)
		})
	}
}

// refusal is a request with what it is refused for, and what the message has to hold.
type refusal struct {
	name, body string
	code       families.Code
	text       string
}

func TestCaptures(t *testing.T) {
	t.Parallel()
	// Agents that declare hosted tools, namespaces and grammars, unless told not to.
	hosted := make(map[string]families.Error)
	for _, name := range []string{"cline-openai-native-1", "cline-openai-native-2", "codex-1", "codex-2", "cx-55min-1",
		"cx-55min-2", "cx-56luna-1"} {
		hosted[name] = families.Error{Code: families.UnsupportedField, Message: "tools"}
	}
	familytest.Captures(t, family, hosted, func(t *testing.T,
		req *families.Request) {
		official(t, checkSent(t, req.LLM))
	})
}

func FuzzDecode(f *testing.F) {
	familytest.FuzzDecode(f, family, func(t *testing.T, req *families.Request) {
		for i, m := range req.LLM.Messages {
			require.False(t, i > 0 && m.Role == llm.RoleAssistant && req.LLM.Messages[i-1].Role == m.Role,
				"two turns of the assistant")
		}
		// Whatever was sent is repeated, and the reply is still JSON on one line.
		require.Len(t, frames(t, string(responses.Server{}.NewEncoder(req, familytest.Head).AppendStart(nil))), 2)
		checkSent(t, req.LLM)
	}, items(call+`,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"ok"}]}`),
		with(`"text":{"format":{"type":"json_schema","schema":{"a":[1]}}}`))
}

// TestDecodeSilence proves GAP-128: an assistant who said nothing is an empty text.
func TestDecodeSilence(t *testing.T) {
	t.Parallel()
	for _, silence := range []string{`"content":null`, `"content":""`, `"content":[]`, `"id":"x"`} {
		req := accepted(t, `{"model":"auto","input":[{"role":"user","content":"x"},{"role":"assistant",`+silence+`}]}`)
		require.Equal(t, llm.RoleAssistant, req.LLM.Messages[1].Role)
		require.Empty(t, req.LLM.Messages[1].Text(), silence)
	}
}
