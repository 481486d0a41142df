package chat_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

func encoder(includeUsage bool) families.Encoder {
	return chat.Server{}.NewEncoder(&families.Request{Stream: true, IncludeUsage: includeUsage}, familytest.Head)
}

// payloads parses what the data lines of a stream hold, but for the end marker.
func payloads(t *testing.T, stream string) []map[string]any {
	t.Helper()
	var chunks []map[string]any
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		require.True(t, ok, frame)
		if data == "[DONE]" {
			continue
		}
		var chunk map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &chunk), data)
		chunks = append(chunks, chunk)
	}
	return chunks
}

var (
	hello = []llm.Event{
		{Kind: llm.EventAccepted}, {Kind: llm.EventReasoning, Text: "hidden"},
		{Kind: llm.EventText, Text: "Hel"}, {Kind: llm.EventText}, {Kind: llm.EventText, Text: "lo"},
		{Kind: llm.EventUsage, Usage: &llm.Usage{}}, {Kind: llm.EventFinish, Finish: llm.FinishStop},
	}
)

func TestStream(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/e16.sse")
	require.NoError(t, err)
	end := families.End{Finish: llm.FinishStop, Usage: used(10, 2), Billed: 6000}

	t.Run("SSE-03 SSE-04 SSE-05 SSE-06 SSE-07 SSE-48 CHAT-09 E16 byte by byte", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, string(golden), stream(encoder(true), hello, end))
	})
	t.Run("CHAT-10 without include_usage", func(t *testing.T) {
		t.Parallel()
		want := strings.ReplaceAll(string(golden), `,"usage":null`, "")
		frames := strings.SplitAfter(want, "\n\n")
		want = strings.Join(append(frames[:4:4], frames[5:]...), "")
		require.Equal(t, want, stream(encoder(false), hello, end))
		require.NotContains(t, want, "usage")
	})
	t.Run("SSE-26 keep-alive", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "x: keepalive\n\n", string(encoder(true).AppendKeepAlive([]byte("x"))))
	})
	t.Run("SSE-31 SSE-49 E19 GAP-129 error frame", func(t *testing.T) {
		t.Parallel()
		e := encoder(true)
		frame := e.AppendError(nil, &families.Error{Status: http.StatusBadGateway, Code: families.UpstreamError,
			Message: "The model route failed."})
		require.Equal(t,
			`data: {"error":{"message":"The model route failed.","type":"upstream_error","code":"upstream_error"},`+
				`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0},`+
				`"completion_tokens_details":{"reasoning_tokens":0},"billing_pending":true}}`+"\n\n", string(frame))
	})
	t.Run("GAP-42 a frame's code where it differs", func(t *testing.T) {
		t.Parallel()
		frame := encoder(false).AppendError(nil, &families.Error{Status: http.StatusBadGateway, Code: families.UpstreamError,
			Frame: families.StreamError, Message: "m"})
		require.Contains(t, string(frame), `"type":"stream_error","code":"stream_error"`)
	})
	t.Run("text and model names are escaped", func(t *testing.T) {
		t.Parallel()
		e := chat.Server{}.NewEncoder(&families.Request{}, families.Head{ID: "1", Model: "a\"\n\u2028<"})
		chunks := payloads(t, string(e.AppendEvent(nil, llm.Event{Kind: llm.EventText, Text: "x\r\n\n\"\x00"})))
		require.Equal(t, "a\"\n\u2028<", chunks[0]["model"])
		choice := chunks[0]["choices"].([]any)[0].(map[string]any)
		require.Equal(t, "x\r\n\n\"\x00", choice["delta"].(map[string]any)["content"])
	})
}

// deltas returns the tool_calls deltas of a stream, as JSON text.
func deltas(t *testing.T, stream string) []string {
	t.Helper()
	var list []string
	for _, chunk := range payloads(t, stream) {
		for _, choice := range chunk["choices"].([]any) {
			if calls, ok := choice.(map[string]any)["delta"].(map[string]any)["tool_calls"]; ok {
				text, err := json.Marshal(calls)
				require.NoError(t, err)
				list = append(list, string(text))
			}
		}
	}
	return list
}

