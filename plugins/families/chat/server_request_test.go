package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

// with makes a request with a user's message and the given members after it.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"auto","messages":[{"role":"user","content":"hi"}]` + members + `}`
}

// messages makes a request of the given messages.
func messages(list string) string { return `{"model":"auto","messages":[` + list + `]}` }

const toolF = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type" : "object"}}}]`

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const (
		invalid     = families.InvalidRequest
		unsupported = families.UnsupportedField
	)
	call := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	for _, test := range []struct {
		name    string // begins with the clause
		body    string
		code    families.Code
		message string
	}{
		{"CHAT-02 messages missing", `{"model":"auto"}`, invalid, "messages is required."},
		{"CHAT-02 messages null", `{"model":"auto","messages":null}`, invalid, "messages is required."},
		{"CHAT-02 messages empty", messages(""), invalid, "messages must hold at least one message."},
		{"ERR-11 messages not an array", `{"model":"auto","messages":"x"}`, invalid, "messages must be an array."},
		{"CHAT-02 message not an object", messages(`"x"`), invalid, "messages[0] must be an object."},
		{"CHAT-02 role function", messages(`{"role":"function","content":"x"}`), invalid, "messages[0].role must be"},
		{"CHAT-02 role robot", messages(`{"role":"user","content":"x"},{"role":"robot","content":"x"}`), invalid,
			"messages[1].role must be"},
		{"ERR-10 role missing", messages(`{"content":"x"}`), invalid, "messages[0].role is required."},
		{"ERR-10 content missing", messages(`{"role":"user"}`), invalid, "messages[0].content is required."},
		{"ERR-11 content a number", messages(`{"role":"user","content":5}`), invalid,
			"messages[0].content must be a string or an array"},
		{"ERR-11 part a string", messages(`{"role":"user","content":["x"]}`), invalid,
			"messages[0].content[0] must be an object."},
		{"ERR-11 part's text a number", messages(`{"role":"user","content":[{"type":"text","text":1}]}`), invalid,
			"messages[0].content[0].text must be a string."},
		{"ERR-10 part's type missing", messages(`{"role":"user","content":[{"text":"x"}]}`), invalid,
			"messages[0].content[0].type is required."},
		{"GAP-27 unknown part", messages(`{"role":"user","content":[{"type":"poem"}]}`), invalid,
			"messages[0].content[0] is content of an unknown type: send text."},
		{"GAP-27 file",
			messages(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"file","file":{"file_id":"f"}}]}`),
			unsupported, "messages[0].content[1] is a file"},
		{"GAP-27 video", messages(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"u"}}]}`), unsupported,
			""},
		{"CHAT-04 result without an id", messages(call + `,{"role":"tool","content":"x"}`), invalid,
			"messages[1].tool_call_id is required."},
		{"CHAT-04 result of no call", messages(call + `,{"role":"tool","tool_call_id":"c2","content":"x"}`), invalid,
			"send the whole conversation"},
		{"CHAT-04 result before its call", messages(`{"role":"tool","tool_call_id":"c1","content":"x"},` + call), invalid,
			"messages[0].tool_call_id matches no tool call"},
		{"CHAT-04 result without content", messages(call + `,{"role":"tool","tool_call_id":"c1"}`), invalid,
			"messages[1].content is required."},
		{"TOOL-01 call without an id",
			messages(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f"}}]}`), invalid,
			"messages[0].tool_calls[0].id is required."},
		{"TOOL-01 call without a name", messages(`{"role":"assistant","tool_calls":[{"id":"c","function":{}}]}`), invalid,
			"messages[0].tool_calls[0].function.name is required."},
		{"TOOL-01 call with an empty name", messages(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":""}}]}`),
			invalid, "messages[0].tool_calls[0].function.name must not be empty."},
		{"TOOL-01 call with an empty id", messages(`{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}}]}`),
			invalid, "messages[0].tool_calls[0].id must not be empty."},
		{"TOOL-01 call without a function", messages(`{"role":"assistant","tool_calls":[{"id":"c"}]}`), invalid,
			"messages[0].tool_calls[0].function is required."},
		{"TOOL-01 calls not an array", messages(`{"role":"assistant","tool_calls":{}}`), invalid,
			"messages[0].tool_calls must be an array."},
		{"CHAT-12 custom call", messages(`{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{}}]}`),
			unsupported, ""},

		{"CHAT-05 zero", with(`"max_tokens":0`), invalid, "max_tokens must be an integer of at least 1."},
		{"CHAT-05 negative", with(`"max_completion_tokens":-1`), invalid, "max_completion_tokens must be"},
		{"CHAT-05 string", with(`"max_tokens":"10"`), invalid, ""},
		{"CHAT-05 fraction", with(`"max_tokens":1.5`), invalid, ""},
		{"GAP-25 temperature above 2", with(`"temperature":2.01`), invalid, "temperature must be a number from 0 to 2."},
		{"GAP-25 temperature below 0", with(`"temperature":-0.1`), invalid, ""},
		{"GAP-25 temperature a string", with(`"temperature":"1"`), invalid, ""},
		{"CHAT-07 stop a number", with(`"stop":5`), invalid, "stop must be a string or an array of strings."},
		{"CHAT-07 stop an object", with(`"stop":{}`), invalid, ""},
		{"CHAT-07 stop of numbers", with(`"stop":["x",1]`), invalid, "stop[1] must be a string."},
		{"CHAT-07 stop of null", with(`"stop":[null]`), invalid, "stop[0] is required."},
		{"CHAT-08 stream a string", with(`"stream":"true"`), invalid, "stream must be a boolean."},
		{"CHAT-09 include_usage a number", with(`"stream":true,"stream_options":{"include_usage":1}`), invalid,
			"stream_options.include_usage must be a boolean."},
		{"CHAT-09 stream_options an array", with(`"stream_options":[]`), invalid, "stream_options must be an object."},
		{"CHAT-11 tools an object", with(`"tools":{}`), invalid, "tools must be an array."},
		{"CHAT-11 no function object", with(`"tools":[{"type":"function"}]`), invalid, "tools[0].function is required."},
		{"CHAT-11 no type", with(`"tools":[{"function":{"name":"f"}}]`), invalid, "tools[0].type is required."},
		{"GAP-29 no name", with(`"tools":[{"type":"function","function":{}}]`), invalid,
			"tools[0].function.name is required."},
		{"GAP-29 bad name", with(`"tools":[{"type":"function","function":{"name":"a b"}}]`), invalid,
			"tools[0].function.name must be 1 to 128"},
		{"GAP-29 long name", with(`"tools":[{"type":"function","function":{"name":"` + strings.Repeat("a", 129) + `"}}]`),
			invalid, ""},
		{"GAP-29 parameters an array", with(`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`), invalid,
			"tools[0].function.parameters must be an object."},
		{"GAP-29 repeated name",
			with(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`), invalid,
			"tools[1].function.name repeats"},
		{"CHAT-12 custom tool", with(`"tools":[{"type":"custom","custom":{"name":"x"}}]`), unsupported,
			"tools[0] is a tool of a type"},
		{"CHAT-12 web search", with(`"tools":[{"type":"web_search"}]`), unsupported, ""},
		{"CHAT-16 unknown mode", with(toolF + `,"tool_choice":"always"`), invalid, "tool_choice must be"},
		{"CHAT-16 undeclared function", with(toolF + `,"tool_choice":{"type":"function","function":{"name":"g"}}`), invalid,
			"tool_choice.function.name names a function that tools does not declare."},
		{"CHAT-16 number", with(toolF + `,"tool_choice":1`), invalid, ""},
		{"CHAT-16 no name", with(toolF + `,"tool_choice":{"type":"function","function":{}}`), invalid,
			"tool_choice.function.name is required."},
		{"GAP-29 required without tools", with(`"tool_choice":"required"`), invalid, "tool_choice requires a tool call"},
		{"GAP-29 named without tools", with(`"tool_choice":{"type":"function","name":"f"}`), invalid, ""},
		{"GAP-29 hosted choice", with(toolF + `,"tool_choice":{"type":"web_search"}`), unsupported, ""},
		{"GAP-29 allowed_tools", with(toolF + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`), unsupported, ""},

		{"CHAT-19 minimal", with(`"reasoning_effort":"minimal"`), invalid,
			`reasoning_effort must be "low", "medium" or "high".`},
		{"CHAT-19 upper case", with(`"reasoning_effort":"HIGH"`), invalid, ""},
		{"CHAT-19 empty", with(`"reasoning_effort":""`), invalid, ""},
		{"CHAT-19 number", with(`"reasoning_effort":3`), invalid, ""},
		{"CHAT-23 two", with(`"n":2`), unsupported, "n above 1 is not supported"},
		{"CHAT-23 many", with(`"n":128.0`), unsupported, ""},
		{"GAP-25 n zero", with(`"n":0`), invalid, "n must be 1."},
		{"GAP-25 n fraction", with(`"n":1.5`), invalid, ""},
		{"GAP-25 n string", with(`"n":"1"`), invalid, ""},
		{"CHAT-24 seed zero", with(`"seed":0`), unsupported, "seed is not supported: leave it out."},
		{"CHAT-24 seed false", with(`"seed":false`), unsupported, ""},
		{"CHAT-25 logprobs false", with(`"logprobs":false`), unsupported, "logprobs is not supported"},
		{"CHAT-25 logprobs zero", with(`"logprobs":0`), unsupported, ""},
		{"CHAT-26 frequency_penalty zero", with(`"frequency_penalty":0`), unsupported, ""},
		{"CHAT-26 frequency_penalty false", with(`"frequency_penalty":false`), unsupported, ""},
		{"CHAT-27 presence_penalty negative", with(`"presence_penalty":-1`), unsupported, ""},
		{"CHAT-27 presence_penalty false", with(`"presence_penalty":false`), unsupported, ""},
		{"STRUCT-01 json_object", with(`"response_format":{"type":"json_object"}`), unsupported,
			"response_format is not supported"},
		{"STRUCT-01 string", with(`"response_format":"x"`), unsupported, ""},
		{"STRUCT-01 empty", with(`"response_format":{}`), unsupported, ""},
		{"STRUCT-01 false", with(`"response_format":false`), unsupported, ""},
		{"STRUCT-02 text", with(`"response_format":{"type":"text"}`), unsupported, ""},

		{"STOP-16 seventeen", with(`"stop":` + list(17, "s%d")), invalid, "stop must have at most 16 entries"},
		{"STOP-17 seventeen, ten of them empty", with(`"stop":["",""` + strings.Repeat(`,""`, 8) +
			`,"a","b","c","d","e","f","g"]`), invalid, ""},
		{"STOP-17 seventeen equal ones", with(`"stop":` + list(17, "x")), invalid, ""},
		{"STOP-18 257 letters", with(`"stop":"` + strings.Repeat("a", 257) + `"`), invalid,
			"stop must be at most 256 characters long"},
		{"STOP-19 257 units in 129 code points", with(`"stop":["x","` + strings.Repeat("😀", 128) + `a"]`), invalid,
			"stop[1] must be at most 256"},

		{"ERR-13 what is not offered wins over other rules", with(`"stop":` + list(17, "s%d") + `,"n":2`), unsupported,
			"n above 1"},
		{"ERR-13 even later in the same message", messages(
			`{"role":"robot","content":"x"},{"role":"user","content":[{"type":"poem"},{"type":"file"}]}`), unsupported,
			"messages[1].content[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := decoded(t, test.body)
			require.NotNil(t, err)
			require.Equal(t, 400, err.Status)
			require.Equal(t, test.code, err.Code, err.Message)
			require.Contains(t, err.Message, test.message)
			require.True(t, err.Final())
		})
	}
}

