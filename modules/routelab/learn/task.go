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
	eachRows              = 100  // that a task has at least, to say by itself what makes its prompts difficult
	eachCost              = 0.03 // c of that
	eachHeads, eachStats  = 0.5, 1
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
	out.Tasks = make([]predict.Task, len(names))
	t.near(pl, out, names, dim)
	weight := t.weights(1, taskStats)
	xs := t.dense(pl.rows, weight)
	rows := make([][]int, len(names)) // of each task
	var pick []int
	class := make([]int, len(pl.rows))
	for r, i := range pl.rows {
		if g, ok := place[t.samples[i].row.Task]; ok {
			class[r] = g
			pick = append(pick, r)
			rows[g] = append(rows[g], r)
		}
	}
	w := softmax(xs, class, pick, dim, len(names), taskDecay, t.seed)
	for g := range names {
		out.Tasks[g].Odds = linear(w, len(names), g, dim, weight, float64(w[dim*len(names)+g]))
	}
	for g := range names {
		sum := make([]float64, len(pl.models))
		for _, r := range rows[g] {
			for k, v := range t.scores(pl.rows[r]) {
				sum[k] += v
			}
		}
		for k := range pl.models {
			route := &out.Routes[k]
			route.ByTask = append(route.ByTask,
				float32((sum[k]+taskPrior*float64(route.Mean))/(float64(len(rows[g]))+taskPrior)))
		}
	}
	shares := make([][]float64, len(pl.rows))
	for r := range shares {
		shares[r] = make([]float64, len(names))
		share(&xs[r], w, dim, len(names), shares[r])
	}
	t.within(pl, out, usual, rows, shares)
}

// within fits what is more difficult than its task, for all routes, and by how much that changes each. shares say how
// likely each row is of each task.
func (t *trainer) within(pl *pool, out *predict.Pool, usual []float32, rows [][]int, shares [][]float64) {
	n, dim, models := len(pl.rows), len(usual), len(pl.models)
	y, offset := make([][]float64, n), make([][]float64, n)
	scored, level := make([][]float64, n), make([][]float64, n)
	everyone := make([]int, n)
	for r, i := range pl.rows {
		everyone[r] = r
		y[r], offset[r] = t.scores(i), make([]float64, models)
		all := 0.0
		for k := range models {
			expected := 0.0
			for g, share := range shares[r] {
				expected += share * float64(out.Routes[k].ByTask[g])
			}
			all += expected / float64(models)
			offset[r][k] = logit(expected)
		}
		scored[r], level[r] = []float64{mean(y[r])}, []float64{logit(all)}
	}
	xs := t.dense(pl.rows, usual)
	w := logistic(xs, scored, everyone, dim, 1, level, nil, withinCost, routeEpochs, t.seed)
	out.Within = linear(w, 1, 0, dim, usual, 0)
	one := []float64{0}
	easier := make([]float64, n)
	for r := range xs {
		margins(&xs[r], w, 1, one)
		easier[r] = one[0]
		level[r][0] += one[0]
	}
	// What makes a prompt difficult differs from task to task: a long question of arithmetic is.
	weight := t.weights(eachHeads, eachStats)
	xs = t.dense(pl.rows, weight)
	for g, of := range rows {
		if len(of) < eachRows {
			continue
		}
		w := logistic(xs, scored, of, dim, 1, level, nil, eachCost, routeEpochs, t.seed)
		out.Tasks[g].Within = linear(w, 1, 0, dim, weight, 0)
		for r := range xs {
			margins(&xs[r], w, 1, one)
			easier[r] += shares[r][g] * one[0]
		}
	}
	small := make([]sparse, n)
	for r, v := range easier {
		small[r] = sparse{at: []int32{0, 1}, value: []float32{1, float32(v)}}
	}
	w = logistic(small, y, everyone, 2, models, offset, nil, slopeCost, routeEpochs, t.seed)
	for k := range models {
		out.Routes[k].Shift, out.Routes[k].Slope = w[k], w[models+k]
	}
}

// weights are those of heads and of statistics in a regression.
func (t *trainer) weights(heads, stats float32) []float32 {
	return slices.Concat(slices.Repeat([]float32{heads}, len(t.model.Heads)),
		slices.Repeat([]float32{stats}, predict.NumStats))
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