func TestStreamOfToolCalls(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-01 E25 a call in two pieces", func(t *testing.T) {
		t.Parallel()
		out := stream(encoder(false), []llm.Event{begin(0, "call_1", "f"), arguments(0, `{"q"`), arguments(0, ":1}")},
			families.End{Finish: llm.FinishToolCalls})
		require.Contains(t, out,
			`"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}`)
		require.Contains(t, out, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\""}}]}`)
		require.Contains(t, out, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`)
		require.True(t, strings.HasSuffix(out, `"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+
			"\n\ndata: [DONE]\n\n"))
	})
	t.Run("interleaved pieces keep their index", func(t *testing.T) {
		t.Parallel()
		out := stream(encoder(false), []llm.Event{begin(0, "a", "f"), begin(1, "b", "g"), arguments(1, "{"),
			arguments(0, "{"), arguments(1, "}"), arguments(0, "}")}, families.End{})
		require.Len(t, deltas(t, out), 6)
		require.Equal(t, `[{"function":{"arguments":"}"},"index":0}]`, deltas(t, out)[5])
	})
	t.Run("GAP-84 no arguments are an empty object", func(t *testing.T) {
		t.Parallel()
		ends := `[{"function":{"arguments":"{}"},"index":%d}]`
		out := stream(encoder(false), []llm.Event{begin(0, "a", "f"), end(0), begin(1, "b", "g"),
			arguments(1, ""), begin(2, "c", "h"), arguments(2, "{}"), end(2)}, families.End{})
		list := deltas(t, out)
		require.Len(t, list, 6)
		require.Equal(t, strings.ReplaceAll(ends, "%d", "0"), list[1])
		require.Equal(t, strings.ReplaceAll(ends, "%d", "1"), list[5])
	})
}

func TestFinishReason(t *testing.T) {
	t.Parallel()
	matched := "END"
	for _, test := range []struct {
		name  string
		end   families.End
		calls bool
		want  string
	}{
		{"CHAT-29 a stop sequence matched", families.End{Finish: llm.FinishStop, StopSequence: &matched}, false, "stop"},
		{"CHAT-30 natural end", families.End{Finish: llm.FinishStop}, false, "stop"},
		{"CHAT-30 the upstream did not say", families.End{}, false, "stop"},
		{"CHAT-31 allowance", families.End{Finish: llm.FinishLength}, false, "length"},
		{"CHAT-31 allowance within calls", families.End{Finish: llm.FinishLength}, true, "length"},
		{"CHAT-32 policy", families.End{Finish: llm.FinishPolicy}, false, "content_filter"},
		{"CHAT-32 STOP-25 policy after a match", families.End{Finish: llm.FinishPolicy, StopSequence: &matched}, true,
			"content_filter"},
		{"GAP-70 a match after a call", families.End{Finish: llm.FinishToolCalls, StopSequence: &matched}, true, "stop"},
		{"GAP-73 a match before the allowance", families.End{Finish: llm.FinishLength, StopSequence: &matched}, false,
			"stop"},
		{"GAP-82 calls", families.End{Finish: llm.FinishToolCalls}, true, "tool_calls"},
		{"GAP-82 calls, though the upstream says stop", families.End{Finish: llm.FinishStop}, true, "tool_calls"},
		{"no call, though the upstream says so", families.End{Finish: llm.FinishToolCalls}, false, "stop"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var events []llm.Event
			if test.calls {
				events = []llm.Event{begin(0, "a", "f")}
			}
			require.Contains(t, stream(encoder(false), events, test.end), `"finish_reason":"`+test.want+`"`)
			require.Contains(t, whole(events, test.end), `"finish_reason":"`+test.want+`","logprobs":null`)
		})
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	t.Run("USE-01 USE-02 USE-04 HTTP-10 MODEL-15 text", func(t *testing.T) {
		t.Parallel()
		usage := &llm.Usage{Input: llm.Count(10), CacheRead: llm.Count(5), CacheWrite: llm.Count(3), Output: llm.Count(7),
			Reasoning: llm.Count(4)}
		require.Equal(t, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"auto","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"Hello","refusal":null},"finish_reason":"stop","logprobs":null}],`+
			`"usage":{"prompt_tokens":18,"completion_tokens":7,"total_tokens":25,"prompt_tokens_details":{"cached_tokens":5},`+
			`"completion_tokens_details":{"reasoning_tokens":4},"billed_microcents":6000,"billing_pending":true}}`,
			whole(hello, families.End{Usage: usage, Billed: 6000, Pending: true}))
	})
	t.Run("TOOL-01 only calls", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, whole([]llm.Event{begin(0, "a", "f"), begin(1, "b", "g"), arguments(1, `{"q":1}`)},
			families.End{}),
			`"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function",`+
				`"function":{"name":"f","arguments":"{}"}},`+
				`{"id":"b","type":"function","function":{"name":"g","arguments":"{\"q\":1}"}}]}`)
	})
	t.Run("E12 text around a call is one content", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, whole([]llm.Event{{Kind: llm.EventText, Text: "abEN"}, begin(0, "a", "f"),
			{Kind: llm.EventText, Text: "Dcd"}}, families.End{}),
			`"content":"abENDcd","refusal":null,"tool_calls":[`)
	})
	t.Run("GAP-72 nothing at all", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, whole(nil, families.End{}), `"message":{"role":"assistant","content":"","refusal":null}`)
	})
}

func TestErrorBody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  *families.Error
		want string
	}{
		"ERR-01 ERR-02 ERR-03 E19 code, message and type": {
			&families.Error{Status: 502, Code: families.UpstreamError, Frame: families.StreamError,
				Message: "The model route failed."},
			`{"error":{"code":"upstream_error","message":"The model route failed.","type":"upstream_error"}}`},
		"ERR-06 MEDIA-11 MEDIA-12 media": {families.Media(),
			`{"error":{"code":"unsupported_content","message":"Image and audio input are not supported yet. Send text only.",` +
				`"type":"invalid_request_error"}}`},
		"ERR-07 unknown model": {&families.Error{Status: 404, Code: families.ModelNotFound, Message: "m"},
			`{"error":{"code":"model_not_found","message":"m","type":"invalid_request_error","param":"model"}}`},
		"ERR-13 unsupported": {families.Unsupported("a \"b\""),
			`{"error":{"code":"unsupported_field","message":"a \"b\" The same request fails again.",` +
				`"type":"unsupported_field"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, string(chat.Server{}.AppendError(nil, test.err)))
		})
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	var server families.Server = chat.Server{}
	require.Equal(t, "chat", server.Name())
	require.False(t, server.APIKeyHeader())
	require.Equal(t, []families.Endpoint{
		{Path: "/v1/chat/completions", Kind: families.Generate}, {Path: "/chat/completions", Kind: families.Generate},
	}, server.Endpoints())
}
