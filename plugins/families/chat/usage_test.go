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
	for name, c := range map[string]struct {
		chunk string
		want  llm.Usage
	}{
		"Moonshot's cached tokens": {`{"usage":{"prompt_tokens":10,"completion_tokens":3,"cached_tokens":4}}`,
			llm.Usage{Input: llm.Count(6), CacheRead: llm.Count(4), Output: llm.Count(3)}},
		"Groq's usage that nobody asked for": {`{"x_groq":{"id":"req_1","usage":{"prompt_tokens":10,"completion_tokens":3}}}`,
			llm.Usage{Input: llm.Count(10), Output: llm.Count(3)}},
		"Moonshot's usage in a choice": {`{"choices":[{"index":0,"delta":{},"usage":{"prompt_tokens":10,` +
			`"completion_tokens":3}}]}`, llm.Usage{Input: llm.Count(10), Output: llm.Count(3)}},
		"xAI's reasoning beside the completion": {`{"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":18,` +
			`"completion_tokens_details":{"reasoning_tokens":5}}}`,
			llm.Usage{Input: llm.Count(10), Output: llm.Count(8), Reasoning: llm.Count(5)}},
		"reasoning within the completion": {`{"usage":{"prompt_tokens":10,"completion_tokens":8,"total_tokens":18,` +
			`"completion_tokens_details":{"reasoning_tokens":5}}}`,
			llm.Usage{Input: llm.Count(10), Output: llm.Count(8), Reasoning: llm.Count(5)}},
		"a total that says nothing": {`{"usage":{"prompt_tokens":10,"completion_tokens":8,"total_tokens":"18",` +
			`"completion_tokens_details":{"reasoning_tokens":5}}}`,
			llm.Usage{Input: llm.Count(10), Output: llm.Count(8), Reasoning: llm.Count(5)}},
	} {
		t.Run("GAP-109 "+name, func(t *testing.T) {
			t.Parallel()
			events, err := read(delta(`{"content":"a"}`), finish("stop"), c.chunk, "[DONE]")
			require.NoError(t, err)
			require.Equal(t, usage(c.want), events[1])
		})
	}
	t.Run("Mistral's thoughts are hidden", func(t *testing.T) {
		t.Parallel()
		events, err := read(delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`),
			delta(`{"content":[{"type":"text","text":"a"}]}`), finish("stop"), "[DONE]")
		require.NoError(t, err)
		require.Equal(t, []llm.Event{{Kind: llm.EventReasoning, Text: "hm"}, text("a"), finished(llm.FinishStop)}, events)
	})
	t.Run("GAP-124 a bad bill after more text", func(t *testing.T) {
		t.Parallel()
		const bill = `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`
		events, err := read(bill, delta(`{"content":"b"}`), finish("stop"),
			`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":-9}}`, "[DONE]")
		require.NoError(t, err)
		require.Equal(t, []llm.Event{text("a"), text("b"), usage(llm.Usage{Input: llm.Count(10), Output: llm.Count(1),
			Doubt: "completion_tokens is negative"}), finished(llm.FinishStop)}, events)
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
