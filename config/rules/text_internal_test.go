package rules

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
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
		if utf8.RuneLen(r) > 0 && len(norm.NFKC.String(string(r))) > maxWidth*utf8.RuneLen(r) {
			require.True(t, widens(r), "%x", r)
		}
		if looks[r] != lookalike(r) || drawn[r] != latinOf(r) {
			t.Errorf("%x has no letter", r)
		}
	}
}
