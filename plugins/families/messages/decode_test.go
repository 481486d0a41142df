package messages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

// with makes a request with one user message and more members.
func with(members string) string {
	return `{"model":"auto","messages":[{"role":"user","content":"hi"}],` + members + `}`
}

func turns(list string) string { return `{"model":"auto","messages":[` + list + `]}` }

const (
	calling = `{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"t1",` +
		`"name":"f","input":{"q": 1}}]}`
	image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}`
)

func TestDecodeConversation(t *testing.T) {
	t.Parallel()
	called := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.Text("Let me look."), {Call: &llm.ToolCall{ID: "t1", Name: "f", Arguments: llm.Plain(`{"q":1}`)}},
	}}
	for _, tt := range []struct {
		name string
		body string
		want []llm.Message
	}{
		{"MSG-04 string content", turns(`{"role":"user","content":"hi"}`), []llm.Message{text(llm.RoleUser, "hi")}},
		{"MSG-04 text blocks", turns(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`),
			[]llm.Message{text(llm.RoleUser, "a", "b")}},
		{"MSG-03 system string", with(`"system":"be brief"`),
			[]llm.Message{text(llm.RoleSystem, "be brief"), text(llm.RoleUser, "hi")}},
		{"MSG-03 system blocks",
			with(`"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]`),
			[]llm.Message{text(llm.RoleSystem, "a", "b"), text(llm.RoleUser, "hi")}},
		{"GAP-26 role system inside messages", turns(
			`{"role":"user","content":"hi"},{"role":"system","content":[{"type":"text","text":"now in German"}]}`),
			[]llm.Message{text(llm.RoleUser, "hi"), text(llm.RoleSystem, "now in German")}},
		{"MSG-05 tool_use keeps its place among text", turns(`{"role":"user","content":"hi"},` + calling),
			[]llm.Message{text(llm.RoleUser, "hi"), called}},
		{"MSG-05 tool_use without input", turns(`{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f"}]}`),
			[]llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "t1", Name: "f"}}}}}},
		{"MSG-06 TOOL-04 tool_result with a string", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}`),
			[]llm.Message{called, {Role: llm.RoleTool, CallID: "t1", Parts: []llm.Part{llm.Text("ok")}}}},
		{"MSG-06 tool_result with blocks that failed",
			turns(calling +
				`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text",` +
				`"text":"no"}]}]}`),
			[]llm.Message{called, {Role: llm.RoleTool, CallID: "t1", IsError: true, Parts: []llm.Part{llm.Text("no")}}}},
		{"MSG-06 tool_result without content", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}`),
			[]llm.Message{called, {Role: llm.RoleTool, CallID: "t1"}}},
		{"results come before what the user says besides",
			turns(calling +
				`,{"role":"user","content":[{"type":"text","text":"and?"},{"type":"tool_result","tool_use_id":"t1",` +
				`"content":"ok"},{"type":"text","text":"go on"}]}`),
			[]llm.Message{called, {Role: llm.RoleTool, CallID: "t1", Parts: []llm.Part{llm.Text("ok")}},
				text(llm.RoleUser, "and?", "go on")}},
		{"GAP-101 tool_reference names the tool", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference",` +
			`"tool_name":"WebSearch"}]}]}`),
			[]llm.Message{called, {Role: llm.RoleTool, CallID: "t1", Parts: []llm.Part{llm.Text("Tool: WebSearch\n")}}}},
		{"GAP-27 thinking is left out",
			turns(
				`{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},{"type":"redacted_thinking",` +
					`"data":"x"},{"type":"text","text":"a"}]}`),
			[]llm.Message{text(llm.RoleAssistant, "a")}},
		{"GAP-27 a turn of thinking only is no turn",
			turns(
				`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"x",` +
					`"signature":"s"}]}`),
			[]llm.Message{text(llm.RoleUser, "hi")}},
		{"GAP-74 a lone surrogate escape", turns(`{"role":"user","content":"a\ud800b"}`),
			[]llm.Message{text(llm.RoleUser, "a\uFFFDb")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, familytest.Plain(accepted(t, tt.body).LLM.Messages))
		})
	}
}

