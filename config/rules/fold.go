package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded is text in the one form in which terms are looked for. Each of its bytes has a joint: whether it was put in
// place of something.
type folded struct{ text, joints []byte }

const (
	noJoint = iota
	hyphen  // a blank, in place of a hyphen or a low line between two words
	seam    // the first byte of a text that follows on another one
	parted  // of words that nobody sees the end of
	beside  // of words that stand beside a spelled one
)

func (f *folded) len() int { return len(f.text) }

func (f *folded) size() int { return cap(f.text) + cap(f.joints) }

func (f *folded) put(c byte, joint byte) {
	f.text, f.joints = append(f.text, c), append(f.joints, joint)
}

func (f *folded) putRune(r rune) {
	if f.text = utf8.AppendRune(f.text, r); len(f.text) > len(f.joints) {
		f.joints = append(f.joints, noJoints[:len(f.text)-len(f.joints)]...)
	}
}

var noJoints [utf8.UTFMax]byte

func (f *folded) append(other folded) {
	f.text, f.joints = append(f.text, other.text...), append(f.joints, other.joints...)
}

func (f *folded) cut(n int) { f.text, f.joints = f.text[:n], f.joints[:n] }

func (f *folded) slice(from, to int) folded { return folded{f.text[from:to], f.joints[from:to]} }

// drop forgets the first n bytes.
func (f *folded) drop(n int) {
	f.text = f.text[:copy(f.text, f.text[n:])]
	f.joints = f.joints[:copy(f.joints, f.joints[n:])]
}

const (
	// chunk is how much is normalized at a time, in bytes. It grows to eleven times as much at most (U+FDFA).
	chunk = 4 << 10
	// maxWord is where a word is cut that does not end, in bytes.
	maxWord = 1 << 10
	// maxAside is how much is kept of something before it is looked at, in bytes.
	maxAside = 1 << 10
	// keptAside is how much of that comes before what follows: more than a term has.
	keptAside = 512
)

// reader brings texts into their folded form, piece by piece, with memory for a piece.
type reader struct {
	folder
	raw, normal []byte
	clean       *[]byte // takes the text for patterns: composed, without what nobody sees; nil for nobody
	// more is called when something came, which it may take from folder.
	more func()
}

// read takes a text that is written in a form. It goes on in the middle of a word.
func (r *reader) read(s string, f form) {
	f.decode(s, r.text, r.sign)
}

func (r *reader) sign(e sign) {
	if e.line {
		r.normalize()
		r.note('\\')
		r.note(e.char)
		r.blank('\n')
		r.soft, r.softAt = byte(e.char), r.out.len()
		return
	}
	for range max(e.times, 1) {
		r.rune(e.char)
	}
}

func (r *reader) text(s string) {
	for len(s) > 0 {
		if n := visible(s); n > 0 && r.aside.len() == 0 {
			if r.raw = append(r.raw, s[:n]...); len(r.raw) >= chunk { // what follows may go together with the last one
				r.raw = r.raw[:len(r.raw)-1]
				r.normalize()
				r.raw = append(r.raw, s[n-1])
			}
			s = s[n:]
			continue
		}
		c, n := utf8.DecodeRuneInString(s)
		r.rune(c)
		s = s[n:]
	}
}

// visible is how many bytes a text begins with that are ASCII and can be seen, or are blanks, up to a chunk.
func visible(s string) int {
	n := min(len(s), chunk)
	for i := range n {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return i
		}
	}
	return n
}

// hiddenMark stands for a control character, or one that nobody sees, until the text is folded.
const hiddenMark = 1

func (r *reader) mark() {
	if n := len(r.raw); n > 0 && r.raw[n-1] != hiddenMark {
		r.raw = append(r.raw, hiddenMark)
	}
}

