package learn

import (
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// How the regressions on text are fitted. Chosen by cross-validation on the development files, see README.md.
const (
	headEpochs = 10  // passes over the data
	taskCost   = 3   // c of what a model reaches on the prompt's task
	restCost   = 0.1 // and of what the prompt's own score is over that
	ownHeads   = 31  // of pools, all together: with the tasks' and the norm they fill 48 lanes
	unpriced   = 0.2 // weight of models without costs in the choice of a pool's heads
)

// heads regresses the score of each model on text, and keeps of each pool's regressions the few directions in which
// they differ most: a prompt's difficulty for all models, and what distinguishes models. Others tell tasks apart. It
// is done on all rows, for the model, and without each fold in turn, for what the small regressions are trained on.
func (t *trainer) heads() {
	ranks := t.ranks()
	t.own = make([][]int, len(t.pools))
	heads := 0
	for p, rank := range ranks {
		for range rank {
			t.own[p] = append(t.own[p], heads)
			heads++
		}
	}
	codes, rank := t.codes(taskHeads)
	for range rank {
		t.general = append(t.general, heads)
		heads++
	}
	texts, words := make([]sparse, len(t.samples)), make([]sparse, len(t.samples))
	for i := range t.samples {
		texts[i] = t.samples[i].text
		words[i] = texts[i].below(2 * predict.Buckets)
		t.samples[i].z = make([]float64, heads)
	}
	t.model.Heads = make([]predict.Head, heads)
	weights := make([][]float32, heads)
	t.direction = make([][][]float64, len(t.pools))
	for p, rank := range ranks {
		if rank > 0 {
			t.tellModels(p, rank, words, weights)
		}
	}
	t.tellTasks(texts, codes, weights)
	n := float64(len(t.samples))
	for h := range heads {
		var mean, dev float64
		for i := range t.samples {
			mean += t.samples[i].z[h] / n
		}
		for i := range t.samples {
			d := t.samples[i].z[h] - mean
			dev += d * d / n
		}
		head := predict.Head{Mean: float32(mean), Dev: float32(math.Sqrt(dev))}
		for _, w := range weights[h][2*predict.Buckets:] {
			head.Stats = append(head.Stats, w/float32(math.Sqrt(float64(predict.NumStats))))
		}
		t.model.Heads[h] = head
	}
	t.quantise(weights)
}

// ranks says how many heads each pool has: by the root of its rows, and twice as many where there are costs to choose
// by.
func (t *trainer) ranks() []int {
	ranks, weight := make([]int, len(t.pools)), make([]float64, len(t.pools))
	for p := range t.pools {
		weight[p] = math.Sqrt(float64(len(t.pools[p].rows)))
		if slices.Contains(t.matter(p), 1) {
			weight[p] *= 2
		}
	}
	for range ownHeads {
		next := -1
		for p := range t.pools {
			if ranks[p] < len(t.pools[p].models) && (next < 0 ||
				weight[p]/float64(ranks[p]+1) > weight[next]/float64(ranks[next]+1)) {
				next = p
			}
		}
		if next < 0 {
			break
		}
		ranks[next]++
	}
	return ranks
}

// tellModels makes a pool's own heads. They read words alone: with the statistics beside them, which the small
// regressions read anyway, they are worse at prompts that training has not seen.
func (t *trainer) tellModels(p, rank int, words []sparse, weights [][]float32) {
	rows, models := t.pools[p].rows, len(t.pools[p].models)
	task, rest := make([][]float64, len(words)), make([][]float64, len(words))
	for fold := range folds {
		pick := slices.DeleteFunc(slices.Clone(rows), func(i int) bool { return t.samples[i].fold == fold })
		if len(pick) == 0 {
			continue
		}
		ofTask, ofRest := t.regress(p, words, pick)
		for i := range words {
			if t.samples[i].fold == fold {
				task[i], rest[i] = make([]float64, models), make([]float64, models)
				margins(&words[i], ofTask, models, task[i])
				margins(&words[i], ofRest, models, rest[i])
			}
		}
	}
	borneOut := t.borneOut(p, task, rest)
	for i := range words {
		if task[i] != nil {
			add(task[i], rest[i], borneOut)
		}
	}
	w, ofRest := t.regress(p, words, rows)
	for at := 0; at < len(w); at += models {
		add(w[at:at+models], ofRest[at:at+models], borneOut)
	}
	t.direction[p] = t.directions(words, rows, w, t.matter(p), rank)
	for j, head := range t.own[p] {
		along := t.direction[p][j]
		weights[head] = make([]float32, 2*predict.Buckets)
		for at := range weights[head] {
			weights[head][at] = project(w[at*models:at*models+models], along)
		}
		for i := range words {
			if task[i] != nil {
				t.samples[i].z[head] = dot(task[i], along)
			}
		}
	}
}

// regress predicts by how much each model's score is over its mean, from text, by least squares: what the model
// reaches on the prompt's task, which is known well, and, with a larger penalty, by how much the prompt's own score,
// of which most is chance, is over that.
func (t *trainer) regress(p int, words []sparse, pick []int) (ofTask, ofRest []float32) {
	models := len(t.pools[p].models)
	level := t.level(p, pick)
	byTask := map[string][]int{}
	for _, i := range pick {
		name := t.samples[i].row.Task
		byTask[name] = append(byTask[name], i)
	}
	task, rest := make([][]float64, len(words)), make([][]float64, len(words))
	for _, of := range byTask {
		mean, n := t.level(p, of), float64(len(of))
		above := make([]float64, models)
		for k := range mean {
			mean[k] = (n*mean[k] + taskPrior*level[k]) / (n + taskPrior)
			above[k] = mean[k] - level[k]
		}
		for _, i := range of {
			task[i], rest[i] = above, t.scores(i)
			for k := range mean {
				rest[i][k] -= mean[k]
			}
		}
	}
	linear := slices.Repeat([]bool{true}, models)
	fit := func(y [][]float64, cost float64) []float32 {
		return logistic(words, y, pick, 2*predict.Buckets, models, nil, linear, cost, headEpochs, t.seed)
	}
	return fit(task, taskCost), fit(rest, restCost)
}

// level is the mean score of each of a pool's models on some rows.
func (t *trainer) level(p int, pick []int) []float64 {
	level := make([]float64, len(t.pools[p].models))
	for _, i := range pick {
		for k, s := range t.scores(i) {
			level[k] += s / float64(len(pick))
		}
	}
	return level
}

// shares are how much of what is predicted beyond the task held-out prompts bear out, from 0 to 1: in what all models
// have in common, and in what sets them apart, which on some data is next to nothing.
type shares struct {
	common, apart float64
	matter        []float64 // of each model
}

// borneOut compares what was predicted of prompts that were not trained on with their scores.
func (t *trainer) borneOut(p int, task, rest [][]float64) *shares {
	s := &shares{matter: t.matter(p)}
	rows := t.pools[p].rows
	level := t.level(p, rows)
	var along, square [2]float64
	for _, i := range rows {
		if task[i] == nil {
			continue
		}
		left := t.scores(i)
		for k := range left {
			left[k] -= level[k] + task[i][k]
		}
		l, r := common(left, s.matter), common(rest[i], s.matter)
		along[0] += l * r
		square[0] += r * r
		for k, m := range s.matter {
			along[1] += m * (left[k] - l) * (rest[i][k] - r)
			square[1] += m * (rest[i][k] - r) * (rest[i][k] - r)
		}
	}
	share := func(along, square float64) float64 { return min(max(along/max(square, 1e-9), 0), 1) }
	s.common, s.apart = share(along[0], square[0]), share(along[1], square[1])
	return s
}

// common is the mean of values of models, as much as each matters.
func common[T float32 | float64](values []T, matter []float64) float64 {
	sum, weights := 0.0, 0.0
	for k, m := range matter {
		sum += m * float64(values[k])
		weights += m
	}
	return sum / weights
}

// add adds to each model's value what is borne out of what is predicted more.
func add[T float32 | float64](to, more []T, s *shares) {
	mean := common(more, s.matter)
	for k, v := range more {
		to[k] += T(s.common*mean + s.apart*(float64(v)-mean))
	}
}

// directions are the first right singular vectors of what the regressions predict, by the power method.
func (t *trainer) directions(texts []sparse, pick []int, w []float32, matter []float64, rank int) [][]float64 {
	models := len(matter)
	square := make([]float64, models*models)
	out := make([]float64, models)
	for _, i := range pick {
		margins(&texts[i], w, models, out)
		for a, x := range out {
			for b, y := range out {
				square[a*models+b] += x * y * matter[a] * matter[b]
			}
		}
	}
	all := principal(square, models, rank)
	for _, v := range all {
		for k := range v {
			v[k] *= matter[k]
		}
	}
	return all
}

// matter says how much each of a pool's models counts when heads are chosen: those without costs little, for there is
// nothing to choose them by.
func (t *trainer) matter(p int) []float64 {
	pl := &t.pools[p]
	m := slices.Repeat([]float64{1}, len(pl.models))
	for _, i := range pl.rows {
		for k, cost := range t.values(i, func(r *Row) []float64 { return r.Cost }) {
			if math.IsNaN(cost) {
				m[k] = unpriced
			}
		}
	}
	return m
}

// principal are the first eigenvectors of a symmetric matrix, by the power method.
func principal(square []float64, n, rank int) [][]float64 {
	var all [][]float64
	for j := range rank {
		v, next := make([]float64, n), make([]float64, n)
		for k := range v {
			v[k] = math.Sin(float64(k*(j+1) + 1))
		}
		for range 100 {
			for k := range next {
				next[k] = dot(square[k*n:k*n+n], v)
			}
			for _, u := range all {
				along := dot(next, u)
				for k := range next {
					next[k] -= along * u[k]
				}
			}
			length := math.Sqrt(dot(next, next))
			if length < 1e-9 {
				clear(v)
				break
			}
			for k := range v {
				v[k] = next[k] / length
			}
		}
		all = append(all, v)
	}
	return all
}

func project(w []float32, v []float64) float32 {
	sum := 0.0
	for k, x := range w {
		sum += float64(x) * v[k]
	}
	return float32(sum)
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func logit(p float64) float64 {
	p = min(max(p, 0.005), 0.995)
	return math.Log(p / (1 - p))
}

// quantise puts the heads' weights into the model's table.
func (t *trainer) quantise(weights [][]float32) {
	heads := len(weights)
	m := t.model
	m.Lanes = (heads + 1 + 7) / 8 * 8
	m.Table = make([]byte, 2*predict.Buckets*m.Lanes)
	m.Scale = make([]float32, m.Lanes)
	value := func(lane, b int) float64 {
		switch {
		case lane < heads:
			return float64(weights[lane][b]) * t.rarity[b]
		case lane == m.Lanes-1:
			return t.rarity[b] * t.rarity[b]
		}
		return 0
	}
	for lane := range m.Lanes {
		top := 0.0
		for b := range 2 * predict.Buckets {
			top = max(top, math.Abs(value(lane, b)))
		}
		scale := max(top/127, 1e-12)
		m.Scale[lane] = float32(scale)
		for b := range 2 * predict.Buckets {
			m.Table[b*m.Lanes+lane] = byte(128 + math.Round(value(lane, b)/scale))
		}
	}
}