func TestDecodeFields(t *testing.T) {
	t.Parallel()
	t.Run("MSG-02 ALLOW-03 max_tokens is the output allowance", func(t *testing.T) {
		t.Parallel()
		require.EqualValues(t, 100, accepted(t, with(`"max_tokens":100`)).LLM.MaxTokens)
		require.Zero(t, accepted(t, with(`"max_completion_tokens":5`)).LLM.MaxTokens)
		require.Zero(t, accepted(t, with(`"max_tokens":null`)).LLM.MaxTokens)
	})
	t.Run("MSG-08 temperature", func(t *testing.T) {
		t.Parallel()
		got := accepted(t, with(`"temperature":0.25`)).LLM.Temperature
		require.NotNil(t, got)
		require.InDelta(t, 0.25, *got, 0)
		require.Nil(t, accepted(t, with(`"top_p":1`)).LLM.Temperature)
	})
	t.Run("MSG-09 STOP-03 stop_sequences and not stop", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"X", "Y"}, accepted(t, with(`"stop_sequences":["X","Y"],"stop":["Z"]`)).LLM.Stop)
		require.Empty(t, accepted(t, with(`"stop":5`)).LLM.Stop)
	})
	t.Run("STOP-14 STOP-15 empty and repeated entries are dropped", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"a", "b"}, accepted(t, with(`"stop_sequences":["","a","a","b"]`)).LLM.Stop)
	})
	t.Run("MSG-10 stream", func(t *testing.T) {
		t.Parallel()
		require.True(t, accepted(t, with(`"stream":true`)).Stream)
		require.False(t, accepted(t, with(`"stream":false`)).Stream)
		require.False(t, accepted(t, with(`"stream":null`)).Stream)
	})
	t.Run("MSG-16 STRUCT-05 STRUCT-06 PROF-12 HTTP-04 what is not read cannot fail", func(t *testing.T) {
		t.Parallel()
		plain := accepted(t, with(`"stream":false`))
		for _, members := range []string{
			`"thinking":"junk"`, `"thinking":{"type":"enabled","budget_tokens":1024}`, `"output_format":"junk"`,
			`"output_format":{"type":"json_schema","schema":{"type":"object"}}`,
			`"output_config":{"format":{"type":"json_schema"}},"output_format":{}`, `"reasoning_effort":"bogus"`, `"top_k":"x"`,
			`"thread":{"type":"create"}`, `"frequency_penalty":0`, `"previous_response_id":"x"`, `"n":2`, `"seed":0`,
		} {
			require.Equal(t, plain, accepted(t, with(members)), members)
		}
	})
}

