package messages_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	started = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1",` +
		`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`
	stopped = `{"type":"message_stop"}`
)

func blockStart(index, block string) string {
	return `{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}`
}

func blockDelta(index, delta string) string {
	return `{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`
}

func blockStop(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }

func textDelta(s string) string {
	return blockDelta("0", `{"type":"text_delta","text":"`+s+`"}`)
}

func inputDelta(index, s string) string {
	piece, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return blockDelta(index, `{"type":"input_json_delta","partial_json":`+string(piece)+`}`)
}

func ended(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason +
		`","stop_sequence":null},"usage":{"output_tokens":2}}`
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	spent := usage(*used(10, 2))
	for _, tt := range []struct {
		name string
		data []string // between message_start and message_stop
		want []llm.Event
	}{
		{"a text", []string{blockStart("0", `{"type":"text","text":""}`), textDelta("a"), `{"type":"ping"}`, textDelta("b"),
			blockStop("0"), ended("end_turn")},
			append(say("a", "b"), spent, finished(llm.FinishStop))},
		{"text where the block starts", []string{blockStart("0", `{"type":"text","text":"a"}`), blockStop("0"),
			ended("end_turn")}, append(say("a"), spent, finished(llm.FinishStop))},
		{"thinking is reasoning, its signature nothing",
			[]string{blockStart("0", `{"type":"thinking","thinking":"h","signature":""}`),
				blockDelta("0", `{"type":"thinking_delta","thinking":"m"}`),
				blockDelta("0", `{"type":"signature_delta","signature":"EqQ"}`), blockStop("0"),
				blockStart("1", `{"type":"redacted_thinking","data":"x"}`), blockStop("1"), ended("end_turn")},
			[]llm.Event{thought("h"), thought("m"), spent, finished(llm.FinishStop)}},
		{"a call ends with its block", []string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
			inputDelta("0", ""), inputDelta("0", `{"q"`), inputDelta("0", `:1}`), blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q"`), arguments(0, `:1}`), end(0), spent,
				finished(llm.FinishToolCalls)}},
		{"GAP-84 a block that begins twice", []string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
			blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), inputDelta("0", `{"q":1}`),
			blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), end(0), spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 two blocks at one index", []string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
			inputDelta("0", `{"q":1}`), blockStart("0", `{"type":"tool_use","id":"t2","name":"f","input":{}}`),
			inputDelta("0", `{"q":2}`), blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), begin(1, "t2", "f"), arguments(1, `{"q":2}`), end(1),
				spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 input by another name", []string{
			blockStart("0", `{"type":"tool_use","id":"t1","name":"f","arguments":{"q":1}}`), blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), end(0), spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 another index, of the call that is not whole", []string{
			blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`), inputDelta("0", `{"q":1}`),
			blockStart("1", `{"type":"tool_use","id":"t2","name":"g","input":{}}`), inputDelta("7", `{"r":2}`),
			ended("tool_use")}, []llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), begin(1, "t2", "g"),
			arguments(1, `{"r":2}`), spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 a call without input", []string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
			blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), end(0), spent, finished(llm.FinishToolCalls)}},
		{"the whole input where the block starts", []string{blockStart("0",
			`{"type":"tool_use","id":"t1","name":"f","input":{"q": 1}}`), inputDelta("0", ""), blockStop("0"),
			ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q": 1}`), end(0), spent, finished(llm.FinishToolCalls)}},
		{"input that is said twice counts once", []string{blockStart("0",
			`{"type":"tool_use","id":"t1","name":"f","input":{"q":1}}`), inputDelta("0", `{"q":1}`), blockStop("0"),
			ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), end(0), spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 pieces at another index", []string{blockStart("1", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
			inputDelta("0", `{"q"`), inputDelta("7", `:1}`), blockStop("1"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q"`), arguments(0, `:1}`), end(0), spent,
				finished(llm.FinishToolCalls)}},
		{"GAP-84 and their block ends at another index", []string{blockStart("1", `{"type":"tool_use","id":"t1","name":"f"}`),
			inputDelta("0", `"{\"q\":`), inputDelta("0", `1}"`), blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `{"q":1}`), spent, finished(llm.FinishToolCalls)}},
		{"GAP-84 input that is no object", []string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f","input":[]}`),
			blockStop("0"), blockStart("1", `{"type":"tool_use","id":"t1","name":"g","input":"{\"q\":1}"}`), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, `[]`), end(0), begin(1, "t1_2", "g"), arguments(1, `{"q":1}`), spent,
				finished(llm.FinishToolCalls)}},
		{"calls between texts", []string{textDelta("a"), blockStart("1", `{"type":"tool_use","id":"t1","name":"f"}`),
			blockStop("1"), blockStart("2", `{"type":"tool_use","id":"t2","name":"g"}`), inputDelta("2", "{}"), blockStop("2"),
			blockStart("3", `{"type":"text","text":""}`), textDelta("b"), ended("end_turn")},
			append(append(say("a"), begin(0, "t1", "f"), end(0), begin(1, "t2", "g"), arguments(1, "{}"), end(1)),
				append(say("b"), spent, finished(llm.FinishStop))...)},
		{"tools that the upstream runs itself are passed over",
			[]string{blockStart("0", `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`),
				inputDelta("0", `{"query":"x"}`), blockStop("0"),
				blockStart("1", `{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}`), blockStop("1"),
				ended("end_turn")}, []llm.Event{spent, finished(llm.FinishStop)}},
		{"unknown events, deltas and blocks are passed over",
			[]string{`{"type":"message_note","usage":{"input_tokens":99}}`,
				blockDelta("0", `{"type":"citations_delta","citation":{}}`), blockStart("0", `{"type":"new"}`), "",
				ended("end_turn")},
			[]llm.Event{spent, finished(llm.FinishStop)}},
		{"GAP-74 a surrogate pair cut in two", []string{textDelta(`x\ud83d`), textDelta(`\ude00y`), ended("end_turn")},
			append(say("x", "😀y"), spent, finished(llm.FinishStop))},
		{"GAP-74 half a pair at the end of arguments",
			[]string{blockStart("0", `{"type":"tool_use","id":"t1","name":"f"}`),
				blockDelta("0", `{"type":"input_json_delta","partial_json":"\ud83d"}`), blockStop("0"), ended("tool_use")},
			[]llm.Event{begin(0, "t1", "f"), arguments(0, "\uFFFD"), end(0), spent, finished(llm.FinishToolCalls)}},

		{"a stop sequence", []string{ended("stop_sequence")}, []llm.Event{spent, finished(llm.FinishStop)}},
		{"a pause", []string{ended("pause_turn")}, []llm.Event{spent, finished(llm.FinishStop)}},
		{"the allowance", []string{ended("max_tokens")}, []llm.Event{spent, finished(llm.FinishLength)}},
		{"the context window", []string{ended("model_context_window_exceeded")},
			[]llm.Event{spent, finished(llm.FinishLength)}},
		{"the content policy", []string{ended("refusal")}, []llm.Event{spent, finished(llm.FinishPolicy)}},
		{"GAP-114 an unknown reason", []string{ended("tired")}, []llm.Event{spent, finished("tired")}},
		{"GAP-114 no reason", []string{}, []llm.Event{usage(*used(10, 1)), finished(llm.FinishUnknown)}},

		{"GAP-109 later counts replace earlier ones, class by class", []string{
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"cache_read_input_tokens":3,` +
				`"cache_creation_input_tokens":0,"output_tokens":5,"output_tokens_details":{"thinking_tokens":4}}}`,
			`{"type":"message_delta","delta":{},"usage":{"output_tokens":6}}`},
			[]llm.Event{usage(llm.Usage{Input: llm.Count(7), CacheRead: llm.Count(3), CacheWrite: llm.Count(0),
				Output: llm.Count(6), Reasoning: llm.Count(4)}), finished(llm.FinishStop)}},
		{"GAP-111 counts that are none, of a reply of nothing",
			[]string{`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":-1,` +
				`"cache_read_input_tokens":null,"output_tokens":"2"}}`},
			[]llm.Event{usage(llm.Usage{Input: llm.Count(10), Output: llm.Count(1), Doubt: "input_tokens is negative"}),
				finished(llm.FinishStop)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(append(append([]string{started}, tt.data...), stopped, "[DONE]", "nothing counts now")...)
			require.NoError(t, err)
			require.Equal(t, tt.want, events)
		})
	}
	t.Run("no usage anywhere", func(t *testing.T) {
		t.Parallel()
		events, err := read(`{"type":"message_start","message":{"model":"m-1"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stopped)
		require.NoError(t, err)
		require.Equal(t, []llm.Event{finished(llm.FinishStop)}, events)
	})
}

func TestDecoderFails(t *testing.T) {
	t.Parallel()
	call := blockStart("0", `{"type":"tool_use","id":"t1","name":"f"}`)
	for _, tt := range []struct {
		name string
		data []string
		want llm.ErrorKind
	}{
		{"cut before anything", nil, llm.ErrBroken},
		{"cut after text", []string{started, textDelta("a")}, llm.ErrBroken},
		{"cut before the end marker", []string{started, textDelta("a"), ended("end_turn")}, llm.ErrBroken},
		{"another family's end marker is none", []string{started, textDelta("a"), "[DONE]"}, llm.ErrBroken},
		{"no JSON", []string{"<html>"}, llm.ErrProtocol},
		{"no object", []string{"[]"}, llm.ErrProtocol},
		{"an end without a beginning", []string{stopped}, llm.ErrProtocol},
		{"a call without a name", []string{started, blockStart("0", `{"type":"tool_use","id":"t1"}`)}, llm.ErrProtocol},
		{"a call goes on after text", []string{started, call, blockStart("1", `{"type":"text","text":"a"}`),
			inputDelta("0", "{}")}, llm.ErrProtocol},
		{"GAP-84 arguments of one of two calls", []string{started, call, blockStart("1", `{"type":"tool_use","id":"t2",`+
			`"name":"g"}`), inputDelta("5", "{}")}, llm.ErrProtocol},
		{"GAP-84 arguments of no call", []string{started, inputDelta("0", "{}"), ended("tool_use"), stopped},
			llm.ErrProtocol},
		{"overloaded", []string{started, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
			llm.ErrCapacity},
		{"rate limit", []string{`{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`}, llm.ErrCapacity},
		{"key", []string{`{"type":"error","error":{"type":"authentication_error","message":"m"}}`}, llm.ErrCredentials},
		{"form", []string{`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`}, llm.ErrRejected},
		{"length",
			[]string{`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 ` +
				`maximum"}}`}, llm.ErrContext},
		{"an error of another shape", []string{started, `{"error":{"message":"m","code":502}}`}, llm.ErrUpstream},
		{"an error that says nothing", []string{started, `{"type":"error"}`}, llm.ErrUpstream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(tt.data...)
			var typed *llm.Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, tt.want, typed.Kind)
		})
	}
	t.Run("usage is sent before the error, and the error stays", func(t *testing.T) {
		t.Parallel()
		var events []llm.Event
		d := messages.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
		require.NoError(t, d.Data([]byte(started)))
		err := d.Data([]byte("junk"))
		require.Error(t, err)
		require.Equal(t, []llm.Event{usage(*used(10, 0))}, events, "GAP-124")
		require.Equal(t, err, d.Data([]byte(stopped)))
		require.Equal(t, err, d.Close())
		require.False(t, d.Done())
	})
}

