package learn

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Outcome is how a model did at one request, of which the base model's packed signal is known and no text.
type Outcome struct {
	ID     string // of the request: lines of one request are never in two parts
	Model  string // as the upstream calls it
	Signal []byte // as the base packed it (predict.Model.Pack)
	Score  float64
	Weight float64 // over 0; 1 is an observation
}

const (
	// LeastOutcomes is from how many lines on something is learned of a model.
	LeastOutcomes = 30
	// MostOutcomes is how many lines are learned from at most, the last ones.
	MostOutcomes = 60_000

	outcomeStat  = 0.3 // of statistics beside heads
	mostCentres  = 8   // of what requests are about
	centreLines  = 40  // for each of them
	searched     = 2000
	newtonRounds = 4
	slopePrior   = 20 // observations for what the base model says of how easy requests are
	levelPrior   = 2
)

// What is tried of penalties: on what all models have in common, and on what sets one apart.
var (
	commonPenalties = []float64{10, 40, 160, 640}
	apartPenalties  = []float64{40, 160, 640, 1e6}
)

// example is an outcome as it is fitted.
type example struct {
	x      []float64 // heads and statistics, weighted
	ease   float64   // as the base says
	model  int
	score  float64
	weight float64
	fold   int
}

// outcomes is what is fitted: log odds of a score are level[model] + slope*ease + (common + apart[model]).x.
type outcomes struct {
	level  []float64
	slope  float64
	common []float64
	apart  [][]float64
}

func (o *outcomes) at(e *example) float64 {
	return o.level[e.model] + o.slope*e.ease + dot(o.common, e.x) + dot(o.apart[e.model], e.x)
}

// TrainOutcomes puts what outcomes teach on top of a base model, in place of what others had taught it: one more pool,
// which has the models with LeastOutcomes lines and more. It reads the base's signals, so that those that are kept
// stay of use. The result is a new model; the base is as it was. The same lines give the same model.
func TrainOutcomes(base *predict.Model, lines []Outcome) (*predict.Model, error) {
	lines = lines[max(0, len(lines)-MostOutcomes):]
	count := make(map[string]int)
	for i := range lines {
		if lines[i].Weight > 0 {
			count[lines[i].Model]++
		}
	}
	var models []string
	for name, n := range count {
		if n >= LeastOutcomes {
			models = append(models, name)
		}
	}
	slices.Sort(models)
	if len(models) == 0 {
		return nil, fmt.Errorf("no model has %d lines that can be used: go on collecting", LeastOutcomes)
	}
	whole := *base
	whole.Pools = slices.DeleteFunc(slices.Clone(base.Pools), func(p predict.Pool) bool { return p.Outcomes })
	t := &outcomeTrainer{model: &whole, models: models, dim: len(whole.Heads) + predict.NumStats}
	t.ease = easeOf(&whole)
	t.gather(lines)
	if len(t.examples) < LeastOutcomes {
		return nil, errors.New("the signals of these lines are none of the model's: it did not read those requests")
	}
	common, apart := t.choose()
	fit := t.fit(t.examples, common, apart)
	whole.Pools = append(whole.Pools, t.pool(fit))
	return &whole, nil
}

type outcomeTrainer struct {
	model    *predict.Model
	models   []string
	dim      int
	ease     predict.Linear
	examples []example
	white    [][]float32
}

// easeOf is what a model says of how easy requests are, as one regression.
func easeOf(m *predict.Model) predict.Linear {
	l := predict.Linear{Weights: make([]float32, len(m.Heads)+predict.NumStats)}
	total := 0.0
	for i := range m.Pools {
		total += math.Sqrt(float64(m.Pools[i].Rows))
	}
	for i := range m.Pools {
		p := &m.Pools[i]
		w := m.EaseScale * float32(math.Sqrt(float64(p.Rows))/total)
		l.Bias += w * p.Difficulty.Bias
		for j, v := range p.Difficulty.Weights {
			l.Weights[j] += w * v
		}
	}
	return l
}

