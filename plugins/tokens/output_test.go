package tokens_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestOutput proves that a reply counts the same in whatever pieces it comes.
func TestOutput(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"English":         strings.Repeat("The keeper of the lighthouse wrote down the wind and every ship. ", 300),
		"no blanks":       strings.Repeat("灯塔看守人记下了风和每一艘船。", 500),
		"one early blank": "a " + strings.Repeat("灯塔看守人记下了风和每一艘船。", 500),
		"short":           "Hello",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				var out tokens.Output
				require.False(t, out.Any())
				runes := []rune(text)
				longest := rapid.IntRange(1, 2000).Draw(t, "longest piece")
				for len(runes) > 0 {
					n := min(len(runes), rapid.IntRange(1, longest).Draw(t, "piece"))
					out.Add(llm.Event{Kind: llm.EventText, Text: string(runes[:n])})
					runes = runes[n:]
					if longest < 100 && len(runes) > 3000 {
						longest = 1000 // small pieces at the beginning are enough
					}
				}
				require.True(t, out.Any())
				total, reasoning := out.Count()
				want := tokens.Text(text)
				require.InDelta(t, want, total, 1+float64(want)/100)
				require.Zero(t, reasoning)
				again, _ := out.Count()
				require.Equal(t, total, again, "counting changes nothing")
			})
		})
	}
	t.Run("texts that are interleaved", func(t *testing.T) {
		t.Parallel()
		var out tokens.Output
		const thought, said, arguments = "Let me think about the sea.", "The sea is blue.", `{"colour":"blue"}`
		out.Add(llm.Event{Kind: llm.EventAccepted, Model: "not counted"})
		out.Add(llm.Event{Kind: llm.EventToolCall, Index: 1, ID: "call_1", Name: "paint"})
		for i := range max(len(thought), len(said), len(arguments)) {
			for _, s := range []struct {
				kind llm.EventKind
				text string
			}{{llm.EventReasoning, thought}, {llm.EventText, said}, {llm.EventToolArguments, arguments}} {
				if i < len(s.text) {
					out.Add(llm.Event{Kind: s.kind, Index: 0, Text: s.text[i : i+1]})
				}
			}
		}
		total, reasoning := out.Count()
		require.Equal(t, tokens.Text(thought), reasoning)
		require.Equal(t, tokens.Text("paint")+tokens.Text(thought)+tokens.Text(said)+tokens.Text(arguments), total)
	})
}