func TestDecodeReply(t *testing.T) {
	t.Parallel()
	events, err := readWhole(`{"id":"msg_1","type":"message","role":"assistant","model":"m-1",` +
		`"content":[{"type":"thinking","thinking":"h","signature":"x"},{"type":"text","text":"a"},
		{"type":"tool_use","id":"t1","name":"f","input":{"q":1}},{"type":"tool_use","id":"t2","name":"g","input":{}},` +
		`{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":2}}],
		"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":4,` +
		`"cache_read_input_tokens":3,"output_tokens":2}}`)
	require.NoError(t, err)
	call := begin(0, "t1", "f")
	call.State = []byte(`{"first":[{"type":"thinking","thinking":"h","signature":"x"}],"then":[]}`)
	require.Equal(t, []llm.Event{thought("h"), say("a")[0], call, arguments(0, `{"q":1}`), end(0),
		begin(1, "t2", "g"), end(1),
		usage(llm.Usage{Input: llm.Count(10), CacheWrite: llm.Count(4), CacheRead: llm.Count(3), Output: llm.Count(2)}),
		finished(llm.FinishToolCalls)}, events)

	for body, kind := range map[string]llm.ErrorKind{
		`{"type":"error","error":{"type":"invalid_request_error",` +
			`"message":"Output blocked by content filtering policy"}}`: llm.ErrPolicy,
		`{"error":"boom"}`:                  llm.ErrUpstream,
		`{"content":"a"}`:                   llm.ErrProtocol,
		`{}`:                                llm.ErrProtocol,
		`{"content":[{"type":"tool_use"`:    llm.ErrProtocol,
		`{"content":[{"type":"tool_use"}]}`: llm.ErrProtocol,
	} {
		_, err = readWhole(body)
		require.Equal(t, kind, llm.KindOf(err), body)
	}
}