func (t *outcomeTrainer) gather(lines []Outcome) {
	var s predict.Signal
	heads := len(t.model.Heads)
	for i := range lines {
		l := &lines[i]
		k, ok := slices.BinarySearch(t.models, l.Model)
		if !ok || l.Weight <= 0 || !t.model.Unpack(l.Signal, &s) {
			continue
		}
		e := example{x: make([]float64, t.dim), ease: float64(t.ease.Bias), model: k, score: l.Score, weight: l.Weight,
			fold: foldOf(l.ID)}
		for j, v := range s.X() {
			e.ease += float64(t.ease.Weights[j] * v)
			e.x[j] = float64(v) * t.scale(j, heads)
		}
		white := make([]float32, t.dim)
		predict.Whiten(t.model.Whiten, s.X(), white)
		t.examples, t.white = append(t.examples, e), append(t.white, white)
	}
}

func (t *outcomeTrainer) scale(j, heads int) float64 {
	if j < heads {
		return 1
	}
	return outcomeStat
}

func foldOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return int(h.Sum32() % folds)
}

// choose finds the penalties by cross-validation.
func (t *outcomeTrainer) choose() (common, apart float64) {
	some := t.examples[max(0, len(t.examples)-searched):]
	loss := func(common, apart float64) (sum float64) {
		for fold := range folds {
			var rest []example
			for i := range some {
				if some[i].fold != fold {
					rest = append(rest, some[i])
				}
			}
			fit := t.fit(rest, common, apart)
			for i := range some {
				if e := &some[i]; e.fold == fold {
					sum += e.weight * logLoss(sigmoid(fit.at(e)), e.score)
				}
			}
		}
		return sum
	}
	best := math.Inf(1)
	common, apart = commonPenalties[len(commonPenalties)-1], apartPenalties[len(apartPenalties)-1]
	for _, c := range commonPenalties {
		if l := loss(c, apart); l < best {
			best, common = l, c
		}
	}
	best = math.Inf(1)
	for _, a := range slices.Backward(apartPenalties) {
		if l := loss(common, a); l < best {
			best, apart = l, a
		}
	}
	return common, apart
}

func logLoss(p, score float64) float64 {
	p = min(max(p, 0.01), 0.99)
	return -score*math.Log(p) - (1-score)*math.Log(1-p)
}

// fit fits what all models have in common, and then what sets each apart.
func (t *outcomeTrainer) fit(of []example, common, apart float64) *outcomes {
	o := &outcomes{level: make([]float64, len(t.models)), slope: 1, common: make([]float64, t.dim)}
	for range t.models {
		o.apart = append(o.apart, make([]float64, t.dim))
	}
	for range 2 {
		t.levels(of, o)
		t.newton(of, o, -1, common)
	}
	t.levels(of, o)
	for k := range t.models {
		if apart < apartPenalties[len(apartPenalties)-1] {
			t.newton(of, o, k, apart)
		}
	}
	t.levels(of, o)
	return o
}

// levels fits how good each model is on the whole.
func (t *outcomeTrainer) levels(of []example, o *outcomes) {
	for range newtonRounds {
		slope, curve := make([]float64, len(t.models)), make([]float64, len(t.models))
		for i := range of {
			e := &of[i]
			q := sigmoid(o.at(e))
			slope[e.model] += e.weight * (e.score - q)
			curve[e.model] += e.weight * q * (1 - q)
		}
		for k := range o.level {
			o.level[k] += (slope[k] - levelPrior*o.level[k]) / (curve[k] + levelPrior)
		}
	}
}

// newton fits the weights of one model, or with -1 those in common and the slope of the base's ease.
func (t *outcomeTrainer) newton(of []example, o *outcomes, model int, penalty float64) {
	w, dim := o.common, t.dim+1
	if model >= 0 {
		w, dim = o.apart[model], t.dim
	}
	x := make([]float64, dim)
	for range newtonRounds {
		a, b := make([]float64, dim*dim), make([]float64, dim)
		for i := range of {
			e := &of[i]
			if model >= 0 && e.model != model {
				continue
			}
			copy(x, e.x)
			if model < 0 {
				x[t.dim] = e.ease
			}
			q := sigmoid(o.at(e))
			first, second := e.weight*(e.score-q), e.weight*max(q*(1-q), 0.01)
			for j, v := range x {
				b[j] += first * v
				row, v := a[j*dim:j*dim+j+1], second*v
				for l := range row {
					row[l] += v * x[l]
				}
			}
		}
		for j := range t.dim {
			a[j*dim+j] += penalty
			b[j] -= penalty * w[j]
		}
		if model < 0 {
			a[dim*dim-1] += slopePrior
			b[t.dim] -= slopePrior * (o.slope - 1)
		}
		cholesky(a, dim)
		solve(a, b, dim)
		for j := range t.dim {
			w[j] += b[j]
		}
		if model < 0 {
			o.slope += b[t.dim]
		}
	}
}

