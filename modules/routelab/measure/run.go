package measure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/routelab/learn"
)

// Result is what a model is worth on one data set.
type Result struct {
	Dataset          string
	N                int
	Value, Low, High Figures
	// Shuffled are the figures on a copy of the data set with the options of each prompt in another order and its
	// instruction in other words.
	Shuffled Figures
	// LeftOut has the area of each task that was left out of training.
	LeftOut map[string]float64

	Curve Curve
}

// Curve is what is drawn of a data set.
type Curve struct {
	Models      []string
	Singles     []Point // in the order of Models
	Mix         []Point // hull of the single models
	Router      []Point // hull
	Oracle      []Point
	Calibration []Bin
	Tasks       []Task
	Shares      bool // costs are shares of prompts sent to the stronger model
}

// Bin is prompts and models with a similar predicted quality.
type Bin struct {
	Predicted, True float64
	N               int
}

// Task is the area of one task.
type Task struct {
	Name string
	N    int
	Area float64
}

// MarshalJSON writes dataset, n and each figure beside its interval.
func (r *Result) MarshalJSON() ([]byte, error) {
	out := map[string]any{"dataset": r.Dataset, "n": r.N}
	for name, v := range r.Value {
		out[name] = round(v)
		if low, ok := r.Low[name]; ok {
			out[name+"_low"], out[name+"_high"] = round(low), round(r.High[name])
		}
	}
	shuffled := map[string]float64{}
	for name, v := range r.Shuffled {
		shuffled[name] = round(v)
	}
	if len(shuffled) > 0 {
		out["shuffled"] = shuffled
	}
	if len(r.LeftOut) > 0 {
		left := map[string]float64{}
		for name, v := range r.LeftOut {
			left[name] = round(v)
		}
		out["left_out"] = left
		out["harm"] = round(r.Harm())
	}
	return json.Marshal(out)
}

// Harm is the lowest area over the tasks that were left out.
func (r *Result) Harm() float64 {
	harm := math.Inf(1)
	for _, v := range r.LeftOut {
		harm = min(harm, v)
	}
	return harm
}