// official reads a request body as the official library writes it, and fails for what its types do not have.
func official(t testing.TB, body []byte) anthropic.MessageNewParams {
	t.Helper()
	var params anthropic.MessageNewParams
	familytest.Understood(t, body, &params, "stream") // a method of its own asks for a stream
	return params
}

func TestEncodeRequest(t *testing.T) {
	t.Parallel()
	encode := func(req *llm.Request) string {
		b, err := family.Conformed(nil, req)
		require.NoError(t, err)
		official(t, b)
		return string(b)
	}
	hi := []llm.Message{text(llm.RoleUser, "hi")}
	temperature := 0.3
	full := &llm.Request{Model: "m", Messages: hi, MaxTokens: 9, Temperature: &temperature,
		Stop: []string{"a", "\n", "b "},
		Tools: []llm.Tool{{Name: "f", Description: "d", Schema: []byte(`{"type":"object","properties":{}}`)},
			{Name: "g", Schema: []byte(`{"type":"object"}`)}}}
	const (
		plain = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`
		tools = `,"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{}}},{"name":"g",` +
			`"input_schema":{"type":"object"}}]`
	)
	require.Equal(t, plain+`,"stream":true,"temperature":0.3,"stop_sequences":["a","b "]`+tools+"}", encode(full))
	full.Unsupported = []string{"stop", "temperature"}
	require.Equal(t, plain+`,"stream":true`+tools+"}", encode(full))
	require.Equal(t, plain+"}", encode(&llm.Request{Model: "m", Messages: hi, MaxTokens: 9, Whole: true}))
	for choice, want := range map[llm.ToolChoice]string{
		{}: "", {Mode: llm.ToolNone}: `{"type":"none"}`, {Mode: llm.ToolRequired}: `{"type":"any"}`,
		{Mode: llm.ToolNamed, Name: "f"}: `{"type":"tool","name":"f"}`,
	} {
		full.ToolChoice = choice
		if want != "" {
			want = `,"tool_choice":` + want
		}
		require.Equal(t, plain+`,"stream":true`+tools+want+"}", encode(full))
	}
	hot := 1.5
	require.NotContains(t, encode(&llm.Request{Messages: hi, MaxTokens: 1, Temperature: &hot}), "temperature")
	require.NotContains(t, encode(&llm.Request{Messages: hi, MaxTokens: 1, Stop: []string{" ", "\n"}}), "stop_sequences")
	require.NotContains(t, encode(&llm.Request{Messages: hi, MaxTokens: 1,
		Format: &llm.Format{Kind: llm.FormatJSONObject}}), "output_config")
	require.Contains(t, encode(&llm.Request{Messages: hi, MaxTokens: 1,
		Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Schema: []byte(`{"type":"object"}`)}}),
		`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`)
	require.Contains(t, encode(&llm.Request{Messages: hi, MaxTokens: 1,
		Tools: []llm.Tool{{Name: "f", Schema: []byte(`{"properties":{"type":{}},"type":null}`)}}}),
		`"input_schema":{"type":"object","properties":{"type":{}}}`)

	nan := math.NaN()
	for want, req := range map[string]*llm.Request{
		`encoding message 0: unknown role "robot"`: {Messages: []llm.Message{{Role: "robot"}}, MaxTokens: 1},
		`encoding tool choice: unknown mode "x"`: {Messages: hi, MaxTokens: 1,
			Tools: full.Tools, ToolChoice: llm.ToolChoice{Mode: "x"}},
		"rejected: encoding tool 0: its schema is not a JSON object": {Messages: hi, MaxTokens: 1,
			Tools: []llm.Tool{{Name: "f", Schema: []byte(`[]`)}}},
		"encoding temperature: NaN is not a number in JSON": {Messages: hi, MaxTokens: 1,
			Temperature: &nan},
		"encoding max_tokens: the messages family needs an output allowance of at least 1": {Messages: hi},
		"encoding messages: there is no text in them, and no call": {Messages: []llm.Message{text(
			llm.RoleAssistant, " ", "")}, MaxTokens: 1},
	} {
		_, err := family.Conformed(nil, req)
		require.EqualError(t, err, want, want)
	}
}

