package alerts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxText  = 1000 // bytes of a sentence
	maxError = 300  // of why something was not delivered
)

// plain is a text in one line without anything that a terminal or a mail would take for more than letters.
func plain(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
