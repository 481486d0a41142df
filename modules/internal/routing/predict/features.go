package predict

import (
	"math"

	"github.com/fareway/fareway/plugins/llm"
)

// How much of a question is looked at, and into how many buckets its n-grams are hashed.
const (
	headBytes = 768
	tailBytes = 1280
	maxBytes  = headBytes + tailBytes

	edgeBytes = 160 // in which what is asked often stands, before or behind a text that it is about

	bucketBits = 15
	buckets    = 1 << bucketBits // of word n-grams, and as many of character n-grams
)

// The plain statistics of a conversation.
const (
	statLength      = iota // log of the bytes of the question
	statFocus              // log of the bytes of it that are looked at, without worked examples (see focus)
	statShots              // log of the worked examples before the question
	statWords              // log
	statLines              // log
	statNumbers            // log
	statDigits             // share of characters
	statCapitals           // share
	statForeign            // share of bytes beyond ASCII
	statWordLength         // mean
	statLongWords          // share of words of 8 letters or more
	statDistinct           // share of words that are new
	statSentence           // log of words a sentence
	statPunctuation        // share
	statBrackets           // share of ()[]{}
	statOperators          // share of +-*/=<>^%
	statSymbols            // log of $, \ and other marks of mathematics
	statCode               // log of marks of code
	statIndented           // share of lines
	statMarkup             // log of <tag, ```, ** and #
	statQuotes             // log
	statQuestions          // log of question marks
	statOptions            // log of the number of options
	statOptionLen          // log of their mean length
	statOptionDev          // how unequal they are
	statOptionNums         // share of options that begin with a number
	statStem               // log of the bytes before the options
	statNegations          // log of "not", "except", ...
	statBlanks             // log of blanks to fill in
	statLargest            // log of the largest number
	statDecimals           // log of numbers with a point
	statYears              // log of numbers from 1000 to 2100
	statArithmetic         // log of words of arithmetic
	statFormal             // log of words of proofs and algebra
	statAsking             // log of who, what, when, where
	statReasoning          // log of why, how, because, therefore
	statCoding             // log of words of programming
	statWriting            // log of words of writing to order
	statHedges             // log of may, likely, best, most
	statPeople             // log of he, she, they, ...
	statRoman              // log of I, II, III and "statement"
	numStats
)

// lexicon has the words that statistics count.
var lexicon = newLexicon(map[uint8]string{
	statNegations: "not except never no none cannot without least false incorrect neither nor isn't doesn't",
	statArithmetic: "each total many much per percent more less half twice times sum altogether remaining " +
		"left spent cost costs price dollars hours minutes days weeks miles average rate ratio " +
		"every double triple",
	statFormal: "let prove integer integers polynomial function equation matrix vector derivative " +
		"integral theorem prime probability random variable set group ring field triangle circle " +
		"angle solve compute evaluate modulo real root roots graph vertices converges",
	statAsking:    "who what when where which whose",
	statReasoning: "why how because therefore if then suppose assume assuming explain implies would should",
	statCoding: "def return class import function int string list array print lambda self none null var " +
		"const for while elif else struct void public static assert code program python java " +
		"javascript sql",
	statWriting: "write essay poem story email letter blog rewrite summarize summarise translate draft " +
		"paragraph tone creative article",
	statHedges: "may likely best most might probably usually often primarily mainly generally",
	statPeople: "he she they his her him their i you we my your",
	statRoman:  "ii iii iv statement following",
})

// Features are what the predictor knows of a conversation: numbers and buckets, never its words. They are reused
// from one conversation to the next, and are no more than working memory until Read has filled them.
type Features struct {
	stats [numStats]float32
	words []uint32 // hashes of word n-grams, one for each bucket that they hit
	chars []uint16 // buckets of character n-grams, each once

	concepts [maxConcepts]uint8    // how often each of the vocabulary's is in the question
	edges    [2][maxConcepts]uint8 // and how often in its first and its last bytes (edgeBytes)
	asked    Asked                 // length, by the question or what frames it
	tools    bool                  // there are some to be called

	framer  framer
	raw     []byte   // of a message, what is searched for the question
	text    []byte   // what is looked at, without accents
	norm    []byte   // the same in small letters without runs of blanks
	numbers []number // some of norm
	seenW   [buckets / 64]uint64
	seenC   [buckets / 64]uint64
	seen    [64]uint64 // hashed words, for statDistinct
}

// NewFeatures makes features that Read fills.
func NewFeatures() *Features {
	return &Features{
		words:   make([]uint32, 0, 2*maxBytes),
		chars:   make([]uint16, 0, maxBytes),
		raw:     make([]byte, 0, 2*windowBytes+64),
		text:    make([]byte, 0, maxBytes+64),
		norm:    make([]byte, 0, maxBytes+64),
		numbers: make([]number, 0, mostNumbers),
		framer:  framer{line: *NewLine()},
	}
}

