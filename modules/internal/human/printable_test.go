package human

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain - text":               "plain - text",
		"\x1b[2Jgone":                `\x1b[2Jgone`,
		"a\nb\r\tc":                  `a\nb\r\tc`,
		"to\u202edlrow":              `to\u202edlrow`,
		"\u2066x\u2069\u200b\ufeff":  `\u2066x\u2069\u200b\ufeff`,
		"\xff\x00":                   `\xff\x00`,
		"\u009b31m":                  `\u009b31m`,
		"日本語 héllo":                  "日本語 héllo",
		"e\u0301\u0302\u0303\u0304x": "e\u0301\u0302" + `\u0303\u0304x`,
		"v\ufe0f":                    `v\ufe0f`,
		"\u2028":                     `\u2028`,
		"\U000e0041":                 `\U000e0041`,
	} {
		require.Equal(t, want, Printable(text))
	}
	require.Equal(t, "a\n    b\n"+`\x1b`, PrintableLines("a\n\tb\n\x1b"))
}

// Whatever somebody sends, what is shown of it is valid text in one line without a control sign.
func TestPrintableOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shown := Printable(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text"))
		require.True(t, utf8.ValidString(shown))
		require.False(t, strings.ContainsFunc(shown, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}), "%q", shown)
	})
}

// TestPrintableJSON: a terminal obeys nothing of it, and who reads it reads the same.
func TestPrintableJSON(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a": "\u009b31m\u202e日本\udb40\udc41"}`+"\n",
		PrintableJSON("{\"a\": \"\u009b31m\u202e日本\U000e0041\"}\n"))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "text")
		text, err := json.Marshal(value)
		require.NoError(t, err)
		shown := PrintableJSON(string(text))
		var again string
		require.NoError(t, json.Unmarshal([]byte(shown), &again))
		require.Equal(t, strings.ToValidUTF8(value, "\ufffd"), again)
		require.False(t, strings.ContainsFunc(shown, isHidden), "%q", shown)
	})
}