// list makes an array of n strings from a pattern for their number.
func list(n int, pattern string) string {
	var items []string
	for i := range n {
		item := pattern
		if strings.Contains(pattern, "%d") {
			item = fmt.Sprintf(pattern, i)
		}
		items = append(items, `"`+item+`"`)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestDecodeConversation(t *testing.T) {
	t.Parallel()
	t.Run("CHAT-02 CHAT-03 TOOL-02 GEN-11 all roles, in order", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, messages(`{"role":"system","content":"s"},
			{"role":"developer","content":[{"type":"text","text":"d1"},{"type":"text","text":"d2"}]},
			{"role":"user","content":"u","name":"ignored"},
			{"role":"assistant","content":null,"refusal":null,"tool_calls":[
				{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}},
				{"id":"c2","type":"function","function":{"name":"g","arguments":"  "}}]},
			{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"r2"}]},
			{"role":"tool","tool_call_id":"c1","content":"r1"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"refusal","refusal":"no"}]},
			{"role":"assistant","refusal":"never"}`))
		require.Equal(t, []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("s")}},
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("d1"), llm.Text("d2")}},
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("u")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Call: &llm.ToolCall{ID: "c1", Name: "f", Arguments: llm.Plain(`{"q":1}`)}},
				{Call: &llm.ToolCall{ID: "c2", Name: "g"}}}},
			{Role: llm.RoleTool, CallID: "c2", Parts: []llm.Part{llm.Text("r2")}},
			{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("r1")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("no")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("never")}},
		}, familytest.Plain(req.LLM.Messages))
	})
	t.Run("GAP-33 the last of a repeated name counts", func(t *testing.T) {
		t.Parallel()
		req := accepted(t,
			`{"model":"auto","messages":5,"messages":[{"role":"robot","content":"a","role":"user","content":"b"}]}`)
		require.Equal(t, "b", req.LLM.Messages[0].Text())
	})
}

