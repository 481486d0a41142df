package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

// insides draws what can stand between the quotes of a JSON string.
func insides() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
		"a", "é", "😀", " ", "\u2028", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0041`, `\u00e9`, `\u4E2D`,
		`\u0000`,
		`u0041`,
		`\ud83d\ude00`, `\uD83D\uDE00`, `\ud83d`, `\ude00`, `\u2028`,
	})), func(pieces []string) string { return strings.Join(pieces, "") })
}

func TestStringReadsAsJSONDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inside := insides().Draw(t, "inside")
		var want string
		require.NoError(t, json.Unmarshal([]byte(`"`+inside+`"`), &want))
		s := llm.Quoted(inside)
		require.Equal(t, want, s.String())
		require.Equal(t, want, fmt.Sprint(s))
		require.Equal(t, "x"+want, string(s.AppendTo([]byte("x"))))
		require.Equal(t, strings.TrimSpace(want) == "", s.Blank())
		require.Equal(t, want == "", s.Size() == 0)
		require.GreaterOrEqual(t, s.Size(), len(want), "what it is escaped to may be longer, never shorter")
		form, ok := s.Quoted()
		require.True(t, ok)
		require.Equal(t, inside, form)
		text, ok := s.Plain()
		require.Equal(t, !strings.Contains(inside, `\`), ok)
		if ok {
			require.Equal(t, want, text)
		}
	})
}

func TestPlainString(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\u00a0", "a\"b", `\n`, "\\", "é"} {
		s := llm.Plain(text)
		require.Equal(t, text, s.String())
		require.Equal(t, text, string(s.AppendTo(nil)))
		require.Equal(t, len(text), s.Size())
		require.Equal(t, strings.TrimSpace(text) == "", s.Blank())
		got, ok := s.Plain()
		require.True(t, ok)
		require.Equal(t, text, got)
		_, ok = s.Quoted()
		require.False(t, ok, "it may hold what has to be escaped")
	}
	require.Equal(t, llm.Plain(""), llm.String{})
	m := llm.Message{Parts: []llm.Part{{Text: llm.Quoted(`a\n`)}, llm.Text("\"")}}
	require.Equal(t, "a\n\"", m.Text())
}
