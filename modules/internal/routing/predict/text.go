package predict

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"
)

// What a byte is.
const (
	isLetter = 1 << iota
	isCapital
	isDigit
	isBlank
	isBracket
	isOperator
	isSymbol
)

var (
	class [256]uint8
	lower [256]byte
	hex   [256]uint8
	logs  [4096]float32
)

func init() {
	for i := range 256 {
		c := byte(i)
		lower[c] = c
		switch {
		case 'a' <= c && c <= 'z', c >= 0x80, c == '\'':
			class[c] = isLetter
		case 'A' <= c && c <= 'Z':
			class[c], lower[c] = isLetter|isCapital, c|0x20
		case '0' <= c && c <= '9':
			class[c], hex[c] = isDigit, c-'0'
		case c <= ' ':
			class[c] = isBlank
		case strings.IndexByte("()[]{}", c) >= 0:
			class[c] = isBracket
		case strings.IndexByte("+-*/=<>^%|&", c) >= 0:
			class[c] = isOperator
		case strings.IndexByte("$\\~", c) >= 0:
			class[c] = isSymbol
		}
		if d := lower[c]; 'a' <= d && d <= 'f' {
			hex[c] = d - 'a' + 10
		}
	}
	for i := range logs {
		logs[i] = float32(math.Log1p(float64(i)))
	}
}

// words that statistics count, by their hash.
type words struct {
	hash [1024]uint32
	stat [1024]uint8
}

func newLexicon(lists map[uint8]string) *words {
	var w words
	for stat, list := range lists {
		for word := range strings.FieldsSeq(list) {
			h := wordStart
			for _, c := range []byte(word) {
				h = (h ^ uint32(c)) * wordPrime
			}
			i := h >> 22
			for w.hash[i] != 0 && w.hash[i] != h {
				i = (i + 1) & 1023
			}
			// A word counts for the statistic of the lowest number, whatever order the lists come in.
			if w.hash[i] == 0 || stat < w.stat[i] {
				w.hash[i], w.stat[i] = h, stat
			}
		}
	}
	return &w
}

func (w *words) find(h uint32) (stat uint8, ok bool) {
	for i := h >> 22; w.hash[i] != 0; i = (i + 1) & 1023 {
		if w.hash[i] == h {
			return w.stat[i], true
		}
	}
	return 0, false
}

const (
	wordStart uint32 = 2166136261
	wordPrime uint32 = 16777619
	spread    uint32 = 0x9e3779b1
)

func appendRune(b []byte, r rune) []byte {
	return utf8.AppendRune(b, r)
}

// option reports whether a line begins with the mark of an option ("A. ", "(B)", "c) "), which it is, and how long
// the mark is.
func option(line []byte) (letter byte, length int) {
	i := 0
	if i < len(line) && line[i] == '(' {
		i++
	}
	if i+1 >= len(line) {
		return 0, 0
	}
	c := lower[line[i]]
	if c < 'a' || c > 'j' {
		return 0, 0
	}
	switch line[i+1] {
	case ')', '.', ':':
		return c, i + 2
	}
	return 0, 0
}

// focus is where the question itself begins in a text that has worked examples before it, and how many there are. Such
// a text has several lists of options, or ends in a mark ("Answer:") that it has before.
func focus(text []byte) (start, shots int) {
	lastA := -1
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		if letter, _ := option(text[at:end]); letter == 'a' {
			lastA = at
			shots++
		}
		at = end + 1
	}
	if shots >= 2 {
		return blockStart(text, lastA), shots - 1
	}
	// The last line, where it is a mark.
	trimmed := bytes.TrimRight(text, " \n\t\r")
	if n := len(trimmed); n > 2 && trimmed[n-1] == ':' {
		begin := max(bytes.LastIndexByte(trimmed, '\n'), bytes.LastIndexByte(trimmed, '.'),
			bytes.LastIndexByte(trimmed, '?')) + 1
		mark := bytes.TrimLeft(trimmed[begin:], " ")
		if len(mark) <= 24 {
			if k := bytes.Count(trimmed, mark); k >= 3 {
				return blockStart(text, begin), k - 1
			}
		}
	}
	return 0, 0
}

// blockStart is where the block of lines begins that has the place in it.
func blockStart(text []byte, at int) int {
	if i := bytes.LastIndex(text[:max(at-1, 0)], []byte("\n\n")); i >= 0 {
		return i + 2
	}
	return 0
}