func TestDecodeSettings(t *testing.T) {
	t.Parallel()
	t.Run("nothing but messages", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, with(""))
		req.LLM.Messages = familytest.Plain(req.LLM.Messages)
		require.Equal(t,
			&families.Request{OneText: true, LLM: &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
				Parts: []llm.Part{llm.Text("hi")}}}}}, req)
	})
	t.Run("GAP-22 CHAT-24 CHAT-25 CHAT-26 CHAT-27 null is absent", func(t *testing.T) {
		t.Parallel()
		nulls := `"max_tokens":null,"max_completion_tokens":null,"temperature":null,"stop":null,"stream":null,` +
			`"stream_options":null,
			"tools":null,"tool_choice":null,"reasoning_effort":null,"n":null,"seed":null,"logprobs":null,` +
			`"frequency_penalty":null,
			"presence_penalty":null,"response_format":null`
		require.Equal(t, accepted(t, with("")), accepted(t, with(nulls)))
	})
	t.Run("CHAT-20 CHAT-21 HTTP-04 ignored fields change nothing", func(t *testing.T) {
		t.Parallel()
		ignored := `"top_p":"x","user":7,"parallel_tool_calls":"no","foo":{"a":[1]},"logit_bias":{},"stop_sequences":["X"],` +
			`"store":true,
			"previous_response_id":"x","modalities":["audio"],"metadata":{"user_id":"u"}`
		require.Equal(t, accepted(t, with("")), accepted(t, with(ignored)))
	})
	for name, test := range map[string]struct {
		members string
		want    int64
	}{
		"CHAT-05 max_tokens":                      {`"max_tokens":10`, 10},
		"CHAT-05 max_completion_tokens":           {`"max_completion_tokens":10.0`, 10},
		"CHAT-05 an exponent":                     {`"max_tokens":1e1`, 10},
		"GAP-21 the smaller one":                  {`"max_tokens":10,"max_completion_tokens":20`, 10},
		"GAP-21 the smaller one, the other way":   {`"max_tokens":20,"max_completion_tokens":10`, 10},
		"GAP-34 a large one is kept":              {`"max_tokens":10000000`, 10_000_000},
		"GAP-34 an absurd one stays an absurdity": {`"max_tokens":1e300`, 1 << 53},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, accepted(t, with(test.members)).LLM.MaxTokens)
		})
	}
	t.Run("CHAT-06 temperature", func(t *testing.T) {
		t.Parallel()
		require.Nil(t, accepted(t, with("")).LLM.Temperature)
		for text, want := range map[string]float64{"0.3": 0.3, "0": 0, "2": 2} {
			require.Equal(t, want, *accepted(t, with(`"temperature":`+text)).LLM.Temperature)
		}
	})
	t.Run("CHAT-08 CHAT-09 CHAT-10 streams", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, with(`"stream":true,"stream_options":{"include_usage":true}`))
		require.True(t, req.Stream)
		require.True(t, req.IncludeUsage)
		req = accepted(t, with(`"stream":true,"stream_options":{"include_usage":false}`))
		require.True(t, req.Stream)
		require.False(t, req.IncludeUsage)
		require.False(t, accepted(t, with(`"stream":false`)).Stream)
	})
	t.Run("CHAT-18 reasoning_effort", func(t *testing.T) {
		t.Parallel()
		for _, effort := range []string{"low", "medium", "high"} {
			require.Equal(t, effort, accepted(t, with(`"reasoning_effort":"`+effort+`"`)).Effort)
		}
	})
	t.Run("CHAT-22 n one", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, accepted(t, with("")), accepted(t, with(`"n":1`)))
	})
}