// Read fills the features from a request: from the question that it asks, which is the same in whatever dress.
func (f *Features) Read(req *llm.Request) {
	f.reset()
	n := len(req.Messages)
	f.tools = len(req.Tools) > 0 || n > 0 && req.Messages[n-1].Role == llm.RoleTool
	question := f.find(req.Messages)
	f.stats[statLength] = ln1(len(question))
	if len(question) <= maxBytes {
		f.text = appendFolded(f.text, question)
	} else {
		f.text = appendFolded(f.text, question[:headBytes])
		f.text = appendFolded(f.text, question[len(question)-tailBytes:])
	}
	f.readText()
	n = min(len(f.norm), edgeBytes)
	concepts().found(f.norm[:n], nil, &f.edges[0])
	concepts().found(f.norm[len(f.norm)-n:], nil, &f.edges[1])
	f.asked = f.framer.asked.or(concepts().found(f.norm, f.numbers, &f.concepts))
}

// find finds the question: what is left of the last of the users' messages of which something is left. Where no user
// wrote anything, it is what was written last. The text is good until the next one is asked for.
func (f *Features) find(messages []llm.Message) []byte {
	last, looked := -1, 0
	for i := len(messages) - 1; i >= 0 && looked < mostMessages; i-- {
		if messages[i].Role != llm.RoleUser {
			continue
		}
		looked++
		f.copyWindow(&messages[i])
		if q := f.framer.separate(f.raw); says(q) {
			return q
		}
		if last < 0 {
			last = i
		}
	}
	for i := len(messages) - 1; last < 0 && i >= 0; i-- {
		if messages[i].Role != llm.RoleSystem && size(&messages[i]) > 0 {
			last = i
		}
	}
	if last >= 0 {
		f.copyWindow(&messages[last])
		if q := f.framer.findGist(f.raw); says(q) {
			return q
		}
		f.copyWindow(&messages[last])
		return f.raw
	}
	return nil
}

func size(m *llm.Message) int {
	n := 0
	for i := range m.Parts {
		text, _ := m.Parts[i].Text.Plain()
		n += len(text)
	}
	return n
}

func (f *Features) reset() {
	for _, h := range f.words {
		f.seenW[h>>(32-bucketBits)>>6] = 0
	}
	for _, b := range f.chars {
		f.seenC[b>>6] = 0
	}
	f.seen = [64]uint64{}
	f.stats = [numStats]float32{}
	f.concepts = [maxConcepts]uint8{}
	f.edges = [2][maxConcepts]uint8{}
	f.words, f.chars, f.text, f.norm, f.numbers = f.words[:0], f.chars[:0], f.text[:0], f.norm[:0], f.numbers[:0]
}

// copyWindow takes the beginning and the end of a message's text, where it is long, each part on a line of its own. Of
// a text that is still in its JSON form only what is needed is decoded.
func (f *Features) copyWindow(m *llm.Message) {
	f.raw = f.raw[:0]
	total := size(m)
	if total <= 2*windowBytes {
		f.copyRange(m, 0, total)
		return
	}
	f.copyRange(m, 0, windowBytes)
	f.raw = append(f.raw, '\n')
	f.copyRange(m, total-windowBytes, total)
}

func (f *Features) copyRange(m *llm.Message, from, to int) {
	at := 0
	for i := range m.Parts {
		text, _ := m.Parts[i].Text.Plain()
		n := len(text)
		if from < at+n && to > at {
			if len(f.raw) > 0 && at > 0 {
				f.raw = append(f.raw, '\n')
			}
			f.raw = appendPlain(f.raw, m.Parts[i].Text, max(from-at, 0), min(to-at, n))
		}
		at += n
	}
}

// appendPlain appends a part of a string as text. Escapes of a quoted one are taken out roughly: a part can begin in
// the middle of one.
func appendPlain(b []byte, s llm.String, from, to int) []byte {
	text, plain := s.Plain()
	to = min(to, len(text))
	text = text[min(from, to):to]
	if plain {
		return append(b, text...)
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			b = append(b, c)
			continue
		}
		i++
		switch text[i] {
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'r':
			b = append(b, '\r')
		case 'b', 'f':
			b = append(b, ' ')
		case 'u':
			var r rune
			j := i + 1
			for ; j < len(text) && j < i+5; j++ {
				r = r<<4 | rune(hex[text[j]])
			}
			b = appendRune(b, r)
			i = j - 1
		default:
			b = append(b, text[i])
		}
	}
	return b
}

// ln1 is log(1 + n).
func ln1(n int) float32 {
	if n < len(logs) {
		return logs[max(n, 0)]
	}
	return float32(math.Log1p(float64(n)))
}

func share(part, whole int) float32 {
	if whole == 0 {
		return 0
	}
	return float32(part) / float32(whole)
}

// first reports whether a hash is the first of its bucket.
func first(seen *[buckets / 64]uint64, h uint32) bool {
	b := h >> (32 - bucketBits)
	if mask := uint64(1) << (b & 63); seen[b>>6]&mask == 0 {
		seen[b>>6] |= mask
		return true
	}
	return false
}

func (f *Features) word(h uint32) {
	if first(&f.seenW, h) {
		f.words = append(f.words, h)
	}
}

// Bucket is the bucket of a word n-gram's hash.
func Bucket(hash uint32) int { return int(hash >> (32 - bucketBits)) }

// Stats are the plain statistics, until the next Read.
func (f *Features) Stats() []float32 { return f.stats[:] }

// Words are the hashes of word n-grams, one for each bucket that the conversation hits, until the next Read.
func (f *Features) Words() []uint32 { return f.words }

// Chars are the buckets of character n-grams, each once, until the next Read.
func (f *Features) Chars() []uint16 { return f.chars }
