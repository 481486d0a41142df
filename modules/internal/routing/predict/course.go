package predict

import (
	"bytes"
)

// What of a message is the question is told by a small net, line by line, from how each line, its paragraph and the
// others look by themselves, where they stand, and where a label ("Question:") announces a question. It was trained on
// messages put together of questions and of what programs put around them (package learn).

// What the net knows of a line.
const (
	courseBias  = iota
	courseScore // of the line by itself (FrameModel.Weights)
	courseBefore
	courseAfter // of the lines beside it in its paragraph
	courseMean
	courseLeast
	courseMost // of its paragraph
	courseOther
	courseApart // of the other paragraph that is most like a question, and by how much this one is less so
	courseAlone // there is no other paragraph
	courseFirst
	courseSecond
	courseLast
	courseLastButOne // its paragraph, of some
	courseBegins
	courseEnds
	courseSingle   // where in its paragraph
	courseLabelled // a label was before it
	courseUnder    // a label is earlier in its paragraph, or announces it
	courseLabelLater
	courseLabelEarlier
	courseBare // it is a label
	courseAnnounced
	courseAnnounces // by a colon
	courseBytes
	courseShare // of its paragraph, of all
	courseAsks
	courseOtherAsks // a question mark in its paragraph, or in another one
	courseDepends   // an option, or code
	courseRuleBefore
	courseRuleAfter // lines without words ("---")
	courseParagraphs
	courseBrackets // before it, taken off with labels
	courseEnclosed // it is in brackets
	courseBrace
	courseKey // "Key: value"
	courseItem
	courseMachine // a path, a date, a file or many marks
	courseShort
	courseLong
	courseKeys // share of its paragraph's lines that begin with a key, a bracket or the mark of an item
	NumCourse

	courseUnits = 24
)

// Course is the net.
type Course struct {
	Hidden [courseUnits][NumCourse]float32
	Out    [courseUnits]float32
	Direct [NumCourse]float32
}

// Numbers are its weights.
func (c *Course) Numbers() (out []*float32) {
	for i := range c.Hidden {
		for j := range c.Hidden[i] {
			out = append(out, &c.Hidden[i][j])
		}
		out = append(out, &c.Out[i])
	}
	for j := range c.Direct {
		out = append(out, &c.Direct[j])
	}
	return out
}

// odds is how much likelier a line is a frame, in log odds.
func (c *Course) odds(x *[NumCourse]float32) float32 {
	sum := dot(c.Direct[:], x[:])
	for i := range c.Hidden {
		if v := dot(c.Hidden[i][:], x[:]); v > 0 {
			sum += v * c.Out[i]
		}
	}
	return sum
}

// framer finds the question in a text. It has what separate needs.
type framer struct {
	line   Line
	n      int // lines that are looked at
	x      [NumCourse]float32
	begin  [frameLines]int32
	until  [frameLines]int32
	scores [frameLines]float32 // by itself; then of all that is known
	facts  [frameLines]lineFacts
	from   [frameLines][2]bool
	framed [frameLines]bool
	asked  Asked // at most or at least, in some line
}

type lineFacts struct {
	labelled, bare, asks, announces            bool
	rule, brackets, enclosed, brace, key, item bool
	machine, short, long, foreign              bool
	depends, option                            bool // on the line before
}

// score scores the lines of a text by themselves. Of a long one those in the middle go with the last one before them.
func (r *framer) score(m *FrameModel, text []byte) {
	r.asked = Asked{}
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
		line := text[at:end]
		rest, labelled, bare := unlabel(line)
		r.begin[n] = int32(end - len(rest))
		r.scores[n], r.facts[n] = blankLine, lineFacts{labelled: labelled, bare: bare}
		if trimmed := bytes.TrimSpace(rest); len(trimmed) > 0 {
			f := &r.facts[n]
			f.asks = asksSomething(trimmed)
			f.announces = endsInColon(trimmed)
			f.rule = !says(trimmed)
			ReadLine(rest, &r.line)
			r.scores[n] = m.dressed(&r.line)
			if r.line.asked.bounded {
				r.asked = r.asked.or(r.line.asked)
			}
			forms := &r.line.Forms
			f.brackets = trimmedBracket(line) && len(rest) < len(line)
			f.brace, f.key, f.item = forms[formBrace], forms[formColon], forms[formItem] || forms[formNumbered]
			f.machine = forms[formPath] || forms[formDate] || forms[formFile] || forms[formDense]
			f.foreign = forms[formStrange]
			f.short, f.long = forms[formShort], forms[formLong]
			_, mark := option(rest)
			f.option = mark > 0
			f.depends, f.enclosed = depends(rest), enclosed(bytes.TrimSpace(line))
		}
		n++
		at = end + 1
	}
	if r.n = n; n > 0 {
		r.until[n-1] = int32(len(text))
	}
}

