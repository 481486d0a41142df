package rules

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Text is what is looked at. The zero value is empty and ready.
type Text struct {
	clean []byte // without what nobody sees, in composed form; what patterns are matched with

	finished bool
	folded   []byte // clean, in the one form in which terms are looked for
	extra    []byte // spelled words put together, and words whose letters all look like Latin ones
}

// Reset empties it and keeps its memory.
func (t *Text) Reset() {
	*t = Text{clean: t.clean[:0], folded: t.folded[:0], extra: t.extra[:0]}
}

// Size is how many bytes it has.
func (t *Text) Size() int { return len(t.clean) }

// Break ends a piece: nothing is found across it.
func (t *Text) Break() { t.clean = append(t.clean, breakMark) }

// breakMark is a byte that no text has after it was cleaned.
const breakMark = 0

// Add adds a text. What is added without a Break in between goes on in the middle of a word.
func (t *Text) Add(s string) {
	if strings.IndexByte(s, '\\') >= 0 {
		s = string(unescape(nil, s, false))
	}
	t.add(s)
}

// AddJSON adds JSON text, with the escapes taken out. It need not be valid.
func (t *Text) AddJSON(s string) { t.add(Unescaped(s)) }

// Unescaped is JSON text with the escapes taken out, so that it is JSON no more; line breaks and tabs become blanks. It
// need not be valid.
func Unescaped(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return string(unescape(nil, s, true))
}

