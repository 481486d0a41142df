package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds a text for people, in bytes: some upstreams answer an error with a web page.
const maxText = 4 << 10

// Clip is a text for people, such as a message or a name: valid UTF-8, which the protocol's strings must be,
// Printable, and of 4 KiB or little more.
func Clip(s string) string {
	if len(s) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "..."
	}
	return Printable(strings.ToValidUTF8(s, "\uFFFD"))
}

// Printable writes out what a terminal would obey or hide, but for ends of lines and tabs: an operator reads what
// plugins and upstreams say, in the log and in the output of commands, and none of it may clear the screen, rename the
// window or turn the direction of writing.
func Printable(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range strings.ReplaceAll(s, "\r\n", "\n") {
		switch {
		case !hidden(r):
			out.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// hidden are the control characters, and the marks that turn the direction of writing.
func hidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}