func TestDecodeStop(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stop string
		want []string
	}{
		"STOP-01 string":           {`"X"`, []string{"X"}},
		"STOP-01 array":            {`["X","Y"]`, []string{"X", "Y"}},
		"STOP-14 empty string":     {`""`, nil},
		"STOP-14 empty entries":    {`["","X",""]`, []string{"X"}},
		"STOP-15 repeated entries": {`["X","Y","X"]`, []string{"X", "Y"}},
		"STOP-16 sixteen":          {list(16, "%d"), strings.Split("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", " ")},
		"STOP-18 256 letters":      {`"` + strings.Repeat("a", 256) + `"`, []string{strings.Repeat("a", 256)}},
		"STOP-19 256 units in 128 code points": {`"` + strings.Repeat("😀", 128) + `"`,
			[]string{strings.Repeat("😀", 128)}},
		"STOP-19 256 units in 512 bytes": {`"` + strings.Repeat("é", 256) + `"`, []string{strings.Repeat("é", 256)}},
		"GAP-74 a lone surrogate":        {`"\ud83d"`, []string{"\uFFFD"}},
		"GAP-74 case and blanks stay":    {`["done","DONE","\n\n"," "]`, []string{"done", "DONE", "\n\n", " "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, accepted(t, with(`"stop":`+test.stop)).LLM.Stop)
		})
	}
}

