package texts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCatalogue: each line has a text and its translation, once, and both take the same arguments.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for line := range strings.Lines(germanTexts) {
		english, own, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		require.True(t, ok, line)
		require.NotEmpty(t, english)
		require.NotEmpty(t, own)
		require.False(t, seen[english], "%q is there twice", english)
		seen[english] = true
		require.Equal(t, strings.Count(english, "%s"), strings.Count(own, "%s"), line)
		require.Equal(t, strings.Count(english, "%d"), strings.Count(own, "%d"), line)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1,234,567", English.Number(1234567))
	require.Equal(t, "1.234.567", German.Number(1234567))
	require.Equal(t, "1.335000", English.Exact(1_335_000))
	require.Equal(t, "1.234,567890", German.Exact(1_234_567_890))
	for microcents, want := range map[int64]string{0: "0", 1: "0.000001", 1_335_000: "1.33", 9_999: "0.009999",
		10_000: "0.01", -1_335_000: "-1.33", -5: "-0.000005", 1_000_000: "1.00", 9_999_999: "9.99"} {
		require.Equal(t, want, English.Credits(microcents))
	}
	require.Equal(t, "US$12.34", English.Dollars(1_234_000_000))
	require.Equal(t, "-US$0,05", German.Dollars(-5_000_000))
	require.Equal(t, "US$1,234.00000001", English.ExactDollars(123_400_000_001))
	require.Equal(t, "-US$0,05000000", German.ExactDollars(-5_000_000))
	require.Equal(t, "999 ms", English.Milliseconds(999.4))
	require.Equal(t, "1,5 s", German.Milliseconds(1500))
	require.Equal(t, "March 2026", English.Month("2026-03"))
	require.Equal(t, "März 2026", German.Month("2026-03"))
	require.Equal(t, "soon", German.Month("soon"))
	require.Equal(t, "one day", English.Count(1, "one day", "%s days"))
	require.Equal(t, "1.000 Tage", German.Count(1000, "one day", "%s days"))
}

func TestChoose(t *testing.T) {
	t.Parallel()
	require.Same(t, German, Choose("de", "en"))
	require.Same(t, German, Choose("", "de-CH,fr"))
	require.Same(t, English, Choose("", "fr"))
	require.Same(t, English, Choose("", "\x00;;;"))
	require.Same(t, English, Choose("xx", ""))
}