func (r *reader) rune(c rune) {
	switch {
	case ' ' <= c && c < 0x7f || plainLetter(c):
	case control(c):
		r.mark()
		return
	case c < utf8.RuneSelf:
	case hiddenLetter(c) != 0:
		r.aside.put(hiddenLetter(c)|caseOf(hiddenLetter(c)), noJoint)
		if r.overflow(&r.aside); r.more != nil && r.extra.len() > maxAside {
			r.more()
		}
		if c >= 0xe0000 {
			r.mark()
			return
		}
	case framed(c) != 0:
		c = rune(framed(c))
	case c == '℮': // which is no letter (Unicode, confusables.txt)
		c = 'e'
	case c == 0x3f2 || c == 0x3f9: // whose compatible form looks like another letter
		c = 'с'
	case c == '™' || c == '℠' || c == '´': // whose compatible form would go on with the word, or is a blank
		r.note(c)
		r.normalize()
		r.folder.rune(c)
		if r.more != nil {
			r.more()
		}
		return
	case invisible(c):
		r.mark()
		return
	case widens(c):
		r.normalize()
		r.note(c)
		for _, part := range widened(c) {
			r.folder.rune(part)
		}
		if r.more != nil {
			r.more()
		}
		return
	}
	if r.aside.len() > 0 && (c > ' ' && c < 0x1f1e6 || c > 0x1f1ff) {
		r.endAside()
	}
	r.raw = utf8.AppendRune(r.raw, c)
	// A chunk ends where nothing that follows goes together with it.
	if n := len(r.raw); n >= chunk && (c == ' ' || n >= 2*chunk) {
		r.normalize()
	}
}

// caseOf is what makes a capital of ASCII small.
func caseOf(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return 0x20
	}
	return 0
}

// widens reports whether the compatible form of a character can have more than three times its bytes. Patterns see
// such ones as they are written.
func widens(r rune) bool {
	switch {
	case r == 0xfdfa, r == 0xfdfb, r == 0x2057, r == 0x2a0c, 0x3300 <= r && r <= 0x337f:
		return true
	}
	return false
}

// widened is the compatible form of such a character. The two that are a sentence stay as they are.
func widened(c rune) []rune {
	if parts, known := squares[c]; known {
		return parts
	}
	return []rune{c}
}

// squares are words of katakana in one character, and some signs.
var squares = func() map[rune][]rune {
	table := map[rune][]rune{}
	for c := rune(0x2000); c <= 0x337f; c++ {
		if widens(c) {
			table[c] = []rune(norm.NFKC.String(string(c)))
		}
	}
	return table
}()

// note takes a character for the patterns.
func (r *reader) note(c rune) {
	if r.clean != nil {
		*r.clean = utf8.AppendRune(*r.clean, c)
	}
}

// normalize folds what has come.
func (r *reader) normalize() {
	if len(r.raw) == 0 {
		return
	}
	text := r.raw
	if !norm.NFKC.IsNormal(text) {
		r.normal = norm.NFKC.Append(r.normal[:0], text...)
		text = r.normal
	}
	from := 0 // of what patterns have not got
	for i := 0; i < len(text); {
		c, n := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRune(text[i:])
		}
		i += n
		switch {
		case c == hiddenMark:
			r.hide()
		case c < utf8.RuneSelf:
			r.ascii(byte(c))
			continue
		case plainLetter(c) || !ornament(c) && !invisible(c):
			r.folder.rune(c)
			continue
		case ornament(c):
			r.adorn()
		}
		r.notes(text[from : i-n])
		from = i
	}
	r.notes(text[from:])
	r.raw = r.raw[:0]
	if r.more != nil {
		r.more()
	}
}

func (r *reader) notes(text []byte) {
	if r.clean != nil {
		*r.clean = append(*r.clean, text...)
	}
}

// forget drops the first n bytes of what was folded.
func (r *reader) forget(n int) {
	r.out.drop(n)
	r.word -= n
	r.softAt -= n
	r.runAt -= n
	r.lastAt -= n
}

// end ends what was read.
func (r *reader) end() {
	r.normalize()
	r.endAside()
	r.endWord()
	r.endLine()
	r.endSpelled()
	r.endAfter()
	r.endRows(0)
	if r.context == noContext && r.pendingWords > 1 { // it is a text in that alphabet
		r.pending.cut(0)
	}
	r.endPending()
	r.soft, r.gapBroken = 0, true
	if r.more != nil {
		r.more()
	}
}

