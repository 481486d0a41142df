package learn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How lines that frame questions are told. Chosen by makes of dress that training has not seen.
const (
	frameCost   = 15
	frameEpochs = 20
	frameBias   = 0.8
)

// TrainFrames learns what of a message frames a question, from the dresses of a corpus that training may see and its
// prompts. It makes predict/frame.model: weights of lines by themselves, and the net that reads what these say of the
// lines of whole messages, which are put together of prompts and dresses that the weights have not seen.
func TrainFrames(c *Corpus, seed uint64) []byte {
	seen := c.seen()
	m := trainLines(seen, seed)
	var rows []courseRow
	for fold := range folds {
		apart, of := seen.parts(fold)
		rows = append(rows, courseRows(trainLines(apart, seed), of, seed+uint64(fold))...)
	}
	m.Course = trainCourse(rows, seed)
	return m.Encode()
}

// seen is what of a corpus training may see.
func (c *Corpus) seen() *Corpus {
	return c.only(func(key string) bool { return !heldOut(key) })
}

// parts are a corpus without a fold of its makes of dress and of its prompts, and the fold.
func (c *Corpus) parts(fold int) (others, of *Corpus) {
	in := func(key string) bool { return int(question("frame "+key)%folds) == fold }
	return c.only(func(key string) bool { return !in(key) }), c.only(in)
}

// only is what of a corpus has keys (makes, ids, what is the same) that are kept.
func (c *Corpus) only(keep func(key string) bool) *Corpus {
	out := &Corpus{}
	for _, g := range c.Prompts {
		if key := g.key(); keep(key) {
			out.Prompts = append(out.Prompts, g)
		}
	}
	list := func(all []Dress) (some []Dress) {
		for _, d := range all {
			if keep(d.Make) {
				some = append(some, d)
			}
		}
		return some
	}
	d := &c.Dresses
	out.Dresses = Dresses{System: list(d.System), Before: list(d.Before), Behind: list(d.Behind), Wrap: list(d.Wrap),
		Plain: d.Plain}
	return out
}

// trainLines learns which lines frame a question by themselves.
func trainLines(c *Corpus, seed uint64) *predict.FrameModel {
	var xs []sparse
	var y [][]float64
	var count [2]float64
	add := func(text string, framed bool) {
		const most, mostContent = 40, 3 // lines: behind its first ones a question has what it is about
		seen := 0
		for line := range bytes.Lines(predict.Untag([]byte(text))) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if len(bytes.TrimSpace(line)) == 0 || seen == most {
				continue
			}
			seen++
			if !framed && seen > mostContent {
				break
			}
			label := 0.0
			if framed {
				label = 1
			}
			xs, y = append(xs, lineVector(line)), append(y, []float64{label})
			count[int(label)]++
		}
	}
	for _, list := range [][]Dress{c.Dresses.Before, c.Dresses.Behind, c.Dresses.Wrap, c.Dresses.System} {
		for _, d := range list {
			add(strings.ReplaceAll(d.Text, "{question}", "\n"), true)
		}
	}
	for _, d := range c.Dresses.Plain {
		add(d.Text, false)
	}
	for i := range c.Prompts {
		add(c.Prompts[i].Prompt, false)
	}
	var pick []int
	for i := range xs {
		if y[i][0] == 1 { // as much as questions have lines
			for range int(count[0]/count[1]/2) - 1 {
				xs, y = append(xs, xs[i]), append(y, y[i])
			}
		}
	}
	for i := range xs {
		pick = append(pick, i)
	}
	w := logistic(xs, y, pick, predict.NumFrame, 1, nil, nil, frameCost, frameEpochs, seed)
	for i := predict.FrameWords; i < len(w); i++ {
		w[i] *= formWeight
	}
	w[predict.FrameWords] += frameBias
	top := float32(1e-9)
	for _, v := range w {
		top = max(top, v, -v)
	}
	m := &predict.FrameModel{Scale: top / 127}
	for _, v := range w {
		m.Weights = append(m.Weights, int8(math.Round(float64(v/top*127))))
	}
	return m
}

// formWeight is that of a line's form beside its words.
const formWeight = 0.5

func lineVector(line []byte) (x sparse) {
	l := predict.NewLine()
	predict.ReadLine(line, l)
	slices.Sort(l.Words)
	v := 1 / float32(math.Sqrt(float64(max(len(l.Words), 1))))
	for i, w := range l.Words {
		if i > 0 && w == l.Words[i-1] {
			x.value[len(x.value)-1] += v
			continue
		}
		x.at, x.value = append(x.at, int32(w)), append(x.value, v)
	}
	for i, has := range l.Forms {
		if has {
			x.at, x.value = append(x.at, int32(predict.FrameWords+i)), append(x.value, formWeight)
		}
	}
	return x
}

