package predict

import (
	"bytes"
	_ "embed"
	"errors"
	"math"
	"sync"
)

// Lines that frame a question are told by their words and form. What is known of these was learned (package learn) from
// what programs of many makes put around questions, and from questions without any.
const (
	frameBits = 13
	// FrameWords is into how many buckets the words of a line are hashed, and NumFrame how many weights there are: theirs,
	// and those of its form.
	FrameWords = 1 << frameBits
	NumFrame   = FrameWords + numForms + frameIdeas
	frameIdeas = 8   // concepts of frame.txt
	frameLine  = 160 // bytes of a line that are looked at
	frameLines = 96  // lines of a text: half of them at its beginning
	frameWords = 28  // words of a line
)

// frameVocabulary has what frames speak of; it is written as the other one is.
//
//go:embed frame.txt
var frameVocabulary string

var frameConcepts = sync.OnceValue(func() *patterns {
	p, err := newPatterns(frameVocabulary)
	if err == nil && len(p.names) != frameIdeas {
		err = errors.New("the list of what frames speak of has another number of concepts")
	}
	if err != nil {
		panic(err) // the file is part of the program, and its test reads it
	}
	return p
})

// What a line's form is.
const (
	formBias = iota
	formHeading
	formBracket
	formBrace
	formTable
	formItem
	formNumbered
	formIndented
	formColon    // "Key: value"
	formAnnounce // ends in a colon
	formQuestion // ends in a question mark
	formPath
	formEquals
	formShort
	formMiddle
	formLong
	formRule // no word
	formStrange
	formParenthesis
	formQuote
	formDate // 2026-03-01, 12:30
	formFile // main.go
	formDense
	formBar // | or · between things
	numForms
)

// frames are the weights: of words, then of forms, and last the scale of a step.
//
//go:embed frame.model
var frames []byte

var frameScale = func() float32 {
	if len(frames) != NumFrame+4 {
		return 0 // it is being made
	}
	b := frames[NumFrame:]
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}()

// Line is what is known of a line: which weights count, each once, the words' as one by the root of their number.
type Line struct {
	Words []uint16
	Forms [numForms + frameIdeas]bool // and concepts

	folded []byte
}

// NewLine makes one that ReadLine fills.
func NewLine() *Line {
	return &Line{Words: make([]uint16, 0, 2*frameWords), folded: make([]byte, 0, frameLine+8)}
}

// ReadLine reads a line, into l.
func ReadLine(line []byte, l *Line) {
	l.Words, l.Forms = l.Words[:0], [numForms + frameIdeas]bool{formBias: true}
	f := &l.Forms
	trimmed := bytes.TrimSpace(line)
	n := len(trimmed)
	if n == 0 {
		return
	}
	f[formIndented] = class[line[0]]&isBlank != 0
	switch c := trimmed[0]; {
	case c == '#':
		f[formHeading] = true
	case c == '[':
		f[formBracket] = true
	case c == '{' || c == '}':
		f[formBrace] = true
	case c == '|':
		f[formTable] = true
	case c == '-' || c == '*' || c == '+':
		f[formItem] = true
	case c == '(':
		f[formParenthesis] = true
	case c == '"' || c == '\'' || c == '>':
		f[formQuote] = true
	case class[c]&isDigit != 0:
		f[formNumbered] = true
	}
	last := trimmed[n-1]
	f[formAnnounce], f[formQuestion] = last == ':', last == '?'
	if i := bytes.IndexByte(trimmed[:min(n, 32)], ':'); i > 0 && i+1 < n && trimmed[i+1] == ' ' {
		f[formColon] = true
	}
	f[formShort], f[formMiddle], f[formLong] = n < 24, n >= 24 && n < 80, n >= 200
	looked := trimmed[:min(n, frameLine)]
	f[formPath] = bytes.Count(looked, []byte{'/'}) > 1
	f[formEquals] = bytes.IndexByte(looked, '=') >= 0
	f[formBar] = bytes.Contains(looked, []byte(" | ")) || bytes.Contains(looked, []byte(" · "))
	marks := 0
	for i := 1; i+2 < len(looked); i++ {
		switch c, k := looked[i], class[looked[i-1]]; {
		case c == '-' || c == ':':
			f[formDate] = f[formDate] || k&isDigit != 0 && class[looked[i+1]]&class[looked[i+2]]&isDigit != 0
		case c == '.':
			f[formFile] = f[formFile] || k&isLetter != 0 && class[looked[i+1]]&isLetter != 0
		}
		if class[looked[i]]&(isLetter|isDigit|isBlank) == 0 {
			marks++
		}
	}
	f[formDense] = marks*6 > len(looked)
	before, words := uint32(0), 0
	for i := 0; i < len(looked) && words < frameWords; {
		if class[looked[i]]&(isLetter|isDigit) == 0 {
			i++
			continue
		}
		h := wordStart
		for ; i < len(looked) && class[looked[i]]&(isLetter|isDigit) != 0; i++ {
			c := lower[looked[i]]
			if class[c]&isDigit != 0 {
				c = '0'
			}
			if c >= 0x80 {
				f[formStrange] = true
			}
			h = (h ^ uint32(c)) * wordPrime
		}
		words++
		l.Words = append(l.Words, uint16(h*spread>>(32-frameBits)), uint16((before*31+h)*spread>>(32-frameBits)))
		before = h
	}
	f[formRule] = words == 0
	l.folded = appendFolded(l.folded[:0], looked)
	for i, c := range l.folded {
		if l.folded[i] = lower[c]; class[c]&isDigit != 0 {
			l.folded[i] = '0'
		}
	}
	var counts [maxConcepts]uint8
	frameConcepts().found(l.folded, nil, &counts)
	for i := range frameIdeas {
		f[numForms+i] = counts[i] > 0
	}
}

