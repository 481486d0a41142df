package routing

import (
	"errors"
	"fmt"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Why a strategy is not what a request goes to.
var (
	// ErrCondition: its `when` does not hold. It wraps why where the expression has no value.
	ErrCondition = errors.New("`when` does not hold")
	// ErrPart: a route that it is made of is no candidate.
	ErrPart = errors.New("a route of it cannot serve the request")
	// ErrNoRoom: what it reads beside the request does not fit.
	ErrNoRoom = errors.New("its judge has no room for the replies beside the request")
	// ErrLoop: the request answers tool calls.
	ErrLoop = errors.New("a turn that answers tool calls stays on its route")
	// ErrBehind: it competes with the routes, or another one comes first.
	ErrBehind = errors.New("another one comes first")
)

// Option is a strategy as it was judged for a request.
type Option struct {
	Strategy *config.Strategy
	Step     Step // nil where a part is missing
	// Quality and Cost are what is expected of its parts together.
	Quality, Cost float64
	// As is the strategy as a candidate, where it has a Step: what it is compared with the others by.
	As     Candidate
	Chosen bool
	Why    error // why it was not chosen
}

// planned are the kinds of strategies: each makes a step of the candidates on its routes. The file of a kind adds it.
var planned = make(map[config.StrategyKind]func(*parts) (Step, error))

func init() { planned[config.Single] = planSingle }

// parts are what a strategy is made of for one request.
type parts struct {
	in         *Input
	strategy   *config.Strategy
	candidates []Candidate
}

// find is a copy of the candidate on a route.
func (p *parts) find(route string) (*Candidate, error) {
	at := place(p.candidates, route)
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", ErrPart, route)
	}
	c := p.candidates[at]
	return &c, nil
}

// findAll are copies of the candidates on the strategy's routes.
func (p *parts) findAll() ([]*Candidate, error) {
	all := make([]*Candidate, 0, len(p.strategy.Routes()))
	for _, name := range p.strategy.Routes() {
		c, err := p.find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// options judges the strategies before the candidates are scored, for which what is expected of them is known.
func options(in *Input, it *Itinerary, s *sight) {
	if len(in.Strategies) == 0 {
		return
	}
	loop := loopRoute(in, it.Candidates) >= 0
	facts := in.facts(s)
	it.Options = make([]Option, len(in.Strategies))
	found := false // one whose condition holds: it comes before all
	for i := range in.Strategies {
		o := &it.Options[i]
		o.Strategy = &in.Strategies[i]
		if loop {
			o.Why = ErrLoop
			continue
		}
		when := o.Strategy.When
		if when != nil {
			if found {
				o.Why = ErrBehind
				continue
			}
			holds, err := when.Holds(&facts)
			if err != nil {
				o.Why = fmt.Errorf("%w: %w", ErrCondition, err)
				continue
			}
			if !holds {
				o.Why = ErrCondition
				continue
			}
		}
		o.Step, o.Why = planned[o.Strategy.Kind](&parts{in, o.Strategy, it.Candidates})
		if o.Why != nil {
			o.Step = nil // it lacks a part
			continue
		}
		o.Quality, o.Cost = o.Step.Expect()
		o.Why, found = ErrBehind, found || when != nil
	}
}

// facts are what conditions can ask.
func (in *Input) facts(s *sight) config.Facts {
	f := config.Facts{InputTokens: in.InputTokens, Allowance: in.Allowance, Tools: in.Needs.Tools,
		Format: string(in.Needs.Format), Profile: in.Profile.Name, Account: in.Account, Difficulty: 0.5,
		Turns: int64(in.turns())}
	if in.Traits != nil { // what was not kept of it is not guessed
		f.Unread, f.Nameless = s == nil, in.Account.Name == ""
	}
	if s != nil {
		f.Difficulty = s.from.model.Difficulty(&s.signal)
		f.Kinds = make(map[string]float64)
		for k, share := range s.signal.Kinds {
			f.Kinds[predict.Kind(k).String()] = float64(share)
		}
	}
	return f
}

// competes reports whether the strategy is compared with the routes: it has its parts, and no condition.
func (o *Option) competes() bool { return o.Step != nil && o.Strategy.When == nil }

// candidate is the strategy as a candidate among the routes: as special as the least of the calls that it always
// needs, and cramped, or to be called where no other is left, where one of them is.
func (o *Option) candidate() Candidate {
	c := *Opening(o.Step)
	if _, list := o.Step.(*First); !list {
		for part := range o.Step.Calls() {
			c.Matches, c.Cramped = min(c.Matches, part.Matches), c.Cramped || part.Cramped
			if part.Behind != nil {
				c.Behind = part.Behind
			}
		}
	}
	c.Quality, c.Cost = o.Quality, o.Cost
	return c
}

// choose takes the first strategy whose condition holds, else the one that comes before the first candidate and before
// the others, if there is one. The candidates are in order; behind a strategy they are what is fallen back on.
func (it *Itinerary) choose() {
	best := -1
	first := &it.Candidates[0]
	for i := range it.Options {
		o := &it.Options[i]
		if o.Step == nil {
			continue
		}
		if o.Strategy.When != nil {
			best = i
			break
		}
		if compare(&o.As, first) < 0 {
			best, first = i, &o.As
		}
	}
	if best >= 0 {
		it.Options[best].Chosen, it.Options[best].Why = true, nil
	}
}

// steps makes the tree.
func (it *Itinerary) steps(hedge config.Hedge) {
	it.Steps = &First{Steps: make([]Step, 0, len(it.Candidates)+1), Hedge: hedge}
	for i := range it.Options {
		if o := &it.Options[i]; o.Chosen {
			it.Strategy = o.Strategy
			it.Steps.Steps = append(it.Steps.Steps, o.Step)
		}
	}
	if it.Strategy != nil && it.Strategy.Kind == config.Single {
		return // the operator said what is fallen back on
	}
	for i := range it.Candidates {
		it.Steps.Steps = append(it.Steps.Steps, &it.Candidates[i])
	}
	it.wait()
}

// wait adds the routes that are waited for.
func (it *Itinerary) wait() {
	for i := range it.Waits {
		it.Steps.Steps = append(it.Steps.Steps, &it.Waits[i])
	}
}

// room is how many tokens of the replies of others a route may read beside the request, where each has at most so
// many. A token of one vocabulary can be several of another.
func (p *parts) room(c *Candidate, replies []*Candidate) (int64, error) {
	const vocabularies = 4
	left := c.Route.ContextWindow - c.Input - c.Allowance - instructions
	if left < int64(len(replies))*config.AnswerRoom {
		return 0, ErrNoRoom
	}
	var want int64
	for _, r := range replies {
		longest := r.Allowance
		if r.Route.BillsPastAllowance {
			longest = max(longest, r.Route.MaxOutput)
		}
		want = Sum(want, max(config.AnswerRoom, min(longest, left)*vocabularies))
	}
	return min(want, left) + instructions, nil
}

// instructions is how many tokens a route is told in that reads the replies of others.
const instructions = 400

func planSingle(p *parts) (Step, error) {
	all, err := p.findAll()
	if err != nil {
		return nil, err
	}
	f := &First{Hedge: p.in.Profile.Hedge}
	for _, c := range all {
		f.Steps = append(f.Steps, c)
	}
	return f, nil
}