// folder brings a text into the form in which terms are looked for, rune by rune.
type folder struct {
	out folded
	// extra are other ways to read a part of it, each with a line of its own: words that are spelled, words whose letters
	// all look like Latin ones, tag characters.
	extra folded

	word    int  // where the word at hand begins in out
	letters int  // it has so many, no more than two being counted
	latin   bool // it has letters of the Latin alphabet
	ending  byte // its last letter as it was written, where that is one of ASCII
	bare    int  // letters of ASCII without a mark
	marked  int  // Latin letters with marks
	other   bool // it has lookalikes of another alphabet
	whole   bool // all others of its letters are such
	script  *unicode.RangeTable
	motley  bool // it has letters of another one, too
	upper   bool // it has a capital
	tall    bool // one of Greek

	hidden  places // where a control character was in the word
	humps   places // where a capital comes behind a small letter
	soft    byte   // a letter that may belong to the word that begins at softAt
	softAt  int
	context context
	nearby  *unicode.RangeTable // the script of otherContext
	pending folded              // words that are Latin if the text around them is
	// pendingWords is how many of them are of an alphabet in which they are words, too.
	pendingWords  int
	pendingScript *unicode.RangeTable // that of these
	aside         folded              // tag characters and flags at hand
	gap           [4]rune             // what came since the last word
	gapN          int
	gapBroken     bool // there was more

	spelling
}

// context is the script of the words before.
type context uint8

const (
	noContext context = iota
	latinContext
	otherContext
)

func (f *folder) ascii(c byte) {
	switch {
	case 'a' <= c && c <= 'z':
		f.begin()
		f.ending = c
	case 'A' <= c && c <= 'Z':
		f.begin()
		if 'a' <= f.ending && f.ending <= 'z' { // ProjectFalcon
			f.humps.add(f.out.len() - f.word)
		}
		f.ending = c
		c, f.upper = c|0x20, true
	case '0' <= c && c <= '9':
		f.begin()
		f.letters = min(f.letters+1, 2)
		f.ending = 0
		f.out.put(c, noJoint)
		return
	case c <= ' ':
		f.blank(c)
		return
	default:
		f.sign(rune(c))
		return
	}
	f.latin = true
	f.bare++
	f.letters = min(f.letters+1, 2)
	f.out.put(c, noJoint)
}

// adorn takes a mark on the letter before.
func (f *folder) adorn() {
	if f.ending != 0 {
		f.bare, f.marked, f.ending = f.bare-1, f.marked+1, 0
	}
}

func (f *folder) rune(r rune) {
	switch {
	case plainLetter(r): // which most are, and the others take longer to tell
	case unicode.IsSpace(r):
		f.blank(' ')
		return
	case unicode.Is(unicode.Pd, r) || r == 0x2212:
		f.sign('-')
		return
	case apostrophe(r):
		f.sign('\'')
		return
	case unwritten(r):
		return
	case !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
		f.sign(r)
		return
	}
	if f.begin(); f.letters == 0 || plainLetter(r) || !unicode.IsMark(r) {
		f.letters = min(f.letters+1, 2)
	}
	f.ending = 0
	if 0x410 <= r && r <= 0x44f {
		f.cyrillic(r)
		return
	}
	if eastAsian(r) {
		f.whole = false
		f.out.putRune(r)
		return
	}
	if r == 'ß' || r == 'ẞ' {
		f.latin, f.bare, f.letters = true, f.bare+2, 2
		f.out.put('s', noJoint)
		f.out.put('s', noJoint)
		return
	}
	if lower := unicode.ToLower(unicode.ToUpper(r)); lower != r {
		if unicode.IsUpper(r) {
			f.upper, f.tall = true, f.tall || tall[lower] != 0
		}
		r = lower
	}
	if l := latinOf(r); l != 0 {
		f.latin = true
		f.bare++
		f.out.put(l, noJoint)
		return
	}
	switch r = usualSpelling(r); {
	case lookalike(r) != 0:
		f.other = true
	case unicode.Is(unicode.Latin, r):
		f.latin = true
		f.marked++
	default:
		f.whole = false
	}
	switch {
	case r < 0x370 || r > 0x58f:
	case r < 0x400:
		f.ofScript(unicode.Greek)
	case r < 0x530:
		f.ofScript(unicode.Cyrillic)
	default:
		f.ofScript(unicode.Armenian)
	}
	f.out.putRune(r)
}

// ofScript notes the script of a letter. Those of the first one are the word's.
func (f *folder) ofScript(script *unicode.RangeTable) {
	if f.script == nil {
		f.script = script
	}
	f.motley = f.motley || f.script != script
}

// cyrillic takes a letter of the Russian alphabet.
func (f *folder) cyrillic(r rune) {
	if r < 0x430 {
		r, f.upper = r+0x20, true
	}
	if lookalike(r) != 0 {
		f.other = true
	} else {
		f.whole = false
	}
	f.ofScript(unicode.Cyrillic)
	f.out.putRune(r)
}

