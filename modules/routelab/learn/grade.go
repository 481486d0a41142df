package learn

import (
	"math"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// How the grader is fitted. Chosen by cross-validation on the graded prompts of training, see README.md.
const (
	gradeCost   = 0.5 // c of the regressions
	sortCost    = 0.7
	noOther     = 0.15 // log odds that sorts of what is no other kind have more than others
	gradeEpochs = 12   // passes over the data
	gradeText   = 8    // weight of words and runs of characters beside statistics and concepts
	sortText    = 0.5  // of that, for sorts
	gradeStats  = 0.3  // weight of a statistic
	gradeIdea   = 1    // weight of a concept
	gradeEdge   = 0.3  // of one in how the question begins or ends
)

// graded is a row that the grader is trained on. What is not known of it counts for nothing.
type graded struct {
	req    *llm.Request
	ease   float64 // log odds; NaN where nobody knows
	length float64 // logarithm of tokens; NaN
	sort   int     // of work
	told   bool    // the sort is known
	fold   int

	words []uint32
	chars []uint16
	extra []float32
	x     sparse
	sortX sparse // with less of words
}

// vector is what a head reads.
func (r *graded) vector(head int) *sparse {
	if head < predict.GradeSort {
		return &r.x
	}
	return &r.sortX
}

// gradedRows are the rows of a corpus that training may see, and of recorded answers what tells kinds.
func gradedRows(c *Corpus, sets []*Dataset) []graded {
	var rows []graded
	for i := range c.Prompts {
		g := &c.Prompts[i]
		if g.Held() {
			continue
		}
		sort := predict.SortOf(g.Kind)
		row := graded{req: (&Row{Prompt: g.Prompt}).Request(), ease: math.NaN(), length: math.NaN(), sort: sort,
			told: true, fold: int(question(g.Same+g.ID) % folds)}
		if g.Same != "" {
			row.fold = int(question(g.Same) % folds)
		}
		if g.Grade > 0 {
			row.ease = Ease[g.Grade]
		}
		if g.Out > 0 {
			row.length = math.Log(float64(g.Out))
		}
		rows = append(rows, row)
	}
	byKind := map[predict.Kind][]*Row{}
	for _, d := range sets {
		for i := range d.Rows {
			if kind, ok := kindOf(&d.Rows[i]); ok {
				byKind[kind] = append(byKind[kind], &d.Rows[i])
			}
		}
	}
	for kind := range predict.NumKinds {
		list := byKind[kind]
		most := recordedOfKind
		if kind == predict.Tools {
			most = recordedOfTools
		}
		step := max(len(list)/most, 1)
		for i := 0; i < len(list); i += step {
			sort := predict.SortOf(kind.String())
			rows = append(rows, graded{req: (&Row{Prompt: list[i].Prompt}).Request(), ease: math.NaN(), length: math.NaN(),
				sort: sort, told: true, fold: int(question(list[i].Prompt) % folds)})
		}
	}
	return rows
}

// How many recorded prompts of a kind of work tell that kind, at most: half of what graded ones are, or few of calls
// of tools, of which most could be done by hand.
const (
	recordedOfKind  = 100
	recordedOfTools = 60
)

// kindOf tells the kind of work by the name that a data set gives the prompt's task, where that says it.
func kindOf(r *Row) (predict.Kind, bool) {
	task := strings.ToLower(r.Task)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(task, w) })
	}
	switch {
	case len(r.Tools) > 0:
		return predict.Tools, true
	case has("mbpp", "humaneval", "crux", "code"):
		return predict.Code, true
	case has("gsm", "math", "algebra"):
		return predict.Math, true
	}
	return predict.Knowledge, !has("skt") // many kinds under one name
}

// grader is what trains one.
type grader struct {
	model  *predict.Model
	rows   []graded
	out    *predict.Grader
	rarity []float64
	dim    int
	seed   uint64
}

