package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fareway/fareway/modules/routelab/learn"
)

// Agreement is what `agree` of two seats would have come to on a data set whose answers can be compared, beside a
// single model. Costs are US dollars for a prompt.
type Agreement struct {
	Dataset  string    `json:"dataset"`
	N        int       `json:"n"`
	Seats    [2]string `json:"seats"`
	Escalate string    `json:"escalate"`
	Agreed   float64   `json:"agreed"` // share of the prompts on which the seats gave the same answer
	Right    float64   `json:"right"`  // mean score of those
	Quality  float64   `json:"quality"`
	Cost     float64   `json:"cost"`
	// Single is what it is compared with: the cheapest model that is at least as good, or the best one where none is.
	Single        string  `json:"single"`
	SingleQuality float64 `json:"single_quality"`
	SingleCost    float64 `json:"single_cost"`
	// Gain is by how much it is better than the single model, and Saved the share of that one's cost that it saves; each
	// with the 2.5 and 97.5 percent of 300 bootstrap samples.
	Gain  Interval `json:"gain"`
	Saved Interval `json:"saved"`
}

// Interval is a value and what 95 percent of samples lie between.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// trio is two seats and what is escalated to, by their places in Dataset.Models.
type trio struct{ a, b, escalate int }

// outcome is what a trio comes to on one prompt.
func (t trio) outcome(r *learn.Row) (score, cost float64, agreed bool) {
	cost = r.Cost[t.a] + r.Cost[t.b]
	if x, y := r.Answer[t.a], r.Answer[t.b]; x >= 0 && x == y {
		return r.Score[t.a], cost, true
	}
	if t.escalate != t.a && t.escalate != t.b {
		cost += r.Cost[t.escalate]
	}
	return r.Score[t.escalate], cost, false
}

// Agree measures named models on the data sets that have them and their answers: two seats, and what is escalated to.
// Each is compared with the cheapest model of its data set that is at least as good.
func Agree(sets []*learn.Dataset, seats [2]string, escalate string, seed uint64) ([]Agreement, error) {
	var all []Agreement
	for _, d := range sets {
		t := trio{slices.Index(d.Models, seats[0]), slices.Index(d.Models, seats[1]), slices.Index(d.Models, escalate)}
		if min(t.a, t.b, t.escalate) < 0 || !d.Compares() {
			continue
		}
		if use := d.Priced(); !slices.Contains(use, t.a) || !slices.Contains(use, t.b) || !slices.Contains(use, t.escalate) {
			return nil, fmt.Errorf("data set %s has no cost of %s, %s or %s: add it to prices.json", d.Name, seats[0], seats[1],
				escalate)
		}
		quality, _ := t.means(d)
		all = append(all, t.measure(d, single(d, quality), seed))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no data set has answers (the field `a`) of %s, %s and %s", seats[0], seats[1], escalate)
	}
	return all, nil
}

// AgreeBest finds, on one half of each data set with answers, the cheapest two seats and escalation that are at least
// as good as the best single model there, and measures both on the other half; then the other way round.
func AgreeBest(sets []*learn.Dataset, seed uint64) ([]Agreement, error) {
	var all []Agreement
	for fold := range 2 {
		found, held := learn.Fold(sets, fold, 2)
		for i, d := range found {
			if !d.Compares() || len(d.Rows) == 0 || len(held[i].Rows) == 0 {
				continue
			}
			best := single(d, math.Inf(1))
			if best < 0 {
				continue
			}
			if t, ok := cheapest(d, best); ok {
				all = append(all, t.measure(held[i], best, seed))
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no data set has answers (the field `a`) and costs of models that could agree")
	}
	return all, nil
}

// cheapest is the trio that costs least of those that are as good as a model; false where none is.
func cheapest(d *learn.Dataset, than int) (t trio, ok bool) {
	target := meanOf(d, func(r *learn.Row) float64 { return r.Score[than] })
	low := math.Inf(1)
	use := d.Priced()
	for i, a := range use {
		for _, b := range use[i+1:] {
			if meanOf(d, func(r *learn.Row) float64 { return r.Cost[a] + r.Cost[b] }) >= low {
				continue
			}
			for _, e := range use {
				if e == a || e == b {
					continue
				}
				if quality, cost := (trio{a, b, e}).means(d); quality >= target && cost < low {
					t, low, ok = trio{a, b, e}, cost, true
				}
			}
		}
	}
	return t, ok
}

// single is the cheapest model that is at least as good, or the best one where none is; -1 where no cost is known.
func single(d *learn.Dataset, quality float64) int {
	best, enough := -1, -1
	var top, least float64
	for _, k := range d.Priced() {
		score := meanOf(d, func(r *learn.Row) float64 { return r.Score[k] })
		cost := meanOf(d, func(r *learn.Row) float64 { return r.Cost[k] })
		if best < 0 || score > top {
			best, top = k, score
		}
		if score >= quality && (enough < 0 || cost < least) {
			enough, least = k, cost
		}
	}
	if enough >= 0 {
		return enough
	}
	return best
}

func meanOf(d *learn.Dataset, of func(*learn.Row) float64) (sum float64) {
	for i := range d.Rows {
		sum += of(&d.Rows[i])
	}
	return sum / float64(len(d.Rows))
}

func (t trio) means(d *learn.Dataset) (quality, cost float64) {
	for i := range d.Rows {
		s, c, _ := t.outcome(&d.Rows[i])
		quality, cost = quality+s, cost+c
	}
	n := float64(len(d.Rows))
	return quality / n, cost / n
}

// measure measures a trio beside a single model.
func (t trio) measure(d *learn.Dataset, than int, seed uint64) Agreement {
	a := Agreement{Dataset: d.Name, N: len(d.Rows), Seats: [2]string{d.Models[t.a], d.Models[t.b]},
		Escalate: d.Models[t.escalate], Single: d.Models[than]}
	pick := every(len(d.Rows))
	agreed, right := 0.0, 0.0
	compare := func() (gain, saved float64) {
		var quality, cost, other, paid float64
		for _, i := range pick {
			r := &d.Rows[i]
			s, c, same := t.outcome(r)
			quality, cost = quality+s, cost+c
			other, paid = other+r.Score[than], paid+r.Cost[than]
			if same {
				agreed, right = agreed+1, right+s
			}
		}
		n := float64(len(pick))
		a.Quality, a.Cost, a.SingleQuality, a.SingleCost = quality/n, cost/n, other/n, paid/n
		return (quality - other) / n, 1 - cost/paid
	}
	a.Gain.Value, a.Saved.Value = compare()
	a.Agreed, a.Right = agreed/float64(len(pick)), right/max(agreed, 1)
	whole := a
	random := rand.New(rand.NewPCG(seed, 3))
	var gains, saved []float64
	for range Samples {
		for i := range pick {
			pick[i] = random.IntN(len(d.Rows))
		}
		g, s := compare()
		gains, saved = append(gains, g), append(saved, s)
	}
	slices.Sort(gains)
	slices.Sort(saved)
	whole.Gain.Low, whole.Gain.High = quantile(gains, 0.025), quantile(gains, 0.975)
	whole.Saved.Low, whole.Saved.High = quantile(saved, 0.025), quantile(saved, 0.975)
	return whole
}