func TestEncodeConversation(t *testing.T) {
	t.Parallel()
	call := func(id, arguments string) llm.Part {
		return llm.Part{Call: &llm.ToolCall{ID: id, Name: "f", Arguments: llm.Plain(arguments)}}
	}
	assistant := func(parts ...llm.Part) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Parts: parts}
	}
	result := func(id string, texts ...string) llm.Message {
		m := text(llm.RoleTool, texts...)
		m.CallID = id
		return m
	}
	failed := result("c1", "no")
	failed.IsError = true
	const (
		user  = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
		calls = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"q":1}}]}`
	)
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"system messages stand apart, wherever they were",
			[]llm.Message{text(llm.RoleSystem, "a", "", "b"), text(llm.RoleUser, "hi"), text(llm.RoleSystem, "c")},
			`"system":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}],"messages":[` + user +
				`]`},
		{"a system message alone is the question", []llm.Message{text(llm.RoleSystem, "hi")}, `"messages":[` + user + `]`},
		{"results and what follows them are one turn",
			[]llm.Message{text(llm.RoleUser, "hi"), assistant(call("c1", `{"q":1}`), call("c2", "")), result("c1", "x", "y"),
				text(llm.RoleUser, "and?"), result("c2")},
			`"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"q":1}},{"type":"tool_use",` +
				`"id":"c2","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"x"},` +
				`{"type":"text","text":"y"}]},{"type":"tool_result","tool_use_id":"c2"},{"type":"text","text":"and?"}]}]`},
		{"a tool that failed", []llm.Message{text(llm.RoleUser, "hi"), assistant(call("c1", `{"q":1}`)), failed},
			`"messages":[` + user + `,` + calls +
				`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"no"}],` +
				`"is_error":true}]}]`},
		{"text and calls keep their order", []llm.Message{text(llm.RoleUser, "hi"),
			assistant(llm.Text("a"), call("c1", `{"q":1}`), llm.Text("b")), result("c1", "x")},
			`"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"f",` +
				`"input":{"q":1}},{"type":"text","text":"b"}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"x"}]}]}]`},
		{"GAP-84 arguments that are no object", []llm.Message{text(llm.RoleUser, "hi"), assistant(call("c1", `{"q":`))},
			`"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text",` +
				`"text":"There is no result: the call was interrupted."}],"is_error":true}]}]`},
		{"a beginning of the reply loses the blanks at its end",
			[]llm.Message{text(llm.RoleUser, "hi"), text(llm.RoleAssistant, "{ \n")},
			`"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":"{"}]}]`},
		{"so it does where nothing but blanks comes after",
			[]llm.Message{text(llm.RoleUser, "hi"), text(llm.RoleAssistant, "{ \n", " "), text(llm.RoleUser, ""),
				text(llm.RoleSystem, "s")},
			`"system":[{"type":"text","text":"s"}],"messages":[` + user +
				`,{"role":"assistant","content":[{"type":"text","text":"{"}]}]`},
		{"a user who says nothing", []llm.Message{text(llm.RoleUser, " ", "")},
			`"messages":[{"role":"user","content":[{"type":"text","text":"."}]}]`},
		{"a user who says nothing, with instructions", []llm.Message{text(llm.RoleSystem, "s"), text(llm.RoleUser, "\n")},
			`"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"."}]}]`},
		{"a user who said nothing at first", []llm.Message{text(llm.RoleUser, ""), text(llm.RoleAssistant, " "),
			text(llm.RoleAssistant, "x"), text(llm.RoleUser, "hi")},
			`"messages":[{"role":"user","content":[{"type":"text","text":"."}]},{"role":"assistant","content":[{"type":` +
				`"text","text":"x"}]},` + user + `]`},
		{"a user who said nothing before speaking", []llm.Message{text(llm.RoleUser, ""), text(llm.RoleAssistant, ""),
			text(llm.RoleUser, "hi")}, `"messages":[` + user + `]`},
		{"turns of nothing are left out", []llm.Message{text(llm.RoleAssistant, " "), text(llm.RoleUser, "hi"),
			text(llm.RoleAssistant, "")}, `"messages":[` + user + `]`},
		{"turns between which nothing is said are one",
			[]llm.Message{text(llm.RoleUser, "hi"), text(llm.RoleAssistant, ""), text(llm.RoleUser, "ho")},
			`"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"ho"}]}]`},
		{"turns of one role are one", []llm.Message{text(llm.RoleUser, "hi"), text(llm.RoleUser, "ho")},
			`"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"ho"}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := family.Conformed(nil, &llm.Request{Model: "m", MaxTokens: 1, Messages: tt.messages, Whole: true})
			require.NoError(t, err)
			official(t, b)
			require.Equal(t, `{"model":"m","max_tokens":1,`+tt.want+`}`, string(b))
		})
	}
}

func TestEncodeCallIDs(t *testing.T) {
	t.Parallel()
	ids := []string{"functions.f:0", "functions.f/0", "ünï", "toolu_01-A"}
	var calls []llm.Part
	conversation := []llm.Message{text(llm.RoleUser, "hi"), {}}
	for _, id := range ids {
		calls = append(calls, llm.Part{Call: &llm.ToolCall{ID: id, Name: "f"}})
		conversation = append(conversation, llm.Message{Role: llm.RoleTool, CallID: id})
	}
	conversation[1] = llm.Message{Role: llm.RoleAssistant, Parts: calls}
	b, err := family.Conformed(nil, &llm.Request{MaxTokens: 1, Messages: conversation})
	require.NoError(t, err)
	params := official(t, b)
	seen := map[string]bool{}
	for i, block := range params.Messages[1].Content {
		id := block.OfToolUse.ID
		require.Regexp(t, `^[a-zA-Z0-9_-]+$`, id)
		require.Equal(t, id, params.Messages[2].Content[i].OfToolResult.ToolUseID)
		seen[id] = true
	}
	require.Len(t, seen, len(ids))
	require.True(t, seen["toolu_01-A"], "an id that is allowed stays")
}