// trainGrader makes a grader for a model from rows.
func trainGrader(m *predict.Model, rows []graded, seed uint64) *predict.Grader {
	g := &grader{model: m, rows: rows, out: &predict.Grader{Vocabulary: predict.VocabularySum()}, seed: seed}
	g.read()
	g.quantise(g.heads(func(*graded) bool { return true }))
	g.scale()
	return g.out
}

// heads fits all heads to some of the rows.
func (g *grader) heads(use func(*graded) bool) (w [][]float32, bias []float64) {
	var of []int
	for i := range g.rows {
		if use(&g.rows[i]) {
			of = append(of, i)
		}
	}
	w, bias = make([][]float32, predict.GradeHeads), make([]float64, predict.GradeHeads)
	for h := range w {
		w[h], bias[h] = g.fit(h, of)
	}
	return w, bias
}

// scale finds the line that makes of what the head says of prompts that it was not fitted to, in the mean of those of
// each grade, how easy these are. A regression is drawn to the mean of all: what it says of trivial prompts is far
// from how often they are served.
func (g *grader) scale() {
	var said, ease []float64
	one := []float64{0}
	for fold := range folds {
		var of []int
		for i := range g.rows {
			if g.rows[i].fold != fold {
				of = append(of, i)
			}
		}
		w, bias := g.fit(predict.GradeEase, of)
		for i := range g.rows {
			if r := &g.rows[i]; r.fold == fold && !math.IsNaN(r.ease) {
				margins(&r.x, w, 1, one)
				said, ease = append(said, one[0]+bias), append(ease, r.ease)
			}
		}
	}
	slope, shift := calibrate(said, ease)
	g.out.Slope, g.out.Shift = float32(slope), float32(shift)
}

// read reads the rows' features.
func (g *grader) read() {
	f, sig := predict.NewFeatures(), &predict.Signal{}
	n := g.model.NumGraded()
	frequency := make([]float64, 2*predict.Buckets)
	mean, dev := make([]float64, n), make([]float64, n)
	count := float64(len(g.rows))
	for i := range g.rows {
		r := &g.rows[i]
		f.Read(r.req)
		g.model.Look(f, sig)
		r.words, r.chars = slices.Clone(f.Words()), slices.Clone(f.Chars())
		r.extra = g.model.Graded(f, sig, make([]float32, n))
		for _, h := range r.words {
			frequency[predict.Bucket(h)]++
		}
		for _, b := range r.chars {
			frequency[predict.Buckets+int(b)]++
		}
		for j, v := range r.extra {
			mean[j] += float64(v) / count
		}
	}
	for i := range g.rows {
		for j, v := range g.rows[i].extra {
			dev[j] += (float64(v) - mean[j]) * (float64(v) - mean[j]) / count
		}
	}
	g.out.Mean, g.out.Dev = make([]float32, n), make([]float32, n)
	for j := range mean {
		g.out.Mean[j], g.out.Dev[j] = float32(mean[j]), float32(math.Sqrt(dev[j]))
		if dev[j] < 1e-9 {
			g.out.Dev[j] = 0
		}
	}
	g.rarity = make([]float64, 2*predict.Buckets)
	for b := range g.rarity {
		g.rarity[b] = math.Log((count+1)/(frequency[b]+1)) + 1
	}
	g.dim = 2*predict.Buckets + n
	for i := range g.rows {
		r := &g.rows[i]
		var list []int
		for _, h := range r.words {
			list = append(list, predict.Bucket(h))
		}
		r.x.add(list, g.rarity, gradeText)
		list = list[:0]
		for _, b := range r.chars {
			list = append(list, predict.Buckets+int(b))
		}
		r.x.add(list, g.rarity, gradeText*predict.CharWeight)
		for j, v := range r.extra {
			if v = standard(v, g.out.Mean[j], g.out.Dev[j]) * g.weight(j); v != 0 {
				r.x.at = append(r.x.at, int32(2*predict.Buckets+j))
				r.x.value = append(r.x.value, v)
			}
		}
		r.sortX = sparse{r.x.at, slices.Clone(r.x.value)}
		for j, at := range r.sortX.at {
			if int(at) < 2*predict.Buckets {
				r.sortX.value[j] *= sortText
			}
		}
	}
}

