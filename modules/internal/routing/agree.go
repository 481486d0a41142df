package routing

import (
	"iter"
	"math"
	"slices"

	"github.com/fareway/fareway/config"
)

// Agree makes several calls at once. What more than half of them say is the reply, otherwise that of another route.
type Agree struct {
	Seats    []*Candidate
	Escalate *Candidate // its reply, if it is one of Seats; otherwise a further call
}

// What recorded answers tell of agreement, beside what is predicted of each model (medians over the data sets of
// predict/README.md that say which answers are the same, on prompts that training has not seen).
const (
	// together is how replies are right together: the correlation that is left where both are predicted.
	together = 0.35
	// alike is how often two replies that are wrong are wrong in the same way.
	alike = 0.2
	// harder is the correlation of being right with that of the seats, where they do not agree: a request that splits
	// them is harder, the more so the better they are.
	harder = 0.15
)

func init() { planned[config.Agree] = planAgree }

func planAgree(p *parts) (Step, error) {
	seats, err := p.findAll()
	if err != nil {
		return nil, err
	}
	s := &Agree{Seats: seats}
	for _, seat := range seats {
		if seat.Route.Name == p.strategy.Escalate {
			s.Escalate = seat
			return s, nil
		}
	}
	s.Escalate, err = p.find(p.strategy.Escalate)
	return s, err
}

// Sits reports whether the route that is escalated to is a seat.
func (s *Agree) Sits() bool { return slices.Contains(s.Seats, s.Escalate) }

// Kind is "agree".
func (*Agree) Kind() string { return "agree" }

// Calls are the seats, and what is escalated to.
func (s *Agree) Calls() iter.Seq[*Candidate] {
	calls := s.Seats
	if !s.Sits() {
		calls = append(slices.Clip(calls), s.Escalate)
	}
	return slices.Values(calls)
}

// Worst is that of all calls.
func (s *Agree) Worst(of func(*Candidate) Worst) Worst { return allOf(s.Calls(), of) }

// Expect takes the first two seats for all.
func (s *Agree) Expect() (quality, cost float64) {
	for _, c := range s.Seats {
		cost += c.Cost
	}
	if s.Sits() {
		return s.Escalate.Quality, cost // whether the others agree with it or not
	}
	a, b, e := s.Seats[0].Quality, s.Seats[1].Quality, s.Escalate.Quality
	right := min(a*b+together*math.Sqrt(a*(1-a)*b*(1-b)), a, b)
	split := 1 - right - alike*max(0, 1-a-b+right)
	if seats := (a + b) / 2; seats < 1 {
		e = max(0, e-harder*math.Sqrt(e*(1-e)*seats/(1-seats)))
	}
	return right + split*e, cost + split*s.Escalate.Cost
}
