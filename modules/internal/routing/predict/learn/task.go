package learn

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How tasks are told apart. Chosen as the others are.
const (
	taskHeads             = 16  // of all pools together
	codeCost              = 3   // c of the regressions of codes on text
	taskStats             = 0.2 // weight of statistics beside heads
	taskDecay             = 0.003
	taskPrior             = 10 // observations that a route's mean counts for beside those of a task
	withinCost, slopeCost = 0.01, 0.05
)

// codes gives each task a few numbers, so that tasks whose texts differ most have the most different ones: the
// principal directions of their mean vectors. It returns the numbers of each sample's task, and how many.
func (t *trainer) codes(most int) (of [][]float64, rank int) {
	at := map[string]int{}
	var vectors [][]float64
	var n []float64
	all := make([]float64, t.dim)
	task := make([]int, len(t.samples))
	for i := range t.samples {
		s := &t.samples[i]
		name := s.row.Task
		g, ok := at[name]
		if !ok {
			g = len(vectors)
			at[name] = g
			vectors = append(vectors, make([]float64, t.dim))
			n = append(n, 0)
		}
		task[i] = g
		n[g]++
		for j, b := range s.text.at {
			vectors[g][b] += float64(s.text.value[j])
			all[b] += float64(s.text.value[j]) / float64(len(t.samples))
		}
	}
	tasks := len(vectors)
	if tasks < 2 {
		return nil, 0
	}
	// The tasks' means about the mean of all, by the root of their rows.
	weight := func(g int) float64 { return math.Sqrt(min(n[g], 100)) }
	for g := range vectors {
		for b := range all {
			vectors[g][b] = (vectors[g][b]/n[g] - all[b]) * weight(g)
		}
	}
	gram := make([]float64, tasks*tasks)
	for a := range tasks {
		for b := range a + 1 {
			gram[a*tasks+b] = dot(vectors[a], vectors[b])
			gram[b*tasks+a] = gram[a*tasks+b]
		}
	}
	rank = min(most, tasks)
	code := principal(gram, tasks, rank)
	out := make([][]float64, len(t.samples))
	for i := range out {
		out[i] = make([]float64, rank)
		for j, v := range code {
			out[i][j] = v[task[i]] / weight(task[i]) * 10
		}
	}
	return out, rank
}

// tellTasks regresses the codes of tasks on text.
func (t *trainer) tellTasks(texts []sparse, codes [][]float64, weights [][]float32) {
	rank := len(t.general)
	if rank == 0 {
		return
	}
	linear := slices.Repeat([]bool{true}, rank)
	out := make([]float64, rank)
	for fold := -1; fold < folds; fold++ {
		var pick []int
		for i := range t.samples {
			if t.samples[i].fold != fold {
				pick = append(pick, i)
			}
		}
		w := logistic(texts, codes, pick, t.dim, rank, nil, linear, codeCost, headEpochs, t.seed)
		if fold < 0 {
			for j, head := range t.general {
				weights[head] = make([]float32, t.dim)
				for at := range t.dim {
					weights[head][at] = w[at*rank+j]
				}
			}
			continue
		}
		for i := range t.samples {
			if t.samples[i].fold == fold {
				margins(&texts[i], w, rank, out)
				for j, head := range t.general {
					t.samples[i].z[head] = out[j]
				}
			}
		}
	}
}

