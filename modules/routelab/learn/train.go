// Package learn makes the predictor's model from recorded answers. The same folder and seed give the same file, byte
// for byte, on every machine of the same architecture.
package learn

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How the regressions are fitted. Chosen by cross-validation on the development files, see README.md.
const (
	folds       = 5
	sharedCost  = 0.01 // c of a pool's difficulty
	routeCost   = 0.003
	routeEpochs = 10
	statWeight  = 0.2 // of statistics beside heads in the small regressions
	ownWeight   = 2   // of a pool's own heads beside others
	seenOften   = 3
	ridgeCost   = 30
	mostEase    = 4 // times what pools say of how easy a prompt is
)

// sample is a row with what training needs of it.
type sample struct {
	pool int
	set  int
	row  *Row
	fold int

	words []uint32
	chars []uint16
	stats []float32
	text  sparse
	z     []float64 // of heads that were trained without the row's fold
}

// pool is data sets with the same models.
type pool struct {
	names  []string
	models []string
	order  map[int][]int // data set -> for each of models its place there
	rows   []int         // of samples
}

type trainer struct {
	seed      uint64
	samples   []sample
	pools     []pool
	model     *predict.Model
	dim       int
	own       [][]int
	rarity    []float64     // of each bucket
	direction [][][]float64 // of each pool's own heads, in its models
	general   []int         // heads that tell tasks apart
	moves     [][]float32   // of each sample's heads and statistics, by other words around the question
}

// Train learns from data sets, and from graded prompts where there are some.
func Train(sets []*Dataset, seed uint64) (*predict.Model, error) { return TrainWith(sets, nil, seed) }

// TrainWith is Train with graded prompts; nil for none.
func TrainWith(sets []*Dataset, c *Corpus, seed uint64) (*predict.Model, error) {
	t := &trainer{seed: seed, model: &predict.Model{}}
	t.gather(sets)
	if len(t.samples) < 2*folds {
		return nil, errors.New("there are too few recorded answers to learn from")
	}
	t.vectors()
	t.heads()
	t.familiar()
	t.regressions()
	if c != nil {
		t.model.Grader = trainGrader(t.model, gradedRows(c, sets), seed)
		t.model.Reference = reference(t.model, c, seed)
	}
	return t.model, nil
}

// gather reads the features of all rows, and finds out which data sets have the same models.
func (t *trainer) gather(sets []*Dataset) {
	f := predict.NewFeatures()
	byModels := map[string]int{}
	for s, d := range sets {
		models := slices.Sorted(slices.Values(d.Models))
		key := strings.Join(models, "\x00")
		p, ok := byModels[key]
		if !ok {
			p = len(t.pools)
			byModels[key] = p
			t.pools = append(t.pools, pool{models: d.Models, order: map[int][]int{}})
		}
		pl := &t.pools[p]
		pl.names = append(pl.names, d.Name)
		for _, m := range pl.models {
			pl.order[s] = append(pl.order[s], slices.Index(d.Models, m))
		}
		for i := range d.Rows {
			row := &d.Rows[i]
			f.Read(row.Request())
			pl.rows = append(pl.rows, len(t.samples))
			t.samples = append(t.samples, sample{pool: p, set: s, row: row,
				fold:  int(question(row.Prompt) % folds),
				words: slices.Clone(f.Words()), chars: slices.Clone(f.Chars()), stats: slices.Clone(f.Stats())})
		}
	}
}

func (t *trainer) values(i int, of func(*Row) []float64) []float64 {
	s := &t.samples[i]
	order := t.pools[s.pool].order[s.set]
	all := of(s.row)
	out := make([]float64, len(order))
	for k, at := range order {
		out[k] = all[at]
	}
	return out
}

func (t *trainer) scores(i int) []float64 {
	return t.values(i, func(r *Row) []float64 { return r.Score })
}

// vectors makes the vectors of text and statistics that heads are regressed on: word n-grams and character n-grams by
// inverse document frequency, each part scaled to its own length, and standardised statistics.
func (t *trainer) vectors() {
	n := float64(len(t.samples))
	frequency := make([]float64, 2*predict.Buckets)
	mean, dev := make([]float64, predict.NumStats), make([]float64, predict.NumStats)
	for i := range t.samples {
		s := &t.samples[i]
		for _, h := range s.words {
			frequency[predict.Bucket(h)]++
		}
		for _, b := range s.chars {
			frequency[predict.Buckets+int(b)]++
		}
		for j, v := range s.stats {
			mean[j] += float64(v) / n
		}
	}
	for i := range t.samples {
		for j, v := range t.samples[i].stats {
			dev[j] += (float64(v) - mean[j]) * (float64(v) - mean[j]) / n
		}
	}
	t.model.Mean, t.model.Dev = make([]float32, predict.NumStats), make([]float32, predict.NumStats)
	for j := range mean {
		t.model.Mean[j], t.model.Dev[j] = float32(mean[j]), float32(math.Sqrt(dev[j]))
		if dev[j] < 1e-9 {
			t.model.Dev[j] = 0
		}
	}
	t.dim = 2*predict.Buckets + predict.NumStats
	rarity := make([]float64, 2*predict.Buckets)
	for b := range rarity {
		rarity[b] = math.Log((n+1)/(frequency[b]+1)) + 1
	}
	t.rarity = rarity
	for i := range t.samples {
		s := &t.samples[i]
		list := make([]int, 0, max(len(s.words), len(s.chars)))
		for _, h := range s.words {
			list = append(list, predict.Bucket(h))
		}
		s.text.add(list, rarity, 1)
		list = list[:0]
		for _, b := range s.chars {
			list = append(list, predict.Buckets+int(b))
		}
		s.text.add(list, rarity, predict.CharWeight)
		for j, v := range s.stats {
			v = standard(v, t.model.Mean[j], t.model.Dev[j])
			s.stats[j] = v
			if v != 0 {
				s.text.at = append(s.text.at, int32(2*predict.Buckets+j))
				s.text.value = append(s.text.value, v/float32(math.Sqrt(float64(predict.NumStats))))
			}
		}
	}
}

