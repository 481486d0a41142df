package jsonview

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// SyntaxError says where a text is not acceptable JSON, and why. It never holds a piece of the text.
type SyntaxError struct {
	Offset int    // in bytes from the beginning of the text
	Reason string // such as "a name in double quotes is missing"
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
}

// validate returns the one value in b, and how many objects there are.
func validate(b []byte, maxDepth int) (v View, objects int, err error) {
	return validateBy(wide, b, maxDepth)
}

// validateBy validates with plainBlocks or without.
func validateBy(wide bool, b []byte, maxDepth int) (v View, objects int, err error) {
	b = b[:len(b):len(b)]
	s := scanner{b: b, max: maxDepth, wide: wide}
	if len(b) >= indexedText {
		s.index = newIndex(len(b))
	}
	value, err := s.whole()
	if err != nil {
		return View{}, 0, err
	}
	return View{raw: value, index: s.index}, s.objects, nil
}

// whole checks that the text is one value, and returns it.
func (s *scanner) whole() ([]byte, error) {
	start := blank(s.b, 0)
	end, err := s.text(start)
	if rest := blank(s.b, end); err == nil && rest < len(s.b) {
		err = &SyntaxError{Offset: rest, Reason: "there is something after the end of the JSON text"}
	}
	// Beyond ASCII there is nothing but in strings, unless there is a mistake. That it is no UTF-8 is the first one.
	if (s.beyondASCII || err != nil) && !utf8.Valid(s.b) {
		err = &SyntaxError{Offset: invalidUTF8(s.b), Reason: "the text is not valid UTF-8"}
	}
	if err != nil {
		return nil, err
	}
	return s.b[start:end], nil
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// scanner validates without recursion: open holds the containers that are open, each by its closing byte.
type scanner struct {
	b     []byte
	open  []byte
	max   int
	wide  bool   // plainBlocks is used
	index *index // to be filled, or nil

	entries     [indexedDepth]int // of the containers that are open, in the index
	beyondASCII bool              // in a string
	surrogate   bool              // an escape of the last string is half of a surrogate pair
	objects     int
}

func (s *scanner) fail(at int, reason string) error {
	if at >= len(s.b) {
		at, reason = len(s.b), "the text ends too early"
	}
	return &SyntaxError{Offset: at, Reason: reason}
}

// text checks the value that begins at i and returns the index after it. It goes from value to value: one that opens a
// container is followed by the first in it.
func (s *scanner) text(i int) (int, error) {
	for {
		i = blank(s.b, i)
		c := s.at(i)
		var err error
		if c == '{' || c == '[' {
			var empty bool
			if i, empty, err = s.openContainer(i, c); err == nil && !empty {
				continue
			}
		} else {
			i, err = s.scalar(i, c)
		}
		more := false
		if err == nil {
			i, more, err = s.afterValue(i)
		}
		if err != nil {
			return 0, err
		}
		if !more {
			return i, nil
		}
	}
}

// openContainer opens the array or object that begins at i with c. The index after it is that of its end when it is
// empty, and otherwise that of its first value.
func (s *scanner) openContainer(i int, c byte) (after int, empty bool, err error) {
	if len(s.open) == s.max {
		return 0, false, s.fail(i, fmt.Sprintf("arrays and objects are nested more than %d deep", s.max))
	}
	if s.open == nil {
		s.open = make([]byte, 0, 64) // a text without containers needs none
	}
	if s.index != nil && len(s.open) < indexedDepth {
		s.entries[len(s.open)] = s.index.open(i)
	}
	closing := c + 2 // in ASCII the closing bracket is two after the opening one
	s.open = append(s.open, closing)
	i = blank(s.b, i+1)
	if closing == ']' {
		return i, s.at(i) == closing, nil
	}
	s.objects++
	if s.at(i) == closing {
		return i, true, nil
	}
	i, err = s.name(i)
	return i, false, err
}

// scalar checks the value that begins at i with c and is no container.
func (s *scanner) scalar(i int, c byte) (after int, err error) {
	switch c {
	case '"':
		after, err = s.str(i)
		if err == nil && s.index != nil {
			s.index.str(i, after, s.surrogate)
		}
		return after, err
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	}
	return s.number(i)
}

// afterValue closes the containers that end behind a value, or at i when the innermost is empty. more says that
// another value follows, from the index on.
func (s *scanner) afterValue(i int) (after int, more bool, err error) {
	for len(s.open) > 0 {
		closing := s.open[len(s.open)-1]
		i = blank(s.b, i)
		switch s.at(i) {
		case closing:
			s.open = s.open[:len(s.open)-1]
			i++
			if s.index != nil && len(s.open) < indexedDepth {
				s.index.close(s.entries[len(s.open)], i)
			}
		case ',':
			if i++; closing == '}' {
				i, err = s.name(blank(s.b, i))
			}
			return i, true, err
		default:
			return 0, false, s.fail(i, "a comma or a closing bracket is missing")
		}
	}
	return i, false, nil
}

// at returns the byte at i, and 0, which is valid nowhere, at the end of the text.
func (s *scanner) at(i int) byte {
	if i < len(s.b) {
		return s.b[i]
	}
	return 0
}

// name checks a member's name and colon.
func (s *scanner) name(i int) (int, error) {
	if s.at(i) != '"' {
		return 0, s.fail(i, "a name in double quotes is missing")
	}
	i, err := s.str(i)
	if err != nil {
		return 0, err
	}
	if i = blank(s.b, i); s.at(i) != ':' {
		return 0, s.fail(i, "a colon is missing")
	}
	return i + 1, nil
}

func (s *scanner) word(i int, word string) (int, error) {
	for k := range len(word) {
		if s.at(i+k) != word[k] {
			return 0, s.fail(i+k, "a value is missing or misspelled")
		}
	}
	return i + len(word), nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str checks a string, eight bytes at a time, for texts of code have an escape in about every word; or in blocks, once
// a word was passed by: most strings are shorter.
func (s *scanner) str(i int) (int, error) {
	b := s.b
	var all uint64 // of the bytes that were passed by
	s.surrogate = false
	i++
	blocks := false
words:
	for i+8 <= len(b) {
		if blocks {
			n, beyond := plainBlocks(b[i:])
			if i += n; beyond {
				all = highs
			}
			if i+8 > len(b) {
				break
			}
		}
		w := binary.LittleEndian.Uint64(b[i:])
		all |= w // too many at the end, which does no harm
		low := w & (0x7F * ones)
		// In these the high bit of a byte is 0 where it is a quote, a backslash, or a control character.
		quotes := (low ^ '"'*ones) + 0x7F*ones | w
		slashes := (low ^ '\\'*ones) + 0x7F*ones | w
		control := low + 0x60*ones | w
		hits := ^(quotes & slashes & control) & highs
		blocks = s.wide
		if hits == 0 {
			i += 8
			continue
		}
		at := bits.TrailingZeros64(hits)
		for slashes>>at&1 == 0 {
			k := i + at/8 + 2
			if k > len(b) || !isEscape[b[k-1]] {
				var err error
				if k, err = s.unicode(k - 2); err != nil {
					return 0, err
				}
				blocks = false // where there is one, there are more
			}
			if k >= i+8 {
				i = k
				continue words
			}
			if hits &= ^uint64(0) << (8 * (k - i)); hits == 0 {
				i += 8
				continue words
			}
			at = bits.TrailingZeros64(hits)
		}
		i += at / 8
		break
	}
	for { // at the end of the string, or of the text
		switch c := s.at(i); {
		case c == '"':
			s.beyondASCII = s.beyondASCII || all&highs != 0
			return i + 1, nil
		case c == '\\':
			var err error
			if i, err = s.escape(i); err != nil {
				return 0, err
			}
		case c < ' ':
			return 0, s.fail(i, "a control character in a string has to be escaped")
		default:
			all |= uint64(c)
			i++
		}
	}
}

// escape checks the escape that begins at i and returns the index after it.
func (s *scanner) escape(i int) (int, error) {
	if i+1 < len(s.b) && isEscape[s.b[i+1]] {
		return i + 2, nil
	}
	return s.unicode(i)
}

// unicode checks an escape that can only be one of a UTF-16 code unit.
func (s *scanner) unicode(i int) (int, error) {
	if s.at(i+1) != 'u' {
		return 0, s.fail(i+1, "an escape in a string is not one of JSON's")
	}
	for k := i + 2; k < i+6; k++ {
		if _, ok := hexDigit(s.at(k)); !ok {
			return 0, s.fail(k, "four hexadecimal digits have to follow \\u")
		}
	}
	s.surrogate = s.surrogate || s.b[i+2]|0x20 == 'd' && s.b[i+3] >= '8'
	return i + 6, nil
}

// isEscape are the characters that make an escape with the backslash before them.
var isEscape = [256]bool{
	'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true,
}

// number checks a number by RFC 8259's grammar.
func (s *scanner) number(i int) (int, error) {
	start := i
	if s.at(i) == '-' {
		i++
	}
	switch c := s.at(i); {
	case c == '0':
		i++
	case isDigit(c):
		i = s.digits(i)
	case i == start:
		return 0, s.fail(i, "a value is missing or misspelled")
	default:
		return 0, s.fail(i, "a digit has to follow the minus sign")
	}
	if s.at(i) == '.' {
		if i++; !isDigit(s.at(i)) {
			return 0, s.fail(i, "a digit has to follow the decimal point")
		}
		i = s.digits(i)
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		if c = s.at(i + 1); c == '+' || c == '-' {
			i++
		}
		if i++; !isDigit(s.at(i)) {
			return 0, s.fail(i, "a digit has to follow the exponent's sign")
		}
		i = s.digits(i)
	}
	return i, nil
}

func (s *scanner) digits(i int) int {
	for isDigit(s.at(i)) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func hexDigit(c byte) (rune, bool) {
	switch {
	case isDigit(c):
		return rune(c - '0'), true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10, true
	}
	return 0, false
}