// courseRow is a line of a message.
type courseRow struct {
	x      [predict.NumCourse]float32
	framed float64
	weight float64
}

// asMarked puts a mark at the end of each line of a question, by which its lines are known in a message.
const asMarked = "\x01"

func markLines(question string) string {
	return strings.ReplaceAll(question, "\n", asMarked+"\n") + asMarked
}

// courseRows are the lines of messages put together of a corpus's prompts and dresses, and of its prompts alone.
func courseRows(m *predict.FrameModel, c *Corpus, seed uint64) []courseRow {
	var rows []courseRow
	o := composer{c: c, random: rand.New(rand.NewPCG(seed, 21))}
	for i := range c.Prompts {
		for n := range bareTimes + dressedTimes {
			text := markLines(c.Prompts[i].Prompt)
			if n >= bareTimes {
				text = o.message(text)
			}
			rows = append(rows, messageRows(m, text)...)
		}
	}
	for _, d := range c.Dresses.Plain {
		for range plainTimes {
			rows = append(rows, messageRows(m, markLines(d.Text))...)
		}
	}
	return rows
}

// How often each prompt is seen as it is, and in a message, and what only looks like a frame.
const bareTimes, dressedTimes, plainTimes = 6, 16, 5

func messageRows(m *predict.FrameModel, marked string) []courseRow {
	text := predict.Untag([]byte(marked))
	var clean []byte
	var asked []bool
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		asked = append(asked, bytes.Contains(line, []byte(asMarked)))
		clean = append(append(clean, bytes.ReplaceAll(line, []byte(asMarked), nil)...), '\n')
	}
	var rows []courseRow
	lines := predict.FrameLines(m, clean[:len(clean)-1])
	if len(lines) != len(asked) {
		return nil // too long a message
	}
	count := [2]float64{}
	for i := range lines {
		if !lines[i].Blank {
			count[int(truthOf(!asked[i]))]++
		}
	}
	for i := range lines {
		if lines[i].Blank {
			continue
		}
		framed := truthOf(!asked[i])
		rows = append(rows, courseRow{lines[i].X, framed, 1 / math.Sqrt(count[int(framed)])})
	}
	return rows
}

func truthOf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// composer puts messages together.
type composer struct {
	c      *Corpus
	random *rand.Rand
}

func (o *composer) one(list []Dress) string {
	if len(list) == 0 {
		return ""
	}
	return list[o.random.IntN(len(list))].Text
}

// message is a message with a question in it.
func (o *composer) message(question string) string {
	d := &o.c.Dresses
	if o.random.Float64() < .35 {
		question = strings.ReplaceAll(o.one(d.Wrap), "{question}", question)
	} else if o.random.Float64() < .25 {
		question = o.label() + question
	}
	blocks := []string{question}
	for o.random.Float64() < .55 && len(blocks) < 4 {
		before := ""
		switch draw(o.random, []float64{.6, .1, .3}) {
		case 0:
			before = o.one(d.Before)
		case 1:
			before = o.one(d.System)
		default:
			before = o.documents()
		}
		blocks = append([]string{before}, blocks...)
	}
	for o.random.Float64() < .4 && len(blocks) < 5 {
		behind := o.one(d.Behind)
		if o.random.Float64() < .1 {
			behind = o.documents()
		}
		blocks = append(blocks, behind)
	}
	gap := "\n\n"
	if o.random.Float64() < .25 {
		gap = "\n"
	}
	for i := 1; i < len(blocks); i++ {
		if o.random.Float64() < .12 {
			blocks[i] = rules[o.random.IntN(len(rules))] + gap + blocks[i]
		}
	}
	text := strings.Join(blocks, gap)
	if o.random.Float64() < .12 {
		text = strings.ReplaceAll(o.one(d.Wrap), "{question}", text)
	}
	return text
}

// What stands before passages, and before the question behind them.
var (
	rules        = []string{"---", "----", "-----", "=====", "***", "* * *", "###", "~~~~", "________", "<<<>>>", "—"}
	passageHeads = []string{"[%d] ", "Document %d: ", "(%d) ", "--- %d ---\n", "# %d\n", "%d. ", "## Source %d\n",
		"Passage %d\n", "Abschnitt %d: ", "Extrait %d : ", "Fragmento %d: ", "<doc id=\"%d\">\n", "Документ %d: ", "文档%d：",
		"資料%d：", "Document %d. ", "File %d: ", "Page %d\n", "--- doc %d ---\n", "Result %d (0.7%[1]d)\n", "§%d ", "",
		"[%d] (notes/%[1]d.md, 0.6%[1]d) ", "Item %d | ", "• %d — ", "*** %d ***\n", ""}
	askLabels = []string{"Question: ", "Q: ", "Query: ", "My question: ", "User: ", "Task: ", "Message:\n", "Request: ",
		"## Question\n", "--- question ---\n", "Frage: ", "Pregunta: ", "Domanda: ", "Pergunta: ", "Вопрос: ", "Питання: ",
		"问题：", "质問：", "질문: ", "السؤال: ", "שאלה: ", "प्रश्न: ", "Soru: ", "Câu hỏi: ", "Pertanyaan: ", "Vraag: ", "Pytanie: ",
		"Otázka: ", "Fråga: ", "Question : ", "**Question:** ", "User question: ", "Customer message: "}
)

