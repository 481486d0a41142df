package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// naiveCut is the contract's rule in its plainest form: the reply ends before the stop sequence that is complete
// first, the longest where several are at the same character.
func naiveCut(text string, stops []string) string {
	for end := range len(text) + 1 {
		longest := 0
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) {
				longest = max(longest, len(s))
			}
		}
		if longest > 0 {
			return text[:end-longest]
		}
	}
	return text
}

// TestStopSequenceProperty sends random texts in random pieces through the whole gateway.
func TestStopSequenceProperty(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	alphabet := []rune("abE😀é") // small, so that sequences are met; some share bytes
	word := func(least, most int) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.SampledFrom(alphabet), least, most, -1)
	}
	for _, sh := range shapes {
		t.Run("STOP-10 any text in any pieces ends at the same place "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			rapid.Check(t, func(rt *rapid.T) {
				deltas := rapid.SliceOfN(word(1, 6), 1, 8).Draw(rt, "deltas")
				stops := rapid.SliceOfN(word(0, 4), 0, 6).Draw(rt, "stops")
				var steps []upstream.Step
				for _, d := range deltas {
					steps = append(steps, upstream.Text(d))
				}
				c.Answers(script(used(10, 60), "stop", steps...))
				want := naiveCut(strings.Join(deltas, ""), stops)
				require.Equal(rt, want, sh.Text(c.Ask(sh, stopField(sh, stops...)).JSON(t)), "as JSON")
				require.Equal(rt, want, c.Stream(t, sh, stopField(sh, stops...)).Text, "streamed")
			})
		})
	}
}