func TestDecodeTools(t *testing.T) {
	t.Parallel()
	tool := `{"name":"f","description":"does f","input_schema":{"type":"object",` +
		`"properties":{"api_key":{"type":"string"}}}}`
	t.Run("MSG-11 AUTH-18 client tools", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []llm.Tool{{Name: "f", Description: "does f",
			Schema: []byte(`{"type":"object","properties":{"api_key":{"type":"string"}}}`)}},
			accepted(t, with(`"tools":[`+tool+`]`)).LLM.Tools)
	})
	t.Run("MSG-12 GAP-81 server-side tools are client tools", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []llm.Tool{{Name: "web_search", Schema: []byte(`{"type":"object"}`)}},
			accepted(t, with(`"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8}]`)).LLM.Tools)
	})
	for tools, want := range map[string]string{
		`{"type":"mcp_toolset","mcp_server_name":"docs","default_config":{"defer_loading":true}}`: "",
		`{"type":"web_search_20250305"}`:                                       "",
		`{"type":"web_search_20250305","name":null}`:                           "",
		`{"type":"web_search_20250305","name":7}`:                              "",
		`{"type":"web_search_20250305","name":""}`:                             "",
		`{"type":"web_search_20250305","name":"web search"}`:                   "",
		`{"type":"x","name":"a","description":7,"input_schema":[],"strict":1}`: "a",
		`{"type":"x","name":"a"},{"type":"y","name":"a"}`:                      "a",
		`{"name":"a"},{"type":"mcp_toolset"},{"type":"y","name":"a"}`:          "a",
		`{"type":"mcp_toolset"},{"type":"mcp_toolset"},{"name":"a"}`:           "a",
	} {
		t.Run("MSG-12 GAP-136 never rejected "+tools, func(t *testing.T) {
			t.Parallel()
			var sent []llm.Tool
			if want != "" {
				sent = []llm.Tool{{Name: want, Schema: []byte(`{"type":"object"}`)}}
			}
			for _, choice := range []string{`"auto"`, `"none"`} {
				got := accepted(t, with(`"tools":[`+tools+`],"tool_choice":{"type":`+choice+`}`)).LLM
				require.Equal(t, sent, got.Tools)
			}
		})
	}
	for choice, want := range map[string]llm.ToolChoice{
		`{"type":"auto"}`:            {},
		`{"type":"any"}`:             {Mode: llm.ToolRequired},
		`{"type":"tool","name":"f"}`: {Mode: llm.ToolNamed, Name: "f"},
		`{"type":"none"}`:            {Mode: llm.ToolNone},
		`null`:                       {},
		`{"type":"any","disable_parallel_tool_use":true}`: {Mode: llm.ToolRequired},
	} {
		t.Run("MSG-15 tool_choice "+choice, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, accepted(t, with(`"tools":[`+tool+`],"tool_choice":`+choice)).LLM.ToolChoice)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 257)
	for _, tt := range []struct {
		name string
		body string
		code families.Code
		text string // in the message
	}{
		{"ERR-10 CNT-03 messages missing", `{"model":"auto"}`, families.InvalidRequest, "messages is required"},
		{"GAP-26 messages empty", turns(``), families.InvalidRequest, "messages"},
		{"ERR-11 messages no array", `{"messages":"x"}`, families.InvalidRequest, "messages must be an array"},
		{"GAP-26 unknown role", turns(`{"role":"developer","content":"x"}`), families.InvalidRequest, "messages[0].role"},
		{"content missing", turns(`{"role":"user"}`), families.InvalidRequest, "messages[0].content is required"},
		{"text that is no string", turns(`{"role":"user","content":[{"type":"text","text":1}]}`), families.InvalidRequest,
			"messages[0].content[0].text must be a string"},
		{"MSG-02 max_tokens 0", with(`"max_tokens":0`), families.InvalidRequest, "max_tokens"},
		{"MSG-02 max_tokens a string", with(`"max_tokens":"5"`), families.InvalidRequest, "max_tokens"},
		{"GAP-25 temperature over 1", with(`"temperature":1.5`), families.InvalidRequest, "temperature"},
		{"MSG-09 stop_sequences a string", with(`"stop_sequences":"X"`), families.InvalidRequest, "stop_sequences"},
		{"MSG-09 stop_sequences of numbers", with(`"stop_sequences":[1]`), families.InvalidRequest, "stop_sequences[0]"},
		{"STOP-16 STOP-17 17 sequences, most of them empty", with(`"stop_sequences":["a"` + strings.Repeat(`,""`, 16) + `]`),
			families.InvalidRequest, "16"},
		{"STOP-18 257 characters", with(`"stop_sequences":["` + long + `"]`), families.InvalidRequest, "256"},
		{"MSG-10 stream a number", with(`"stream":1`), families.InvalidRequest, "stream"},
		{"MSG-11 tool without a name", with(`"tools":[{"input_schema":{}}]`), families.InvalidRequest, "tools[0].name"},
		{"GAP-136 custom tool without a name", with(`"tools":[{"type":"custom"}]`), families.InvalidRequest,
			"tools[0].name is required"},
		{"GAP-136 tool of an empty type", with(`"tools":[{"type":""}]`), families.InvalidRequest,
			"tools[0].name is required"},
		{"GAP-136 tool without a type", with(`"tools":[{"type":null}]`), families.InvalidRequest,
			"tools[0].name is required"},
		{"GAP-136 tool in another family's form", with(`"tools":[{"type":"function","function":{"name":"f"}}]`),
			families.InvalidRequest, "tools[0].name is required"},
		{"GAP-29 custom tool that repeats", with(`"tools":[{"type":"x","name":"f"},{"name":"f"}]`), families.InvalidRequest,
			"tools[1].name"},
		{"GAP-136 any of tools that nothing can call",
			with(`"tools":[{"type":"mcp_toolset"}],"tool_choice":{"type":"any"}`), families.InvalidRequest,
			"tool_choice requires a tool call, but tools declares none that can be called"},
		{"GAP-29 schema that is no object", with(`"tools":[{"name":"f","input_schema":[]}]`), families.InvalidRequest,
			"input_schema"},
		{"GAP-29 tool declared twice", with(`"tools":[{"name":"f"},{"name":"f"}]`), families.InvalidRequest, "tools[1].name"},
		{"ERR-11 tools no array", with(`"tools":{}`), families.InvalidRequest, "tools must be an array"},
		{"MSG-15 unknown tool_choice", with(`"tools":[{"name":"f"}],"tool_choice":{"type":"x"}`), families.InvalidRequest,
			"tool_choice.type"},
		{"MSG-15 tool_choice of another family", with(`"tools":[{"name":"f"}],"tool_choice":"auto"`), families.InvalidRequest,
			"tool_choice"},
		{"GAP-29 any without tools", with(`"tool_choice":{"type":"any"}`), families.InvalidRequest, "tool_choice"},
		{"GAP-29 a tool that is not declared", with(`"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"g"}`),
			families.InvalidRequest, "tool_choice.name"},
		{"MSG-06 tool_result without an id", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","content":"x"}]}`), families.InvalidRequest,
			"tool_use_id is required"},
		{"GAP-28 GAP-103 tool_result without its call",
			turns(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t9","content":"x"}]}`),
			families.InvalidRequest, "send the whole conversation, with the call that the result answers (the Anthropic " +
				"library's toolRunner does with `thread: false`)"},
		{"tool_use in a user's turn",
			turns(`{"role":"user","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}`), families.InvalidRequest,
			"messages[0].content[0]"},
		{"tool_use with input that is no object", turns(
			`{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":"x"}]}`), families.InvalidRequest,
			"input must be an object"},
		{"tool_result in an assistant's turn", turns(calling +
			`,{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"t1"}]}`), families.InvalidRequest,
			"messages[1].content[0]"},
		{"GAP-101 tool_reference outside a result", turns(
			`{"role":"user","content":[{"type":"tool_reference","tool_name":"x"}]}`), families.InvalidRequest,
			"messages[0].content[0]"},
		{"GAP-27 unknown block", turns(`{"role":"user","content":[{"type":"hologram"}]}`), families.InvalidRequest,
			"content[0]"},
		{"GAP-27 document",
			turns(
				`{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}]}`),
			families.UnsupportedField, "content[0]"},
		{"GAP-27 document in a result", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"document"}]}]}`),
			families.UnsupportedField, "content[0].content[0]"},
		{"GAP-01 what is not offered comes before other rules",
			turns(`{"role":"user","content":[{"type":"hologram"},{"type":"document"}]}`), families.UnsupportedField,
			"content[1]"},

		{"MSG-07 MEDIA-04 CNT-07 image of a user", turns(`{"role":"user","content":[{"type":"text","text":"see"},` + image +
			`]}`), families.UnsupportedContent, "Image and audio input are not supported yet"},
		{"MEDIA-05 image of an assistant", turns(`{"role":"assistant","content":[` + image + `]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-07 CNT-07 image in system", with(`"system":[` + image + `]`), families.UnsupportedContent,
			"not supported yet"},
		{"MEDIA-08 CNT-07 image in a result", turns(calling +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[` + image + `]}]}`),
			families.UnsupportedContent, "not supported yet"},
		{"GAP-28 image in a result without its call",
			turns(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t9","content":[` + image + `]}]}`),
			families.UnsupportedContent, "not supported yet"},
		{"GAP-27 document that is an image",
			turns(
				`{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"image/png","data":"x"}}]}`),
			families.UnsupportedContent, "not supported yet"},
		{"MEDIA-10 image in a late turn",
			turns(
				`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text",` +
					`"text":"c"},` + image + `]}`), families.UnsupportedContent, "not supported yet"},
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

