package learn

import (
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// How the grader is fitted. Chosen by cross-validation on the graded prompts of training, see README.md.
const (
	gradeCost   = 0.3  // c of the regressions
	gradeEpochs = 12   // passes over the data
	gradeText   = 1.0  // weight of words and runs of characters beside statistics and concepts
	gradeStats  = 0.25 // weight of a statistic
	gradeIdea   = 0.5  // weight of a concept
)

// graded is a row that the grader is trained on. What is not known of it counts for nothing.
type graded struct {
	req    *llm.Request
	ease   float64 // log odds; NaN where nobody knows
	length float64 // logarithm of tokens; NaN
	kind   predict.Kind
	told   bool // the kind is known
	fold   int

	words []uint32
	chars []uint16
	extra []float32
	x     sparse
}

// gradedRows are the rows of a corpus that training may see, and of recorded answers what tells kinds.
func gradedRows(c *Corpus, sets []*Dataset) []graded {
	var rows []graded
	for i := range c.Prompts {
		g := &c.Prompts[i]
		if g.Held() {
			continue
		}
		row := graded{req: (&Row{Prompt: g.Prompt}).Request(), ease: math.NaN(), length: math.NaN(), kind: g.Work(), told: true,
			fold: int(question(g.Same+g.ID) % folds)}
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
	for _, d := range sets {
		for i := range d.Rows {
			if r := &d.Rows[i]; len(r.Tools) > 0 {
				rows = append(rows, graded{req: (&Row{Prompt: r.Prompt}).Request(), ease: math.NaN(), length: math.NaN(),
					kind: predict.Tools, told: true, fold: int(question(r.Prompt) % folds)})
			}
		}
	}
	return rows
}

// grader is what trains one.
type grader struct {
	rows   []graded
	out    *predict.Grader
	rarity []float64
	dim    int
	seed   uint64
}

// trainGrader makes a grader from rows.
func trainGrader(rows []graded, seed uint64) *predict.Grader {
	g := &grader{rows: rows, out: &predict.Grader{Vocabulary: predict.VocabularySum()}, seed: seed}
	g.read()
	all := make([]int, len(rows))
	for i := range all {
		all[i] = i
	}
	w := make([][]float32, predict.GradeHeads)
	bias := make([]float64, predict.GradeHeads)
	for h := range w {
		w[h], bias[h] = g.fit(h, all)
	}
	g.scale(w, bias)
	g.quantise(w, bias)
	return g.out
}

// read reads the rows' features.
func (g *grader) read() {
	f := predict.NewFeatures()
	n := predict.NumGraded()
	frequency := make([]float64, 2*predict.Buckets)
	mean, dev := make([]float64, n), make([]float64, n)
	count := float64(len(g.rows))
	for i := range g.rows {
		r := &g.rows[i]
		f.Read(r.req)
		r.words, r.chars = slices.Clone(f.Words()), slices.Clone(f.Chars())
		r.extra = slices.Clone(f.Graded(make([]float32, n)))
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
			if v = standard(v, g.out.Mean[j], g.out.Dev[j]) * gradeWeight(j); v != 0 {
				r.x.at = append(r.x.at, int32(2*predict.Buckets+j))
				r.x.value = append(r.x.value, v)
			}
		}
	}
}

func gradeWeight(j int) float32 {
	if j < predict.NumStats {
		return gradeStats
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
	if predict.Kind(h-predict.GradeKind) == r.kind {
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
			pick, y[i], xs[i] = append(pick, i), []float64{v}, g.rows[i].x
			sum += v
		}
	}
	if len(pick) == 0 {
		return make([]float32, g.dim), 0
	}
	bias = sum / float64(len(pick))
	linear := h < predict.GradeKind
	offset := make([][]float64, len(g.rows))
	if !linear {
		bias = logit(bias)
	}
	for _, i := range pick {
		offset[i] = []float64{bias}
	}
	return logistic(xs, y, pick, g.dim, 1, offset, []bool{linear}, gradeCost, gradeEpochs, g.seed), bias
}

// scale finds by how much more prompts differ than the regression of ease, which is drawn to the mean, says of prompts
// that it has not seen: a line through what it says, by which routes of several qualities serve them best.
func (g *grader) scale(w [][]float32, bias []float64) {
	const h = predict.GradeEase
	var said, ease []float64
	one := []float64{0}
	for fold := range folds {
		var pick []int
		for i := range g.rows {
			if g.rows[i].fold != fold {
				pick = append(pick, i)
			}
		}
		part, b := g.fit(h, pick)
		for i := range g.rows {
			if r := &g.rows[i]; r.fold == fold && !math.IsNaN(r.ease) {
				margins(&r.x, part, 1, one)
				said, ease = append(said, one[0]+b), append(ease, r.ease)
			}
		}
	}
	slope, shift := calibrate(said, ease)
	for at := range w[h] {
		w[h][at] *= float32(slope)
	}
	bias[h] = slope*bias[h] + shift
}

// calibrate is the line through what was said of how easy prompts are that comes nearest to how easy they are, in the
// chances of routes of several qualities: Newton's steps for two numbers.
func calibrate(said, ease []float64) (slope, shift float64) {
	slope = 1
	for range 30 {
		var d0, d1, h00, h01, h11 float64
		for i, x := range said {
			for _, q := range []float64{.4, .55, .75, .95} {
				p, want := sigmoid(logit(q)+slope*x+shift), sigmoid(logit(q)+ease[i])
				curve := p * (1 - p)
				d0, d1 = d0+want-p, d1+(want-p)*x
				h00, h01, h11 = h00+curve, h01+curve*x, h11+curve*x*x
			}
		}
		det := h00*h11 - h01*h01
		if det < 1e-9 {
			break
		}
		shift += (h11*d0 - h01*d1) / det
		slope += (h00*d1 - h01*d0) / det
	}
	return min(max(slope, 0.5), 3), shift
}

// quantise puts the heads into the grader.
func (g *grader) quantise(w [][]float32, bias []float64) {
	const lanes = 8
	out := g.out
	out.Table, out.Scale = make([]byte, 2*predict.Buckets*lanes), make([]float32, lanes)
	part := func(b int) float64 { // words and characters come at their full length
		return gradeText * g.rarity[b]
	}
	for lane := range lanes {
		value := func(b int) float64 { return g.rarity[b] * g.rarity[b] }
		if lane < predict.GradeHeads {
			value = func(b int) float64 { return float64(w[lane][b]) * part(b) }
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
	for h := range w {
		l := predict.Linear{Bias: float32(bias[h])}
		for j := range g.dim - 2*predict.Buckets {
			l.Weights = append(l.Weights, w[h][2*predict.Buckets+j]*gradeWeight(j))
		}
		out.Heads = append(out.Heads, l)
	}
}
