package learn

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How prompts of unknown tasks are told, and what is expected of routes there. Chosen as the others are, by leaving
// tasks out.
const (
	nearShare   = 0.97    // of a pool's own prompts are near
	leastNear   = 1.0 / 3 // for each of heads and statistics
	nearPenalty = 0.3     // added to the variance of heads and statistics, which are standardised
	leastSlope  = 0.02    // of quality in the log of the cost, where nothing more is known: what is dearer is better
	fewest      = 20      // prompts, for a task to tell how much tasks differ
	careful     = 1.645
)

// whole are heads and statistics of rows, standardised, all of them.
func (t *trainer) whole(rows []int) []sparse {
	return t.dense(rows, t.weights(1, 1))
}

// reword finds by how much heads and statistics move when a prompt is put in other words: as much is no other task.
func (t *trainer) reword() {
	f, as, other := predict.NewFeatures(), &predict.Signal{}, &predict.Signal{}
	random := rand.New(rand.NewPCG(t.seed, 9))
	t.moves = make([][]float32, len(t.samples))
	for i := range t.samples {
		row := *t.samples[i].row
		f.Read(row.Request())
		t.model.Look(f, as)
		row.Prompt = rephrase(shuffleOptions(row.Prompt, random))
		f.Read(row.Request())
		t.model.Look(f, other)
		t.moves[i] = slices.Clone(other.X())
		for j, v := range as.X() {
			t.moves[i][j] -= v
		}
	}
}

// whiten finds how heads and statistics vary together within the tasks of all pools, also by words around a question.
func (t *trainer) whiten(dim int) {
	t.reword()
	rows := make([]int, len(t.samples))
	for i := range rows {
		rows[i] = i
	}
	xs := t.whole(rows)
	type task struct {
		pool int
		name string
	}
	of := func(i int) task { return task{t.samples[i].pool, t.samples[i].row.Task} }
	mean, n := map[task][]float64{}, map[task]float64{}
	for i := range xs {
		g := of(i)
		if mean[g] == nil {
			mean[g] = make([]float64, dim)
		}
		n[g]++
		for j, v := range xs[i].value {
			mean[g][j] += float64(v)
		}
	}
	a, d := make([]float64, dim*dim), make([]float64, dim)
	for i := range xs {
		g := of(i)
		for j, v := range xs[i].value {
			d[j] = float64(v) - mean[g][j]/n[g]
			for l, e := range d[:j+1] {
				a[j*dim+l] += (d[j]*e + float64(t.moves[i][j])*float64(t.moves[i][l])) / float64(len(xs))
			}
		}
	}
	for j := range dim {
		a[j*dim+j] += nearPenalty
	}
	cholesky(a, dim)
	inverse := make([]float64, dim*dim)
	for j := range dim {
		inverse[j*dim+j] = 1 / a[j*dim+j]
		for i := j + 1; i < dim; i++ {
			s := 0.0
			for k := j; k < i; k++ {
				s -= a[i*dim+k] * inverse[k*dim+j]
			}
			inverse[i*dim+j] = s / a[i*dim+i]
		}
	}
	for i := range dim {
		for _, v := range inverse[i*dim : i*dim+i+1] {
			t.model.Whiten = append(t.model.Whiten, float32(v))
		}
	}
}

// near finds the centres of a pool's tasks, in the order of names, and how far from the nearest its prompts are.
func (t *trainer) near(pl *pool, out *predict.Pool, names []string, dim int) {
	centres := make([][]float32, len(names))
	n := make([]float32, len(names))
	for g := range names {
		centres[g] = make([]float32, dim)
		out.Tasks[g].Centre = centres[g]
	}
	whiten := func(x []float32) []float32 {
		white := make([]float32, dim)
		predict.Whiten(t.model.Whiten, x, white)
		return white
	}
	var white [][]float32
	for r, x := range t.whole(pl.rows) {
		i := pl.rows[r]
		w := whiten(x.value)
		if g := slices.Index(names, t.samples[i].row.Task); g >= 0 {
			n[g]++
			for j, v := range w {
				centres[g][j] += v
			}
		}
		moved := slices.Clone(x.value)
		for j, v := range t.moves[i] {
			moved[j] += v
		}
		white = append(white, w, whiten(moved))
	}
	for g, c := range centres {
		for j := range c {
			c[j] /= n[g]
		}
	}
	far := make([]float64, len(white))
	for r, w := range white {
		far[r] = math.Inf(1)
		for _, c := range centres {
			d := 0.0
			for j, v := range c {
				d += float64((w[j] - v) * (w[j] - v))
			}
			far[r] = min(far[r], d)
		}
	}
	slices.Sort(far)
	// Where all prompts are made after one pattern, others can be farther than they are.
	out.Near = float32(max(far[int(nearShare*float64(len(far)-1))], leastNear*float64(dim)))
}

