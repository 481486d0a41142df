package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// decodeChunks hands chunks to a decoder, as they are or each with a member of its own, which makes no two of
// them alike and means nothing.
func decodeChunks(t require.TestingT, chunks []string, alike bool) []llm.Event {
	var events []llm.Event
	d := chat.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
	for n, chunk := range chunks {
		if !alike {
			chunk = fmt.Sprintf(`{"n":%d,`, n) + strings.TrimPrefix(chunk, "{")
		}
		if err := d.Data([]byte(chunk)); err != nil {
			require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
			return events
		}
	}
	require.NoError(t, d.Close())
	return events
}

// Most chunks are read by comparing them with the one before. That must never show.
func TestChunksThatAreAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SampledFrom([]string{`"a"`, `" b"`, `""`, `"\n"`, `"\ud83d"`, `"\ude00"`, `"index"`, `"stop"`, `"é"`,
			`"\\"`,
			`null`, `7`, `["x"]`, `[{"type":"text","text":"p"}]`, `"a","content":"b"`, `"a"},"index":1,"delta":{"content":"c"`,
			`"x`})
		shapes := rapid.SampledFrom([]string{
			`{"model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`,
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":%s},"finish_reason":null}],"usage":null}`,
			`{"choices":[{"index":0,"delta":{"content":%s}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
			`{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":"length"}],"usage":{"prompt_tokens":3,` +
				`"completion_tokens":5}}`,
			`{"choices":[{"index":0,"delta":{"content":%s}},{"index":1,"delta":{"content":"other"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":%s}},{"index":0,"delta":{"content":"more"}}]}`,
			`{"choices":[{"index":1,"delta":{"content":%s}}]}`,
			`{"choices":[{"delta":{"content":%s,"reasoning":"hm"}}]}`,
			`{"choices":[{"delta":{"reasoning_content":%s}}]}`,
			`{"choices":[{"delta":{"content":%s,"refusal":"no"}}]}`,
			`{"choices":[{"delta":{"content":%s,"tool_calls":[{"index":0,"id":"c","function":{"name":"f",` +
				`"arguments":"{}"}}]}}]}`,
		})
		var chunks []string
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			shape := shapes.Draw(t, "shape")
			for range rapid.IntRange(1, 4).Draw(t, "alike") {
				chunks = append(chunks, fmt.Sprintf(shape, texts.Draw(t, "text")))
			}
		}
		chunks = append(chunks, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
		require.Equal(t, decodeChunks(t, chunks, false), decodeChunks(t, chunks, true), "%s", chunks)
	})
}