func (g *grader) weight(j int) float32 {
	if j < predict.NumStats {
		return gradeStats
	}
	if predict.IsEdge(j) {
		return gradeEdge
	}
	return gradeIdea
}

// target is what a head of a row is to be; ok is false where nobody knows.
func (r *graded) target(h int) (y float64, ok bool) {
	switch h {
	case predict.GradeEase:
		return r.ease, !math.IsNaN(r.ease)
	case predict.GradeLength:
		return r.length, !math.IsNaN(r.length)
	}
	if h-predict.GradeSort == r.sort {
		return 1, r.told
	}
	return 0, r.told
}

// fit fits one head to the rows of a list.
func (g *grader) fit(h int, of []int) (w []float32, bias float64) {
	var pick []int
	y := make([][]float64, len(g.rows))
	xs := make([]sparse, len(g.rows))
	sum := 0.0
	for _, i := range of {
		if v, ok := g.rows[i].target(h); ok {
			pick, y[i], xs[i] = append(pick, i), []float64{v}, *g.rows[i].vector(h)
			sum += v
		}
	}
	if len(pick) == 0 {
		return make([]float32, g.dim), 0
	}
	bias = sum / float64(len(pick))
	linear := h < predict.GradeSort
	offset := make([][]float64, len(g.rows))
	if !linear {
		bias = -2 // no sort is more usual than others
	}
	for _, i := range pick {
		offset[i] = []float64{bias}
	}
	cost := gradeCost
	if !linear {
		cost = sortCost
	}
	return logistic(xs, y, pick, g.dim, 1, offset, []bool{linear}, cost, gradeEpochs, g.seed), bias
}

// calibrate is the line from what was said to what is, by the regression of the former on the latter.
func calibrate(said, ease []float64) (slope, shift float64) {
	x, y := mean(ease), mean(said)
	var xx, xy float64
	for i, e := range ease {
		xx += (e - x) * (e - x)
		xy += (e - x) * (said[i] - y)
	}
	if xx == 0 || xy <= 0 {
		return 1, 0
	}
	slope = min(xx/xy, mostSlope)
	return slope, x - slope*y
}

// mostSlope is by how much more prompts are taken to differ than a regression says, at most.
const mostSlope = 3

// quantise puts the heads into the grader.
func (g *grader) quantise(w [][]float32, bias []float64) {
	const lanes = predict.GradeLanes
	out := g.out
	out.Table, out.Scale = make([]byte, 2*predict.Buckets*lanes), make([]float32, lanes)
	part := func(b int) float64 { // words and characters come at their full length
		return gradeText * g.rarity[b]
	}
	for lane := range lanes {
		value := func(int) float64 { return 0 }
		switch {
		case lane == lanes-1:
			value = func(b int) float64 { return g.rarity[b] * g.rarity[b] }
		case lane < predict.GradeHeads:
			weight := 1.0
			if lane >= predict.GradeSort {
				weight = sortText
			}
			value = func(b int) float64 { return float64(w[lane][b]) * part(b) * weight }
		}
		top := 0.0
		for b := range 2 * predict.Buckets {
			top = max(top, math.Abs(value(b)))
		}
		scale := max(top/127, 1e-12)
		out.Scale[lane] = float32(scale)
		for b := range 2 * predict.Buckets {
			out.Table[b*lanes+lane] = byte(128 + math.Round(value(b)/scale))
		}
	}
	for sort := range predict.NumSorts {
		if predict.KindOfSort(sort) == predict.Knowledge {
			bias[predict.GradeSort+sort] += noOther
		}
	}
	for h := range w {
		l := predict.Linear{Bias: float32(bias[h])}
		for j := range g.dim - 2*predict.Buckets {
			l.Weights = append(l.Weights, w[h][2*predict.Buckets+j]*g.weight(j))
		}
		out.Heads = append(out.Heads, l)
	}
}