// expect finds what is expected of each route where nothing is known of the task: what is usual at its price, and as
// much of what it was better on the pool's tasks as they let expect of another one. A route that is not worth its
// price on these may be on that one; at what is usual at its price, each is the best choice at some weight of costs.
func (t *trainer) expect(pl *pool, out *predict.Pool) {
	var routes []int
	var price, quality []float64
	for k := range pl.models {
		sum, n := 0.0, 0.0
		for _, i := range pl.rows {
			if v := t.values(i, func(r *Row) []float64 { return r.Cost })[k]; v > 0 {
				sum, n = sum+math.Log(v), n+1
			}
		}
		if n > 0 && out.Routes[k].Cost != nil {
			routes = append(routes, k)
			price, quality = append(price, sum/n), append(quality, float64(out.Routes[k].Expected))
		}
	}
	if len(routes) < 2 {
		return
	}
	usual := usualAt(price, quality)
	share := t.reliable(pl, routes, usual)
	for j, k := range routes {
		out.Routes[k].Expected = float32(usual[j] + share*(quality[j]-usual[j]))
	}
}

// usualAt is the line through prices and qualities.
func usualAt(price, quality []float64) []float64 {
	var x, y, xx, xy float64
	n := float64(len(price))
	for j := range price {
		x, y = x+price[j]/n, y+quality[j]/n
	}
	for j := range price {
		xx += (price[j] - x) * (price[j] - x)
		xy += (price[j] - x) * (quality[j] - y)
	}
	slope := leastSlope
	if xx > 0 {
		slope = max(xy/xx, leastSlope)
	}
	out := make([]float64, len(price))
	for j := range out {
		out[j] = y + slope*(price[j]-x)
	}
	return out
}

// reliable is the share of what a route was better than usual on the pool's tasks, in the mean, that can be expected
// on another task: by how much routes differ and, within a route, tasks (Efron and Morris 1973). Few tasks hardly say
// how much tasks differ, so that it is taken as large as it well can be.
func (t *trainer) reliable(pl *pool, routes []int, usual []float64) float64 {
	sum, n := map[string][]float64{}, map[string]float64{}
	var names []string
	for _, i := range pl.rows {
		name := t.samples[i].row.Task
		if sum[name] == nil {
			sum[name] = make([]float64, len(routes))
			names = append(names, name)
		}
		n[name]++
		scores := t.scores(i)
		for j, k := range routes {
			sum[name][j] += scores[k]
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return n[name] < fewest })
	tasks := float64(len(names))
	if tasks < 2 {
		return 0
	}
	for _, name := range names {
		level := 0.0
		for j := range routes {
			sum[name][j] = sum[name][j]/n[name] - usual[j]
			level += sum[name][j] / float64(len(routes))
		}
		for j := range routes {
			sum[name][j] -= level
		}
	}
	var betweenTasks, ofMeans float64
	free := float64(len(routes) - 1)
	for j := range routes {
		mean := 0.0
		for _, name := range names {
			mean += sum[name][j] / tasks
		}
		for _, name := range names {
			betweenTasks += (sum[name][j] - mean) * (sum[name][j] - mean) / (tasks - 1) / free
		}
		ofMeans += mean * mean / free
	}
	betweenRoutes := max(ofMeans-betweenTasks/tasks, 0)
	if betweenRoutes == 0 {
		return 0
	}
	return betweenRoutes / (betweenRoutes + upper(betweenTasks, tasks-1)/tasks)
}

// upper is the most that a variance, of which an estimate has so many degrees of freedom, well can be (95 percent, by
// the approximation of Wilson and Hilferty).
func upper(variance, free float64) float64 {
	root := max(1-2/(9*free)-careful*math.Sqrt(2/(9*free)), 0.15)
	return variance / (root * root * root)
}
