package routing

import (
	"iter"

	"github.com/fareway/fareway/config"
)

// Cascade does one call after the other, until a reply is accepted. That of the last one needs no accepting.
type Cascade struct {
	Tries     []*Candidate
	Validator string     // config.Validators; "" where a route is asked
	Asked     *Candidate // that route; it reads each reply but the last one
	fits      suits      // how the validator suits the request
}

// suits is how a built-in validator suits a request.
type suits int

const (
	fitsReplies suits = iota // it accepts what is right, and notices some of what is wrong
	acceptsAll               // there is nothing that it could judge: no tool can be called
	acceptsNone              // it wants JSON of a request that asked for none
)

// suitsOf is that of a validator to what a request needs.
func suitsOf(validator string, needs Needs) suits {
	switch {
	case (validator == config.ValidJSON || validator == config.ValidSchema) && needs.Format == "" && !needs.Tools:
		return acceptsNone
	case validator == config.ValidToolArguments && !needs.Tools:
		return acceptsAll
	}
	return fitsReplies
}

// noticed is how often a validator finds a reply that is wrong: of form, it sees a part; a model sees more.
const (
	noticedByForm  = 0.3
	noticedByRoute = 0.7
)

func init() { planned[config.Cascade] = planCascade }

func planCascade(p *parts) (Step, error) {
	tries, err := p.findAll()
	if err != nil {
		return nil, err
	}
	s := &Cascade{Tries: tries, Validator: p.strategy.Validator, fits: suitsOf(p.strategy.Validator, p.in.Needs)}
	if !p.strategy.IsRoute() {
		return s, nil
	}
	s.Validator = ""
	if s.Asked, err = p.find(p.strategy.Validator); err != nil {
		return nil, err
	}
	s.Asked.Allowance = min(s.Asked.Allowance, verdict(s.Asked))
	longest := tries[0]
	for _, c := range tries[1 : len(tries)-1] {
		if c.Allowance > longest.Allowance {
			longest = c
		}
	}
	if s.Asked.Extra, err = p.room(s.Asked, []*Candidate{longest}); err != nil {
		return nil, err
	}
	s.Asked.Output = min(s.Asked.Output, float64(s.Asked.Allowance))
	s.Asked.Reads = instructions + int64(longest.Output)
	s.Asked.Cost = reading(s.Asked, p.in.rest())
	return s, nil
}

// verdict is the allowance of a route that is asked for yes or no.
func verdict(c *Candidate) int64 {
	if c.Route.Reasons {
		return TinyAllowance
	}
	return 16
}

// Kind is "cascade".
func (*Cascade) Kind() string { return "cascade" }

// Calls are the tries, and after each but the last one the route that is asked.
func (s *Cascade) Calls() iter.Seq[*Candidate] {
	return func(yield func(*Candidate) bool) {
		for i, c := range s.Tries {
			if !yield(c) || s.Asked != nil && i < len(s.Tries)-1 && !yield(s.Asked) {
				return
			}
		}
	}
}

// Worst is that of all calls.
func (s *Cascade) Worst(of func(*Candidate) Worst) Worst { return allOf(s.Calls(), of) }

// Expect takes a reply that is right to be accepted, and one that is wrong to be noticed now and then, where the
// validator suits the request.
func (s *Cascade) Expect() (quality, cost float64) {
	noticed, accepted := noticedByForm, 1.0
	switch {
	case s.Asked != nil:
		noticed = noticedByRoute
	case s.fits == acceptsAll:
		noticed = 0
	case s.fits == acceptsNone:
		noticed, accepted = 1, 0
	}
	reached := 1.0
	for i, c := range s.Tries {
		cost += reached * c.Cost
		if i == len(s.Tries)-1 {
			return quality + reached*c.Quality, cost
		}
		if s.Asked != nil {
			cost += reached * s.Asked.Cost
		}
		quality += reached * c.Quality * accepted
		reached *= 1 - accepted*c.Quality - (1-c.Quality)*(1-noticed)
	}
	return quality, cost
}

// allOf is the most that calls can come to which are all made.
func allOf(calls iter.Seq[*Candidate], of func(*Candidate) Worst) (w Worst) {
	for c := range calls {
		w = w.And(of(c))
	}
	return w
}