func standard(v, mean, dev float32) float32 {
	if dev == 0 {
		return 0
	}
	return min(max((v-mean)/dev, -4), 4)
}

func (x *sparse) add(list []int, rarity []float64, weight float64) {
	sum := 0.0
	for _, b := range list {
		sum += rarity[b] * rarity[b]
	}
	for _, b := range list {
		x.at = append(x.at, int32(b))
		x.value = append(x.value, float32(weight*rarity[b]/math.Sqrt(sum)))
	}
}

// familiar finds which word n-grams are known, and how much of training's own prompts is.
func (t *trainer) familiar() {
	t.model.Known = make([]uint64, predict.KnownBits/64)
	frequency := make([]int, predict.KnownBits)
	byFold := make([][]int, folds)
	for f := range byFold {
		byFold[f] = make([]int, predict.KnownBits)
	}
	at := func(h uint32) uint32 { return h / (1 << 32 / predict.KnownBits) }
	for i := range t.samples {
		for _, h := range t.samples[i].words {
			frequency[at(h)]++
			byFold[t.samples[i].fold][at(h)]++
		}
	}
	for b, n := range frequency {
		if n >= seenOften {
			t.model.Known[b/64] |= 1 << (b % 64)
		}
	}
	var shares []float64
	for i := range t.samples {
		known := 0
		for _, h := range t.samples[i].words {
			n := frequency[at(h)]
			n -= byFold[t.samples[i].fold][at(h)]
			if n >= seenOften {
				known++
			}
		}
		if n := len(t.samples[i].words); n > 0 {
			shares = append(shares, float64(known)/float64(n))
		}
	}
	slices.Sort(shares)
	if len(shares) > 0 {
		t.model.Familiar = float32(shares[len(shares)/2])
	}
}

// regressions fits what reads heads and statistics.
func (t *trainer) regressions() {
	m := t.model
	heads := len(m.Heads)
	dim := heads + predict.NumStats
	t.whiten(dim)
	for p := range t.pools {
		pl := &t.pools[p]
		weight := make([]float32, dim)
		for h := range heads {
			weight[h] = 1
		}
		for _, h := range t.own[p] {
			weight[h] = ownWeight
		}
		for j := heads; j < dim; j++ {
			weight[j] = statWeight
		}
		xs := t.dense(pl.rows, weight)
		out := predict.Pool{Datasets: pl.names, Models: pl.models, Rows: len(pl.rows), Own: t.own[p],
			Calls: !slices.ContainsFunc(pl.rows, func(i int) bool { return len(t.samples[i].row.Tools) == 0 })}
		t.quality(pl, &out, xs, weight, dim)
		t.byTask(pl, &out, weight, dim)
		matter := t.matter(p)
		for k := range pl.models {
			out.Routes[k].Components = []float32{}
			for j := range t.own[p] {
				out.Routes[k].Components = append(out.Routes[k].Components,
					float32(t.direction[p][j][k]/(matter[k]*matter[k])))
			}
			out.Routes[k].Output = t.logRidge(pl, xs, weight, k, func(r *Row) []float64 { return r.Output })
			out.Routes[k].Cost = t.logRidge(pl, xs, weight, k, func(r *Row) []float64 { return r.Cost })
		}
		t.expect(pl, &out)
		m.Pools = append(m.Pools, out)
	}
	t.ease()
}

