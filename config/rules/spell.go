package rules

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// spelling finds words whose letters stand alone, with the same sign or a blank between each two of them. A word of
// three letters in capitals is an abbreviation, letters in columns are a grid, and letters between commas are a list.
type spelling struct {
	spelt     []byte // letters at hand
	count     int    // how many
	last      int    // where the last one begins
	sep       [4]rune
	sepN      int  // of sep; 0: only one letter came
	capitals  bool // one is a capital
	unspaced  bool // all are of scripts that write without blanks
	syllables bool // one is of Hangul
	runAt     int  // where the first one is in out
	lastAt    int  // where the last one is

	tails  folded // letters that have ended, with what stands before them, each with a line of its own
	after  folded // words behind those
	afterN int

	single, words int // words of this line, and those of one letter
	rows          []byte
	rowLetters    int // of each row before this line, 0: there are none
	rowCount      int
}

// spell takes a word that has ended.
func (f *folder) spell(word []byte, single, upper bool) {
	f.words++
	if !single {
		f.endSpelled()
		f.addAfter(word)
		return
	}
	f.single++
	r, _ := utf8.DecodeRune(word)
	switch {
	case f.count == 0:
	case !f.joins():
		previous := append([]byte(nil), f.spelt[f.last:]...)
		f.endSpelled()
		if f.separates() {
			f.startSpelled(previous)
			f.sep, f.sepN = f.gap, f.gapN
		}
	case f.sepN == 0:
		f.sep, f.sepN = f.gap, f.gapN
	}
	if f.count == 0 {
		f.endAfter()
		f.startSpelled(nil)
	}
	f.last, f.lastAt = len(f.spelt), f.word
	f.spelt = append(f.spelt, word...)
	f.count++
	f.capitals = f.capitals || upper
	f.unspaced = f.unspaced && unicode.In(r, withoutBlanks...)
	f.syllables = f.syllables || hangul(r)
	if len(f.spelt) > maxAside {
		f.addExtra(f.spelt, "\n")
		keep := len(f.spelt) - keptAside
		for !utf8.RuneStart(f.spelt[keep]) {
			keep++
		}
		f.spelt = f.spelt[:copy(f.spelt, f.spelt[keep:])]
		f.last = max(f.last-keep, 0)
		f.count = utf8.RuneCount(f.spelt)
	}
}

func (f *folder) startSpelled(first []byte) {
	f.runAt = f.word
	if len(first) > 0 {
		f.runAt = f.lastAt
	}
	f.spelt, f.last, f.sepN, f.capitals, f.syllables, f.unspaced = append(f.spelt[:0], first...), 0, 0, false, false, true
	if f.count = utf8.RuneCount(first); f.count > 0 {
		r, _ := utf8.DecodeRune(first)
		f.unspaced, f.syllables = unicode.In(r, withoutBlanks...), hangul(r)
	}
}

// separates reports whether what came between two letters can part those of one word.
func (f *folder) separates() bool {
	switch {
	case f.gapBroken || f.gapN == 0:
		return false
	case f.gapN == 1:
		return true
	}
	gap := f.gap[:f.gapN]
	switch signs := !slices.ContainsFunc(gap, func(r rune) bool { return r == ' ' || r == '\n' || r == ':' }); {
	case signs, f.gapN == 2 && gap[0] == gap[1]:
		return true
	case f.gapN == 2:
		return gap[1] == ' ' && strings.ContainsRune(".-_*~", gap[0])
	case f.gapN == 3:
		return gap[0] == ' ' && gap[2] == ' ' && gap[1] != ' ' && gap[1] != '\n' // a - b
	}
	return gap[0] == gap[3] && gap[2] == ' ' && (gap[0] == '"' || gap[0] == '\'') // "a", "b"
}

// joins reports whether a letter belongs to those before it: the same is between them, or a gap between two words.
func (f *folder) joins() bool {
	switch {
	case f.gapBroken:
		return false
	case f.sepN == 0:
		return f.separates()
	case f.gap == f.sep && f.gapN == f.sepN:
		return true
	case f.sep[0] == '\n' || f.sepMixed():
		return false
	}
	for i, r := range f.gap[:f.gapN] {
		if r != ' ' && (i > 0 || r != f.sep[0]) {
			return false
		}
	}
	return f.gapN > 0
}

// sepMixed reports whether there are other signs than one between the letters at hand.
func (f *folder) sepMixed() bool {
	return f.sepN > 1 && slices.ContainsFunc(f.sep[1:f.sepN], func(r rune) bool { return r != f.sep[0] && r != ' ' })
}

// endSpelled puts letters that stand alone together.
func (f *folder) endSpelled() {
	if f.count > 1 && f.count >= f.leastSpelled() {
		f.endAfter()
		f.addSpelled(&f.extra)
	}
	f.spelt, f.count, f.sepN = f.spelt[:0], 0, 0
}

