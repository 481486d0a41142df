package routing

import (
	"cmp"
	"math"
	"slices"
)

// compareAll fills in how the candidates, and the strategies that compete with them, compare with each other.
func compareAll(in *Input, it *Itinerary) {
	value := func(c *Candidate) { c.Units, c.Utility = worth(c.Quality, c.Cost, it.Unit, it.Rate) }
	for i := range it.Candidates {
		value(&it.Candidates[i])
	}
	all := it.Candidates
	for i := range it.Options {
		o := &it.Options[i]
		if o.Step == nil {
			continue
		}
		o.As = o.candidate()
		value(&o.As)
		if o.competes() {
			all = append(slices.Clip(all), o.As)
		}
	}
	if in.Profile.KeepQuality > 0 {
		it.KeepFrom = keep(all, in.Profile.KeepQuality, in.Predictor.margin(in.Profile.KeepQuality))
	}
	at := copy(it.Candidates, all)
	for i := range it.Options {
		if o := &it.Options[i]; o.competes() {
			o.As.Keeps = all[at].Keeps
			at++
		}
	}
}

// worth is what something costs in units, and its utility. Where the rate is infinite only the cost counts.
func worth(quality, cost, unit, rate float64) (units, utility float64) {
	if unit > 0 {
		units = cost / unit
	}
	if units > 1 { // each further percent counts alike: of two routes far beyond the unit no trifle decides either
		units = 1 + math.Log(units)
	}
	if math.IsInf(rate, 1) {
		return units, -units
	}
	return units, quality - rate*units
}

// compare says which of two candidates is tried first.
func compare(a, b *Candidate) int {
	if order := cmp.Or(compareRank(a, b), truth(b.Keeps)-truth(a.Keeps)); order != 0 {
		return order
	}
	if a.Keeps {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Quality, a.Quality))
	}
	return cmp.Or(cmp.Compare(b.Utility, a.Utility), cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Quality, a.Quality))
}

// compareRank says which of two candidates is tried first whatever is expected of them.
func compareRank(a, b *Candidate) int {
	return cmp.Or(truth(a.Behind != nil)-truth(b.Behind != nil), cmp.Compare(b.Matches, a.Matches),
		truth(a.Cramped)-truth(b.Cramped))
}

// pricesOf is how many of the unit's prices count as so many units.
func pricesOf(units float64) float64 {
	if units > 1 {
		return math.Exp(units - 1)
	}
	return units
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keep marks the candidates that keep a share of the best one's quality. Those that are cramped may not answer at all,
// and those that stand behind are not to be called: they count only among themselves. It returns the quality from
// which on one keeps.
func keep(candidates []Candidate, share, margin float64) (from float64) {
	last := func(c *Candidate) bool { return c.Cramped || c.Behind != nil }
	free := slices.ContainsFunc(candidates, func(c Candidate) bool { return !last(&c) })
	best := math.Inf(-1)
	for i := range candidates {
		if c := &candidates[i]; !free || !last(c) {
			best = max(best, c.Quality)
		}
	}
	from = min(share*best+margin, best)
	for i := range candidates {
		c := &candidates[i]
		c.Keeps = c.Quality >= from
	}
	return from
}