func (o *composer) label() string { return askLabels[o.random.IntN(len(askLabels))] }

// documents are passages, as of a search: of other prompts' own texts, which nothing in a line itself tells from what
// is asked about.
func (o *composer) documents() string {
	head := passageHeads[o.random.IntN(len(passageHeads))]
	var out []string
	for n := 1 + o.random.IntN(5); len(out) < n; {
		text := o.passage()
		if text == "" {
			return strings.Join(out, "\n\n")
		}
		if strings.Contains(head, "%") {
			text = fmt.Sprintf(head, len(out)+1) + text
		}
		if strings.HasPrefix(head, "<") {
			text += "\n</doc>"
		}
		out = append(out, text)
	}
	gap := "\n\n"
	if o.random.IntN(2) == 0 {
		gap = "\n"
	}
	return strings.Join(out, gap)
}

// passage is the longest paragraph of some prompt that has a long one, without questions.
func (o *composer) passage() string {
	const long = 160
	for range 200 {
		g := &o.c.Prompts[o.random.IntN(len(o.c.Prompts))]
		if g.Kind != "extract" && g.Kind != "translate" && g.Kind != "writing" && g.Kind != "facts" {
			continue
		}
		best := ""
		for _, p := range strings.Split(g.Prompt, "\n\n") {
			if len(p) > len(best) && !strings.ContainsAny(p, "?？؟") {
				best = p
			}
		}
		if len(best) >= long && len(best) < len(g.Prompt) {
			return strings.TrimSpace(best)
		}
	}
	return ""
}

// How the net is fitted.
const (
	courseEpochs = 8
	courseStep   = 0.01
	courseDecay  = 2e-3
	averaged     = 1e-3 // share of each step in the mean of weights
)

// trainCourse fits the net by stochastic descent (Adam), a few rows at a time.
func trainCourse(rows []courseRow, seed uint64) predict.Course {
	var c predict.Course
	random := rand.New(rand.NewPCG(seed, 22))
	for i := range c.Hidden {
		for j := range c.Hidden[i] {
			c.Hidden[i][j] = float32(random.NormFloat64() * 0.3)
		}
		c.Out[i] = float32(random.NormFloat64() * 0.3)
	}
	weights := c.Numbers()
	first, second, slope := make([]float64, len(weights)), make([]float64, len(weights)), make([]float64, len(weights))
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	const batch = 32
	average := make([]float64, len(weights)) // over the last steps: less of chance
	step := 0
	for epoch := range courseEpochs {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		rate := courseStep * (1 - float64(epoch)/courseEpochs)
		for begin := 0; begin < len(order); begin += batch {
			clear(slope)
			for _, i := range order[begin:min(begin+batch, len(order))] {
				courseSlope(&c, &rows[i], slope)
			}
			step++
			correct1, correct2 := 1-math.Pow(.9, float64(step)), 1-math.Pow(.999, float64(step))
			for k, w := range weights {
				g := slope[k]/batch + courseDecay*float64(*w)
				first[k] += .1 * (g - first[k])
				second[k] += .001 * (g*g - second[k])
				*w -= float32(rate * first[k] / correct1 / (math.Sqrt(second[k]/correct2) + 1e-8))
				average[k] += averaged * (float64(*w) - average[k])
			}
		}
	}
	for k, w := range weights {
		*w = float32(average[k])
	}
	return c
}

// courseSlope adds a row's part of the slope of the log loss, in the order of Course.Numbers.
func courseSlope(c *predict.Course, row *courseRow, slope []float64) {
	d := row.weight * (sigmoid(c.Odds(&row.x)) - row.framed)
	at := 0
	for i := range c.Hidden {
		v := 0.0
		for j, w := range c.Hidden[i] {
			v += float64(w * row.x[j])
		}
		if v > 0 {
			for j := range c.Hidden[i] {
				slope[at+j] += d * float64(c.Out[i]*row.x[j])
			}
			slope[at+len(c.Hidden[i])] += d * v
		}
		at += len(c.Hidden[i]) + 1
	}
	for j := range c.Direct {
		slope[at+j] += d * float64(row.x[j])
	}
}
