package stop_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/stop"
)

// alphabet is small, so that random texts hit random sequences, and has characters that share their first
// bytes (é, è) and their last (é, ĩ).
var alphabet = []rune("abéèĩ€😀")

// cut is the naive reference: the reply's text up to the first sequence that it completes, by trying every
// sequence at every character.
func cut(text string, stops []string) (reply, matched string) {
	for end := range len(text) + 1 {
		for _, s := range stops {
			if s != "" && len(s) > len(matched) && strings.HasSuffix(text[:end], s) {
				matched = s
			}
		}
		if matched != "" {
			return text[:end-len(matched)], matched
		}
	}
	return text, ""
}

// fragment is the naive reference of what is withheld: the longest end of text that is a proper prefix of
// some sequence.
func fragment(text string, stops []string) string {
	longest := ""
	for _, s := range stops {
		for n := len(longest) + 1; n < len(s) && n <= len(text); n++ {
			if strings.HasSuffix(text, s[:n]) && n > len(longest) {
				longest = s[:n]
			}
		}
	}
	return longest
}

func TestAgainstNaiveReference(t *testing.T) {
	t.Parallel()
	word := func(most int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.SampledFrom(alphabet), 0, most, -1)
	}
	check := func(t *rapid.T) {
		stops := rapid.SliceOfN(word(5), 0, 16).Draw(t, "stops")
		pieces := rapid.SliceOfN(word(6), 0, 12).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		reply, matched := cut(whole, stops)
		longest := 0
		for _, s := range stops {
			longest = max(longest, utf8.RuneCountInString(s))
		}

		m := stop.New(stops).Matcher()
		var fed, shown string
		for _, piece := range pieces {
			emit, _, ok := m.Feed(piece)
			fed += piece
			shown += emit
			if upTo, _ := cut(fed, stops); ok {
				require.Equal(t, upTo, shown, "cut at the match")
				continue
			}
			withheld := strings.TrimPrefix(fed, shown)
			require.Equal(t, fed, shown+withheld, "shown is what was fed, in order")
			require.Equal(t, fragment(fed, stops), withheld, "withheld is exactly what could still match")
			require.LessOrEqual(t, utf8.RuneCountInString(withheld), max(longest-1, 0))
			require.True(t, utf8.ValidString(emit), "no character is torn")
		}
		shown += m.Flush()
		require.Equal(t, reply, shown)
		require.Equal(t, matched, m.Matched())
	}
	t.Run("STOP-10 STOP-27 STOP-28 GAP-92 any chunking ends at the same place", rapid.MakeCheck(check))
}

// FuzzMatcher is the same property over bytes that a fuzzer chooses: stops separated by 0xFF, then the text.
func FuzzMatcher(f *testing.F) {
	f.Add("END\xffEND of\xfffoo E", "ND bar")
	f.Add("aab", "aaab")
	f.Add("abcd\xffbc", "abcd")
	f.Fuzz(func(t *testing.T, stopList, text string) {
		// The reference is quadratic.
		stopList, text = stopList[:min(len(stopList), 256)], text[:min(len(text), 1024)]
		stops := strings.Split(stopList, "\xff")
		reply, matched := cut(text, stops)
		shown, got := run(stops, []string{text[:len(text)/2], text[len(text)/2:]})
		require.Equal(t, reply, strings.Join(shown, ""))
		require.Equal(t, matched, got)
	})
}
