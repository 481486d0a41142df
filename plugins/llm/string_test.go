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

// TestCutLine proves GAP-134 for the last line of a text in each of its forms: what is cut off and what stays are the
// text, and the line is what follows the last end of one.
func TestCutLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inside := insides().Draw(t, "inside")
		s := llm.Quoted(inside)
		if rapid.Bool().Draw(t, "plain") {
			s = llm.Plain(s.String())
		}
		before, line, ok := s.CutLine(s.Size())
		require.True(t, ok)
		require.Equal(t, s.String(), before.String()+line.String())
		at := max(strings.LastIndex(s.String(), "\n"), 0)
		require.Equal(t, s.String()[:at], before.String())
		longest := rapid.IntRange(0, 20).Draw(t, "longest")
		stays, cut, ok := s.CutLine(longest)
		if ok {
			require.Equal(t, before, stays)
			require.Equal(t, line, cut)
			return
		}
		require.Greater(t, line.Size(), longest)
		require.Equal(t, s, stays)
		require.Zero(t, cut)
	})
}

func TestCutChanging(t *testing.T) {
	t.Parallel()
	for _, text := range []llm.String{llm.Plain("a\n\nb\nc\n"), llm.Quoted(`a\n\nb\nc\n`)} {
		m := llm.Message{Parts: []llm.Part{llm.Text("x"), {Text: text}}}
		for n, want := range []string{"a\n\nb\nc\n", "a\n\nb\nc", "a\n\nb", "a\n", "a", "", ""} {
			m.Changing = uint16(n)
			stays, changes := m.CutChanging()
			require.Equal(t, want, stays.String())
			require.Equal(t, text.String(), stays.String()+changes.String())
		}
	}
	stays, changes := (&llm.Message{Changing: 2}).CutChanging()
	require.Zero(t, stays.Size()+changes.Size())
}