func (t *Text) add(s string) {
	from := len(t.clean)
	if isASCII(s) {
		t.clean = append(t.clean, s...)
		for i := bytes.IndexByte(t.clean[from:], breakMark); i >= 0; i = bytes.IndexByte(t.clean[from:], breakMark) {
			t.clean[from+i] = ' '
		}
		return
	}
	seen := make([]byte, 0, len(s))
	for _, r := range s {
		if r < utf8.RuneSelf || !invisible(r) {
			seen = utf8.AppendRune(seen, r)
		}
	}
	for _, r := range string(norm.NFKC.Bytes(seen)) {
		switch {
		case r == breakMark:
			r = ' '
		case r >= utf8.RuneSelf && (ornament(r) || invisible(r)):
			continue
		}
		t.clean = utf8.AppendRune(t.clean, r)
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// invisible reports whether nobody sees the character: format controls (zero-width ones, soft hyphens, tags), variation
// selectors, and letters that are shown as nothing.
func invisible(r rune) bool {
	switch {
	case plainLetter(r):
		return false
	case 0xfe00 <= r && r <= 0xfe0f, 0xe0100 <= r && r <= 0xe01ef, 0x180b <= r && r <= 0x180f:
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x17b4, r == 0x17b5, r == 0x2800:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

// ornament reports whether the character is a mark on the one before that made no letter with it, such as a stroke.
func ornament(r rune) bool {
	return 0x300 <= r && r <= 0x36f || 0x1ab0 <= r && r <= 0x1aff || 0x1dc0 <= r && r <= 0x1dff ||
		0x20d0 <= r && r <= 0x20ff || 0xfe20 <= r && r <= 0xfe2f
}

// unescape takes out the escapes of JSON: all of them, or only those with a number, which nobody means as text.
func unescape(b []byte, s string, all bool) []byte {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			return append(b, s...)
		}
		b, s = append(b, s[:i]...), s[i:]
		r, n := escapedRune(s)
		switch {
		case n > 0:
			b, s = utf8.AppendRune(b, r), s[n:]
			continue
		case !all:
			b, s = append(b, '\\'), s[1:]
			continue
		}
		if c := s[1]; strings.IndexByte("bfnrt", c) >= 0 {
			b = append(b, ' ')
		} else {
			b = append(b, c)
		}
		s = s[2:]
	}
}

// escapedRune reads \u1234, or two of them that are a pair, and how long that is; 0 where it is none.
func escapedRune(s string) (rune, int) {
	r, ok := hexRune(s)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		low, ok := hexRune(s[6:])
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

func hexRune(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[2:6]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// finish folds what was added.
func (t *Text) finish() {
	if t.finished {
		return
	}
	t.finished = true
	f := folder{out: t.folded, extra: t.extra}
	for i := 0; i < len(t.clean); {
		if c := t.clean[i]; c < utf8.RuneSelf {
			f.ascii(c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(t.clean[i:])
		f.rune(r)
		i += n
	}
	f.endWord()
	f.endSpelled()
	t.folded, t.extra = f.out, f.extra
}

// folder brings a text into the form in which terms are looked for, rune by rune.
type folder struct {
	out, extra []byte

	word         int  // where the word at hand begins in out
	letters      int  // it has so many, no more than two being counted
	latin, other bool // it has letters of the Latin alphabet, and lookalikes of others
	whole        bool // of those others, each looks like a Latin one

	spelled   []byte // letters that stand alone, each behind one sign
	separated int    // how many signs came since the last
}

func (f *folder) ascii(c byte) {
	switch {
	case 'a' <= c && c <= 'z':
		f.latin = true
	case 'A' <= c && c <= 'Z':
		c, f.latin = c|0x20, true
	case '0' <= c && c <= '9':
	case c == breakMark:
		f.endWord()
		f.endSpelled()
		f.out = append(f.out, '\n')
		f.word = len(f.out)
		return
	case c <= ' ':
		f.blank()
		return
	default:
		f.sign(rune(c))
		return
	}
	if f.letters == 0 {
		f.word, f.whole = len(f.out), true
	}
	f.letters = min(f.letters+1, 2)
	f.out = append(f.out, c)
}

func (f *folder) rune(r rune) {
	switch {
	case plainLetter(r): // which most are, and the others take longer to tell
	case unicode.IsSpace(r):
		f.blank()
		return
	case unicode.Is(unicode.Pd, r):
		f.sign('-')
		return
	case r == '\u2018' || r == '\u2019':
		f.sign('\'')
		return
	case !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
		f.sign(r)
		return
	}
	if f.letters == 0 {
		f.word, f.whole = len(f.out), true
	}
	f.letters = min(f.letters+1, 2)
	if r == 'ß' || r == 'ẞ' {
		f.out, f.latin = append(f.out, "ss"...), true
		return
	}
	if eastAsian(r) {
		f.whole = false
		f.out = utf8.AppendRune(f.out, r)
		return
	}
	r = unicode.ToLower(unicode.ToUpper(r))
	switch {
	case lookalike(r) != 0:
		f.other = true
	case unicode.Is(unicode.Latin, r):
		f.latin = true
	default:
		f.whole = false
	}
	f.out = utf8.AppendRune(f.out, r)
}

// blank ends a word. Any number of them are one.
func (f *folder) blank() {
	f.endWord()
	if n := len(f.out); n > 0 && f.out[n-1] != ' ' && f.out[n-1] != '\n' {
		f.separated++
		f.out = append(f.out, ' ')
	}
	f.word = len(f.out)
}

func (f *folder) sign(r rune) {
	f.endWord()
	f.separated++
	f.out = utf8.AppendRune(f.out, r)
	f.word = len(f.out)
}

// endWord looks at the word that has ended.
func (f *folder) endWord() {
	if f.letters == 0 {
		return
	}
	word := f.out[f.word:]
	if f.other && (f.latin || f.whole) {
		latin := make([]byte, 0, len(word))
		for _, r := range string(word) {
			if l := lookalike(r); l != 0 {
				latin = append(latin, l)
			} else {
				latin = utf8.AppendRune(latin, r)
			}
		}
		if f.latin { // no word is of two alphabets
			f.out = append(f.out[:f.word], latin...)
			word = f.out[f.word:]
		} else {
			f.extra = append(append(f.extra, latin...), '\n')
		}
	}
	if f.letters == 1 && f.separated <= maxSeparated {
		f.spelled = append(f.spelled, word...)
	} else {
		f.endSpelled()
		if f.letters == 1 {
			f.spelled = append(f.spelled, word...)
		}
	}
	f.letters, f.latin, f.other, f.separated = 0, false, false, 0
}

const (
	// leastSpelled is how many letters that stand alone make a word.
	leastSpelled = 3
	// maxSeparated is how many signs may be between two of them, a run of blanks being one.
	maxSeparated = 3
)

// endSpelled puts letters that stand alone together.
func (f *folder) endSpelled() {
	if utf8.RuneCount(f.spelled) >= leastSpelled {
		f.extra = append(append(f.extra, f.spelled...), '\n')
	}
	f.spelled = f.spelled[:0]
}

// eastAsian reports whether the character is a letter of a script without cases, and like none of another: of those in
// the ideographs, the kana and the syllables of Hangul.
func eastAsian(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3041 <= r && r <= 0x3096 || 0x30a1 <= r && r <= 0x30fa ||
		0xac00 <= r && r <= 0xd7a3
}

// plainLetter reports whether the character is a letter of the scripts that most texts are in, and can be seen.
func plainLetter(r rune) bool { return 0x410 <= r && r <= 0x44f || eastAsian(r) }

// lookalike is the Latin letter that a small letter of another alphabet looks like, 0 for none.
func lookalike(r rune) byte {
	if int(r) < len(looks) {
		return looks[r]
	}
	return 0
}

// looks are the lookalikes by their characters.
var looks = func() (table [0x600]byte) {
	for r, latin := range lookalikes {
		table[r] = latin
	}
	return table
}()

// lookalikes are small letters of other alphabets that look like small Latin ones (Unicode, confusables.txt).
var lookalikes = map[rune]byte{
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'ѐ': 'e', 'ё': 'e', 'һ': 'h', 'н': 'h', 'і': 'i',
	'ї': 'i', 'ј': 'j', 'к': 'k', 'ӏ': 'l', 'м': 'm', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'ѕ': 's', 'т': 't',
	'ѵ': 'v', 'ԝ': 'w', 'х': 'x', 'у': 'y', 'α': 'a', 'β': 'b', 'ε': 'e', 'η': 'n', 'ι': 'i', 'κ': 'k',
	'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't', 'υ': 'u', 'χ': 'x', 'γ': 'y', 'ω': 'w', 'օ': 'o', 'ս': 'u',
	'հ': 'h', 'ց': 'g', 'ո': 'n', 'ɑ': 'a', 'ɡ': 'g', 'ɩ': 'i', 'ı': 'i',
}
