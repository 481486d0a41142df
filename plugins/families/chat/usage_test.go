package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

func TestUsages(t *testing.T) {
	t.Parallel()
	familytest.Usages(t, familytest.Metered{
		Input: "prompt_tokens", Output: "completion_tokens",
		Details: []string{`"prompt_tokens_details":{"cached_tokens":%s}`, `"prompt_tokens_details":{"cache_write_tokens":%s}`,
			`"prompt_cache_hit_tokens":%s`, `"completion_tokens_details":{"reasoning_tokens":%s}`},
		Stream: func(usage ...string) ([]llm.Event, error) {
			chunks := []string{delta(`{"content":"a"}`), finish("stop")}
			for _, u := range usage {
				if u != "" {
					chunks = append(chunks, `{"choices":[],"usage":`+u+`}`)
				}
			}
			return read(append(chunks, "[DONE]")...)
		},
		Whole: func(usage string) ([]llm.Event, error) {
			if usage != "" {
				usage = `,"usage":` + usage
			}
			return readWhole(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]` + usage + `}`)
		},
	})
	t.Run("GAP-111 a bad bill after more text", func(t *testing.T) {
		t.Parallel()
		const bill = `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`
		events, err := read(bill, delta(`{"content":"b"}`), finish("stop"),
			`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":-9}}`, "[DONE]")
		require.NoError(t, err)
		require.Equal(t, []llm.Event{text("a"), text("b"), usage(llm.Usage{Flaw: "completion_tokens is negative"}),
			finished(llm.FinishStop)}, events,
			"what was said before is not the bill of what came since")
	})
	t.Run("GAP-111 half a usage of a reply of calls or of thoughts", func(t *testing.T) {
		t.Parallel()
		for _, piece := range []string{`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}`,
			`{"reasoning":"hm"}`} {
			events, err := read(delta(piece), finish("stop"), `{"usage":{"prompt_tokens":10}}`, "[DONE]")
			require.NoError(t, err)
			require.Equal(t, usage(llm.Usage{Flaw: "completion_tokens is missing"}), events[1])
		}
	})
	t.Run("GAP-111 cached tokens do not go down", func(t *testing.T) {
		t.Parallel()
		events, err := read(delta(`{"content":"a"}`), finish("stop"),
			`{"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
			`{"usage":{"prompt_tokens":12,"completion_tokens":3}}`, "[DONE]")
		require.NoError(t, err)
		require.Equal(t, usage(llm.Usage{Input: llm.Count(8), CacheRead: llm.Count(4), Output: llm.Count(3)}), events[1])
	})
}
