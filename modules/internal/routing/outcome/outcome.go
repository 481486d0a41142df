// Package outcome learns from what came of requests, as far as that costs nothing to see: calls that are no JSON or do
// not fit their tool, refusals, failures, what validators do not accept, tools that fail, prompts that are asked
// again, and what operators are told. It counts, by route, kind of work and account, and keeps no text. What is
// counted decays, and each account counts for its share at most (GAP-130); it changes what is expected of a route
// (routing.Learned) by a bounded amount, and only in steps.
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

// Counts are observations, by weight. Own is what failed in a way that a client can bring about.
type Counts struct{ Worked, Failed, Own, Good, Bad float64 }

// weights are what a verdict counts. What may have other reasons than the route counts less: an upstream that is away
// is for the circuit breaker, a tool fails for the client's reasons, too, people ask twice out of curiosity, and a
// route that is asked whether a reply is good may be wrong. What a client can bring about whatever the route does (a
// schema that nothing satisfies, a prompt that asks for a refusal or for silence, a tool that fails, a prompt again)
// says something of the route only beside what others have met (GAP-130).
var weights = [numVerdicts]Counts{
	Worked: {Worked: 1}, InvalidCall: {Failed: 1}, Broken: {Failed: 0.25},
	Mismatch: {Own: 1}, Refused: {Own: 1}, Empty: {Own: 1}, Unaccepted: {Own: 0.5}, ToolFailed: {Own: 0.25},
	Retried: {Own: 0.5}, ToldGood: {Good: 1}, ToldBad: {Bad: 1},
}

// plus adds so many times as much.
func (c Counts) plus(d Counts, times float64) Counts {
	return Counts{c.Worked + times*d.Worked, c.Failed + times*d.Failed, c.Own + times*d.Own, c.Good + times*d.Good,
		c.Bad + times*d.Bad}
}

// Row is what is counted of a route at a kind of work, decayed to a time.
type Row struct {
	Route, Model, Kind string
	// Account is whose requests showed it; "" for what operators are told, and for what was counted before accounts were
	// told apart.
	Account             string
	Worked, Failed, Own float64 // Own is not among Failed, but in what is shared
	Good, Bad           float64
	At                  time.Time
}

// cell is what a row is about.
func (r *Row) cell() cell { return cell{r.Route, r.Model, r.Kind} }

func (r *Row) source() source { return source{r.cell(), r.Account} }

type cell struct{ route, model, kind string }

// source is whose outcomes a row has.
type source struct {
	cell
	account string
}

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
	// them. Of a cell, those of maxAccounts are kept, which have seen most.
	nothing     = 0.01
	maxRows     = 10_000
	maxAccounts = 64
)

// at is the row at a later time.
func (r Row) at(now time.Time) Row {
	age := now.Sub(r.At)
	if age <= 0 {
		return r
	}
	seen := math.Exp2(-float64(age) / float64(HalfLife))
	told := math.Exp2(-float64(age) / float64(ToldHalfLife))
	r.Worked, r.Failed, r.Own = r.Worked*seen, r.Failed*seen, r.Own*seen
	r.Good, r.Bad, r.At = r.Good*told, r.Bad*told, now
	return r
}

// add adds counts, and makes room for them.
func (r Row) add(c Counts) Row {
	failed, more := r.Failed+r.Own, c.Failed+c.Own
	share := 0.0
	if failed+more > 0 {
		share = (r.Own + c.Own) / (failed + more)
	}
	r.Worked, failed = addBounded(r.Worked, failed, c.Worked, more, MaxSeen)
	r.Failed, r.Own = failed*(1-share), failed*share
	r.Good, r.Bad = addBounded(r.Good, r.Bad, c.Good, c.Bad, MaxTold)
	return r
}

// addBounded adds two counts to two others, of which so much goes that all are at most so many. What somebody takes
// back is negative, and may be forgotten.
func addBounded(a, b, moreA, moreB, most float64) (float64, float64) {
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

// fold adds what was counted to what is kept: rows in order, without those that say nothing any more. Where nothing
// was counted they are as they were, and nothing is to be written.
func fold(kept []Row, counted map[source]Counts, now time.Time) []Row {
	if len(counted) == 0 {
		return kept
	}
	rows := make(map[source]Row, len(kept)+len(counted))
	for _, r := range kept {
		rows[r.source()] = r.at(now)
	}
	for c, counts := range counted {
		r, ok := rows[c]
		if !ok {
			r = Row{Route: c.route, Model: c.model, Kind: c.kind, Account: c.account, At: now}
		}
		rows[c] = r.add(counts)
	}
	all := make([]Row, 0, len(rows))
	for _, r := range rows {
		if r.weight() >= nothing {
			all = append(all, r)
		}
	}
	all = heaviest(all)
	slices.SortFunc(all, order)
	return all
}

// heaviest are the rows that are kept: of each cell so many accounts, and so many in all.
func heaviest(all []Row) []Row {
	slices.SortFunc(all, func(a, b Row) int { return cmp.Or(cmp.Compare(b.weight(), a.weight()), order(a, b)) })
	accounts := make(map[cell]int)
	all = slices.DeleteFunc(all, func(r Row) bool {
		if r.Account == "" {
			return false
		}
		accounts[r.cell()]++
		return accounts[r.cell()] > maxAccounts
	})
	return all[:min(len(all), maxRows)]
}

func (r *Row) seen() float64 { return r.Worked + r.Failed + r.Own }

func (r *Row) weight() float64 { return r.seen() + r.Good + r.Bad }

func order(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Account, b.Account))
}

// learned is what rows change by now, as far as that is another thing than what was known; the same where nothing is.
func learned(rows []Row, was routing.Learned, now time.Time) routing.Learned {
	is := make(routing.Learned)
	changed := false
	for _, r := range shared(rows, now) {
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
			if differs(effects[k], known) {
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

// differs reports whether two effects differ by more than a step, on a good route or on a bad one.
func differs(a, b routing.Effect) bool {
	for _, q := range [...]float64{0.1, 0.5, 0.9} {
		if math.Abs(a.On(q, 0)-b.On(q, 0)) >= step {
			return true
		}
	}
	return false
}
