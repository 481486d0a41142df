package llm

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// String is a text of a request: as it is, or still in the form that it had in a JSON string, escapes and all, until
// somebody looks into it. Most texts are only passed on, and one without escapes is both at once. The zero value is
// "".
type String struct {
	text string
	form form
}

type form uint8

const (
	plain  form = iota // text is the text
	quoted             // text is the inside of a JSON string
	both
)

// Plain makes a String of a text.
func Plain(s string) String { return String{text: s} }

// Quoted makes a String of what stands between the quotes of a JSON string: valid, without halves of surrogate pairs.
func Quoted(inside string) String {
	if strings.IndexByte(inside, '\\') < 0 {
		return String{text: inside, form: both}
	}
	return String{text: inside, form: quoted}
}

// String returns the text. Each call takes the escapes out again, where there are any.
func (s String) String() string {
	if s.form != quoted {
		return s.text
	}
	return string(s.AppendTo(make([]byte, 0, len(s.text))))
}

// AppendTo appends the text.
func (s String) AppendTo(b []byte) []byte {
	if s.form != quoted {
		return append(b, s.text...)
	}
	return AppendUnquoted(b, s.text)
}

// Plain returns the text where that takes no work; ok is false where it has escapes to take out.
func (s String) Plain() (text string, ok bool) {
	return s.text, s.form != quoted
}

// Quoted returns what stands between the quotes of a JSON string that is the text; ok is false where nobody knows it.
func (s String) Quoted() (inside string, ok bool) {
	return s.text, s.form != plain
}

// Size is how many bytes the String has in the form that it is in: those of the text, or more. It is 0 for "" only.
func (s String) Size() int { return len(s.text) }

// Blank reports whether there is nothing but white space in the text.
func (s String) Blank() bool {
	if s.text != "" && s.text[0] > ' ' && s.text[0] < utf8.RuneSelf && s.text[0] != '\\' {
		return false
	}
	return strings.TrimSpace(s.String()) == ""
}

// CutLine cuts the last line off, with the end of the line before it. ok is false for one of more bytes than longest,
// in the form that the String is in: it is left where it is, and no more than that is looked at.
func (s String) CutLine(longest int) (before, line String, ok bool) {
	from := max(len(s.text)-longest-len(`\n`), 0)
	at := lineEnd(s.text[from:], s.form)
	if at < 0 {
		if from > 0 {
			return s, String{}, false
		}
		return String{}, s, true
	}
	at += from
	return String{text: s.text[:at], form: s.form}, String{text: s.text[at:], form: s.form}, true
}

// lineEnd is where the last end of a line begins in a text, -1 for nowhere. In a JSON string that is an escape, which
// a backslash before it would undo.
func lineEnd(text string, f form) int {
	if f != quoted {
		return strings.LastIndexByte(text, '\n')
	}
	at := strings.LastIndex(text, `\n`)
	for at >= 0 && (at-len(strings.TrimRight(text[:at], `\`)))%2 != 0 {
		at = strings.LastIndex(text[:at], `\n`)
	}
	return at
}

// AppendUnquoted appends the text that a JSON string stands for, of which inside is what stands between its quotes. An
// escape that is half of a surrogate pair becomes U+FFFD.
func AppendUnquoted(b []byte, inside string) []byte {
	for {
		n := strings.IndexByte(inside, '\\')
		if n < 0 {
			return append(b, inside...)
		}
		b = append(b, inside[:n]...)
		if inside[n+1] != 'u' {
			b = append(b, unescaped(inside[n+1]))
			inside = inside[n+2:]
			continue
		}
		r := escapedRune(inside[n:])
		inside = inside[n+6:]
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if strings.HasPrefix(inside, `\u`) {
				pair = utf16.DecodeRune(r, escapedRune(inside))
			}
			if r = pair; r != utf8.RuneError {
				inside = inside[6:]
			}
		}
		b = utf8.AppendRune(b, r)
	}
}

// escapedRune reads an escape of the form \u1234.
func escapedRune(s string) rune {
	var r rune
	for i := 2; i < 6; i++ {
		c := rune(s[i])
		if c > '9' {
			c = c&7 + 9 // of a letter, in either case
		}
		r = r<<4 | c&15
	}
	return r
}

// unescaped is the character that a backslash and c stand for.
func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}
