package predict

import (
	"math"
	"math/bits"

	"github.com/fareway/fareway/plugins/llm"
)

// How much of a conversation is looked at, and into how many buckets its n-grams are hashed.
const (
	headBytes = 768
	tailBytes = 1280
	maxBytes  = headBytes + tailBytes
	// endBytes is of what stands behind the user's last text, such as the results of tools.
	endBytes = 640

	bucketBits = 15
	buckets    = 1 << bucketBits // of word n-grams, and as many of character n-grams
)

// The plain statistics of a conversation.
const (
	statLength      = iota // log of the bytes of the text that users wrote
	statFocus              // log of the bytes of the question itself (see focus)
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
	statTools              // log of the number of tools
	statSchema             // log of the bytes of their schemas
	statTurns              // log of the user's turns
	statToolTurn           // the last message is a tool's
	statToolErrors         // log of the failed tools
	statSystem             // log of the bytes of the system prompt
	statFormat             // structured output is asked for
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

	text  []byte // what is looked at
	norm  []byte // the same in small letters without runs of blanks
	seenW [buckets / 64]uint64
	seenC [buckets / 64]uint64
	seen  [64]uint64 // hashed words, for statDistinct

	end   *Features // of what stands behind the user's last text: what there is to go on with, and not the task
	ended bool      // something does
}

// NewFeatures makes features that Read fills.
func NewFeatures() *Features {
	f := newFeatures(maxBytes)
	f.end = newFeatures(endBytes)
	return f
}

func newFeatures(most int) *Features {
	return &Features{
		words: make([]uint32, 0, 2*most),
		chars: make([]uint16, 0, most),
		text:  make([]byte, 0, most+64),
		norm:  make([]byte, 0, most+64),
	}
}

// Read fills the features from a request: from the head and the tail of what users wrote, which say what the task is,
// and apart from that from the end of what was said since.
func (f *Features) Read(req *llm.Request) {
	f.reset()
	var first, last, user, system, failed, turns int
	first = -1
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case llm.RoleUser:
			if first < 0 {
				first = i
			}
			last = i
			turns++
			user += size(m)
		case llm.RoleSystem:
			system += size(m)
		case llm.RoleTool:
			if m.IsError {
				failed++
			}
		}
	}
	s := &f.stats
	schemas := 0
	for i := range req.Tools {
		schemas += len(req.Tools[i].Schema) + len(req.Tools[i].Description)
	}
	s[statLength] = ln1(user)
	s[statSystem] = ln1(system)
	s[statTurns] = ln1(max(turns-1, 0))
	s[statTools] = ln1(len(req.Tools))
	s[statSchema] = ln1(schemas)
	s[statToolErrors] = ln1(failed)
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == llm.RoleTool {
		s[statToolTurn] = 1
	}
	if req.Format != nil {
		s[statFormat] = 1
	}
	if first < 0 {
		f.readEnd(req.Messages)
		return
	}
	f.readEnd(req.Messages[last+1:])
	// The last text of the user's says what is wanted; the first one says what the conversation is about.
	room := maxBytes
	if last != first && size(&req.Messages[last]) < tailBytes {
		f.copyText(&req.Messages[first], headBytes/2, 0)
		f.text = append(f.text, "\n\n"...)
		room -= len(f.text)
	}
	f.copyText(&req.Messages[last], room-tailBytes, tailBytes)
	f.readText()
}

// readEnd reads the last bytes of what was said since the user's last text. The numbers of the whole request are the
// same for it.
func (f *Features) readEnd(since []llm.Message) {
	begin, room := len(since), endBytes
	for begin > 0 && room > 0 {
		begin--
		if n := size(&since[begin]); n > 0 && since[begin].Role != llm.RoleSystem {
			room -= n + 1
		}
	}
	if f.ended = room < endBytes; !f.ended {
		return
	}
	e := f.end
	e.reset()
	e.stats = f.stats
	for i := begin; i < len(since); i++ {
		if m := &since[i]; m.Role != llm.RoleSystem && size(m) > 0 {
			n := size(m)
			e.copyRange(m, max(-room, 0), n)
			e.text = append(e.text, '\n')
			room = 0
		}
	}
	e.readText()
	f.ended = len(e.words) > 0
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
	f.words, f.chars, f.text, f.norm = f.words[:0], f.chars[:0], f.text[:0], f.norm[:0]
}

// copyText appends the first head and the last tail bytes of a message's text. Of a text that is still in its JSON
// form only what is needed is decoded.
func (f *Features) copyText(m *llm.Message, head, tail int) {
	total := size(m)
	if total <= head+tail {
		for i := range m.Parts {
			f.text = appendPlain(f.text, m.Parts[i].Text, 0, 1<<62)
		}
		return
	}
	f.copyRange(m, 0, head)
	if tail > 0 {
		f.copyRange(m, total-tail, total)
	}
}

func (f *Features) copyRange(m *llm.Message, from, to int) {
	at := 0
	for i := range m.Parts {
		text, _ := m.Parts[i].Text.Plain()
		n := len(text)
		if from < at+n && to > at {
			f.text = appendPlain(f.text, m.Parts[i].Text, max(from-at, 0), min(to-at, n))
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

func popcount(set *[64]uint64) int {
	n := 0
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}

// Stats are the plain statistics, until the next Read.
func (f *Features) Stats() []float32 { return f.stats[:] }

// Words are the hashes of word n-grams, one for each bucket that the conversation hits, until the next Read.
func (f *Features) Words() []uint32 { return f.words }

// Chars are the buckets of character n-grams, each once, until the next Read.
func (f *Features) Chars() []uint16 { return f.chars }