func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// readText counts the statistics of f.text and hashes its n-grams.
func (f *Features) readText() {
	s := &f.stats
	start, shots := focus(f.text)
	text := f.text[start:]
	s[statShots] = ln1(shots)
	f.readLines(text)
	f.readWords()
	f.readChars()
}

// readLines reads what is in the order of lines, and makes the text that n-grams are taken from, without the marks of
// options: which letter an answer has says nothing. What stands behind the
// last option, and marks such as "Answer:", say how to answer and not what: they are left out, so that a question is
// the same however one asks for its answer.
func (f *Features) readLines(text []byte) {
	s := &f.stats
	var lines, indented, options, optionBytes, optionNums, stem int
	var squares float64
	stem = -1
	lastOption := lastOption(text)
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		line := text[at:end]
		if len(line) > 0 {
			lines++
			if line[0] == ' ' || line[0] == '\t' {
				indented++
			}
		}
		switch _, n := option(line); {
		case n == 0 && (mark(line) || at > lastOption && lastOption >= 0 && len(text)-lastOption <= instructionBytes):
			at = end + 1
			continue
		case n > 0:
			if stem < 0 {
				stem = at
			}
			rest := bytes.TrimLeft(line[n:], " ")
			options++
			optionBytes += len(rest)
			squares += float64(len(rest) * len(rest))
			if len(rest) > 0 && (class[rest[0]]&isDigit != 0 || rest[0] == '-' || rest[0] == '$') {
				optionNums++
			}
			line = rest
		}
		f.norm = append(f.norm, line...)
		f.norm = append(f.norm, '\n')
		at = end + 1
	}
	if stem < 0 {
		stem = len(text)
	}
	s[statFocus] = ln1(len(f.norm))
	s[statLines] = ln1(lines)
	s[statIndented] = share(indented, lines)
	s[statOptions] = ln1(options)
	s[statStem] = ln1(stem)
	if options > 0 {
		mean := float64(optionBytes) / float64(options)
		s[statOptionLen] = float32(math.Log1p(mean))
		s[statOptionDev] = float32(math.Sqrt(max(0, squares/float64(options)-mean*mean)) / (1 + mean))
		s[statOptionNums] = share(optionNums, options)
	}
}

// instructionBytes is how long the text from the last option on can be to be an instruction.
const instructionBytes = 320

// lastOption is where the last line begins that is an option, -1 where none is.
func lastOption(text []byte) int {
	last := -1
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		if _, n := option(text[at:end]); n > 0 {
			last = at
		}
		at = end + 1
	}
	return last
}

// mark reports whether a line only announces the next one.
func mark(line []byte) bool {
	return len(line) > 2 && len(line) <= 24 && line[len(line)-1] == ':'
}

// mostNumbers is how many numbers of a text are kept.
const mostNumbers = 32

// readWords reads f.norm once, byte by byte: words and their n-grams, numbers, marks. It leaves f.norm in small
// letters, with one 0 for each digit and one blank between words.
func (f *Features) readWords() {
	r := reading{f: f, src: f.norm, blank: true}
	for i := 0; i < len(r.src); {
		switch k := class[r.src[i]]; {
		case k&isLetter != 0:
			i = r.readWord(i)
		case k&isDigit != 0:
			i = r.readNumber(i)
		case k&isBlank != 0:
			if !r.blank {
				r.put(' ')
				r.blank = true
			}
			i++
		default:
			r.countClass(k)
			r.countMark(i)
			r.put(r.src[i])
			r.blank = false
			i++
		}
	}
	f.norm = r.src[:r.out]
	r.fill(&f.stats)
}

// reading is what readWords has counted of a text so far.
type reading struct {
	f      *Features
	src    []byte
	out    int    // src is written over so far, behind what is read
	before uint32 // the hash of the last word or number
	blank  bool   // a blank was written last

	listed                                                   [numStats]int32 // words of the lexicon
	words, letters, long, capitals, foreign                  int
	numbers, digits, decimals, years                         int
	brackets, operators, symbols, punctuation                int
	sentences, quotes, questions, blanks, codeMarks, markups int
	largest                                                  float64
}

func (r *reading) put(c byte) {
	r.src[r.out] = c
	r.out++
}

// addGram adds a word or number and the pair of it and the one before.
func (r *reading) addGram(hash uint32) {
	r.f.word(hash * spread)
	r.f.word((r.before*31 + hash) * spread)
	r.before, r.blank = hash, false
}