// addSpelled adds the letters at hand, also without the first and the last one where those can be words of their own.
func (f *folder) addSpelled(to *folded) {
	first, size := utf8.DecodeRune(f.spelt)
	last, _ := utf8.DecodeRune(f.spelt[f.last:])
	f.addLetters(to, f.spelt, f.runAt)
	if f.sep[0] == ' ' && strings.ContainsRune(loneLetters, first) {
		f.addLetters(to, f.spelt[size:], f.runAt+size+1)
	}
	if f.sep[0] == ' ' && strings.ContainsRune(loneLetters, last) {
		f.addLetters(to, f.spelt[:f.last], f.runAt)
	}
}

// loneLetters are words of one letter.
const loneLetters = "aiouаиоуяксвбжη"

// addLetters adds letters that begin there in out, behind the words before them: of a term, one word may be spelled.
func (f *folder) addLetters(to *folded, text []byte, at int) {
	if utf8.RuneCount(text) < f.leastSpelled() {
		return
	}
	from := to.len()
	if to == &f.extra && 0 < at && at <= f.out.len() {
		before := f.out.slice(max(at-maxBeside, 0), at)
		if before.len() == maxBeside {
			before = before.slice(bytes.IndexByte(before.text, ' ')+1, maxBeside)
		}
		for i, c := range before.text {
			to.put(c, besideOf(before.joints[i]))
		}
	}
	for _, c := range text {
		to.put(c, noJoint)
	}
	to.put('\n', noJoint)
	if to == &f.extra {
		f.tails.append(to.slice(max(from, to.len()-maxAside), to.len()))
	}
}

const (
	// maxBeside is how much of the words before and behind a spelled one is looked at with it, in bytes.
	maxBeside = 48
	// maxAfter is how many words behind it.
	maxAfter = 2
)

// addAfter takes a word that stands behind a spelled one.
func (f *folder) addAfter(word []byte) {
	if f.tails.len() == 0 {
		return
	}
	blank := !f.gapBroken && f.gapN > 0
	for _, r := range f.gap[:f.gapN] {
		blank = blank && (r == ' ' || r == '\n' || f.gapN == 1 && (r == '-' || r == '_'))
	}
	if fits := blank && f.after.len()+len(word) < maxBeside; fits {
		joint := byte(beside)
		if f.gap[0] == '-' || f.gap[0] == '_' {
			joint = hyphen
		}
		f.after.put(' ', joint)
		for _, c := range word {
			f.after.put(c, beside)
		}
		f.afterN++
		if f.afterN < maxAfter {
			return
		}
	}
	f.endAfter()
}

// endAfter adds the spelled words with the words behind them.
func (f *folder) endAfter() {
	for tails := f.tails; f.after.len() > 0 && tails.len() > 0; {
		n := bytes.IndexByte(tails.text, '\n')
		f.extra.append(tails.slice(0, n))
		f.extra.append(f.after)
		f.extra.put('\n', noJoint)
		tails = tails.slice(n+1, tails.len())
	}
	f.tails.cut(0)
	f.after.cut(0)
	f.afterN = 0
}

// besideOf is the joint of a byte beside a spelled word: a hyphen remains one.
func besideOf(joint byte) byte {
	if joint == hyphen {
		return hyphen
	}
	return beside
}

// leastSpelled is how many letters that stand alone make a word.
func (f *folder) leastSpelled() int {
	switch sep := f.sep[0]; {
	case slices.ContainsFunc(f.sep[:f.sepN], func(r rune) bool { return strings.ContainsRune("\n,;|:、", r) }),
		sep == ' ' && f.sepMixed(): // a + b
		return 5
	case f.unspaced || f.syllables && sep != ' ':
		return 2
	case f.sepN > 1 || f.capitals, strings.ContainsRune(" *-+/=&<>^%", sep): // they part letters in texts and formulas
		return 4
	}
	return 3
}

// endLine ends a line. Rows of as many letters each, three and more, are a grid.
func (f *folder) endLine() {
	switch n := f.count; {
	case f.words == 0: // an empty line
	case f.sepN > 0 && f.sep[0] != '\n' && f.single == f.words && n == f.words:
		f.endRows(n)
		f.rowLetters = n
		f.rowCount++
		if n >= f.leastSpelled() && len(f.rows) < maxAside {
			row := folded{text: f.rows, joints: make([]byte, len(f.rows))}
			f.addSpelled(&row)
			f.rows = row.text
		}
		f.spelt, f.count, f.sepN = f.spelt[:0], 0, 0
	default:
		f.endRows(0)
		if f.sepN > 0 && f.sep[0] != '\n' || f.count == 0 || f.words > 1 {
			f.endSpelled()
		}
	}
	f.words, f.single = 0, 0
}

// endRows ends rows of letters, unless the next one has as many.
func (f *folder) endRows(next int) {
	const grid = 3
	if f.rowCount == 0 || next == f.rowLetters {
		return
	}
	if f.rowCount < grid {
		f.addExtra(f.rows, "")
	}
	f.rows, f.rowCount, f.rowLetters = f.rows[:0], 0, 0
}