// begin begins a word, or goes on with it. A hyphen or a low line between two words is as good as a blank.
func (f *folder) begin() {
	if f.letters > 0 {
		if f.out.len()-f.word >= maxWord {
			f.settleWord()
			f.word, f.hidden.n, f.humps.n = f.out.len(), 0, 0
		}
		return
	}
	if n := f.out.len(); n > 1 && f.gapN == 1 && !f.gapBroken && (f.gap[0] == '-' || f.gap[0] == '_') {
		if last, _ := utf8.DecodeLastRune(f.out.text[:n-1]); inWord(last) {
			f.out.text[n-1], f.out.joints[n-1] = ' ', hyphen
		}
	}
	f.word, f.whole = f.out.len(), true
}

// blank ends a word. Any number of them are one.
func (f *folder) blank(c byte) {
	f.endWord()
	switch c {
	case '\n', '\v', '\f':
		f.endLine()
		f.passed('\n')
	case '\r':
	default:
		f.passed(' ')
	}
	if n := f.out.len(); n > 0 && f.out.text[n-1] != ' ' && f.out.text[n-1] != '\n' {
		f.out.put(' ', noJoint)
	}
	f.word = f.out.len()
}

func (f *folder) sign(r rune) {
	f.endWord()
	f.passed(r)
	f.out.putRune(r)
	f.word = f.out.len()
}

// passed notes what is between two words.
func (f *folder) passed(r rune) {
	if f.gapN == len(f.gap) {
		f.gapBroken = true
		return
	}
	f.gap[f.gapN] = r
	f.gapN++
}

// hide notes a character inside of a word that nobody sees.
func (f *folder) hide() {
	if f.letters > 0 {
		f.hidden.add(f.out.len() - f.word)
	}
}

// endWord looks at the word that has ended.
func (f *folder) endWord() {
	if f.letters == 0 {
		return
	}
	f.settleWord()
	f.spell(f.out.text[f.word:], f.letters == 1, f.upper)
	f.letters, f.latin, f.ending, f.bare, f.marked, f.other, f.script = 0, false, 0, 0, 0, false, nil
	f.upper, f.tall, f.motley = false, false, false
	f.gap, f.gapN, f.gapBroken, f.hidden.n, f.humps.n, f.soft = [4]rune{}, 0, false, 0, 0, 0
}

// settleWord reads the word at hand in other ways, as far as it has come.
func (f *folder) settleWord() {
	word := f.out.text[f.word:]
	for _, p := range [...]*places{&f.hidden, &f.humps} {
		if p.n > 0 {
			f.addParted(word, *p)
		}
	}
	if f.soft != 0 && f.softAt == f.word {
		f.addExtra([]byte{f.soft | caseOf(f.soft)}, "")
		f.addExtra(word, "\n")
	}
	switch {
	case f.latin && (f.other || f.script != nil): // no word is of two alphabets
		f.addExtra(word, "\n") // where parts of patterns are
		if own := f.inScript(word); own != nil {
			if !f.whole {
				f.replaceWord(own)
				return
			}
			f.addExtra(own, "\n")
		}
		if f.tall {
			f.addExtra(inLatin(word, false), "\n")
		}
		f.replaceWord(inLatin(word, f.tall))
		f.endPending()
		f.context = latinContext
	case f.latin:
		if f.marked > 0 {
			f.addUnmarked(word)
		}
		f.endPending()
		f.context = latinContext
	case f.other && f.whole && !f.atHome():
		if script := f.script; script != nil && !f.motley {
			if f.pendingScript != script && f.pendingWords > 0 {
				f.endPending()
			}
			f.pendingScript = script
			f.pendingWords++
		}
		for _, c := range inLatin(word, f.tall) {
			f.pending.put(c, noJoint)
		}
		f.pending.put(' ', noJoint)
		if f.pending.len() > maxAside {
			f.endPending()
		}
	case !f.whole:
		if f.pendingWords > 0 && (f.script == nil || f.pendingScript == f.script) {
			f.pending.cut(0)
		}
		f.endPending()
		f.context, f.nearby = otherContext, f.script
	}
}

// atHome reports whether a word that could be a Latin one stands in a text of its own alphabet, or of one that has
// nothing to do with it.
func (f *folder) atHome() bool {
	return f.context == otherContext && f.script != nil && !f.motley && (f.nearby == nil || f.nearby == f.script)
}