// readWord reads the word that begins at i, and returns where it ends.
func (r *reading) readWord(i int) int {
	h := wordStart
	j := i
	for ; j < len(r.src); j++ {
		c := r.src[j]
		k := class[c]
		if k&isLetter == 0 {
			break
		}
		if k&isCapital != 0 {
			r.capitals++
		} else if c >= 0x80 {
			r.foreign++
		}
		c = lower[c]
		r.put(c)
		h = (h ^ uint32(c)) * wordPrime
	}
	r.words++
	r.letters += j - i
	if j-i >= 8 {
		r.long++
	}
	if stat, ok := lexicon.find(h); ok {
		r.listed[stat]++
	}
	r.f.seen[h>>26] |= 1 << (h >> 20 & 63)
	r.addGram(h)
	return j
}

// readNumber reads the digits that begin at i, and returns where they end.
func (r *reading) readNumber(i int) int {
	value, j := 0.0, i
	for ; j < len(r.src) && class[r.src[j]]&isDigit != 0; j++ {
		value = value*10 + float64(r.src[j]-'0')
		if j-i < 4 {
			r.put('0')
		}
	}
	r.digits += j - i
	r.numbers++
	if i > 1 && r.src[i-1] == '.' && r.numbers > 1 && class[r.src[i-2]]&isDigit != 0 {
		r.decimals++
	}
	if value >= 1000 && value <= 2100 && j-i == 4 {
		r.years++
	}
	if len(r.f.numbers) < mostNumbers {
		r.f.numbers = append(r.f.numbers, number{value, r.out})
	}
	r.largest = max(r.largest, value)
	r.addGram(uint32(min(j-i, 4)) * 7919)
	return j
}

func (r *reading) countClass(k uint8) {
	switch {
	case k&isBracket != 0:
		r.brackets++
	case k&isOperator != 0:
		r.operators++
	case k&isSymbol != 0:
		r.symbols++
	}
	r.punctuation++
}

// countMark counts what the mark at i says with the byte behind it.
func (r *reading) countMark(i int) {
	c, next := r.src[i], byte(0)
	if i+1 < len(r.src) {
		next = r.src[i+1]
	}
	switch c {
	case '.', '!', '?':
		r.sentences += one(class[next]&isBlank != 0)
		r.questions += one(c == '?')
	case '"':
		r.quotes++
	case '_':
		gap := next == '_' || class[next]&isBlank != 0
		r.blanks += one(gap)
		r.codeMarks += one(!gap)
	case ';', '{', '}':
		r.codeMarks++
	case '=':
		r.codeMarks += one(next == '=')
	case ':':
		r.codeMarks += one(next == '\n')
	case '<', '`', '#':
		r.markups += one(class[next]&isLetter != 0 || next == '/' || next == c)
	case '*':
		r.markups += one(next == '*')
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill fills in the statistics.
func (r *reading) fill(s *[numStats]float32) {
	total := max(len(r.src), 1)
	s[statWords] = ln1(r.words)
	s[statNumbers] = ln1(r.numbers)
	s[statDigits] = share(r.digits, total)
	s[statCapitals] = share(r.capitals, total)
	s[statForeign] = share(r.foreign, total)
	s[statWordLength] = share(r.letters, r.words)
	s[statLongWords] = share(r.long, r.words)
	s[statDistinct] = share(popcount(&r.f.seen), max(r.words, 1))
	s[statSentence] = float32(math.Log1p(float64(r.words) / float64(r.sentences+1)))
	s[statPunctuation] = share(r.punctuation, total)
	s[statBrackets] = share(r.brackets, total)
	s[statOperators] = share(r.operators, total)
	s[statSymbols] = ln1(r.symbols)
	s[statCode] = ln1(r.codeMarks)
	s[statMarkup] = ln1(r.markups)
	s[statQuotes] = ln1(r.quotes)
	s[statQuestions] = ln1(r.questions)
	s[statBlanks] = ln1(r.blanks)
	s[statLargest] = float32(math.Log1p(r.largest))
	s[statDecimals] = ln1(r.decimals)
	s[statYears] = ln1(r.years)
	for stat := statNegations; stat < numStats; stat++ {
		if n := r.listed[stat]; n > 0 {
			s[stat] = ln1(int(n))
		}
	}
}

// readChars hashes the runs of 4 bytes of f.norm. Those of 3 and 5 tell no more.
func (f *Features) readChars() {
	v := uint64(' ')
	list := f.chars
	for i, c := range f.norm {
		v = v<<8 | uint64(c)
		if i < 3 {
			continue
		}
		h := (v & 0xffffffff) * 0xc2b2ae3d27d4eb4f
		if first(&f.seenC, uint32(h>>32)) {
			list = append(list, uint16(h>>(64-bucketBits)))
		}
	}
	f.chars = list
}
