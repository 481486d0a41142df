// Package outcome learns from what came of requests, as far as that costs nothing to see: calls that are no JSON or do
// not fit their tool, refusals, failures, what validators do not accept, tools that fail, prompts that are asked again,
// and what operators are told. It counts, by route and kind of work, and keeps no text. What is counted decays; it
// changes what is expected of a route (routing.Learned) by a bounded amount, and only in steps.
package outcome

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Verdict is what came of an attempt, or what showed of it later.
type Verdict int

// The verdicts.
const (
	None        Verdict = iota // it says nothing of the route
	Worked                     // it finished, and nothing was wrong with it
	InvalidCall                // a call of a tool with arguments that are not JSON (GAP-84)
	Mismatch                   // a call that does not fit its tool's schema
	Refused                    // a content policy of the upstream
	Empty                      // it finished, and there was nothing to show
	Unaccepted                 // the validator of a strategy did not accept it
	Broken                     // the upstream failed
	ToolFailed                 // the client says that the tool failed
	Retried                    // the client asked the same again
	ToldGood                   // somebody said so
	ToldBad
	numVerdicts
)

// String is the verdict as a metric's label.
func (v Verdict) String() string {
	return [...]string{"none", "worked", "invalid_call", "schema_mismatch", "refused", "empty", "not_accepted",
		"upstream_failed", "tool_failed", "retried", "told_good", "told_bad"}[v]
}

// Verdicts are all that say something.
func Verdicts() (all []Verdict) {
	for v := Worked; v < numVerdicts; v++ {
		all = append(all, v)
	}
	return all
}

// Counts are observations, by weight.
type Counts struct{ Worked, Failed, Good, Bad float64 }

// weights are what a verdict counts. What may have other reasons than the route counts less: an upstream that is away
// is for the circuit breaker, a tool fails for the client's reasons, too, people ask twice out of curiosity, and a
// route that is asked whether a reply is good may be wrong.
var weights = [numVerdicts]Counts{
	Worked: {Worked: 1}, InvalidCall: {Failed: 1}, Mismatch: {Failed: 1}, Refused: {Failed: 1}, Empty: {Failed: 1},
	Unaccepted: {Failed: 0.5},
	Broken:     {Failed: 0.25}, ToolFailed: {Failed: 0.25}, Retried: {Failed: 0.5}, ToldGood: {Good: 1}, ToldBad: {Bad: 1},
}

// plus adds so many times as much.
func (c Counts) plus(d Counts, times float64) Counts {
	return Counts{c.Worked + times*d.Worked, c.Failed + times*d.Failed, c.Good + times*d.Good, c.Bad + times*d.Bad}
}

// Row is what is counted of a route at a kind of work, decayed to a time.
type Row struct {
	Route, Model, Kind string
	Worked, Failed     float64
	Good, Bad          float64
	At                 time.Time
}

// cell is what a row is about.
func (r *Row) cell() cell { return cell{r.Route, r.Model, r.Kind} }

type cell struct{ route, model, kind string }

const (
	// HalfLife is in which time what was seen counts half, ToldHalfLife what people said, of which there is less.
	HalfLife     = 24 * time.Hour
	ToldHalfLife = 30 * 24 * time.Hour
	// MaxSeen and MaxTold are what counts of a cell at most: then the latest displace the earlier ones, and what happened
	// in one hour is not held against a route for days.
	MaxSeen = 100
	MaxTold = routing.PriorWeight
	// Trusting is how many observations that all went well are added to those that were seen: few bad ones say little.
	Trusting = 50
	// LeastReliability bounds what bad outcomes take from a route.
	LeastReliability = 0.5
	// step is how far an effect must have changed to be made known: choices do not waver with each request.
	step = 0.02
	// nothing is what is forgotten, and maxRows how many rows are kept at most: those of old configurations are among
	// them.
	nothing = 0.01
	maxRows = 5000
)