func TestCaptures(t *testing.T) {
	t.Parallel()
	familytest.Captures(t, family, map[string]families.Error{
		// a thread continued with nothing but the result (GAP-103)
		"sdk-anthropic-7": {Code: families.InvalidRequest, Message: "`thread: false`"},
	}, func(t *testing.T, req *families.Request) {
		if sent := checkSent(t, req.LLM); sent != nil {
			official(t, sent)
		}
	})
}

func FuzzDecode(f *testing.F) {
	familytest.FuzzDecode(f, family, func(t *testing.T, req *families.Request) { checkSent(t, req.LLM) },
		turns(calling+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[`+image+`]}]}`),
		with(`"output_format":{"type":"json_schema","schema":{"a":[1]}}`))
}

// TestDecodeSilence proves GAP-128: an assistant who said nothing is an empty text.
func TestDecodeSilence(t *testing.T) {
	t.Parallel()
	for _, silence := range []string{`"content":null`, `"content":""`, `"content":[]`, `"id":"x"`} {
		req := accepted(
			t,
			`{"model":"auto","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant",`+silence+`}]}`,
		)
		require.Equal(t, llm.RoleAssistant, req.LLM.Messages[1].Role)
		require.Empty(t, req.LLM.Messages[1].Text(), silence)
	}
}
