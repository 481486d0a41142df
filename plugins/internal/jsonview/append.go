package jsonview

import (
	"slices"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. What is appended is valid UTF-8 on one line, whatever the reader calls a
// line: invalid bytes become U+FFFD, control characters and Unicode's line ends (U+0085, U+2028, U+2029) are
// escaped, for many readers of event streams split text at those, too. HTML's special characters stay.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	b = AppendEscaped(b, s)
	return append(b, '"')
}

// AppendEscaped appends s as AppendString does, without the quotes: for a string that is written in pieces.
func AppendEscaped(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, s[start:i]...)
			b = utf8.AppendRune(b, utf8.RuneError)
			start = i + n
		case isLineEnd(r):
			b = append(b, s[start:i]...)
			b = appendUnicode(b, r)
			start = i + n
		}
		i += n
	}
	return append(b, s[start:]...)
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return appendUnicode(b, rune(c))
}

// appendUnicode appends the escape of a character below U+10000.
func appendUnicode(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// isLineEnd reports whether r is one of Unicode's line ends that JSON does not ask to escape.
func isLineEnd(r rune) bool { return r == '\u0085' || r == '\u2028' || r == '\u2029' }

// AppendCompact appends valid JSON text without the blanks between its tokens and with Unicode's line ends escaped,
// and so on one line as AppendString does, as an event stream needs it.
func AppendCompact(b, valid []byte) []byte {
	b = slices.Grow(b, len(valid))
	for i := 0; i < len(valid); {
		switch c := valid[i]; {
		case c == '"':
			end := stringEnd(valid, i)
			b = appendOneLine(b, valid[i:end])
			i = end
		case isBlank(c):
			i++
		default:
			b = append(b, c)
			i++
		}
	}
	return b
}

// appendOneLine appends a string as it stands in JSON text.
func appendOneLine(b, quoted []byte) []byte {
	start := 0
	for i, c := range quoted {
		if c != '\xC2' && c != '\xE2' { // with which the line ends begin
			continue
		}
		if r, n := utf8.DecodeRune(quoted[i:]); isLineEnd(r) {
			b = append(b, quoted[start:i]...)
			b = appendUnicode(b, r)
			start = i + n
		}
	}
	return append(b, quoted[start:]...)
}
