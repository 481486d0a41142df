// Package measure judges predictions of quality and cost by recorded answers: what a router that went by them would
// have reached, and at which cost.
package measure

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Table is n prompts and m models: what was predicted, and what is true. All are [n][m]; scores are from 0 to 1, costs
// in any unit. Cost and PredictedCost are nil where nobody knows what answers cost.
type Table struct {
	Score, Cost              [][]float64
	Predicted, PredictedCost [][]float64
	Shares                   bool // costs are shares of prompts that are sent to the stronger of two models
}

// means are the columns' means over the prompts that pick names.
func means(rows [][]float64, pick []int) []float64 {
	out := make([]float64, len(rows[0]))
	for _, i := range pick {
		for k, v := range rows[i] {
			out[k] += v
		}
	}
	for k := range out {
		out[k] /= float64(len(pick))
	}
	return out
}

// Point is a mean cost and the mean quality that it buys.
type Point struct{ Cost, Quality float64 }

// hull is the upper concave hull of points, by cost, with no point that costs more than another without being better.
func hull(points []Point) []Point {
	slices.SortFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Quality, a.Quality))
	})
	var h []Point
	for _, p := range points {
		if len(h) > 0 && p.Quality <= h[len(h)-1].Quality {
			continue
		}
		for len(h) > 1 && cross(h[len(h)-2], h[len(h)-1], p) >= 0 {
			h = h[:len(h)-1]
		}
		h = append(h, p)
	}
	return h
}

func cross(a, b, c Point) float64 {
	return (b.Cost-a.Cost)*(c.Quality-a.Quality) - (b.Quality-a.Quality)*(c.Cost-a.Cost)
}

// height is the quality that a hull has at a cost: level beyond its end, and that of its beginning before it.
func height(h []Point, cost float64) float64 {
	if cost <= h[0].Cost {
		return h[0].Quality
	}
	for i := 1; i < len(h); i++ {
		if cost <= h[i].Cost {
			a, b := h[i-1], h[i]
			return a.Quality + (b.Quality-a.Quality)*(cost-a.Cost)/(b.Cost-a.Cost)
		}
	}
	return h[len(h)-1].Quality
}

// mean is the mean height of a hull between two costs.
func mean(h []Point, low, high float64) float64 {
	if high <= low {
		return height(h, low)
	}
	area, at := 0.0, low
	for _, p := range h {
		if p.Cost <= at {
			continue
		}
		if p.Cost >= high {
			break
		}
		area += (height(h, at) + p.Quality) / 2 * (p.Cost - at)
		at = p.Cost
	}
	return (area + (height(h, at)+height(h, high))/2*(high-at)) / (high - low)
}

// costFor is the cost at which a hull reaches a quality.
func costFor(h []Point, quality float64) (float64, bool) {
	if quality <= h[0].Quality {
		return h[0].Cost, true
	}
	for i := 1; i < len(h); i++ {
		a, b := h[i-1], h[i]
		if quality <= b.Quality {
			return a.Cost + (b.Cost-a.Cost)*(quality-a.Quality)/(b.Quality-a.Quality), true
		}
	}
	return 0, false
}

// lambdas weigh cost against quality: 0, and 90 values from 1e-4 to 1e4.
var lambdas = func() []float64 {
	l := []float64{0}
	for i := range 90 {
		l = append(l, math.Pow(10, -4+8*float64(i)/89))
	}
	return l
}()

// choices are what a router reaches and pays for each lambda and prompt.
type choices struct{ score, cost [][]float64 }

// choose goes by values (predicted or true) and costs, which are divided by scale.
func choose(t *Table, value, cost [][]float64, scale float64) choices {
	var c choices
	for _, lambda := range lambdas {
		score, paid := make([]float64, len(value)), make([]float64, len(value))
		for i := range value {
			best, at := math.Inf(-1), 0
			for k, q := range value[i] {
				if v := q - lambda*cost[i][k]/scale; v > best {
					best, at = v, k
				}
			}
			score[i], paid[i] = t.Score[i][at], t.Cost[i][at]
		}
		c.score, c.cost = append(c.score, score), append(c.cost, paid)
	}
	return c
}

// points are the means over the prompts that pick names, for each lambda.
func (c *choices) points(pick []int) []Point {
	out := make([]Point, len(c.score))
	for l := range out {
		for _, i := range pick {
			out[l].Cost += c.cost[l][i]
			out[l].Quality += c.score[l][i]
		}
		out[l].Cost /= float64(len(pick))
		out[l].Quality /= float64(len(pick))
	}
	return out
}