// ease finds how much more easy or difficult prompts are, in log odds, than the mean of what all pools say of them:
// all but its own know a prompt from afar. Each pool counts the same.
func (t *trainer) ease() {
	m := t.model
	rows := make([]int, len(t.samples))
	for i := range rows {
		rows[i] = i
	}
	said := make([]float64, len(rows))
	for r, x := range t.whole(rows) {
		said[r] = m.Easier(func(p *predict.Pool) float64 {
			v := float64(p.Difficulty.Bias)
			for j, w := range p.Difficulty.Weights {
				v += float64(w * x.value[j])
			}
			return v
		})
	}
	scored, level := make([]float64, len(rows)), make([]float64, len(t.pools))
	for p := range t.pools { // by how much pools differ is a matter of their models, too
		of := t.pools[p].rows
		centre := 0.0
		for _, i := range of {
			scored[i] = mean(t.scores(i))
			level[p] += scored[i] / float64(len(of))
			centre += said[i] / float64(len(of))
		}
		for _, i := range of {
			said[i] -= centre
		}
	}
	// Newton's steps for one number, beside the log odds of each pool's mean.
	for range 20 {
		var slope, curve float64
		for p := range t.pools {
			of := t.pools[p].rows
			for _, i := range of {
				q := sigmoid(logit(level[p]) + float64(m.EaseScale)*said[i])
				slope += (scored[i] - q) * said[i] / float64(len(of))
				curve += q * (1 - q) * said[i] * said[i] / float64(len(of))
			}
		}
		m.EaseScale = float32(min(max(float64(m.EaseScale)+slope/max(curve, 1e-9), 0), mostEase))
	}
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// dense are heads and statistics of rows, standardised and weighted.
func (t *trainer) dense(rows []int, weight []float32) []sparse {
	heads := len(t.model.Heads)
	xs := make([]sparse, len(rows))
	for r, i := range rows {
		s := &t.samples[i]
		x := &xs[r]
		for h, z := range s.z {
			x.at = append(x.at, int32(h))
			x.value = append(x.value, weight[h]*standard(float32(z), t.model.Heads[h].Mean, t.model.Heads[h].Dev))
		}
		for j, v := range s.stats {
			x.at = append(x.at, int32(heads+j))
			x.value = append(x.value, weight[heads+j]*v)
		}
	}
	return xs
}

// quality fits the pool's difficulty, and what each route adds to it.
func (t *trainer) quality(pl *pool, out *predict.Pool, xs []sparse, weight []float32, dim int) {
	n, models := len(pl.rows), len(pl.models)
	pick := make([]int, n)
	y, mean, offset := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	level := make([]float64, models)
	total := 0.0
	type count struct{ n, sum []float64 }
	tasks := map[string]*count{}
	var names []string
	for r, i := range pl.rows {
		pick[r] = r
		y[r] = t.scores(i)
		mean[r] = []float64{0}
		c := tasks[t.samples[i].row.Task]
		if c == nil {
			c = &count{n: make([]float64, models), sum: make([]float64, models)}
			tasks[t.samples[i].row.Task] = c
			names = append(names, t.samples[i].row.Task)
		}
		for k, s := range y[r] {
			level[k] += s / float64(n)
			mean[r][0] += s / float64(models)
			c.sum[k] += s
			c.n[k]++
		}
		total += mean[r][0] / float64(n)
	}
	for r := range offset {
		offset[r] = []float64{logit(total)}
	}
	w := logistic(xs, mean, pick, dim, 1, offset, nil, sharedCost, routeEpochs, t.seed)
	out.Difficulty = linear(w, 1, 0, dim, weight, 0)
	one := []float64{0}
	for r := range offset {
		margins(&xs[r], w, 1, one)
		offset[r] = make([]float64, models)
		for k := range level {
			offset[r][k] = logit(level[k]) + one[0]
		}
	}
	w = logistic(xs, y, pick, dim, models, offset, nil, routeCost, routeEpochs, t.seed)
	for k := range models {
		// Small tasks count as much as they have rows, up to 30.
		balanced, weights := 0.0, 0.0
		for _, name := range names {
			c := tasks[name]
			share := min(c.n[k], 30)
			balanced += share * c.sum[k] / c.n[k]
			weights += share
		}
		out.Routes = append(out.Routes, predict.Route{Mean: float32(level[k]),
			Expected: float32(balanced / weights), Quality: linear(w, models, k, dim, weight, logit(level[k]))})
	}
}

// linear takes one target's weights out of a regression on weighted values.
func linear(w []float32, h, target, dim int, weight []float32, bias float64) predict.Linear {
	l := predict.Linear{Bias: float32(bias)}
	for at := range dim {
		l.Weights = append(l.Weights, w[at*h+target]*weight[at])
	}
	return l
}

// logRidge fits the log of a number, corrected so that the mean of what it predicts is right.
func (t *trainer) logRidge(pl *pool, xs []sparse, weight []float32, k int, of func(*Row) []float64) *predict.Linear {
	var pick []int
	var y, values []float64
	for r, i := range pl.rows {
		if v := t.values(i, of)[k]; v > 0 {
			pick, y, values = append(pick, r), append(y, math.Log(v)), append(values, v)
		}
	}
	if len(pick) < 20 {
		return nil
	}
	mean := 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	w := ridge(xs, pick, y, mean, len(weight), ridgeCost)
	var have, want float64
	for r, i := range pick {
		p := mean
		for j, at := range xs[i].at {
			p += float64(xs[i].value[j]) * w[at]
		}
		have, want = have+math.Exp(p), want+values[r]
	}
	l := predict.Linear{Bias: float32(mean + math.Log(want/have))}
	for at, v := range w {
		l.Weights = append(l.Weights, float32(v)*weight[at])
	}
	return &l
}
