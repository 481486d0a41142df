package routing

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Learned is how outcomes (package outcome) change what is expected of routes, by kind of work. It is never changed;
// nil changes nothing.
type Learned map[LearnedOf]*[predict.NumKinds]Effect

// LearnedOf is a route with its model as the upstream calls it: what was learned is about no other.
type LearnedOf struct{ Route, Model string }

// Effect is how outcomes change a quality q, which counts as PriorWeight observations or the route's own weight beside
// what people said: Reliability x (weight x q + Good) / (weight + Good + Bad).
type Effect struct {
	// Reliability is the share of replies that are expected to be what they should, as far as that shows: 1 where
	// nothing was seen.
	Reliability float64
	Good, Bad   float64 // what people said, as many observations
}

// NoEffect changes nothing.
var NoEffect = Effect{Reliability: 1}

// PriorWeight is as how many observations the quality of a route counts that has no weight of its own.
const PriorWeight = 40

// On is a quality with the effect. What is summed over kinds of work can be a rounding more than 1, which is no
// probability: a strategy's expectation takes roots of what is left.
func (e Effect) On(q, weight float64) float64 {
	if weight <= 0 {
		weight = PriorWeight
	}
	return min(max(e.Reliability*(weight*q+e.Good)/(weight+e.Good+e.Bad), 0), 1)
}

// On is a route's quality for work of one kind.
func (l Learned) On(r *config.Route, kind predict.Kind, q float64) float64 {
	var one [predict.NumKinds]float32
	one[kind] = 1
	return l.on(r, &one, q)
}

// on is a route's quality for work of these kinds.
func (l Learned) on(r *config.Route, kinds *[predict.NumKinds]float32, q float64) float64 {
	effects := l[LearnedOf{r.Name, r.Model}]
	if effects == nil || !r.Learns() {
		return q
	}
	var e Effect
	for k, share := range kinds {
		e.Reliability += float64(share) * effects[k].Reliability
		e.Good += float64(share) * effects[k].Good
		e.Bad += float64(share) * effects[k].Bad
	}
	return e.On(q, float64(r.QualityWeight))
}
