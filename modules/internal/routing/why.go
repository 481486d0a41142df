package routing

import (
	"fmt"
	"math"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Lost says why a candidate is not the first choice.
type Lost struct {
	Reason string `json:"reason"`
	// Better is how much more quality would make it the first choice, and Price below which share of its price it would
	// be that; each with all else as it is, rates and the unit's price too. null: no such change would do by itself.
	Better *float64 `json:"quality_more"`
	Price  *float64 `json:"price_share"`
}

// lost compares a candidate with the first choice.
func (it *Itinerary) lost(c *Candidate) *Lost {
	first := &it.Candidates[0]
	kept := it.Stay == StayHome
	for i := range it.Options {
		switch o := &it.Options[i]; {
		case !o.Chosen:
		case o.Strategy.When != nil:
			return &Lost{Reason: fmt.Sprintf("`when` of strategy %s holds", o.Strategy.Name)}
		default:
			first, kept = &o.As, false
		}
	}
	if c == first {
		return nil
	}
	switch {
	case it.Stay == StayLoop:
		return &Lost{Reason: "a turn that answers tool calls stays on its route"}
	case c.Behind != nil && first.Behind == nil:
		return &Lost{Reason: "it is called where no other is left"}
	case c.Matches < first.Matches:
		return &Lost{Reason: "another is kept for such requests"}
	case c.Cramped && !first.Cramped:
		return &Lost{Reason: "it reasons, and the allowance is tiny"}
	case first.Keeps:
		return keepsLess(c, first, it.KeepFrom, kept)
	}
	need, reason := first.Utility-c.Utility, "its utility is less"
	switch {
	case kept && need <= 0:
		need += staying(first, it.Rate)
		reason = "it gains too little for a conversation to leave its route"
	case kept:
		need += staying(first, it.Rate)
	case need <= 0: // a little more would do
		need, reason = 0, "it is as useful, and no cheaper"
	}
	l := &Lost{Reason: reason}
	if math.IsInf(it.Rate, 1) {
		l.Price = shareOf(pricesOf(c.Units-need), pricesOf(c.Units))
		return l
	}
	if c.Quality+need <= 1 {
		l.Better = &need
	}
	if it.Rate > 0 {
		l.Price = shareOf(pricesOf(c.Units-need/it.Rate), pricesOf(c.Units))
	}
	return l
}

// keepsLess compares it with a first choice that keeps the profile's share of the best quality.
func keepsLess(c, first *Candidate, from float64, kept bool) *Lost {
	switch {
	case kept:
		return &Lost{Reason: "a conversation stays while its route keeps"}
	case !c.Keeps && c.Cost < first.Cost:
		return &Lost{Reason: "its quality is less than what is to be kept", Better: new(from - c.Quality)}
	case !c.Keeps:
		return &Lost{Reason: "its quality is less than what is to be kept, and it is not cheaper"}
	}
	return &Lost{Reason: "it keeps, but is dearer", Price: shareOf(first.Cost, c.Cost)}
}

// shareOf is part of a whole, nil where there is none.
func shareOf(part, whole float64) *float64 {
	if part <= 0 || whole <= 0 {
		return nil
	}
	return new(part / whole)
}

// Turn is by how much harder or easier a request would have to be, as its difficulty goes from 0 to 1, for another
// first choice.
type Turn struct {
	By    float64 `json:"by"`
	Route string  `json:"route"`
}

// turn looks for it in steps of a hundredth, by planning again, no further than requests go. It is nil where nothing
// would change, and where that cannot be told: a route of which recorded answers tell more than the difficulty, and
// strategies.
func (in *Input) turn(first string, difficulty float64, harder bool) *Turn {
	if len(in.Strategies) > 0 || in.shift != 0 || difficulty <= 0 || difficulty >= 1 {
		return nil
	}
	for i := range in.Routes {
		if r := &in.Routes[i]; r.QualityWeight > 0 && len(in.Predictor.known.of(r.Model)) > 0 {
			return nil
		}
	}
	const step = 0.01
	odds := func(d float64) float64 { return math.Log(d / (1 - d)) }
	other := *in
	for k := 1; k < 100; k++ {
		by := step * float64(k)
		to := difficulty + by
		if !harder {
			to = difficulty - by
		}
		if to <= 0 || to >= predict.Hardest {
			return nil
		}
		other.shift = float32(odds(difficulty) - odds(to))
		it, err := MakeItinerary(other)
		if err != nil {
			return nil
		}
		if name := it.Candidates[0].Route.Name; name != first {
			return &Turn{By: math.Round(by/step) * step, Route: name}
		}
	}
	return nil
}
