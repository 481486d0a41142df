package routing

import (
	"iter"
	"slices"

	"github.com/fareway/fareway/config"
)

// Panel makes several calls at once. A judge reads the replies, and makes one of them.
type Panel struct {
	Seats []*Candidate
	Judge *Candidate
}

// judged is how much of what the best seat lacks a judge makes good, where another seat has it.
const judged = 0.6

func init() { planned[config.Panel] = planPanel }

func planPanel(p *parts) (Step, error) {
	seats, err := p.findAll()
	if err != nil {
		return nil, err
	}
	s := &Panel{Seats: seats}
	if s.Judge, err = p.find(p.strategy.Judge); err != nil {
		return nil, err
	}
	if s.Judge.Extra, err = p.room(s.Judge, seats); err != nil {
		return nil, err
	}
	s.Judge.Reads = instructions
	for _, seat := range seats {
		s.Judge.Reads += int64(seat.Output)
	}
	s.Judge.Cost = reading(s.Judge, p.in.rest())
	return s, nil
}

// Kind is "panel".
func (*Panel) Kind() string { return "panel" }

// Calls are the seats, and the judge.
func (s *Panel) Calls() iter.Seq[*Candidate] {
	return slices.Values(append(slices.Clip(s.Seats), s.Judge))
}

// Worst is that of all calls.
func (s *Panel) Worst(of func(*Candidate) Worst) Worst { return allOf(s.Calls(), of) }

// Expect takes the seats' mistakes to be independent.
func (s *Panel) Expect() (quality, cost float64) {
	none := 1.0
	for _, c := range s.Seats {
		quality, cost = max(quality, c.Quality), cost+c.Cost
		none *= 1 - c.Quality
	}
	quality = max(quality, s.Judge.Quality)
	return quality + max(0, 1-none-quality)*judged*s.Judge.Quality, cost + s.Judge.Cost
}
