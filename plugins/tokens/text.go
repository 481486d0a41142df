package tokens

import "unicode/utf8"

// Classes of single bytes, as the tokenizers' splitting rules see them.
const (
	bytePunct = iota // also control characters
	byteLower
	byteUpper
	byteDigit
	byteBlank   // space and tab
	byteNewline // line feed and carriage return
	byteHigh    // part of a character beyond ASCII
)

var byteClass = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = byteLower
		case c >= 'A' && c <= 'Z':
			t[c] = byteUpper
		case c >= '0' && c <= '9':
			t[c] = byteDigit
		case c == ' ' || c == '\t':
			t[c] = byteBlank
		case c == '\n' || c == '\r':
			t[c] = byteNewline
		case c >= utf8.RuneSelf:
			t[c] = byteHigh
		default:
			t[c] = bytePunct
		}
	}
	return t
}()

// textUnits estimates the tokens of one text, in units of 1/unit token. It walks the text once, piece by
// piece as byte-level BPE vocabularies cut it before they merge (a word takes the one blank or mark before
// it along, digits go in groups of up to three, marks stay together, the last blank of an indentation
// belongs to what follows), and adds what a piece of that class and length costs on average.
func textUnits(s string) int64 {
	var sum int64
	for i := 0; i < len(s); {
		var n int
		var cost int64
		switch byteClass[s[i]] {
		case byteLower, byteUpper:
			n, cost = word(s[i:], &bareWord)
		case byteDigit:
			n = span(s[i:], byteDigit)
			cost = int64((n+2)/3) * digitGroup
		case byteBlank, byteNewline:
			n, cost = space(s[i:])
		case bytePunct:
			n, cost = marks(s[i:], true)
		default:
			n, cost = beyondASCII(s[i:])
		}
		i, sum = i+n, sum+cost
	}
	return sum
}

// span counts the bytes of one class that s begins with.
func span(s string, class uint8) int {
	i := 0
	for i < len(s) && byteClass[s[i]] == class {
		i++
	}
	return i
}

// space costs a run of white space: everything up to its last line end is one piece, the blanks after
// that another, but for the last blank, which belongs to the word or marks that follow.
func space(s string) (int, int64) {
	n, lines := 0, 0
	for n < len(s) && (byteClass[s[n]] == byteBlank || byteClass[s[n]] == byteNewline) {
		n++
		if byteClass[s[n-1]] == byteNewline {
			lines = n
		}
	}
	var cost int64
	if lines > 0 {
		cost = blankRun + int64(lines/blankRunBytes)*blankRun
	}
	blanks := n - lines
	if blanks == 0 {
		return n, cost
	}
	if blanks > 1 {
		cost += blankRun + int64(blanks/blankRunBytes)*blankRun
	}
	if n == len(s) {
		if blanks == 1 {
			cost += loneBlank
		}
		return n, cost
	}
	var m int
	var next int64
	switch c := byteClass[s[n]]; {
	case c == byteLower || c == byteUpper || latin(s[n:]) > 0:
		m, next = word(s[n:], &spacedWord)
	case c == bytePunct:
		m, next = marks(s[n:], false)
	case c == byteDigit:
		next = loneBlank
	}
	return n + m, cost + next
}

// marks costs a run of ASCII punctuation. A single mark in front of a word (".foo", "(foo", "_foo") is
// one piece with it where joins says so; line ends after marks are part of their piece.
func marks(s string, joins bool) (int, int64) {
	n := span(s, bytePunct)
	if n == 1 && joins && len(s) > 1 {
		if c := byteClass[s[1]]; c == byteLower || c == byteUpper || latin(s[1:]) > 0 {
			m, cost := word(s[1:], &markedWord)
			return 1 + m, cost
		}
	}
	changes := 0
	for i := 1; i < n; i++ {
		if s[i] != s[i-1] {
			changes++
		}
	}
	cost := int64(markRun)
	if changes > 1 {
		cost += int64(changes-1) * markChange
	}
	cost += int64(n-1-changes) * markRepeat
	return n + span(s[n:], byteNewline), cost
}

// word costs a word: capitals, then small letters, as far as they go ("HTTPServer" is one, "camelCase"
// are two), then an ending like "'s". Letters of the Latin script beyond ASCII count as small ones and
// cost extra.
func word(s string, costs *wordCosts) (int, int64) {
	capitals := span(s, byteUpper)
	i, small, accents := capitals, 0, 0
	for i < len(s) {
		if byteClass[s[i]] == byteLower {
			i++
		} else if n := latin(s[i:]); n > 0 {
			i += n
			accents++
		} else {
			break
		}
		small++
	}
	cost := int64(accents) * accent
	switch {
	case small == 0:
		cost += costs.capitals + int64(max(capitals-2, 0))*costs.moreCapitals
	case capitals > 1:
		cost += costs.mixed + int64(max(small+capitals-8, 0))*costs.moreLetters
	default:
		cost += costs.small(small + capitals)
	}
	if i+1 < len(s) && s[i] == '\'' && byteClass[s[i+1]] == byteLower {
		if n := span(s[i+1:], byteLower); n <= 2 {
			return i + 1 + n, cost + contraction
		}
	}
	return i, cost
}

// latin returns the length of the letter of the Latin script beyond ASCII that s begins with, else 0:
// U+00C0 to U+024F and U+1E00 to U+1EFF.
func latin(s string) int {
	if len(s) >= 2 && s[0] >= 0xC3 && s[0] <= 0xC9 {
		return 2
	}
	if len(s) >= 3 && s[0] == 0xE1 && s[1] >= 0xB8 && s[1] <= 0xBB {
		return 3
	}
	return 0
}

// beyondASCII costs what s begins with: a word of an alphabet, or one character of any other writing.
func beyondASCII(s string) (int, int64) {
	if latin(s) > 0 {
		return word(s, &bareWord)
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && n == 1:
		return 1, unit
	case r < 0xC0:
		return n, symbol
	case r < 0x400:
		return alphabet(s, 0x250, 0x3FF, greekWord, greekMore)
	case r < 0x530:
		return alphabet(s, 0x400, 0x52F, cyrillicWord, cyrillicMore)
	case r < 0x800:
		return alphabet(s, 0x530, 0x7FF, semiticWord, semiticMore)
	case r < 0x1000:
		return alphabet(s, 0x800, 0xFFF, indicWord, indicMore)
	case r < 0x2000:
		return n, rareLetter
	case r < 0x2E80:
		return n, symbol
	case r < 0x3040:
		return n, ideographMark
	case r < 0x3100:
		return n, kana
	case r < 0xA000:
		return n, ideograph
	case r >= 0xAC00 && r < 0xD800:
		return n, hangul
	case r >= 0xFF00 && r < 0xFFF0:
		return n, ideographMark
	case r < 0x10000:
		return n, rareLetter
	}
	return n, astral
}

// alphabet costs a run of characters from lo to hi.
func alphabet(s string, lo, hi rune, first, more int64) (int, int64) {
	i, runes := 0, int64(0)
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r < lo || r > hi {
			break
		}
		i += n
		runes++
	}
	return i, first + (runes-1)*more
}