// byTask fits which of the pool's tasks a prompt is of, and what each route is worth there.
func (t *trainer) byTask(pl *pool, out *predict.Pool, usual []float32, dim int) {
	count := map[string]float64{}
	for _, i := range pl.rows {
		count[t.samples[i].row.Task]++
	}
	var names []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	names = names[:min(len(names), predict.MaxTasks)]
	place := map[string]int{}
	for g, name := range names {
		place[name] = g
	}
	t.near(pl, out, names, dim)
	heads, models := len(t.model.Heads), len(pl.models)
	weight := slices.Repeat([]float32{1}, dim)
	for j := heads; j < dim; j++ {
		weight[j] = taskStats
	}
	xs := t.dense(pl.rows, weight)
	var pick []int
	class := make([]int, len(pl.rows))
	for r, i := range pl.rows {
		g, ok := place[t.samples[i].row.Task]
		class[r] = g
		if ok {
			pick = append(pick, r)
		}
	}
	w := softmax(xs, class, pick, dim, len(names), taskDecay, t.seed)
	for g := range names {
		l := predict.Linear{Bias: w[dim*len(names)+g]}
		for at := range dim {
			l.Weights = append(l.Weights, w[at*len(names)+g]*weight[at])
		}
		out.Tasks = append(out.Tasks, l)
	}
	sum := make([][]float64, len(names))
	n := make([]float64, len(names))
	for g := range sum {
		sum[g] = make([]float64, models)
	}
	for _, r := range pick {
		n[class[r]]++
		for k, v := range t.scores(pl.rows[r]) {
			sum[class[r]][k] += v
		}
	}
	for k := range models {
		route := &out.Routes[k]
		for g := range names {
			route.ByTask = append(route.ByTask,
				float32((sum[g][k]+taskPrior*float64(route.Mean))/(n[g]+taskPrior)))
		}
	}
	// What is more difficult than its task, for all routes, and by how much that changes each.
	y, offset, small := make([][]float64, len(pl.rows)), make([][]float64, len(pl.rows)), make([]sparse, len(pl.rows))
	mean, level := make([][]float64, len(pl.rows)), make([][]float64, len(pl.rows))
	posterior := make([]float64, len(names))
	everyone := make([]int, len(pl.rows))
	for r, i := range pl.rows {
		everyone[r] = r
		share(&xs[r], w, dim, len(names), posterior)
		offset[r] = make([]float64, models)
		all, scored := 0.0, 0.0
		y[r] = t.scores(i)
		for k := range models {
			mean := 0.0
			for g, p := range posterior {
				mean += p * float64(out.Routes[k].ByTask[g])
			}
			all += mean / float64(models)
			scored += y[r][k] / float64(models)
			offset[r][k] = logit(mean)
		}
		mean[r], level[r] = []float64{scored}, []float64{logit(all)}
	}
	within := t.dense(pl.rows, usual)
	fit := logistic(within, mean, everyone, dim, 1, level, nil, withinCost, routeEpochs, t.seed)
	out.Within = linear(fit, 1, 0, dim, usual, 0)
	one := []float64{0}
	for r := range pl.rows {
		margins(&within[r], fit, 1, one)
		small[r] = sparse{at: []int32{0, 1}, value: []float32{1, float32(one[0])}}
	}
	fit = logistic(small, y, everyone, 2, models, offset, nil, slopeCost, routeEpochs, t.seed)
	for k := range models {
		out.Routes[k].Shift, out.Routes[k].Slope = fit[k], fit[models+k]
	}
}

// share is the softmax of a row.
func share(x *sparse, w []float32, dim, classes int, out []float64) {
	for g := range out {
		out[g] = float64(w[dim*classes+g])
	}
	for j, at := range x.at {
		v := float64(x.value[j])
		for g, c := range w[int(at)*classes : int(at)*classes+classes] {
			out[g] += v * float64(c)
		}
	}
	top := slices.Max(out)
	sum := 0.0
	for g, z := range out {
		out[g] = math.Exp(z - top)
		sum += out[g]
	}
	for g := range out {
		out[g] /= sum
	}
}

// softmax fits a multinomial logistic regression by stochastic descent with steps of each weight's own (Duchi, Hazan
// and Singer 2011): weights[place*classes+class], and behind them a bias for each class.
func softmax(xs []sparse, class []int, pick []int, dim, classes int, penalty float64, seed uint64) []float32 {
	w := make([]float32, (dim+1)*classes)
	square := make([]float32, (dim+1)*classes)
	order := slices.Clone(pick)
	random := rand.New(rand.NewPCG(seed, 8))
	p := make([]float64, classes)
	const epochs, step = 20, 0.1
	for range epochs {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, r := range order {
			x := &xs[r]
			share(x, w, dim, classes, p)
			p[class[r]]--
			move := func(at int, v float64) {
				for g, d := range p {
					i := at*classes + g
					slope := float32(d*v + penalty*float64(w[i]))
					square[i] += slope * slope
					w[i] -= step * slope / float32(math.Sqrt(float64(square[i])+1e-6))
				}
			}
			for j, at := range x.at {
				move(int(at), float64(x.value[j]))
			}
			move(dim, 1)
		}
	}
	return w
}