func TestDecodeTools(t *testing.T) {
	t.Parallel()
	t.Run("CHAT-11 function tools", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, with(`"tools":[{"type":"function","function":{"name":"f.x-1_Y","description":"d","strict":true,
			"parameters":{"type" : "object",
			"properties":{"api_key":{"type":"string"}}}}},{"type":"function","function":{"name":"g","description":null}}]`))
		require.Equal(t, []llm.Tool{
			{Name: "f.x-1_Y", Description: "d", Strict: true,
				Schema: []byte(`{"type":"object","properties":{"api_key":{"type":"string"}}}`)},
			{Name: "g", Schema: []byte(`{"type":"object"}`)},
		}, req.LLM.Tools)
	})
	for name, test := range map[string]struct {
		members string
		want    llm.ToolChoice
	}{
		"CHAT-13 auto":     {toolF + `,"tool_choice":"auto"`, llm.ToolChoice{}},
		"CHAT-14 none":     {toolF + `,"tool_choice":"none"`, llm.ToolChoice{Mode: llm.ToolNone}},
		"CHAT-15 required": {toolF + `,"tool_choice":"required"`, llm.ToolChoice{Mode: llm.ToolRequired}},
		"CHAT-16 named": {toolF + `,"tool_choice":{"type":"function","function":{"name":"f"}}`,
			llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}},
		"GAP-29 named, flat": {toolF + `,"tool_choice":{"type":"function","name":"f"}`,
			llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}},
		"GAP-29 none without tools":      {`"tool_choice":"none"`, llm.ToolChoice{}},
		"GAP-29 auto with an empty list": {`"tools":[],"tool_choice":"auto"`, llm.ToolChoice{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, accepted(t, with(test.members)).LLM.ToolChoice)
		})
	}
}

