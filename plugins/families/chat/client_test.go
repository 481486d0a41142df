package chat_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

func delta(d string) string {
	return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

func tool(d string) string { return delta(`{"tool_calls":[` + d + `]}`) }

func TestDecoder(t *testing.T) {
	t.Parallel()
	n := llm.Count
	const use = `"usage":{"prompt_tokens":10,"completion_tokens":2}`
	ended := []llm.Event{text("a"), usage(llm.Usage{Input: n(10), Output: n(2)}), finished(llm.FinishStop)}
	for _, test := range []struct {
		name   string
		chunks []string
		want   []llm.Event
	}{
		{"a cut reply stays one, whatever follows", []string{delta(`{"content":"a"}`), finish("length"), finish("stop")},
			[]llm.Event{text("a"), finished(llm.FinishLength)}},
		{"so does a declined one", []string{finish("content_filter"), finish("length")},
			[]llm.Event{finished(llm.FinishPolicy)}},
		{"and one with calls", []string{finish("tool_calls"), finish("stop")}, []llm.Event{finished(llm.FinishToolCalls)}},
		{"what a message at the end says beyond its deltas", []string{delta(`{"content":"hel"}`),
			`{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}`},
			[]llm.Event{text("hel"), text("lo"), finished(llm.FinishStop)}},
		{"what it says otherwise", []string{delta(`{"content":"hel"}`),
			`{"choices":[{"index":0,"message":{"content":"HELLO"},"finish_reason":"stop"}]}`},
			[]llm.Event{text("hel"), finished(llm.FinishStop)}},
		{"GAP-84 arguments by another name", []string{
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","parameters":{"q":1}}}]}`), finish("tool_calls")},
			[]llm.Event{{Kind: llm.EventToolCall, ID: "a", Name: "f"}, {Kind: llm.EventToolArguments, Text: `{"q":1}`},
				finished(llm.FinishToolCalls)}},
		{"usage in a chunk of its own", []string{delta(`{"role":"assistant","content":""}`), delta(`{"content":"a"}`),
			finish("stop"), `{"choices":[],` + use + `}`, "[DONE]"}, ended},
		{"usage in every chunk", []string{
			`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}],` + use + `}`, "[DONE]"}, ended},
		{"usage never", []string{delta(`{"content":"a"}`), finish("stop"), `{"choices":[],"usage":null}`, "[DONE]"},
			[]llm.Event{text("a"), finished(llm.FinishStop)}},
		{"no end marker after the finish", []string{delta(`{"content":"a"}`), finish("stop")},
			[]llm.Event{text("a"), finished(llm.FinishStop)}},
		{"an end marker without a finish", []string{delta(`{"content":"a"}`), " [DONE] "},
			[]llm.Event{text("a"), finished(llm.FinishUnknown)}},
		{"nothing counts after the end marker", []string{finish("stop"), "[DONE]", delta(`{"content":"a"}`), "junk"},
			[]llm.Event{finished(llm.FinishStop)}},
		{"empty data", []string{"", finish("stop")}, []llm.Event{finished(llm.FinishStop)}},
		{"length", []string{finish("length")}, []llm.Event{finished(llm.FinishLength)}},
		{"function_call", []string{finish("function_call")}, []llm.Event{finished(llm.FinishToolCalls)}},
		{"content_filter", []string{finish("content_filter")}, []llm.Event{finished(llm.FinishPolicy)}},
		{"GAP-114 another service's word", []string{finish("eos")}, []llm.Event{finished(llm.FinishStop)}},
		{"GAP-114 an unknown finish", []string{finish("abort"), finish("stop")}, []llm.Event{finished("abort")}},
		{"the reported model", []string{`{"model":"m-1","choices":[]}`, finish("stop")},
			[]llm.Event{{Kind: llm.EventFinish, Finish: llm.FinishStop, Model: "m-1"}}},
		{"another choice is passed over",
			[]string{`{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"length"}]}`, finish("stop")},
			[]llm.Event{finished(llm.FinishStop)}},
		{"reasoning_content", []string{delta(`{"reasoning_content":"r","content":null}`), finish("stop")},
			[]llm.Event{{Kind: llm.EventReasoning, Text: "r"}, finished(llm.FinishStop)}},
		{"reasoning, sent twice", []string{delta(`{"reasoning":"r","reasoning_content":"r"}`), finish("stop")},
			[]llm.Event{{Kind: llm.EventReasoning, Text: "r"}, finished(llm.FinishStop)}},
		{"refusal is text", []string{delta(`{"refusal":"no"}`), finish("stop")},
			[]llm.Event{text("no"), finished(llm.FinishStop)}},
		{"content in parts", []string{delta(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`),
			finish("stop")}, []llm.Event{text("a"), text("b"), finished(llm.FinishStop)}},
		{"GAP-74 a surrogate pair cut in two", []string{delta(`{"content":"x\ud83d"}`), delta(`{"content":""}`),
			delta(`{"content":"\ude00y"}`), finish("stop")}, []llm.Event{text("x"), text("😀y"), finished(llm.FinishStop)}},
		{"GAP-74 half a pair at the end", []string{delta(`{"content":"\ud83d"}`), finish("stop")},
			[]llm.Event{text("\uFFFD"), finished(llm.FinishStop)}},
		{"GAP-74 half a pair before a call", []string{delta(`{"content":"\ud83d"}`),
			tool(`{"index":0,"id":"a","function":{"name":"f"}}`), finish("stop")},
			[]llm.Event{text("\uFFFD"), begin(0, "a", "f"), finished(llm.FinishStop)}},

		{"GAP-109 cached tokens are taken out of the input", []string{finish("stop"), `{"choices":[],` +
			`"usage":{"prompt_tokens":10,"completion_tokens":2,
			"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}}`},
			[]llm.Event{usage(llm.Usage{Input: n(6), CacheRead: n(4), Output: n(2), Reasoning: n(1)}),
				finished(llm.FinishStop)}},
		{"GAP-109 zero is zero, absent is absent", []string{finish("stop"),
			`{"usage":{"prompt_tokens":0,"completion_tokens":null,"prompt_tokens_details":{"cached_tokens":0}}}`},
			[]llm.Event{usage(llm.Usage{Input: n(0), CacheRead: n(0)}), finished(llm.FinishStop)}},
		{"GAP-109 an older name for cached tokens", []string{finish("stop"),
			`{"usage":{"prompt_tokens":10,"prompt_cache_hit_tokens":3}}`},
			[]llm.Event{usage(llm.Usage{Input: n(7), CacheRead: n(3)}), finished(llm.FinishStop)}},
		{"GAP-109 what was written to a cache is taken out of the input",
			[]string{finish("stop"),
				`{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3}}}`},
			[]llm.Event{usage(llm.Usage{Input: n(3), CacheRead: n(4), CacheWrite: n(3)}), finished(llm.FinishStop)}},
		{"GAP-109 more cached than there was", []string{finish("stop"),
			`{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":10}}}`},
			[]llm.Event{usage(llm.Usage{Input: n(0), CacheRead: n(3)}), finished(llm.FinishStop)}},
		{"GAP-111 counts that are none", []string{finish("stop"), `{"usage":{"prompt_tokens":-1,"completion_tokens":"2"}}`},
			[]llm.Event{usage(llm.Usage{Flaw: "prompt_tokens is negative"}), finished(llm.FinishStop)}},

		{"a call by index", []string{tool(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`),
			tool(`{"index":0,"function":{"arguments":"{\"q\""}}`),
			tool(`{"index":0,"id":null,"function":{"name":null,"arguments":":1}"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, `{"q"`), arguments(0, ":1}"), finished(llm.FinishToolCalls)}},
		{"interleaved calls",
			[]string{tool(`{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"b","function":{"name":"g"}}`),
				tool(`{"index":1,"function":{"arguments":"1"}},{"index":0,"function":{"arguments":"0"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), begin(1, "b", "g"), arguments(1, "1"), arguments(0, "0"),
				finished(llm.FinishToolCalls)}},
		{"indexes that do not count from 0", []string{tool(`{"index":7,"id":"a","function":{"name":"f"}}`),
			tool(`{"index":3,"id":"b","function":{"name":"g"}}`),
			tool(`{"index":7,"function":{"arguments":"x"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "x"), begin(1, "b", "g"), finished(llm.FinishToolCalls)}},
		{"one index for all calls", []string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}`),
			tool(`{"index":0,"id":"b","function":{"name":"g","arguments":"2"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), begin(1, "b", "g"), arguments(1, "2"),
				finished(llm.FinishToolCalls)}},
		{"a new id for every piece", []string{tool(`{"index":0,"id":"a","function":{"name":"f"}}`),
			tool(`{"index":0,"id":"b","function":{"arguments":"1"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), finished(llm.FinishToolCalls)}},
		{"a name in every piece", []string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}`),
			tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"2"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), arguments(0, "2"), finished(llm.FinishToolCalls)}},
		{"the name comes late", []string{tool(`{"index":0,"id":"a"}`), tool(`{"index":0,"function":{"arguments":"1"}}`),
			tool(`{"index":0,"function":{"name":"f","arguments":"2"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "12"), finished(llm.FinishToolCalls)}},
		{"names come in another order than the calls",
			[]string{tool(`{"index":0,"id":"a"},{"index":1,"id":"b","function":{"name":"g"}}`),
				tool(`{"index":0,"function":{"name":"f","arguments":"1"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), begin(1, "b", "g"), finished(llm.FinishToolCalls)}},
		{"no index, known by id", []string{tool(`{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}`),
			tool(`{"id":"a","function":{"arguments":"1"}}`), tool(`{"function":{"arguments":"2"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), arguments(0, "2"), begin(1, "b", "g"),
				finished(llm.FinishToolCalls)}},
		{"agno #8879: the index of another call, then the right one",
			[]string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`),
				tool(`{"index":0,"id":"b","function":{"name":"g","arguments":"{\"q\""}}`),
				tool(`{"index":1,"function":{"arguments":":1}"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), begin(1, "b", "g"), arguments(1, `{"q"`), arguments(1, ":1}"), arguments(0, "{}"),
				finished(llm.FinishToolCalls)}},
		{"indexes that are texts", []string{tool(`{"index":"0","id":"a","function":{"name":"f"}}`),
			tool(`{"index":"1","id":"b","function":{"name":"g"}}`), tool(`{"index":"0","function":{"arguments":"{}x"}}`),
			finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "{}x"), begin(1, "b", "g"), finished(llm.FinishToolCalls)}},
		{"told apart by their places", []string{tool(`{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}`),
			finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), begin(1, "b", "g"), finished(llm.FinishToolCalls)}},
		{"not in a list", []string{delta(`{"tool_calls":{"id":"a","function":{"name":"f","arguments":"1"}}}`),
			finish("tool_calls")}, []llm.Event{begin(0, "a", "f"), arguments(0, "1"), finished(llm.FinishToolCalls)}},
		{"said in the older form, too", []string{
			delta(`{"function_call":{"name":"f","arguments":"1"},"tool_calls":[{"index":0,"id":"a","function":{"name":"f",` +
				`"arguments":"1"}}]}`),
			delta(`{"function_call":{"arguments":"2"},"tool_calls":[{"index":0,"function":{"arguments":"2"}}]}`),
			delta(`{"function_call":{"arguments":"3"},"tool_calls":[]}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "1"), arguments(0, "2"), arguments(0, "3"),
				finished(llm.FinishToolCalls)}},
		{"HKUDS/nanobot #1481: in another choice", []string{delta(`{"content":"a"}`),
			`{"choices":[{"index":1,"delta":{"content":"x","tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}`,
			`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}`, finish("tool_calls")},
			[]llm.Event{text("a"), begin(0, "a", "f"), arguments(0, "1"), finished(llm.FinishToolCalls)}},
		{"another choice is another reply", []string{tool(`{"index":0,"id":"a","function":{"name":"f"}}`),
			`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g"}}]}}]}`,
			finish("tool_calls")}, []llm.Event{begin(0, "a", "f"), finished(llm.FinishToolCalls)}},
		{"a whole message at the end", []string{delta(`{"content":"a"}`),
			`{"choices":[{"index":0,"delta":{},"message":{"content":"a","tool_calls":[{"id":"a","function":{"name":"f",` +
				`"arguments":"1"}}]},"finish_reason":"tool_calls"}]}`},
			[]llm.Event{text("a"), begin(0, "a", "f"), arguments(0, "1"), finished(llm.FinishToolCalls)}},
		{"a whole message alone at the end", []string{delta(`{"content":""}`), delta(`{"reasoning_content":"r"}`),
			tool(`{"index":0,"id":"a","function":{"name":"f"}}`),
			`{"choices":[{"index":0,"message":{"content":"a","tool_calls":[{"id":"a","function":{"name":"f"}}]},` +
				`"finish_reason":"stop"}]}`},
			[]llm.Event{{Kind: llm.EventReasoning, Text: "r"}, begin(0, "a", "f"), text("a"), finished(llm.FinishStop)}},
		{"arguments as an object", []string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":{"q": 1}}}`),
			finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, `{"q": 1}`), finished(llm.FinishToolCalls)}},
		{"GAP-74 a pair cut in two within arguments",
			[]string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"\ud83d"}}`),
				tool(`{"index":0,"function":{"arguments":"\ude00"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "😀"), finished(llm.FinishToolCalls)}},
		{"GAP-74 half a pair at the end of arguments",
			[]string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"\ud83d"}}`), finish("tool_calls")},
			[]llm.Event{begin(0, "a", "f"), arguments(0, "\uFFFD"), finished(llm.FinishToolCalls)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(test.chunks...)
			require.NoError(t, err)
			require.Equal(t, test.want, events)
		})
	}
}

func TestDecoderMakesUpMissingIDs(t *testing.T) {
	t.Parallel()
	for name, chunks := range map[string][]string{
		"by index": {tool(`{"index":0,"function":{"name":"f"}},{"index":1,"function":{"name":"g"}}`),
			tool(`{"index":1,"id":"late","function":{"name":"g","arguments":"1"}}`), finish("tool_calls")},
		"without index": {tool(`{"function":{"name":"f"}},{"function":{"name":"g","arguments":"1"}}`),
			finish("tool_calls")},
		"the older form, 1": {tool(`{"function":{"name":"f"}}`), delta(`{"tool_calls":[{"function":{"name":"g"}}]}`),
			delta(`{"function_call":{"arguments":"1"}}`), finish("function_call")},
	} {
		events, err := read(chunks...)
		require.NoError(t, err, name)
		var reply llm.Reply
		for _, ev := range events {
			reply.Add(ev)
		}
		reply.Close()
		require.Len(t, reply.Items, 2, name)
		f, g := reply.Items[0].Call, reply.Items[1].Call
		require.NotEmpty(t, f.ID)
		require.NotEmpty(t, g.ID)
		require.NotEqual(t, f.ID, g.ID)
		require.Equal(t, "f", f.Name)
		require.Equal(t, "g", g.Name)
		require.Equal(t, "1", g.Arguments.String(), name)
	}
	events, err := read(delta(`{"function_call":{"name":"f","arguments":""}}`),
		delta(`{"function_call":{"arguments":"{}"}}`), finish("function_call"))
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, "f", events[0].Name)
}

func TestDecoderFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		chunks []string
		want   llm.ErrorKind
	}{
		{"cut before anything", nil, llm.ErrBroken},
		{"cut after text", []string{delta(`{"content":"a"}`)}, llm.ErrBroken},
		{"no JSON", []string{"<html>"}, llm.ErrProtocol},
		{"no object", []string{"[]"}, llm.ErrProtocol},
		{"a call without a name", []string{tool(`{"index":0,"id":"a","function":{"arguments":"{}"}}`), finish("tool_calls")},
			llm.ErrProtocol},
		{"an error in the stream", []string{delta(`{"content":"a"}`),
			`{"error":{"message":"overloaded","type":"server_error"}}`}, llm.ErrCapacity},
		{"an error with a status as its code", []string{`{"error":{"message":"m","code":429}}`}, llm.ErrCapacity},
		{"an error as the whole object", []string{`{"object":"error","message":"m","type":"BadRequestError","code":400}`},
			llm.ErrRejected},
		{"an error in a choice",
			[]string{`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"m"}}]}`},
			llm.ErrUpstream},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(test.chunks...)
			var typed *llm.Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, test.want, typed.Kind)
		})
	}
	t.Run("usage is sent before the error, and the error stays", func(t *testing.T) {
		t.Parallel()
		var events []llm.Event
		d := chat.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
		require.NoError(t, d.Data([]byte(`{"choices":[],"usage":{"prompt_tokens":5}}`)))
		err := d.Data([]byte("junk"))
		require.Error(t, err)
		require.Equal(t, []llm.Event{usage(llm.Usage{Input: llm.Count(5)})}, events)
		require.Equal(t, err, d.Data([]byte(finish("stop"))))
		require.Equal(t, err, d.Close())
		require.False(t, d.Done())
	})
}

func TestDecodeReply(t *testing.T) {
	t.Parallel()
	events, err := readWhole(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","reasoning_content":"r","content":"a",
		"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function",` +
		`"function":{"name":"g","arguments":"1"}}]},
		"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	require.NoError(t, err)
	require.Equal(t, []llm.Event{{Kind: llm.EventReasoning, Text: "r"}, text("a"), begin(0, "a", "f"), arguments(0, "{}"),
		begin(1, "b", "g"), arguments(1, "1"),
		usage(llm.Usage{Input: llm.Count(1), Output: llm.Count(2)}),
		{Kind: llm.EventFinish, Finish: llm.FinishToolCalls, Model: "m"}}, events)

	events, err = readWhole(`{"choices":[{"message":{"content":"a"},"finish_reason":null}]}`)
	require.NoError(t, err)
	require.Equal(t, []llm.Event{text("a"), finished(llm.FinishUnknown)}, events)

	// Pieces of a stream are joined by their ids; what comes whole is not.
	events,
		err = readWhole(
		`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}},{"id":"a",` +
			`"function":{"name":"g","arguments":"2"}}]}}]}`)
	require.NoError(t, err)
	require.Equal(t, []llm.Event{begin(0, "a", "f"), arguments(0, "1"), begin(1, "a_2", "g"), arguments(1, "2"),
		finished(llm.FinishUnknown)}, events, "two calls have two ids")

	for body, kind := range map[string]llm.ErrorKind{
		`{"error":{"message":"m","code":"context_length_exceeded"}}`: llm.ErrContext,
		`{"error":"boom"}`: llm.ErrUpstream,
		`{"choices":[]}`:   llm.ErrProtocol,
		`{}`:               llm.ErrProtocol,
		`nonsense`:         llm.ErrProtocol,
	} {
		_, err = readWhole(body)
		require.Equal(t, kind, llm.KindOf(err), body)
	}
}

func TestEncodeRequest(t *testing.T) {
	t.Parallel()
	encode := func(req *llm.Request) string {
		b, err := family.Conformed(nil, req)
		require.NoError(t, err)
		require.True(t, json.Valid(b), string(b))
		return string(b)
	}
	temperature := 0.3
	hi := []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}
	const plain = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true`
	require.Equal(t, plain+`,"stream_options":{"include_usage":true}}`, encode(&llm.Request{Model: "m", Messages: hi}))

	full := &llm.Request{Model: "m", Messages: hi, MaxTokens: 9, Temperature: &temperature, Stop: []string{"a", "\n"},
		Tools: []llm.Tool{{Name: "f", Description: "d", Schema: []byte(`{"type":"object","properties":{}}`)},
			{Name: "g", Schema: []byte(`{"type":"object"}`)}},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}}
	const tools = `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",` +
		`"properties":{}}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],` +
		`"tool_choice":{"type":"function","function":{"name":"f"}}}`
	require.Equal(t, plain+`,"stream_options":{"include_usage":true},"max_tokens":9,"temperature":0.3,"stop":["a","\n"]`+
		tools, encode(full))
	full.Unsupported = []string{"stop", "temperature", "max_tokens", "stream_options"}
	require.Equal(t, plain+`,"max_completion_tokens":9`+tools, encode(full))
	require.Equal(t, strings.TrimSuffix(plain, `,"stream":true`)+"}",
		encode(&llm.Request{Model: "m", Messages: hi, Whole: true}))

	full.Tools[0].Strict, full.Tools[1].Strict = true, true
	full.Tools[0].Schema = []byte(`{"type":"object","properties":{},"additionalProperties":false}`)
	require.Contains(t, encode(full), `"additionalProperties":false},"strict":true}},`+
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}]`,
		"no schema that could be kept to")
	full.Unsupported = []string{"strict"}
	require.NotContains(t, encode(full), "strict")

	strict := true
	require.Contains(t, encode(&llm.Request{Messages: hi, Format: &llm.Format{Kind: llm.FormatJSONObject}}),
		`"response_format":{"type":"json_object"}}`)
	require.Contains(t, encode(&llm.Request{Messages: hi,
		Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Description: "d", Schema: []byte(`{}`), Strict: &strict}}),
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{},"strict":true}}}`)

	_, err := chat.EncodeRequest(nil, &llm.Request{Messages: []llm.Message{{Role: "robot"}}})
	require.EqualError(t, err, `encoding message 0: unknown role "robot"`)
	_, err = chat.EncodeRequest(nil, &llm.Request{Messages: hi, Tools: full.Tools, ToolChoice: llm.ToolChoice{Mode: "x"}})
	require.EqualError(t, err, `encoding tool choice: unknown mode "x"`)
}

func BenchmarkDecoder(b *testing.B) {
	golden, err := os.ReadFile("testdata/e16.sse")
	if err != nil {
		b.Fatal(err)
	}
	chunk := []byte(strings.TrimPrefix(strings.Split(string(golden), "\n\n")[1], "data: "))
	d := chat.NewDecoder(func(llm.Event) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Data(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
