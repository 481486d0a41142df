package routing

import (
	"iter"
	"math"

	"github.com/fareway/fareway/config"
)

// Step is what is done upstream for a request, as data. A kind of step is one file here, which says what it is made of
// and what it can come to, and one in package exchange, which does it.
type Step interface {
	// Kind is what people call it.
	Kind() string
	// Calls are all calls upstream that can be made, in the order in which they are planned; a route can be in several.
	Calls() iter.Seq[*Candidate]
	// Worst is the most that its calls can come to, where of tells it for one (GAP-49).
	Worst(of func(*Candidate) Worst) Worst
	// Expect composes what is expected of it from its parts: quality, 0 to 1, and cost in microcents.
	Expect() (quality, cost float64)
}

// Worst is the most that calls upstream can come to. The zero value is no call.
type Worst struct {
	Microcents int64
	Tokens     int64 // input and output, for the token budget
}

// Or is the most that one of two can come to, of which one is made.
func (w Worst) Or(o Worst) Worst {
	return Worst{max(w.Microcents, o.Microcents), max(w.Tokens, o.Tokens)}
}

// And is the most that two can come to which are both made.
func (w Worst) And(o Worst) Worst {
	return Worst{Sum(w.Microcents, o.Microcents), Sum(w.Tokens, o.Tokens)}
}

// Sum adds what is not negative. What no balance covers stays so.
func Sum(a, b int64) int64 {
	return a + min(b, math.MaxInt64-a)
}

// Kind of a single call is "try": a Candidate is the Step that calls its route once.
func (*Candidate) Kind() string { return "try" }

// Calls is the one call.
func (c *Candidate) Calls() iter.Seq[*Candidate] {
	return func(yield func(*Candidate) bool) { yield(c) }
}

// Worst is that of the one call.
func (c *Candidate) Worst(of func(*Candidate) Worst) Worst { return of(c) }

// Expect is what is expected of the route.
func (c *Candidate) Expect() (quality, cost float64) { return c.Quality, c.Cost }

// First does one step after the other until one has a reply. It is what an itinerary is: the first choice, and what is
// fallen back on.
type First struct {
	Steps []Step
	// Hedge is when the first call is late: the next one is made beside it then.
	Hedge config.Hedge
}

// Spare is the call that can be made beside that of a step: the next one that is a step by itself, nil for none.
func (f *First) Spare(step int) *Candidate {
	if f.Hedge == (config.Hedge{}) {
		return nil
	}
	first, ok := f.Steps[step].(*Candidate)
	for _, s := range f.Steps[step+1:] {
		if c, single := s.(*Candidate); ok && single && c.Route != first.Route && c.Behind == nil {
			return c
		}
	}
	return nil
}

// Kind is "first".
func (*First) Kind() string { return "first" }

// Expect is that of the first choice.
func (f *First) Expect() (quality, cost float64) { return f.Steps[0].Expect() }

// Calls are those of all steps.
func (f *First) Calls() iter.Seq[*Candidate] { return callsOf(f.Steps) }

// Worst is that of the dearest step: the hold is raised before each that is fallen back on.
func (f *First) Worst(of func(*Candidate) Worst) (w Worst) {
	for _, s := range f.Steps {
		w = w.Or(s.Worst(of))
	}
	return w
}

// LeaveOut leaves out the first step that does not fit, and all behind it (GAP-137): of the calls of the itinerary,
// those that are returned are made no more. Of a list within the list, as a strategy of one route after the other is,
// the same holds. It is false, with nothing left out, where the very first step does not fit.
func (f *First) LeaveOut(of func(*Candidate) Worst, fits func(Worst) bool) (left []*Candidate, ok bool) {
	kept := 0
	for kept < len(f.Steps) {
		if list, is := f.Steps[kept].(*First); is {
			inner, ok := list.LeaveOut(of, fits)
			if !ok {
				break
			}
			kept++
			if len(inner) > 0 {
				left = inner
				break
			}
			continue
		}
		if !fits(f.Steps[kept].Worst(of)) {
			break
		}
		kept++
	}
	if kept == 0 {
		return nil, false
	}
	for c := range callsOf(f.Steps[kept:]) {
		left = append(left, c)
	}
	f.Steps = f.Steps[:kept]
	return left, true
}

// Start is the step that an itinerary begins with: of a list within the list, that one's.
func (f *First) Start() Step {
	if list, is := f.Steps[0].(*First); is {
		return list.Start()
	}
	return f.Steps[0]
}

// Given is the candidate for a request that gives an allowance of its own, of less than this one.
func (c *Candidate) Given(allowance int64) *Candidate {
	given := *c
	if special(c.Route) {
		allowance = max(allowance, RaisedAllowance)
	}
	given.Allowance = min(given.Allowance, allowance)
	return &given
}

func callsOf(steps []Step) iter.Seq[*Candidate] {
	return func(yield func(*Candidate) bool) {
		for _, s := range steps {
			if c, one := s.(*Candidate); one { // as a rule, and without an iterator
				if !yield(c) {
					return
				}
				continue
			}
			for c := range s.Calls() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Opening is the call that a step begins with.
func Opening(s Step) *Candidate {
	first := s
	if list, is := s.(*First); is && len(list.Steps) > 0 {
		first = list.Steps[0]
	}
	if c, one := first.(*Candidate); one { // as a rule, and without an iterator
		return c
	}
	for c := range s.Calls() {
		return c
	}
	return nil
}
