package routing

import (
	"errors"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Explanation is an itinerary as data for people, with what led to it.
type Explanation struct {
	Profile     config.Profile `json:"profile"`
	InputTokens int64          `json:"input_tokens"`        // as clients see it
	Allowance   int64          `json:"allowance,omitempty"` // as the client gave it
	Needs       []string       `json:"needs"`               // as in `offers` of a route
	Specialties []string       `json:"specialties"`         // of the request
	// Kinds says how likely the request is of each kind of work; Trust, 0 to 1, how far it is like what the model was
	// trained on, and so how far its difficulty counts.
	Kinds map[string]float64 `json:"kinds"`
	Trust float64            `json:"trust"`
	// Difficulty is how hard it seems, 0 to 1, as a strategy's condition asks; 0.5 is usual.
	Difficulty float64 `json:"difficulty"`
	// Rate is how much quality Unit's price must bring, Unit the dearest route of the reference workload, and UnitCost
	// what this request would cost there, in microcents. null: only cost counts.
	Rate     *float64 `json:"rate"`
	Unit     string   `json:"unit,omitempty"`
	UnitCost float64  `json:"unit_microcents"`
	// Harder and Easier are by how much the request would have to be that for another first choice; absent where nothing
	// would change, or that cannot be told.
	Harder *Turn `json:"if_harder,omitempty"`
	Easier *Turn `json:"if_easier,omitempty"`
	// KeepFrom is the quality from which on a route keeps, for a profile with keep_quality.
	KeepFrom float64 `json:"keep_from,omitempty"`
	// Stay says why the first one is first, where that is for the conversation's sake.
	Stay       Stay        `json:"stay,omitempty"`
	Candidates []Explained `json:"candidates"` // in the order in which they are tried
	Rejected   []Refused   `json:"rejected"`   // in file order
	// Waits are those of the rejected that a request waits for where no other route can take it (GAP-139).
	Waits []string `json:"waits,omitempty"`
	// Strategies are as they were judged, in file order, and Steps is what is done.
	Strategies []ExplainedStrategy `json:"strategies,omitempty"`
	Steps      *Outline            `json:"steps,omitempty"`
	// Shadow is the route that requests of its profile are compared with.
	Shadow *ExplainedShadow `json:"shadow,omitempty"`
	// Hedge is which call is made beside the first one when that is late, nil for none.
	Hedge *ExplainedHedge `json:"hedge,omitempty"`
	// NotCovered is what the first choice can come to, in microcents, where the account does not cover that (402).
	NotCovered *int64 `json:"not_covered_microcents,omitempty"`
	// Refusal is why no route can serve.
	Refusal string `json:"refusal,omitempty"`
}

// Explained is a candidate. Costs are microcents.
type Explained struct {
	Route     string             `json:"route"`
	Quality   float64            `json:"quality"`
	ByKind    map[string]float64 `json:"quality_by_kind"`
	Allowance int64              `json:"allowance"` // sent
	Output    float64            `json:"expected_output_tokens"`
	Cached    int64              `json:"expected_cached_tokens,omitempty"` // of the input
	Template  int64              `json:"template_tokens,omitempty"`        // that its upstream adds to the input
	Cost      float64            `json:"expected_microcents"`
	Hold      int64              `json:"hold_microcents"` // on this route alone
	// Units is the cost as a share of what the request would cost on the unit, and Utility the quality less rate x
	// units.
	Units   float64 `json:"units"`
	Utility float64 `json:"utility"`
	// Lost is why it is not the first choice, null for the one that is.
	Lost *Lost `json:"lost"`

	Specialty int  `json:"specialty_matches,omitempty"`
	Cramped   bool `json:"cramped,omitempty"`
	// Classified: the quality is what the operator's classifier says.
	Classified bool `json:"classified,omitempty"`
	// Behind is why the route is called only where no other is left.
	Behind string `json:"behind,omitempty"`
	Keeps  bool   `json:"keeps,omitempty"`
}

// ExplainedStrategy is a strategy as it was judged. Costs are microcents.
type ExplainedStrategy struct {
	Strategy string   `json:"strategy"`
	What     string   `json:"what"` // in words
	When     string   `json:"when,omitempty"`
	Quality  float64  `json:"quality,omitempty"`
	Cost     float64  `json:"expected_microcents,omitempty"`
	Hold     int64    `json:"hold_microcents,omitempty"` // all its calls
	Utility  *float64 `json:"utility,omitempty"`         // as of a candidate, where its parts can serve
	Chosen   bool     `json:"chosen,omitempty"`
	Reason   string   `json:"reason,omitempty"` // why it was not chosen
}

// ExplainedHedge is a second call beside the first one.
type ExplainedHedge struct {
	First  string       `json:"first"`
	Second string       `json:"second"`
	After  config.Hedge `json:"after"`
}

// Outline is a tree of steps as data for people.
type Outline struct {
	Kind  string    `json:"kind"`
	Route string    `json:"route,omitempty"` // of a try
	Steps []Outline `json:"steps,omitempty"`
}

// ExplainedShadow is a route that a share of requests is compared with.
type ExplainedShadow struct {
	config.Shadow
	Reason string `json:"reason,omitempty"` // why this one would not be
}

// shadow explains the shadow of the profile, nil for none.
func (it *Itinerary) shadow(of config.Shadow) *ExplainedShadow {
	if of.Share == 0 {
		return nil
	}
	e := &ExplainedShadow{Shadow: of}
	for i, c := range it.Candidates {
		switch {
		case c.Route.Name != of.Route:
		case c.Behind != nil:
			e.Reason = c.Behind.Error()
		case i == 0 && it.Strategy == nil:
			e.Reason = "the route is planned first, and answers it itself"
		}
	}
	for _, r := range it.Rejected {
		if r.Route.Name == of.Route {
			e.Reason = r.Why.Error()
		}
	}
	return e
}

// OutlineOf is the outline of a step: of one call its route, of any other its calls.
func OutlineOf(s Step) Outline {
	o := Outline{Kind: s.Kind()}
	switch s := s.(type) {
	case *Candidate:
		o.Route = s.Route.Name
	case *First:
		for _, inner := range s.Steps {
			o.Steps = append(o.Steps, OutlineOf(inner))
		}
	default:
		for c := range s.Calls() {
			o.Steps = append(o.Steps, OutlineOf(c))
		}
	}
	return o
}

// explained are the strategies of an itinerary.
func (it *Itinerary) explained(hold func(Candidate) int64) (list []ExplainedStrategy) {
	for i := range it.Options {
		o := &it.Options[i]
		e := ExplainedStrategy{Strategy: o.Strategy.Name, What: o.Strategy.String(), Quality: o.Quality, Cost: o.Cost,
			Chosen: o.Chosen}
		if o.Step != nil {
			e.Utility = &o.As.Utility
		}
		if o.Strategy.When != nil {
			e.When = o.Strategy.When.String()
		}
		if o.Step != nil {
			e.Hold = o.Step.Worst(func(c *Candidate) Worst { return Worst{Microcents: hold(*c)} }).Microcents
		}
		if o.Why != nil {
			e.Reason = o.Why.Error()
		}
		list = append(list, e)
	}
	return list
}

// Refused is a route that is not a candidate.
type Refused struct {
	Route  string `json:"route"`
	Reason string `json:"reason"`
}

// Explain plans, and says how that came. worst is the most that a request can come to on a candidate. fits is whether
// an account covers that; nil for none in particular.
func Explain(in Input, worst func(*Candidate) Worst, fits func(Worst) bool) Explanation {
	in.exchangeFor([]config.Profile{in.Profile})
	it, err := MakeItinerary(in)
	hold := func(c Candidate) int64 { return worst(&c).Microcents }
	e := Explanation{Profile: in.Profile, InputTokens: in.InputTokens, Allowance: in.Allowance, Needs: in.Needs.names(),
		Specialties: look(&in).kinds.names(), Kinds: make(map[string]float64), Stay: it.Stay, Candidates: []Explained{},
		Rejected: []Refused{}}
	if err != nil {
		e.Refusal = err.Error()
	}
	e.Strategies, e.Shadow = it.explained(hold), it.shadow(in.Profile.Shadow)
	if it.Strategy != nil {
		o := OutlineOf(it.Steps)
		e.Steps = &o
	}
	e.Hedge = hedgeOf(it.Steps)
	// Where there is nothing to choose, nothing is predicted; people want to see it all the same.
	s := in.read()
	if it.Kinds == [predict.NumKinds]float32{} && len(it.Candidates) > 0 {
		for i := range it.Candidates {
			in.foresee(&it.Candidates[i], s)
		}
		it.Rate, it.Unit = in.Exchange.Rate(in.Profile), in.unit(s)
		compareAll(&in, &it)
	}
	e.KeepFrom = it.KeepFrom
	e.Rate, e.Unit, e.UnitCost = Finite(in.Exchange.Rate(in.Profile)), in.Exchange.Unit(), it.Unit
	for i := range it.Candidates {
		c := &it.Candidates[i]
		e.Candidates = append(e.Candidates, Explained{Route: c.Route.Name, Quality: c.Quality, ByKind: s.byKind(c.Route),
			Allowance: c.Allowance, Output: c.Output, Cached: c.Cached, Template: c.Template, Cost: c.Cost, Hold: hold(*c),
			Units: c.Units, Utility: c.Utility, Lost: it.lost(c), Specialty: c.Matches, Cramped: c.Cramped, Keeps: c.Keeps,
			Classified: c.Classified})
		if c.Behind != nil {
			e.Candidates[i].Behind = c.Behind.Error()
		}
	}
	for _, r := range it.Rejected {
		e.Rejected = append(e.Rejected, Refused{r.Route.Name, in.whyNot(r.Why)})
	}
	for _, w := range it.Waits {
		e.Waits = append(e.Waits, w.Route.Name)
	}
	if it.Steps != nil && fits != nil {
		e.leaveOut(it.Steps, worst, fits)
	}
	if s != nil {
		for k, share := range s.signal.Kinds {
			e.Kinds[predict.Kind(k).String()] = float64(share)
		}
		e.Trust, e.Difficulty = float64(s.signal.Trust), s.from.model.Difficulty(&s.signal)
		in.Predictor.done(s)
		if len(it.Candidates) > 1 {
			first := it.Candidates[0].Route.Name
			e.Harder, e.Easier = in.turn(first, e.Difficulty, true), in.turn(first, e.Difficulty, false)
		}
	}
	return e
}

// whyNot is why one route is no candidate: the errors are worded for requests that no route can take.
func (in *Input) whyNot(why error) string {
	switch {
	case errors.Is(why, ErrNotOffered):
		return "it does not offer tools, which the request needs"
	case errors.Is(why, ErrTooLarge):
		return "input and output allowance do not fit its context window"
	case errors.Is(why, ErrNoJSON):
		return "it does not offer " + strings.Join(Needs{Format: in.Needs.Format}.names(), " and ") +
			", which the request asks for"
	}
	return why.Error()
}

// hedgeOf is the hedge of a tree, or of the strategy that it begins with.
func hedgeOf(f *First) *ExplainedHedge {
	if f == nil {
		return nil
	}
	if inner, ok := f.Steps[0].(*First); ok {
		f = inner
	}
	spare := f.Spare(0)
	if spare == nil {
		return nil
	}
	return &ExplainedHedge{First: Opening(f).Route.Name, Second: spare.Route.Name, After: f.Hedge}
}

// Refuse makes a candidate a route that was not called after all.
func (e *Explanation) Refuse(route string, why error) {
	if at := slices.IndexFunc(e.Candidates, func(c Explained) bool { return c.Route == route }); at >= 0 {
		e.Candidates = slices.Delete(e.Candidates, at, at+1)
		e.Rejected = append(e.Rejected, Refused{route, why.Error()})
	}
}

// leaveOut makes candidates that an account does not cover routes that are not called (GAP-137).
func (e *Explanation) leaveOut(f *First, worst func(*Candidate) Worst, fits func(Worst) bool) {
	left, ok := f.LeaveOut(worst, fits)
	if !ok {
		e.NotCovered = new(f.Start().Worst(worst).Microcents)
		return
	}
	called := map[string]bool{}
	for c := range f.Calls() {
		called[c.Route.Name] = true
	}
	for _, c := range left {
		if !called[c.Route.Name] {
			e.Refuse(c.Route.Name, ErrNotCovered)
		}
	}
	e.Waits = slices.DeleteFunc(e.Waits, func(route string) bool { return !called[route] })
	e.Hedge = hedgeOf(f)
	if e.Steps != nil {
		*e.Steps = OutlineOf(f)
	}
}

// byKind is the route's quality if the request were of one kind alone.
func (s *sight) byKind(r *config.Route) map[string]float64 {
	out := make(map[string]float64)
	for k := range predict.NumKinds {
		if s == nil {
			out[k.String()] = r.QualityFor(k.String())
			continue
		}
		kinds, now := s.signal.Kinds, s.now
		s.signal.Kinds = [predict.NumKinds]float32{}
		s.signal.Kinds[k] = 1
		s.now.Kinds = s.signal.Kinds
		out[k.String()], _ = s.of(r)
		s.signal.Kinds, s.now = kinds, now
	}
	return out
}
