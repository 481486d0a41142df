package human

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxMarks is how many marks may stand on one sign: more run over the lines around it.
const maxMarks = 2

// Printable is a text of somebody else's as a terminal can show it in one line: what would move the cursor, color or
// turn the line around, or nobody would see, is written as Go has it in a string (\x1b, \u202e).
func Printable(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	marks := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch mark := unicode.Is(unicode.M, r); {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:])
			marks = 0
		case isHidden(r) || mark && marks == maxMarks:
			quoted := strconv.QuoteToASCII(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		case mark:
			b.WriteRune(r)
			marks++
		default:
			b.WriteRune(r)
			marks = 0
		}
		text = text[size:]
	}
	return b.String()
}

// isPlain reports whether a text is of visible ASCII alone, as most are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isHidden reports whether a terminal shows nothing for a sign, or obeys it.
func isHidden(r rune) bool { return !unicode.IsPrint(r) || isInvisible(r) }

// isInvisible reports whether a sign that counts as printable shows nothing, or changes how wide the one before it is.
func isInvisible(r rune) bool {
	return unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) ||
		r == 0x3164 || r == 0xffa0 || r == 0x2800
}

// PrintableLines is Printable of each line of a text.
func PrintableLines(text string) string {
	if isPlain(text) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// PrintableJSON is JSON of the same values of which a terminal obeys nothing: in it all is as json.Marshal writes it,
// which escapes what ASCII has of such signs, and leaves what Unicode has.
func PrintableJSON(text string) string {
	if strings.IndexFunc(text, isRawInJSON) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !isRawInJSON(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b.WriteString(`\u` + strconv.FormatUint(uint64(unit)|0x10000, 16)[1:])
		}
	}
	return b.String()
}

func isRawInJSON(r rune) bool { return r >= 0x7f && isHidden(r) }