// pool is the fit as predictions are made by.
func (t *outcomeTrainer) pool(o *outcomes) predict.Pool {
	heads := len(t.model.Heads)
	p := predict.Pool{Datasets: []string{"outcomes"}, Models: t.models, Rows: len(t.examples), Outcomes: true,
		Difficulty: predict.Linear{Bias: float32(o.slope) * t.ease.Bias}, Within: t.nothing()}
	for j, w := range t.ease.Weights {
		p.Difficulty.Weights = append(p.Difficulty.Weights, float32(o.slope)*w+float32(o.common[j]*t.scale(j, heads)))
	}
	t.places(&p)
	for k := range t.models {
		sum, weight, n := 0.0, 0.0, 0
		for i := range t.examples {
			if e := &t.examples[i]; e.model == k {
				sum, weight, n = sum+e.weight*e.score, weight+e.weight, n+1
			}
		}
		mean := float32(sum / weight)
		r := predict.Route{Mean: mean, Expected: mean, Lines: n, Components: []float32{},
			Quality: predict.Linear{Bias: float32(o.level[k])}, ByTask: slices.Repeat([]float32{mean}, len(p.Tasks))}
		for j, w := range o.apart[k] {
			r.Quality.Weights = append(r.Quality.Weights, float32(w*t.scale(j, heads)))
		}
		p.Routes = append(p.Routes, r)
	}
	return p
}

func (t *outcomeTrainer) nothing() predict.Linear {
	return predict.Linear{Weights: make([]float32, t.dim)}
}

// places finds what requests are about: the middles of their signals, and how far from the nearest almost all are.
func (t *outcomeTrainer) places(p *predict.Pool) {
	some := t.white[max(0, len(t.white)-searched):]
	n := min(mostCentres, 1+len(some)/centreLines)
	centres := [][]float32{middle(some, t.dim)}
	for len(centres) < n { // the farthest from all others, which is not quite the farthest of all
		far := make([]float64, len(some))
		for i, w := range some {
			_, far[i] = nearestOf(centres, w)
		}
		order := make([]int, len(some))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(far[a], far[b]) })
		centres = append(centres, slices.Clone(some[order[len(order)*9/10]]))
	}
	for range 10 {
		of := make([][][]float32, len(centres))
		for _, w := range some {
			k, _ := nearestOf(centres, w)
			of[k] = append(of[k], w)
		}
		for k := range centres {
			if len(of[k]) > 0 {
				centres[k] = middle(of[k], t.dim)
			}
		}
	}
	far := make([]float64, len(some))
	for i, w := range some {
		_, far[i] = nearestOf(centres, w)
	}
	slices.Sort(far)
	// Whitened numbers vary by 1 within a task: requests that are all but the same are no reason to know nothing of
	// others.
	p.Near = float32(max(far[len(far)*95/100], float64(t.dim)/2))
	for _, c := range centres {
		p.Tasks = append(p.Tasks, predict.Task{Odds: t.nothing(), Centre: c})
	}
}

func middle(of [][]float32, dim int) []float32 {
	m := make([]float32, dim)
	for _, w := range of {
		for j, v := range w {
			m[j] += v / float32(len(of))
		}
	}
	return m
}

func nearestOf(centres [][]float32, w []float32) (at int, d float64) {
	d = math.Inf(1)
	for k, c := range centres {
		sum := 0.0
		for j, v := range w {
			sum += float64((v - c[j]) * (v - c[j]))
		}
		if sum < d {
			at, d = k, sum
		}
	}
	return at, d
}