// dressed is how much more a line seems to frame a question than to be one, in log odds.
func dressed(l *Line) float32 {
	sum, form := 0, 0
	for _, w := range l.Words {
		sum += int(int8(frames[w]))
	}
	for i, has := range l.Forms {
		if has {
			form += int(int8(frames[FrameWords+i]))
		}
	}
	score := float32(form)
	if n := len(l.Words); n > 0 {
		score += float32(sum) / float32(math.Sqrt(float64(n)))
	}
	return score * frameScale
}

// framer has what separate needs.
type framer struct {
	line   Line
	n      int // lines that are looked at
	begin  [frameLines]int32
	until  [frameLines]int32
	scores [frameLines]float32
	from   [frameLines][2]bool
	framed [frameLines]bool
}

// score scores the lines of a text. Of a long one those in the middle go with the last one before them.
func (r *framer) score(text []byte) {
	late := len(text) // where the lines of its end begin
	for range frameLines / 2 {
		late = max(bytes.LastIndexByte(text[:late], '\n'), 0)
	}
	n, at := 0, 0
	for at <= len(text) && n < frameLines {
		if n == frameLines/2 && late > at {
			at = late + 1
		}
		end := lineEnd(text, at)
		if n > 0 {
			r.until[n-1] = int32(at)
		}
		bare := unlabel(text[at:end])
		r.begin[n] = int32(end - len(bare))
		r.scores[n] = blankLine
		switch {
		case len(bytes.TrimSpace(bare)) == 0:
		case depends(bare):
			if r.scores[n] = 0; n > 0 && r.scores[n-1] != blankLine {
				r.scores[n] = r.scores[n-1]
			}
		default:
			ReadLine(bare, &r.line)
			r.scores[n] = dressed(&r.line)
		}
		n++
		at = end + 1
	}
	if r.n = n; n > 0 {
		r.until[n-1] = int32(len(text))
	}
}

// depends reports whether a line is of the one before it, whatever it says: an option, or code.
func depends(line []byte) bool {
	if _, n := option(line); n > 0 || class[line[0]]&isBlank != 0 {
		return true
	}
	last := bytes.TrimSpace(line)
	switch last[len(last)-1] {
	case ';', '{', '}', ')', ']':
		return true
	}
	return false
}

