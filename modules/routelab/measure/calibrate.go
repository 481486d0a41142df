package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/routelab/learn"
)

// Kept is what a share of the best model's quality comes to on one data set.
type Kept struct {
	Dataset string  `json:"dataset"`
	Share   float64 `json:"share"`
	Margin  float64 `json:"margin"`
	Quality float64 `json:"quality"` // reached, as a share of the best model's
	Saved   float64 `json:"saved"`   // of the best model's cost
	Reached bool    `json:"reached"` // the share is kept, also less one standard error
}

// Shares are those that margins are calibrated for.
var Shares = []float64{0.9, 0.95, 0.98, 1}

// Calibrate finds, for each pool that the data sets are of, the smallest margins with which each share of the best
// model's quality is kept on them, less one standard error. It changes the model's margins. The data sets must not be
// those that the model was trained on: CrossCalibrate is for those.
func Calibrate(m *predict.Model, sets []*learn.Dataset) ([]Kept, error) {
	tables := make([]*Table, len(sets))
	for i, d := range sets {
		t, _, err := Predict(m, d)
		if err != nil {
			return nil, fmt.Errorf("calibrating by %s: %w", d.Name, err)
		}
		tables[i] = t
	}
	return calibrate(m, sets, tables)
}

// CrossCalibrate is Calibrate by the data sets that the model was trained on, each question being judged by a model
// that has not seen it.
func CrossCalibrate(m *predict.Model, sets []*learn.Dataset, folds int, seed uint64) ([]Kept, error) {
	tables := make([]*Table, len(sets))
	for i := range tables {
		tables[i] = new(Table)
	}
	for fold := range folds {
		train, held := learn.Fold(sets, fold, folds)
		part, err := learn.Train(train, seed)
		if err != nil {
			return nil, err
		}
		for i, d := range held {
			if len(d.Rows) == 0 {
				continue
			}
			t, _, err := Predict(part, d)
			if err != nil {
				return nil, fmt.Errorf("calibrating by %s: %w", d.Name, err)
			}
			tables[i].add(t)
		}
	}
	return calibrate(m, sets, tables)
}

// add appends another table's prompts.
func (t *Table) add(o *Table) {
	t.Score, t.Predicted = append(t.Score, o.Score...), append(t.Predicted, o.Predicted...)
	t.Shares = o.Shares
	t.Cost, t.PredictedCost = append(t.Cost, o.Cost...), append(t.PredictedCost, o.PredictedCost...)
}

func calibrate(m *predict.Model, sets []*learn.Dataset, tables []*Table) ([]Kept, error) {
	var all []Kept
	found := map[int][]predict.Margin{}
	for i, d := range sets {
		t := tables[i]
		if len(t.Cost) == 0 || len(t.Cost[0]) < 2 {
			continue
		}
		pool, _, err := m.Pool(d.Models)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(m.Pools, func(p predict.Pool) bool { return slices.Equal(p.Models, pool.Models) })
		for _, share := range Shares {
			k := keep(t, share)
			k.Dataset = d.Name
			all = append(all, k)
			// Of two data sets of one pool the more careful one counts.
			if i := slices.IndexFunc(found[at], func(g predict.Margin) bool { return g.Share == float32(share) }); i >= 0 {
				found[at][i].Margin = max(found[at][i].Margin, float32(k.Margin))
			} else {
				found[at] = append(found[at], predict.Margin{Share: float32(share), Margin: float32(k.Margin)})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no data set has costs of two models or more: calibrate by one that has, or with a " +
			"prices.json")
	}
	for at, margins := range found {
		m.Pools[at].Margins = margins
	}
	return all, nil
}

// keep finds the smallest margin that keeps one share, or the one that comes nearest to it where none does.
func keep(t *Table, share float64) Kept {
	all := every(len(t.Score))
	scores, costs := means(t.Score, all), means(t.Cost, all)
	best := 0
	for k := range scores {
		if scores[k] > scores[best] {
			best = k
		}
	}
	var nearest Kept
	most := math.Inf(-1)
	for step := -40; step <= 40; step++ {
		margin := float64(step) / 100
		var sum, squares, cost float64
		for i := range t.Score {
			at := predict.Keep(t.Predicted[i], t.PredictedCost[i], share, margin)
			d := t.Score[i][at] - share*t.Score[i][best]
			sum, squares, cost = sum+d, squares+d*d, cost+t.Cost[i][at]
		}
		n := float64(len(t.Score))
		mean := sum / n
		k := Kept{Share: share, Margin: margin, Quality: 1}
		if scores[best] > 0 {
			k.Quality = share + mean/scores[best]
		}
		if costs[best] > 0 {
			k.Saved = 1 - cost/n/costs[best]
		}
		if mean-math.Sqrt(max(0, squares/n-mean*mean)/n) >= 0 {
			k.Reached = true
			return k
		}
		if mean > most {
			nearest, most = k, mean
		}
	}
	return nearest
}
