package tokens

import (
	"unicode"
	"unicode/utf8"
)

// class is what the splitting rules of o200k see in a character. The order counts: mark and punctuation are
// what a run of marks may hold.
type class uint8

const (
	combining   class = iota // M: part of a word and of a run of marks
	punctuation              // whatever is no letter, digit or white space; also control characters
	upper                    // Lu, Lt
	lower                    // Ll
	caseless                 // Lm, Lo: ideographs, kana, Hangul, Hebrew, Arabic, ...
	digit                    // N
	blank                    // white space but for ends of lines
	newline                  // line feed and carriage return
)

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = lower
		case c >= 'A' && c <= 'Z':
			t[c] = upper
		case c >= '0' && c <= '9':
			t[c] = digit
		case c == '\n' || c == '\r':
			t[c] = newline
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = blank
		default:
			t[c] = punctuation
		}
	}
	return t
}()

// classAt returns the class and the length of the character at i; the length is 0 at the end. A byte that is
// no character is punctuation, as the replacement character is that an upstream gets for it.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return newline, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	switch {
	case r >= 0x3041 && r <= 0x3096, r >= 0x30A1 && r <= 0x30FA, r >= 0x4E00 && r <= 0x9FFE, r >= 0xAC00 && r <= 0xD7A3:
		return caseless, n // nearly all of Chinese, Japanese and Korean, without a search in the tables
	case unicode.IsLower(r):
		return lower, n
	case unicode.IsUpper(r), unicode.IsTitle(r):
		return upper, n
	case unicode.IsLetter(r):
		return caseless, n
	case unicode.IsMark(r):
		return combining, n
	case unicode.IsNumber(r):
		return digit, n
	case unicode.IsSpace(r):
		return blank, n
	}
	return punctuation, n
}

// piece returns the length of the piece that s begins with; s is not empty. Pieces are what o200k cuts a text
// into before it merges bytes to tokens, so no token reaches over their ends: a word with the one blank or
// mark before it, up to three digits, a run of marks, or white space. These are the alternatives of its
// pattern, in their order.
func piece(s string) int {
	c, n := classAt(s, 0)
	switch c {
	case upper, lower, caseless:
		return word(s, 0)
	case digit:
		for range 2 {
			c, more := classAt(s, n)
			if more == 0 || c != digit {
				break
			}
			n += more
		}
		return n
	case newline:
		return space(s)
	}
	after, more := classAt(s, n)
	if more > 0 && after <= caseless && after != punctuation {
		return word(s, n)
	}
	switch {
	case c == combining:
		return word(s, 0)
	case c == punctuation, s[0] == ' ' && more > 0 && after <= punctuation:
		return marks(s, n)
	}
	return space(s)
}

// word returns the end of the word at i: capitals, then small letters ("HTTPServer" is one word, "camelCase"
// are two), then an ending like "'s". Letters without case, and what combines with letters, can be either;
// with no small letter after them, the last of them is where the word ends ("漢字ABC" are two).
func word(s string, i int) int {
	turn := 0 // the end of the last letter that need not be a capital
	c, n := classAt(s, i)
	for n > 0 && (c == upper || c == caseless || c == combining) {
		i += n
		if c != upper {
			turn = i
		}
		c, n = classAt(s, i)
	}
	if n > 0 && c == lower {
		for n > 0 && (c == lower || c == caseless || c == combining) {
			i += n
			c, n = classAt(s, i)
		}
	} else if turn > 0 {
		i = turn
	}
	return i + contraction(s[i:])
}

// contraction returns the length of the 's, 't, 'm, 'd, 're, 've or 'll that s begins with, else 0.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) == 2 {
		return 0
	}
	switch string([]byte{s[1] | 0x20, s[2] | 0x20}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// marks returns the end of the run of marks at i, and of the ends of lines and slashes after them.
func marks(s string, i int) int {
	for c, n := classAt(s, i); n > 0 && c <= punctuation; c, n = classAt(s, i) {
		i += n
	}
	for i < len(s) && (s[i] == '\n' || s[i] == '\r' || s[i] == '/') {
		i++
	}
	return i
}

// space returns the length of the first piece of the white space that s begins with: everything up to its
// last end of line; without one, everything but the last blank, which belongs to what follows.
func space(s string) int {
	i, last, lines := 0, 0, 0
	for c, n := classAt(s, i); n > 0 && (c == blank || c == newline); c, n = classAt(s, i) {
		last = i
		i += n
		if c == newline {
			lines = i
		}
	}
	switch {
	case lines > 0:
		return lines
	case i == len(s) || last == 0:
		return i
	}
	return last
}
