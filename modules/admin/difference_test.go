package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineDiff(t *testing.T) {
	t.Parallel()
	lines := func(from, to int) (text string) {
		for n := from; n <= to; n++ {
			text += fmt.Sprintln("line", n)
		}
		return text
	}
	for name, c := range map[string]struct{ before, after, want string }{
		"in the middle": {lines(1, 9), strings.Replace(lines(1, 9), "line 5\n", "five\n", 1),
			"...\n line 2\n line 3\n line 4\n-line 5\n+five\n line 6\n line 7\n line 8\n"},
		"at the begin": {lines(1, 5), "new\n" + lines(1, 5), "+new\n line 1\n line 2\n line 3\n"},
		"at the end":   {lines(1, 5), lines(1, 4), "...\n line 2\n line 3\n line 4\n-line 5\n\n"},
		"twice": {lines(1, 20), strings.NewReplacer("line 3\n", "", "line 18\n", "").Replace(lines(1, 20)),
			" line 1\n line 2\n-line 3\n line 4\n line 5\n line 6\n...\n line 15\n line 16\n line 17\n-line 18\n" +
				" line 19\n line 20\n\n"},
		"of nothing": {"", "one\n", "+one\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, lineDiff(c.before, c.after))
		})
	}
	t.Run("of texts that have nothing in common, each of megabytes", func(t *testing.T) {
		t.Parallel()
		d := lineDiff(strings.Repeat("a\n", 1<<20), strings.Repeat("\n", 3<<20)+"b")
		require.Less(t, len(d), 20_000)
		require.Contains(t, d, "-... and 1,047,577 lines more\n")
		require.Contains(t, d, "+... and 3,144,729 lines more\n")
	})
}
