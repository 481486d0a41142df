package predict

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"sync"
)

// Lines that frame a question are told by their words and form. What is known of these was learned (package learn) from
// what programs of many makes put around questions, and from questions without any.
const (
	frameBits = 13
	// FrameWords is into how many buckets the words of a line are hashed, and NumFrame how many weights there are: theirs,
	// and those of its form and of the concepts in it.
	FrameWords = 1 << frameBits
	NumFrame   = FrameWords + numMarks
	numMarks   = numForms + frameIdeas + maxConcepts
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

// FrameModel tells what of a message frames a question: of a line by its words and form, and then by where it stands
// and what the others are.
type FrameModel struct {
	Weights []int8  // of words, then of forms
	Scale   float32 // of a step of these
	Course  Course
}

//go:embed frame.model
var frameFile []byte

var frames = sync.OnceValue(func() *FrameModel {
	m, err := readFrameModel(frameFile)
	if err != nil {
		panic(err) // the file is part of the program, and its test reads it
	}
	return m
})

// readFrameModel reads what Encode wrote.
func readFrameModel(file []byte) (*FrameModel, error) {
	m := &FrameModel{}
	numbers := m.numbers()
	if len(file) != NumFrame+4*len(numbers) {
		return nil, errors.New("what tells the frames of questions has another size")
	}
	for _, b := range file[:NumFrame] {
		m.Weights = append(m.Weights, int8(b))
	}
	for i, v := range numbers {
		*v = math.Float32frombits(binary.LittleEndian.Uint32(file[NumFrame+4*i:]))
	}
	return m, nil
}

// Encode is the model as frame.model has it.
func (m *FrameModel) Encode() []byte {
	out := make([]byte, 0, NumFrame+4*len(m.numbers()))
	for _, w := range m.Weights {
		out = append(out, byte(w))
	}
	for _, v := range m.numbers() {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(*v))
	}
	return out
}

func (m *FrameModel) numbers() []*float32 { return append([]*float32{&m.Scale}, m.Course.Numbers()...) }

// Line is what is known of a line: which weights count, each once, the words' as one by the root of their number.
type Line struct {
	Words []uint16
	Forms [numMarks]bool // and concepts

	asked   Asked
	folded  []byte
	numbers []number
}

// NewLine makes one that ReadLine fills.
func NewLine() *Line {
	return &Line{Words: make([]uint16, 0, 2*frameWords), folded: make([]byte, 0, frameLine+8),
		numbers: make([]number, 0, mostNumbers)}
}

// ReadLine reads a line, into l.
func ReadLine(line []byte, l *Line) {
	l.Words, l.Forms, l.asked = l.Words[:0], [numMarks]bool{formBias: true}, Asked{}
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
	l.maskNumbers()
	var counts [maxConcepts]uint8
	frameConcepts().found(l.folded, nil, &counts)
	for i := range frameIdeas {
		f[numForms+i] = counts[i] > 0
	}
	clear(counts[:])
	l.asked = concepts().found(l.folded, l.numbers, &counts)
	for i, n := range counts {
		f[numForms+frameIdeas+i] = n > 0
	}
}

// maskNumbers makes small letters, and 0 of digits; the numbers are kept.
func (l *Line) maskNumbers() {
	l.numbers = l.numbers[:0]
	value, in := 0.0, false
	for i, c := range l.folded {
		digit := class[c]&isDigit != 0
		if in && !digit && len(l.numbers) < cap(l.numbers) {
			l.numbers = append(l.numbers, number{value, i})
		}
		if digit {
			value, in = value*10+float64(c-'0'), true
			c = '0'
		} else {
			value, in = 0, false
		}
		l.folded[i] = lower[c]
	}
}

// dressed is how much more a line seems to frame a question than to be one, in log odds, by itself.
func (m *FrameModel) dressed(l *Line) float32 {
	sum, form := 0, 0
	for _, w := range l.Words {
		sum += int(m.Weights[w])
	}
	for i, has := range l.Forms {
		if has {
			form += int(m.Weights[FrameWords+i])
		}
	}
	score := float32(form)
	if n := len(l.Words); n > 0 {
		score += float32(sum) / float32(math.Sqrt(float64(n)))
	}
	return score * m.Scale
}
