package rules

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestPlainLetters: what is not looked at closely is what looking closely would find.
func TestPlainLetters(t *testing.T) {
	t.Parallel()
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if plainLetter(r) {
			require.True(t, unicode.IsLetter(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Pd, r), "%x", r)
			require.False(t, unicode.Is(unicode.Cf, r), "%x", r)
		}
		if eastAsian(r) {
			require.Equal(t, r, unicode.ToLower(unicode.ToUpper(r)), "%x", r)
			require.False(t, unicode.Is(unicode.Latin, r), "%x", r)
		}
		require.Equal(t, lookalikes[r], lookalike(r), "%x", r)
	}
}