// addParted reads a word as several, where something in it may stand for a blank.
func (f *folder) addParted(word []byte, p places) {
	next := 0
	for i, c := range word {
		if next < p.n && p.at[next] == i {
			f.extra.put(' ', parted)
			for next < p.n && p.at[next] == i {
				next++
			}
		}
		f.extra.put(c, parted)
	}
	f.extra.put('\n', noJoint)
}

// places are some in a word, in order.
type places struct {
	at [8]int
	n  int
}

func (p *places) add(at int) {
	if p.n < len(p.at) {
		p.at[p.n] = at
		p.n++
	}
}

// endPending takes words that could be of two alphabets as Latin ones.
func (f *folder) endPending() {
	if f.pending.len() > 0 {
		f.pending.text[f.pending.len()-1] = '\n'
		f.extra.append(f.pending)
		f.pending.cut(0)
	}
	f.pendingWords = 0
}

func (f *folder) replaceWord(word []byte) {
	f.out.cut(f.word)
	for _, c := range word {
		f.out.put(c, noJoint)
	}
}

func (f *folder) addExtra(text []byte, end string) {
	for _, c := range text {
		f.extra.put(c, noJoint)
	}
	for i := range len(end) {
		f.extra.put(end[i], noJoint)
	}
}

// inLatin is a word with Latin letters in place of those that look alike, or whose capitals do.
func inLatin(word []byte, capital bool) []byte {
	latin := make([]byte, 0, len(word))
	for _, r := range string(word) {
		if l := tall[r]; capital && l != 0 {
			latin = append(latin, l)
		} else if l := lookalike(r); l != 0 {
			latin = append(latin, l)
		} else {
			latin = utf8.AppendRune(latin, r)
		}
	}
	return latin
}

// inScript is a word with letters of its own alphabet in place of Latin ones; nil where one of Latin looks like none.
func (f *folder) inScript(word []byte) []byte {
	shape := shapes[f.script]
	if shape == nil {
		return nil
	}
	own := make([]byte, 0, 2*len(word))
	for _, r := range string(word) {
		if 'a' <= r && r <= 'z' {
			c := byte(r)
			if r = shape[c]; f.upper && f.script == unicode.Greek && tallShapes[c] != 0 {
				r = tallShapes[c]
			}
			if r == 0 {
				return nil
			}
		}
		own = utf8.AppendRune(own, r)
	}
	return own
}

// addUnmarked reads a word without its marks, where three letters have one and more, or all of at least three: no
// usual word of a language that writes it otherwise becomes another one so.
func (f *folder) addUnmarked(word []byte) {
	const least = 3
	if f.marked < least {
		return
	}
	before := f.extra.len()
	for _, r := range string(word) {
		if r >= utf8.RuneSelf {
			if r = rune(withoutMark(r)); r == 0 {
				f.extra.cut(before)
				return
			}
		}
		f.extra.put(byte(r), noJoint)
	}
	f.extra.put('\n', noJoint)
}

// withoutMark is the letter of ASCII that has a mark there, 0 for none.
func withoutMark(r rune) byte {
	if c := bare[r]; c != 0 {
		return c
	}
	base := rune(0)
	if d := norm.NFD.PropertiesString(string(r)).Decomposition(); len(d) > 0 {
		base, _ = utf8.DecodeRune(d)
	}
	if base < 'a' || base > 'z' {
		return 0
	}
	return byte(base)
}

// endAside reads tag characters, and flags, as the letters that they are.
func (r *reader) endAside() {
	if r.aside.len() > 0 {
		r.aside.put('\n', noJoint)
		r.extra.append(r.aside)
		r.aside.cut(0)
	}
}

// overflow looks at what was put aside when it is much, and keeps its end for what follows.
func (f *folder) overflow(aside *folded) {
	if aside.len() < maxAside {
		return
	}
	f.extra.append(*aside)
	f.extra.put('\n', noJoint)
	aside.drop(aside.len() - keptAside)
}

// trimmed is a text without blanks at its ends.
func (f folded) trimmed() folded {
	from, to := 0, f.len()
	for from < to && strings.IndexByte(" \n", f.text[from]) >= 0 {
		from++
	}
	for from < to && strings.IndexByte(" \n", f.text[to-1]) >= 0 {
		to--
	}
	return f.slice(from, to)
}