// enclosed reports whether a line is between two brackets.
func enclosed(line []byte) bool {
	for _, pair := range []string{"[]", "()", "{}", "<>", "【】", "**", "--", "=="} {
		half := len(pair) / 2
		front, rear := []byte(pair[:half]), []byte(pair[half:])
		if len(line) > len(pair) && bytes.HasPrefix(line, front) && bytes.HasSuffix(line, rear) {
			return true
		}
	}
	return false
}

func trimmedBracket(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && line[0] == '['
}

func asksSomething(line []byte) bool {
	return bytes.IndexByte(line, '?') >= 0 || bytes.Contains(line, []byte("？")) || bytes.Contains(line, []byte("؟"))
}

func endsInColon(line []byte) bool {
	return line[len(line)-1] == ':' || bytes.HasSuffix(line, []byte("：")) || bytes.HasSuffix(line, []byte(":**"))
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

// paragraph is a run of lines without blank ones.
type paragraph struct {
	begin, end        int // lines
	mean, least, most float32
	bytes, keys       float32
	asks              bool
}

// paragraphs finds those of the text, into list.
func (r *framer) paragraphs(list []paragraph) []paragraph {
	for begin := 0; begin < r.n; {
		if r.scores[begin] == blankLine {
			begin++
			continue
		}
		p := paragraph{begin: begin, end: begin, least: clipped, most: -clipped}
		for ; p.end < r.n && r.scores[p.end] != blankLine; p.end++ {
			s := min(max(r.scores[p.end], -clipped), clipped)
			p.mean, p.least, p.most = p.mean+s, min(p.least, s), max(p.most, s)
			p.asks = p.asks || r.facts[p.end].asks
			f := &r.facts[p.end]
			p.keys += truth(f.key || f.item || f.brackets || f.brace)
			p.bytes += float32(r.until[p.end] - r.begin[p.end])
		}
		p.mean /= float32(p.end - p.begin)
		p.keys /= float32(p.end - p.begin)
		list = append(list, p)
		begin = p.end
	}
	return list
}

// clipped is how much a line by itself can say at most, in log odds.
const clipped = 4

// look fills in what the net knows of each line, and calls use with it.
func (r *framer) look(use func(line int, x *[NumCourse]float32)) {
	var room [frameLines]paragraph
	list := r.paragraphs(room[:0])
	lastLabel, lastRule, firstLabel := -1, -1, -1
	total, asking := float32(1), 0
	for i := range r.n {
		if f := &r.facts[i]; f.labelled || f.bare {
			lastLabel = i
			if firstLabel < 0 {
				firstLabel = i
			}
		}
		if r.facts[i].rule {
			lastRule = i
		}
	}
	for i := range list {
		total += list[i].bytes
		asking += int(truth(list[i].asks))
	}
	announced, rules := false, false
	for at := range list {
		p := &list[at]
		other := float32(clipped)
		for i := range list {
			if i != at {
				other = min(other, list[i].mean)
			}
		}
		under := at > 0 && r.facts[list[at-1].end-1].bare
		for i := p.begin; i < p.end; i++ {
			f := &r.facts[i]
			under = under || f.labelled || i > p.begin && r.facts[i-1].bare
			x := &r.x
			*x = [NumCourse]float32{
				courseBias:         1,
				courseScore:        min(max(r.scores[i], -clipped), clipped),
				courseMean:         p.mean,
				courseLeast:        p.least,
				courseMost:         p.most,
				courseAlone:        truth(len(list) == 1),
				courseBegins:       truth(i == p.begin),
				courseEnds:         truth(i == p.end-1),
				courseSingle:       truth(p.end-p.begin == 1),
				courseLabelled:     truth(f.labelled),
				courseUnder:        truth(under),
				courseLabelLater:   truth(lastLabel > i),
				courseLabelEarlier: truth(firstLabel >= 0 && firstLabel < i && !under),
				courseBare:         truth(f.bare),
				courseAnnounced:    truth(announced),
				courseAnnounces:    truth(f.announces),
				courseBytes:        logs[min(int(p.bytes), len(logs)-1)] / 4,
				courseShare:        p.bytes / total,
				courseAsks:         truth(p.asks),
				courseOtherAsks:    truth(asking > int(truth(p.asks))),
				courseDepends:      truth(f.depends),
				courseRuleBefore:   truth(rules),
				courseRuleAfter:    truth(lastRule > i),
				courseParagraphs:   logs[len(list)],
				courseBrackets:     truth(f.brackets),
				courseEnclosed:     truth(f.enclosed),
				courseBrace:        truth(f.brace),
				courseKey:          truth(f.key),
				courseItem:         truth(f.item),
				courseMachine:      truth(f.machine),
				courseShort:        truth(f.short),
				courseLong:         truth(f.long),
				courseKeys:         p.keys,
			}
			if i > p.begin {
				x[courseBefore] = min(max(r.scores[i-1], -clipped), clipped)
			}
			if i+1 < p.end {
				x[courseAfter] = min(max(r.scores[i+1], -clipped), clipped)
			}
			if len(list) > 1 {
				x[courseOther], x[courseApart] = other, p.mean-other
				x[courseFirst], x[courseLast] = truth(at == 0), truth(at == len(list)-1)
				x[courseSecond], x[courseLastButOne] = truth(at == 1), truth(at == len(list)-2)
			}
			use(i, x)
			announced, rules = f.announces, rules || f.rule
		}
	}
}

func truth(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// unframe takes out the lines of a text that seem to frame a question, in place. Where all of them may, and none
// surely does, the one is left that does least.
func (r *framer) unframe(text []byte) []byte {
	r.judge(text)
	r.decide()
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

// judge scores the lines of a text by all that is known of them. Options go with what they are options of, and code
// with the line before it.
func (r *framer) judge(text []byte) {
	m := frames()
	r.score(m, text)
	var odds [frameLines]float32
	r.look(func(i int, x *[NumCourse]float32) { odds[i] = m.Course.odds(x) })
	lead := -1 // the last line that options may belong to
	for i := range r.n {
		f := &r.facts[i]
		if r.scores[i] == blankLine {
			continue
		}
		switch {
		case f.option && lead >= 0:
			odds[i] = odds[lead]
		case f.depends && i > 0 && r.scores[i-1] != blankLine:
			odds[i] = odds[i-1]
		case !f.option && !(f.announces && f.short): // "Options:"
			lead = i
		}
		r.scores[i] = odds[i]
	}
}

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

// findGist is what of a text that is nothing but frames seems least to be one.
func (r *framer) findGist(text []byte) []byte {
	text = untag(text)
	r.judge(text)
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

// decide finds the likeliest course of lines between frame and question, where it costs something to go from one to
// the other, and more so within a paragraph (Viterbi).
func (r *framer) decide() {
	var cost [2]float32 // of the best course so far that ends in a question, or in a frame
	for i := range r.n {
		change := float32(changeInside)
		if i > 0 && r.facts[i].foreign != r.facts[i-1].foreign {
			change = changeScript
		}
		if i > 0 && r.scores[i-1] == blankLine || r.scores[i] == blankLine {
			change = changeBetween
		}
		score := min(max(r.scores[i], -mostOdds), mostOdds)
		if r.scores[i] == blankLine {
			score = 0
		}
		toQuestion, toFrame := cost[1]+change < cost[0], cost[0]+change < cost[1]
		r.from[i] = [2]bool{toQuestion, !toFrame}
		cost = [2]float32{min(cost[0], cost[1]+change) + score/2, min(cost[1], cost[0]+change) - score/2}
	}
	framed := cost[1] < cost[0]
	for i := r.n - 1; i >= 0; i-- {
		r.framed[i] = framed
		if framed {
			framed = r.from[i][1]
		} else {
			framed = r.from[i][0]
		}
	}
}

// What it costs to change between frame and question, in log odds, and what a line can say at most.
const (
	changeInside  = 1.2
	changeBetween = 0.3
	changeScript  = 0.4
	mostOdds      = 4
)

const blankLine = -1000

// FrameLine is a line of a text, for training.
type FrameLine struct {
	Blank bool
	X     [NumCourse]float32 // what the net knows of it
}

// FrameLines are the lines of a text that a model looks at.
func FrameLines(m *FrameModel, text []byte) []FrameLine {
	r := &framer{line: *NewLine()}
	r.score(m, text)
	out := make([]FrameLine, r.n)
	for i := range out {
		out[i].Blank = r.scores[i] == blankLine
	}
	r.look(func(i int, x *[NumCourse]float32) { out[i].X = *x })
	return out
}

// Odds is how much likelier a line is a frame, in log odds (for training).
func (c *Course) Odds(x *[NumCourse]float32) float64 { return float64(c.odds(x)) }