// gain sorts prompts by the predicted gain of the stronger of two models. rank breaks ties.
func (j *judge) gain(pick []int, into Figures) {
	q := means(j.t.Score, pick)
	gap := q[j.strong] - q[j.weak]
	order := slices.Clone(pick)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(j.rise[b], j.rise[a]), cmp.Compare(j.rank[a], j.rank[b]))
	})
	n := float64(len(order))
	if gap <= 0 {
		return
	}
	height, area := 0.0, 0.0
	for i, row := range order {
		next := height + (j.t.Score[row][j.strong]-j.t.Score[row][j.weak])/n
		area += (height + next) / 2 / n
		height = next
		at := 100 * float64(i+1) / n
		into.reach("cpt50", at, height >= 0.5*gap-1e-12)
		into.reach("cpt80", at, height >= 0.8*gap-1e-12)
	}
	into["apgr"] = area / gap
}

// Figures are named as `route eval` prints them. What cannot be said is absent.
type Figures map[string]float64

// reach sets a figure the first time that it is reached.
func (f Figures) reach(name string, at float64, reached bool) {
	if _, ok := f[name]; !ok && reached {
		f[name] = at
	}
}

// judge has what does not depend on which prompts are looked at.
type judge struct {
	t              *Table
	router, oracle choices
	weak, strong   int
	rise           []float64 // predicted gain of the strong model
	rank           []int     // at random
}

func newJudge(t *Table, seed uint64) *judge {
	j := &judge{t: t, rank: rand.New(rand.NewPCG(seed, 1)).Perm(len(t.Score))}
	all := every(len(t.Score))
	if t.Cost != nil {
		scale := slices.Max(means(t.Cost, all))
		if scale <= 0 {
			scale = 1
		}
		j.router = choose(t, t.Predicted, t.PredictedCost, scale)
		j.oracle = choose(t, t.Score, t.Cost, scale)
	}
	if q := means(t.Score, all); len(q) == 2 {
		j.strong = 1
		if q[0] > q[1] {
			j.weak, j.strong = 1, 0
		}
		j.rise = make([]float64, len(t.Score))
		for i, p := range t.Predicted {
			j.rise[i] = p[j.strong] - p[j.weak]
		}
	}
	return j
}

func every(n int) []int {
	pick := make([]int, n)
	for i := range pick {
		pick[i] = i
	}
	return pick
}

// figures judges the prompts that pick names.
func (j *judge) figures(pick []int) Figures {
	f := Figures{}
	if j.t.Cost != nil {
		one := singles(j.t.Score, j.t.Cost, pick)
		best := slices.MaxFunc(one, func(a, b Point) int {
			return cmp.Or(cmp.Compare(a.Quality, b.Quality), cmp.Compare(b.Cost, a.Cost))
		})
		low := slices.MinFunc(one, func(a, b Point) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
		high := slices.MaxFunc(one, func(a, b Point) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
		mix := hull(one)
		router, oracle := hull(j.router.points(pick)), hull(j.oracle.points(pick))
		f["area"] = mean(router, low, high) - mean(mix, low, high)
		for name, share := range map[string]float64{"saved95": 0.95, "saved98": 0.98, "saved100": 1} {
			if cost, ok := costFor(router, share*best.Quality); ok && best.Cost > 0 {
				f[name] = 1 - cost/best.Cost
			}
		}
		middle := (low + high) / 2
		f["regret"] = height(oracle, middle) - height(router, middle)
	}
	if j.rise != nil {
		j.gain(pick, f)
	}
	return f
}

// Samples is how many bootstrap samples intervals are taken from.
const Samples = 300

// Judge judges a table. low and high are the 2.5 and 97.5 percent of 300 bootstrap samples of its prompts, for each
// figure that there is.
func Judge(t *Table, seed uint64) (value, low, high Figures) {
	j := newJudge(t, seed)
	n := len(t.Score)
	value = j.figures(every(n))
	random := rand.New(rand.NewPCG(seed, 2))
	samples := map[string][]float64{}
	pick := make([]int, n)
	for range Samples {
		for i := range pick {
			pick[i] = random.IntN(n)
		}
		for name, v := range j.figures(pick) {
			samples[name] = append(samples[name], v)
		}
	}
	low, high = Figures{}, Figures{}
	for name := range value {
		list := samples[name]
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		low[name], high[name] = quantile(list, 0.025), quantile(list, 0.975)
	}
	return value, low, high
}

// quantile is between the nearest of sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func singles(score, cost [][]float64, pick []int) []Point {
	q, c := means(score, pick), means(cost, pick)
	out := make([]Point, len(q))
	for k := range q {
		out[k] = Point{c[k], q[k]}
	}
	return out
}