// unframe takes out the lines of a text that seem to frame a question, in place. Where all of them may, and none surely
// does, the one is left that does least.
func (r *framer) unframe(text []byte) []byte {
	if frameScale == 0 {
		return text
	}
	r.score(text)
	r.decide(r.n)
	r.contrast()
	left, sum, lines := false, float32(0), 0
	for i := range r.n {
		if r.scores[i] != blankLine {
			left = left || !r.framed[i]
			sum += r.scores[i]
			lines++
		}
	}
	if !left && sum < sure*float32(lines) {
		r.leave()
	}
	return r.keep(text)
}

// contrast takes out paragraphs that may be of a question, where another one is so by far.
func (r *framer) contrast() {
	best, kept := -1, float32(0)
	for begin := 0; begin < r.n; {
		end, of, _ := r.paragraph(begin)
		if of < kept {
			best, kept = begin, of
		}
		begin = end
	}
	kept = max(kept, -clear)
	for begin := 0; begin < r.n; {
		end, _, all := r.paragraph(begin)
		for i := begin; i < end && begin != best && all != 0 && all > kept*weak; i++ {
			r.framed[i] = true
		}
		begin = end
	}
}

// paragraph is where the paragraph ends that begins at a line, or the blank line, and the mean score of what of it is
// no frame, 0 for nothing, and of all of it.
func (r *framer) paragraph(begin int) (end int, kept, all float32) {
	var n, keeps float32
	for end = begin; end < r.n && r.scores[end] != blankLine; end++ {
		score := min(max(r.scores[end], -3), 3)
		all += score
		n++
		if !r.framed[end] {
			kept += score
			keeps++
		}
	}
	return max(end, begin+1), kept / max(keeps, 1), all / max(n, 1)
}

const (
	clear = 2.5 // how much more than a frame a paragraph need at most seem to be a question, for others to be none
	weak  = 0.5 // of that, which others must reach
)

// sure is how much more than a question the lines of a message must seem to be a frame, in the mean, for the question
// to be looked for elsewhere.
const sure = 1.2

// leave leaves the line that seems least to be a frame, and what is like it in its paragraph.
func (r *framer) leave() {
	least := -1
	for i := range r.n {
		if r.scores[i] != blankLine && (least < 0 || r.scores[i] < r.scores[least]) {
			least = i
		}
	}
	for i := least; i >= 0 && r.alike(i, least); i-- {
		r.framed[i] = false
	}
	for i := least; i >= 0 && i < r.n && r.alike(i, least); i++ {
		r.framed[i] = false
	}
}

func (r *framer) alike(i, least int) bool {
	return r.scores[i] != blankLine && r.scores[i] < r.scores[least]+1
}

// gist is what of a text that is nothing but frames seems least to be one.
func (r *framer) gist(text []byte) []byte {
	text = untag(text)
	r.score(text)
	for i := range r.n {
		r.framed[i] = true
	}
	r.leave()
	return bytes.TrimSpace(r.keep(text))
}

// keep moves the lines that are no frame to the front of the text.
func (r *framer) keep(text []byte) []byte {
	out := 0
	for i := range r.n {
		if !r.framed[i] {
			out += copy(text[out:], text[r.begin[i]:r.until[i]])
		}
	}
	return text[:out]
}

// decide finds the likeliest course of n lines between frame and question, where it costs something to go from one to
// the other, and more so within a paragraph (Viterbi).
func (r *framer) decide(n int) {
	var cost [2]float32 // of the best course so far that ends in a question, or in a frame
	for i := range n {
		change := float32(changeInside)
		if i > 0 && r.scores[i-1] == blankLine || r.scores[i] == blankLine {
			change = changeBetween
		}
		score := min(max(r.scores[i], -3), 3)
		if r.scores[i] == blankLine {
			score = 0
		}
		toQuestion, toFrame := cost[1]+change < cost[0], cost[0]+change < cost[1]
		r.from[i] = [2]bool{toQuestion, !toFrame}
		cost = [2]float32{min(cost[0], cost[1]+change) + score/2, min(cost[1], cost[0]+change) - score/2}
	}
	framed := cost[1] < cost[0]
	for i := n - 1; i >= 0; i-- {
		r.framed[i] = framed
		if framed {
			framed = r.from[i][1]
		} else {
			framed = r.from[i][0]
		}
	}
}

// What it costs to change between frame and question, in log odds.
const (
	changeInside  = 0.8
	changeBetween = 0.5
)

const blankLine = -1000
