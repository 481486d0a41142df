package contracttest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var update = flag.Bool("update", false, "write the golden files anew")

// used is the usage of a scripted reply: so many tokens in and out.
func used(prompt, completion int64) upstream.Usage {
	return upstream.Usage{Prompt: prompt, Completion: completion}
}

// What the golden files call by other names: what is different each time.
var (
	idPattern       = regexp.MustCompile(`(chatcmpl-|resp_|msg_|fc_)[0-9a-f]{32}`)
	createdPattern  = regexp.MustCompile(`"(created|created_at|completed_at)":[0-9]+`)
	estimatePattern = regexp.MustCompile(`"input_tokens":[0-9]+,"output_tokens":0}}}`) // of message_start
)

// requireGolden compares a stream, byte by byte, with a file in testdata/streams.
func requireGolden(t testing.TB, name string, stream []byte) {
	t.Helper()
	got := idPattern.ReplaceAll(stream, []byte("${1}1"))
	got = createdPattern.ReplaceAll(got, []byte(`"$1":1`))
	got = estimatePattern.ReplaceAll(got, []byte(`"input_tokens":9,"output_tokens":0}}}`))
	path := filepath.Join("testdata", "streams", name+".sse")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// TestTranscripts compares whole streams with the worked examples, byte by byte.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	var (
		failed = upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Fail(upstream.ServerError())}}
		long   = script(used(10, 50), "length", upstream.Text("Hel"))
		call   = script(used(10, 5), "tool_calls", upstream.ToolCall(0, "call_1", "f"),
			upstream.Arguments(0, `{"q"`), upstream.Arguments(0, `:1}`))
		interleaved = script(used(10, 20), "tool_calls", upstream.Text("Both: "),
			upstream.ToolCall(0, "call_1", "f"), upstream.Arguments(0, `{"q"`),
			upstream.ToolCall(1, "call_2", "g"), upstream.Arguments(1, `{"r"`),
			upstream.Arguments(0, `:1}`), upstream.Arguments(1, `:2}`))
	)
	const (
		usageToo = `"stream":true,"stream_options":{"include_usage":true}`
		plain    = `"stream":true`
		tools    = plain +
			`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
		flat   = plain + `,"tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]`
		client = plain +
			`,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}]`
	)
	for _, tt := range []struct {
		name, shape, golden, fields string
		reply                       upstream.Reply
		cost                        int64 // microcents
	}{
		{"SSE-03 SSE-04 SSE-05 SSE-06 SSE-07 SSE-22 SSE-48 CHAT-09 chat with usage", "chat", "E16-chat-usage", usageToo,
			hello, helloCost},
		{"SSE-03 SSE-04 SSE-05 SSE-07 GAP-09 chat without usage", "chat", "E16-chat", plain, hello, helloCost},
		{"SSE-08 SSE-09 SSE-11 SSE-14 SSE-15 SSE-23 SSE-48 responses", "responses", "E17-responses", plain, hello, helloCost},
		{"SSE-16 SSE-17 SSE-18 SSE-19 SSE-24 SSE-48 GAP-09 messages", "messages", "E18-messages", plain, hello, helloCost},

		{"SSE-05 chat out of room", "chat", "E16-chat-length", plain, long, 78000},
		{"SSE-12 SSE-14 SSE-15 GAP-09 responses out of room", "responses", "E17-responses-incomplete", plain, long, 78000},
		{"SSE-18 messages out of room", "messages", "E18-messages-max-tokens", plain, long, 78000},

		{"SSE-29 SSE-30 SSE-31 SSE-49 chat fails", "chat", "E19-chat-error", plain, failed, 0},
		{"SSE-29 SSE-30 SSE-32 SSE-33 SSE-49 responses fails", "responses", "E20-responses-error", plain, failed, 0},
		{"SSE-29 SSE-30 SSE-34 SSE-49 messages fails", "messages", "E21-messages-error", plain, failed, 0},

		{"TOOL-01 chat tool call", "chat", "E25-chat-call", tools, call, 10500},
		{"SSE-10 TOOL-01 responses tool call", "responses", "E25-responses-call", flat, call, 10500},
		{"SSE-17 TOOL-01 messages tool call", "messages", "E25-messages-call", client, call, 10500},

		{"SSE-03 chat interleaved tool calls", "chat", "E25-chat-interleaved", tools, interleaved, 33000},
		{"SSE-10 responses interleaved tool calls", "responses", "E25-responses-interleaved", flat, interleaved, 33000},
		{"SSE-17 messages interleaved tool calls", "messages", "E25-messages-interleaved", client, interleaved, 33000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(tt.reply)
			sh := shapeOf(tt.shape)
			before := c.Net()
			a := c.Post(sh.Path, sh.Body("PROMPT", `"model":"auto"`, tt.fields))
			require.Equal(t, 200, a.StatusCode)
			requireGolden(t, tt.golden, a.Raw)
			require.Equal(t, tt.cost, before-c.Net())
		})
	}
}
