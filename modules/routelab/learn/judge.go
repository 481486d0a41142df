package learn

import (
	"math/rand/v2"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Judged is what a model that was taught by a part of outcomes makes of the others, beside what predicted before.
type Judged struct {
	Lines    int `json:"lines"`
	Requests int `json:"requests"`
	// Before and After are the mean log loss, in nats: less is better. Gained is by how much it is less, and lies between
	// Low and High in 95 percent of bootstrap samples of the requests.
	Before float64 `json:"log_loss_before"`
	After  float64 `json:"log_loss_after"`
	Gained float64 `json:"gained"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Better reports whether it is, beyond what luck can be.
func (j *Judged) Better() bool { return j.Low > 0 }

const bootstraps = 300

// JudgeOutcomes teaches a base model by four fifths of the requests, and judges by the last. Before is what earlier
// outcomes had taught the base, and of a model without any how good it is on the whole.
func JudgeOutcomes(base *predict.Model, lines []Outcome) (Judged, error) {
	var taught, held []Outcome
	for _, l := range lines[max(0, len(lines)-MostOutcomes):] {
		if l.Weight <= 0 {
			continue
		}
		if foldOf(l.ID) == 0 {
			held = append(held, l)
		} else {
			taught = append(taught, l)
		}
	}
	m, err := TrainOutcomes(base, taught)
	if err != nil {
		return Judged{}, err
	}
	after := &m.Pools[len(m.Pools)-1]
	was := slices.IndexFunc(base.Pools, func(p predict.Pool) bool { return p.Outcomes })
	var s predict.Signal
	gains, at := [][2]float64{}, make(map[string]int) // by request: gain and weight
	var j Judged
	total := 0.0
	for _, l := range held {
		k := slices.Index(after.Models, l.Model)
		if k < 0 || !m.Unpack(l.Signal, &s) {
			continue
		}
		before := float64(after.Routes[k].Mean)
		now := logLoss(after.QualityOf(k, &s), l.Score)
		if was >= 0 {
			if b := slices.Index(base.Pools[was].Models, l.Model); b >= 0 && base.Unpack(l.Signal, &s) {
				before = base.Pools[was].QualityOf(b, &s)
			}
		}
		then := logLoss(before, l.Score)
		n, ok := at[l.ID]
		if !ok {
			n = len(gains)
			at[l.ID] = n
			gains = append(gains, [2]float64{})
		}
		gains[n][0] += l.Weight * (then - now)
		gains[n][1] += l.Weight
		j.Lines++
		j.Before, j.After, total = j.Before+l.Weight*then, j.After+l.Weight*now, total+l.Weight
	}
	if j.Requests = len(gains); j.Requests == 0 {
		return j, nil
	}
	j.Before, j.After = j.Before/total, j.After/total
	j.Gained = j.Before - j.After
	random := rand.New(rand.NewPCG(uint64(len(gains)), 11))
	means := make([]float64, bootstraps)
	for i := range means {
		var sum, weight float64
		for range gains {
			g := &gains[random.IntN(len(gains))]
			sum, weight = sum+g[0], weight+g[1]
		}
		means[i] = sum / weight
	}
	slices.Sort(means)
	j.Low, j.High = means[bootstraps*25/1000], means[bootstraps*975/1000]
	return j, nil
}
