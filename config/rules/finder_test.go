package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFinderIsExact: what is found is what looking for each text alone finds (it is one pass for many patterns at
// once).
func TestFinderIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{1,7}|[ab]{1,3} [ab]{1,4}|[aéя你]{1,4}|[ab-]{1,3}`)
		var texts [][]byte
		var needles []needle
		for i, text := range rapid.SliceOfN(word, 1, 40).Draw(t, "texts") {
			texts = append(texts, []byte(text))
			n := needle{rule: i, pattern: -1}
			n.edges.before = inWord([]rune(text)[0]) && rapid.Bool().Draw(t, "begins a word")
			needles = append(needles, n)
		}
		all := func(*needle) bool { return true }
		text := strings.Join(rapid.SliceOf(rapid.OneOf(word, rapid.SampledFrom([]string{" ", "\n", "-", "x"}))).
			Draw(t, "text"), "")
		var got []string
		newFinder(texts, needles, all).find([]byte(text), 0, len(text), func(n, start, end int) {
			require.Equal(t, string(texts[n]), text[start:end])
			if needles[n].edges.fit([]byte(text), start, end) {
				got = append(got, fmt.Sprint(n, " at ", start))
			}
		})
		var want []string
		for n, looked := range texts {
			for at := range text {
				end := at + len(looked)
				if strings.HasPrefix(text[at:], string(looked)) && needles[n].edges.fit([]byte(text), at, end) {
					want = append(want, fmt.Sprint(n, " at ", at))
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
	})
	require.Nil(t, newFinder(nil, nil, nil))
}
