package rules

import (
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// form is how a text is written.
type form uint8

const (
	plain    form = iota
	quoted        // between the quotes of a JSON string
	document      // a document: as quoted, but line breaks and tabs are blanks
)

// sign is what an escape says.
type sign struct {
	char  rune
	size  int // of the escape in bytes; 0: it is none
	times int // how often, 0 being once
	// line: it is a backslash and a letter in the text itself, which can be a line break in a program, and the beginning
	// of a word in a path.
	line bool
}

// escapeAt reads the escape that s begins with, a backslash or an ampersand. Escapes of escapes are one: of any number
// of backslashes, of &amp;amp;, and of \u0026#98; where one of another kind says a sign of it.
func (f form) escapeAt(s string) sign {
	e := f.escapeOnce(s)
	if s[0] == '&' && e.size > 1 && s[e.size-1] != ';' && strings.HasPrefix(s[e.size:], `\`) { // &#9\u0038;
		if next := f.innerEscape(s, sign{char: '&', size: 1}); next.size > e.size {
			e = next
		}
	}
	for range maxLayers {
		if e.char != '&' && (e.char != '\\' || e.size == 1 || e.times > 0) || e.line {
			break
		}
		next := f.innerEscape(s, e)
		if next.size == e.size {
			break
		}
		e = next
	}
	return e
}

// maxLayers is how often an escape may say the beginning of another one.
const maxLayers = 4

// innerEscape reads the escape that begins with an ampersand or a backslash that e says, and whose other signs may be
// escaped, too; e itself where there is none.
func (f form) innerEscape(s string, e sign) sign {
	var said [maxInner]byte // what is said
	var ends [maxInner + 1]int
	said[0], ends[1] = byte(e.char), e.size
	n, at, escaped := 1, e.size, e.size > 1
	for n < maxInner && at < len(s) {
		next := sign{char: rune(s[at]), size: 1}
		if next.char == '\\' {
			next = f.escapeOnce(s[at:])
			escaped = escaped || next.size > 1
		}
		c := next.char
		if next.line || next.times > 1 || !inEscape(c) || c == '\\' && said[n-1] != '\\' {
			break
		}
		said[n] = byte(c)
		n++
		at += next.size
		ends[n] = at
		if c == ';' || c == '}' {
			break
		}
	}
	if !escaped || n == 1 {
		return e
	}
	inner := plain.escapeOnce(string(said[:n]))
	if inner.size == 1 {
		return e
	}
	inner.size = ends[inner.size]
	return inner
}

// maxInner is how long an escape may be whose signs are escaped, in characters.
const maxInner = 40

func inEscape(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '#' || c == ';' || c == '{' ||
		c == '}' || c == '\\'
}

// escapeOnce reads an escape of one kind.
func (f form) escapeOnce(s string) sign {
	if s[0] == '&' {
		return entityAt(s)
	}
	n := len(s) - len(strings.TrimLeft(s, `\`))
	if n == len(s) {
		return f.backslashes(n)
	}
	if r, size := escapedRune(s[n:]); size > 0 {
		n += size
		if low, more := pairOf(r, s[n:]); more > 0 {
			return sign{char: low, size: n + more}
		}
		return sign{char: r, size: n}
	}
	c, within := s[n], f != plain && n%2 == 1
	white := strings.IndexByte("nrt", c) >= 0
	switch {
	case within && f == document && strings.IndexByte("fnrt", c) >= 0:
		return sign{char: ' ', size: n + 1}
	case within && white:
		return sign{char: '\n', size: n + 1}
	case within && n > 1, !within && !white: // the character comes next
		return f.backslashes(n)
	case within && (c == 'b' || c == 'f'):
		return sign{char: 0, size: n + 1}
	case within && c < utf8.RuneSelf:
		return sign{char: rune(c), size: n + 1}
	case within:
		return f.backslashes(n)
	}
	return sign{char: rune(c), size: n + 1, line: true}
}

// backslashes are what n of them say that escape nothing else.
func (f form) backslashes(n int) sign {
	if f != plain {
		return sign{char: '\\', size: n, times: n / 2}
	}
	return sign{char: '\\', size: n, times: n}
}

// escapedRune reads u1234, u{1234}, U00001234, x12 or x{12}, which come behind a backslash, and how long that is.
func escapedRune(s string) (rune, int) {
	digits := map[byte]int{'u': 4, 'U': 8, 'x': 2}[s[0]]
	switch {
	case digits == 0:
		return 0, 0
	case s[0] != 'U' && len(s) > 1 && s[1] == '{':
		if r, n := number(s[2:], 16, 8); n > 0 && 2+n < len(s) && s[2+n] == '}' {
			return r, n + 3
		}
		return 0, 0
	}
	r, n := number(s[1:], 16, digits)
	if n != digits {
		return 0, 0
	}
	return r, n + 1
}

// pairOf reads the second half of a surrogate pair.
func pairOf(high rune, s string) (rune, int) {
	if !utf16.IsSurrogate(high) {
		return 0, 0
	}
	n := 0
	for n < min(len(s), maxNested) && s[n] == '\\' {
		n++
	}
	if n == 0 || n == len(s) {
		return 0, 0
	}
	low, size := escapedRune(s[n:])
	if r := utf16.DecodeRune(high, low); size > 0 && r != utf8.RuneError {
		return r, n + size
	}
	return 0, 0
}

// maxNested is how many backslashes may be before the second half of a pair.
const maxNested = 64

// number reads at most so many digits, and how many they are.
func number(s string, base rune, most int) (r rune, n int) {
	for ; n < len(s) && n < most; n++ {
		c := rune(s[n])
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case base == 16 && 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return r, n
		}
		if r = r*base + c; r > utf8.MaxRune {
			r = utf8.MaxRune + 1 // which is no character, however it goes on
		}
	}
	return r, n
}

const (
	maxEntity = 31 // letters of the longest name of one in HTML
	maxDigits = 12 // of one with a number
)

// entityAt reads a character reference of HTML.
func entityAt(s string) sign {
	n := 1
	for {
		rest := s[n:]
		for _, again := range [...]string{"amp;", "#38;", "#x26;", "#X26;"} {
			rest = strings.TrimPrefix(rest, again)
		}
		if len(rest) == len(s)-n {
			break
		}
		n = len(s) - len(rest)
	}
	whole := sign{char: '&', size: n}
	rest := s[n:]
	if strings.HasPrefix(rest, "#") {
		base, from := rune(10), 1
		if len(rest) > 1 && rest[1]|0x20 == 'x' {
			base, from = 16, 2
		}
		r, digits := number(rest[from:], base, maxDigits)
		if digits == 0 {
			return whole
		}
		end := from + digits
		if end < len(rest) && rest[end] == ';' {
			end++
		}
		return sign{char: r, size: n + end}
	}
	for i := range min(len(rest), maxEntity+1) {
		switch c := rest[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9':
			continue
		case c == ';' && i > 1:
			if r, size := utf8.DecodeRuneInString(html.UnescapeString("&" + rest[:i+1])); size > 0 && r != '&' {
				return sign{char: r, size: n + i + 1}
			}
		}
		break
	}
	return whole
}

// decode takes the escapes out of a text: text gets what is between them, and escape what they say, in their order.
func (f form) decode(s string, text func(string), escape func(sign)) {
	for {
		i := strings.IndexAny(s, `\&`)
		if i < 0 {
			text(s)
			return
		}
		text(s[:i])
		e := f.escapeAt(s[i:])
		escape(e)
		s = s[i+e.size:]
	}
}

// Unescaped is JSON text with the escapes taken out, so that it is JSON no more; line breaks and tabs become blanks.
// It need not be valid.
func Unescaped(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	document.decode(s, func(s string) { b.WriteString(s) }, func(e sign) {
		if e.line {
			b.WriteByte('\\')
		}
		for range max(e.times, 1) {
			b.WriteRune(e.char)
		}
	})
	return b.String()
}