func TestDecodeRefusesMedia(t *testing.T) {
	t.Parallel()
	image := `{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}`
	for name, list := range map[string]string{
		"MEDIA-02 system":                   `{"role":"system","content":[` + image + `]}`,
		"MEDIA-03 developer":                `{"role":"developer","content":[{"type":"text","text":"x"},` + image + `]}`,
		"MEDIA-04 user":                     `{"role":"user","content":"x"},{"role":"user","content":[` + image + `]}`,
		"MEDIA-04 user, sound":              `{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`,
		"MEDIA-05 assistant":                `{"role":"assistant","content":[` + image + `]}`,
		"MEDIA-05 assistant's spoken reply": `{"role":"assistant","content":null,"audio":{"id":"a"}}`,
		"MEDIA-06 orphan tool result":       `{"role":"tool","tool_call_id":"none","content":[` + image + `]}`,
		"MEDIA-10 wherever it stands": `{"role":"user","content":"x"},{"role":"user","content":[{"type":"text",` +
			`"text":"a"},{"type":"text","text":"b"},` + image + `]},{"role":"user","content":"y"}`,
		"MEDIA-10 inside another part": `{"role":"user","content":[{"type":"tool_result","content":[` + image + `]}]}`,
		"GAP-27 a file that is an image": `{"role":"user","content":[{"type":"file",` +
			`"file":{"file_data":"data:image/png;base64,AA"}}]}`,
		"GAP-27 a document that is a sound": `{"role":"user","content":[{"type":"document",` +
			`"source":{"media_type":"Audio/wav"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rest := range []string{``, `,"n":2`, `,"stop":5`, `,"stream":true`} {
				body := `{"model":"auto","messages":[` + list + `]` + rest + `}`
				_, err := decoded(t, body)
				require.Equal(t, families.Media(), err, body)
				_, again := decoded(t, body)
				require.Equal(t, err, again)
			}
		})
	}
	t.Run("words, arguments and schemas are no media", func(t *testing.T) {
		t.Parallel()
		accepted(t,
			messages(
				`{"role":"user","content":"image_url"},{"role":"assistant","audio":null,"tool_calls":[{"id":"c",`+
					`"function":{"name":"f","arguments":"{\"type\":\"image\"}"}}]}`))
		accepted(t,
			with(
				`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",`+
					`"properties":{"x":{"type":"image"}}}}}]`))
	})
}

// TestDecodeSilence proves GAP-128: an assistant who said nothing is an empty text.
func TestDecodeSilence(t *testing.T) {
	t.Parallel()
	for _, silence := range []string{`"content":null`, `"content":""`, `"content":[]`, `"refusal":null`} {
		req := accepted(t, `{"model":"auto","messages":[{"role":"user","content":"x"},{"role":"assistant",`+silence+`}]}`)
		require.Equal(t, llm.RoleAssistant, req.LLM.Messages[1].Role)
		require.Empty(t, req.LLM.Messages[1].Text(), silence)
	}
}