func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// Eval judges a model by each data set, with the code that the gateway predicts with.
func Eval(m *predict.Model, sets []*learn.Dataset, seed uint64) ([]*Result, error) {
	var out []*Result
	for _, d := range sets {
		r, err := evalOne(m, d, seed)
		if err != nil {
			return nil, fmt.Errorf("judging by %s: %w", d.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func evalOne(m *predict.Model, d *learn.Dataset, seed uint64) (*Result, error) {
	t, use, err := Predict(m, d)
	if err != nil {
		return nil, err
	}
	r := &Result{Dataset: d.Name, N: len(d.Rows)}
	r.Value, r.Low, r.High = Judge(t, seed)
	copied, _, err := Predict(m, learn.Shuffle(d, seed))
	if err != nil {
		return nil, err
	}
	r.Shuffled = newJudge(copied, seed).figures(every(len(copied.Score)))
	r.Curve = curve(t, d, use, seed)
	return r, nil
}

// LeaveOut trains anew without each of the tasks, and judges the data sets by what they have of it. What is too
// little to judge by (less than 30 prompts) is passed over; a task that nothing can be judged by is refused before
// anything is trained.
func LeaveOut(train, sets []*learn.Dataset, tasks []string, seed uint64, results []*Result) error {
	judged := Judged(sets)
	for _, task := range tasks {
		if !slices.Contains(judged, task) {
			return fmt.Errorf("no data set has 30 prompts of the task %q with costs: leave out one that has", task)
		}
	}
	for _, task := range tasks {
		m, err := learn.Train(learn.Without(train, task), seed)
		if err != nil {
			return fmt.Errorf("training without the task %q: %w", task, err)
		}
		for s, d := range sets {
			part := d.Only(task)
			if !judges(part) {
				continue
			}
			t, _, err := Predict(m, part)
			if err != nil {
				return fmt.Errorf("judging by %s: %w", d.Name, err)
			}
			if area, ok := newJudge(t, seed).figures(every(len(t.Score)))["area"]; ok {
				if results[s].LeftOut == nil {
					results[s].LeftOut = map[string]float64{}
				}
				results[s].LeftOut[task] = area
			}
		}
	}
	return nil
}

// Judged are the tasks that LeaveOut can judge by, sorted.
func Judged(sets []*learn.Dataset) (tasks []string) {
	for _, d := range sets {
		seen := make(map[string]bool)
		for i := range d.Rows {
			if task := d.Rows[i].Task; !seen[task] {
				seen[task] = true
				if judges(d.Only(task)) {
					tasks = append(tasks, task)
				}
			}
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks)
}

// judges reports whether a part of a data set is enough to judge by, and has costs or two models (see Predict).
func judges(part *learn.Dataset) bool {
	return len(part.Rows) >= 30 && (len(part.Priced()) > 1 || len(part.Models) == 2)
}

// Predict makes a table of a data set: of the models whose costs are known or, where there are none, of all. Of two
// models without costs, or whose costs were not learned, the stronger one costs 1 and the other nothing, so that costs
// are shares of prompts.
func Predict(m *predict.Model, d *learn.Dataset) (*Table, []int, error) {
	pool, at, err := m.Pool(d.Models)
	if err != nil {
		return nil, nil, err
	}
	use := d.Priced()
	unlearned := slices.IndexFunc(use, func(k int) bool { return pool.Routes[at[k]].Cost == nil })
	priced := len(use) > 1 && (unlearned < 0 || len(d.Models) > 2)
	if priced && unlearned >= 0 {
		return nil, nil, fmt.Errorf("the model file has not learned what answers of %s cost: train it on a data set with "+
			"costs, or with a prices.json", d.Models[use[unlearned]])
	}
	if !priced {
		use = every(len(d.Models))
	}
	strong := -1
	if !priced && len(use) == 2 {
		strong = 0
		if sum(d, 1) >= sum(d, 0) {
			strong = 1
		}
	}
	t := &Table{Shares: strong >= 0}
	f, s := predict.NewFeatures(), &predict.Signal{}
	quality := make([]float64, len(pool.Models))
	for i := range d.Rows {
		row := &d.Rows[i]
		f.Read(row.Request())
		m.Look(f, s)
		pool.Quality(s, quality)
		var score, predicted, cost, paid []float64
		for _, k := range use {
			score, predicted = append(score, row.Score[k]), append(predicted, quality[at[k]])
			switch {
			case priced:
				expected, _ := pool.CostOf(at[k], s)
				cost, paid = append(cost, expected), append(paid, row.Cost[k])
			case k == strong:
				cost, paid = append(cost, 1), append(paid, 1)
			case strong >= 0:
				cost, paid = append(cost, 0), append(paid, 0)
			}
		}
		t.Score, t.Predicted = append(t.Score, score), append(t.Predicted, predicted)
		if priced || strong >= 0 {
			t.Cost, t.PredictedCost = append(t.Cost, paid), append(t.PredictedCost, cost)
		}
	}
	return t, use, nil
}

func sum(d *learn.Dataset, k int) (total float64) {
	for i := range d.Rows {
		total += d.Rows[i].Score[k]
	}
	return total
}

func curve(t *Table, d *learn.Dataset, use []int, seed uint64) Curve {
	all := every(len(t.Score))
	var c Curve
	for _, k := range use {
		c.Models = append(c.Models, d.Models[k])
	}
	c.Calibration = calibration(t)
	if t.Cost == nil {
		return c
	}
	c.Shares = t.Shares
	j := newJudge(t, seed)
	c.Singles = singles(t.Score, t.Cost, all)
	c.Mix, c.Router, c.Oracle = hull(slices.Clone(c.Singles)), hull(j.router.points(all)), hull(j.oracle.points(all))
	byTask := map[string][]int{}
	for i := range d.Rows {
		byTask[d.Rows[i].Task] = append(byTask[d.Rows[i].Task], i)
	}
	for name, pick := range byTask {
		if len(pick) >= 20 {
			c.Tasks = append(c.Tasks, Task{name, len(pick), j.figures(pick)["area"]})
		}
	}
	slices.SortFunc(c.Tasks, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// calibration compares predicted with true quality in ten bins of as many predictions each.
func calibration(t *Table) []Bin {
	type pair struct{ predicted, true float64 }
	var pairs []pair
	for i := range t.Score {
		for k := range t.Score[i] {
			pairs = append(pairs, pair{t.Predicted[i][k], t.Score[i][k]})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.predicted, b.predicted) })
	var bins []Bin
	for b := range 10 {
		part := pairs[b*len(pairs)/10 : (b+1)*len(pairs)/10]
		if len(part) == 0 {
			continue
		}
		bin := Bin{N: len(part)}
		for _, p := range part {
			bin.Predicted += p.predicted / float64(len(part))
			bin.True += p.true / float64(len(part))
		}
		bins = append(bins, bin)
	}
	return bins
}

// CrossEval judges training by the data sets that it trains on: each question by a model that has not seen it.
func CrossEval(sets []*learn.Dataset, folds int, seed uint64) ([]*Result, error) {
	tables, copies := make([]Table, len(sets)), make([]Table, len(sets))
	uses := make([][]int, len(sets))
	rows := make([][]learn.Row, len(sets))
	for fold := range folds {
		train, held := learn.Fold(sets, fold, folds)
		m, err := learn.Train(train, seed)
		if err != nil {
			return nil, err
		}
		for s, d := range held {
			if len(d.Rows) == 0 {
				continue
			}
			for to, d := range map[*Table]*learn.Dataset{&tables[s]: d, &copies[s]: learn.Shuffle(d, seed)} {
				t, use, err := Predict(m, d)
				if err != nil {
					return nil, fmt.Errorf("judging by %s: %w", d.Name, err)
				}
				uses[s] = use
				to.add(t)
			}
			rows[s] = append(rows[s], d.Rows...)
		}
	}
	var out []*Result
	for s, d := range sets {
		whole := &learn.Dataset{Name: d.Name, Models: d.Models, Rows: rows[s]}
		r := &Result{Dataset: d.Name, N: len(rows[s])}
		r.Value, r.Low, r.High = Judge(&tables[s], seed)
		r.Shuffled = newJudge(&copies[s], seed).figures(every(len(copies[s].Score)))
		r.Curve = curve(&tables[s], whole, uses[s], seed)
		out = append(out, r)
	}
	return out, nil
}
