package routing

import (
	"iter"
	"slices"

	"github.com/fareway/fareway/config"
)

// Agree makes several calls at once. What more than half of them say is the reply, otherwise that of another route.
type Agree struct {
	Seats    []*Candidate
	Escalate *Candidate // its reply, if it is one of Seats; otherwise a further call
}

// alike is how often two replies that are wrong are wrong in the same way.
const alike = 0.25

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

// Expect takes the first two seats for all, and their mistakes to be independent but for those that are alike.
func (s *Agree) Expect() (quality, cost float64) {
	for _, c := range s.Seats {
		cost += c.Cost
	}
	if s.Sits() {
		return s.Escalate.Quality, cost // whether the others agree with it or not
	}
	a, b := s.Seats[0].Quality, s.Seats[1].Quality
	right, wrong := a*b, (1-a)*(1-b)*alike
	split := 1 - right - wrong
	return right + split*s.Escalate.Quality, cost + split*s.Escalate.Cost
}