// at is the row at a later time.
func (r Row) at(now time.Time) Row {
	age := now.Sub(r.At)
	if age <= 0 {
		return r
	}
	seen := math.Exp2(-float64(age) / float64(HalfLife))
	told := math.Exp2(-float64(age) / float64(ToldHalfLife))
	r.Worked, r.Failed, r.Good, r.Bad, r.At = r.Worked*seen, r.Failed*seen, r.Good*told, r.Bad*told, now
	return r
}

// add adds counts, and makes room for them.
func (r Row) add(c Counts) Row {
	r.Worked, r.Failed = within(r.Worked, r.Failed, c.Worked, c.Failed, MaxSeen)
	r.Good, r.Bad = within(r.Good, r.Bad, c.Good, c.Bad, MaxTold)
	return r
}

// within adds two counts to two others, of which so much goes that all are at most so many. What somebody takes back is
// negative, and may be forgotten.
func within(a, b, moreA, moreB, most float64) (float64, float64) {
	a, b = max(a+min(moreA, 0), 0), max(b+min(moreB, 0), 0)
	moreA, moreB = max(moreA, 0), max(moreB, 0)
	more, sum := moreA+moreB, a+b
	switch {
	case more > most:
		return moreA * most / more, moreB * most / more
	case sum+more > most:
		keep := (most - more) / sum
		a, b = a*keep, b*keep
	}
	return a + moreA, b + moreB
}

// Effect is what the row changes.
func (r *Row) Effect() routing.Effect {
	reliability := (Trusting + r.Worked) / (Trusting + r.Worked + r.Failed)
	return routing.Effect{Reliability: max(reliability, LeastReliability), Good: r.Good, Bad: r.Bad}
}

// fold adds what was counted to what is kept: rows in order, without those that say nothing any more. Where nothing was
// counted they are as they were, and nothing is to be written.
func fold(kept []Row, counted map[cell]Counts, now time.Time) []Row {
	if len(counted) == 0 {
		return kept
	}
	rows := make(map[cell]Row, len(kept)+len(counted))
	for _, r := range kept {
		rows[r.cell()] = r.at(now)
	}
	for c, counts := range counted {
		r, ok := rows[c]
		if !ok {
			r = Row{Route: c.route, Model: c.model, Kind: c.kind, At: now}
		}
		rows[c] = r.add(counts)
	}
	all := make([]Row, 0, len(rows))
	for _, r := range rows {
		if r.weight() >= nothing {
			all = append(all, r)
		}
	}
	if len(all) > maxRows {
		slices.SortFunc(all, func(a, b Row) int { return cmp.Or(cmp.Compare(b.weight(), a.weight()), order(a, b)) })
		all = all[:maxRows]
	}
	slices.SortFunc(all, order)
	return all
}

func (r *Row) weight() float64 { return r.Worked + r.Failed + r.Good + r.Bad }

func order(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Kind, b.Kind))
}

// learned is what rows change by now, as far as that is another thing than what was known; the same where nothing is.
func learned(rows []Row, was routing.Learned, now time.Time) routing.Learned {
	is := make(routing.Learned)
	changed := false
	for i := range rows {
		r := rows[i].at(now)
		kind, ok := predict.KindOf(r.Kind)
		if !ok {
			continue // of another version
		}
		of := routing.LearnedOf{Route: r.Route, Model: r.Model}
		effects := is[of]
		if effects == nil {
			effects = new([predict.NumKinds]routing.Effect)
			for k := range effects {
				effects[k] = routing.NoEffect
			}
			is[of] = effects
		}
		effects[kind] = r.Effect()
	}
	for of, effects := range is {
		before := was[of]
		for k := range effects {
			known := routing.NoEffect
			if before != nil {
				known = before[k]
			}
			if far(effects[k], known) {
				changed = true
			} else {
				effects[k] = known
			}
		}
	}
	for of := range was {
		changed = changed || is[of] == nil
	}
	if !changed {
		return was
	}
	return is
}

// far reports whether two effects differ by more than a step, on a good route or on a bad one.
func far(a, b routing.Effect) bool {
	for _, q := range [...]float64{0.1, 0.5, 0.9} {
		if math.Abs(a.On(q, 0)-b.On(q, 0)) >= step {
			return true
		}
	}
	return false
}
