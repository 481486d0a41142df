package routing

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// Candidate is a route that can serve the request, with the values it was judged by.
type Candidate struct {
	Route *config.Route // one of Input.Routes
	// Allowance is the output allowance to send to the route, in tokens, at least 1. The hold counts it
	// at the route's output price, at its largest over the itinerary (GAP-49).
	Allowance int64
	// Template is how many tokens its upstream adds to the request. The hold counts them, as it counts Extra.
	Template int64
	// Extra is how many tokens of replies of others it may be sent beside the request.
	Extra int64
	// Reads is how many tokens it is expected to be sent beside the request: replies of others, and what to make of them.
	Reads int64
	// Matches is how many of the request's kinds are the route's specialties; more are tried first.
	Matches int
	// Cramped: the route reasons, and the allowance may not be enough for it to say what it thought.
	Cramped bool
	// Light: the request costs little on the route, so that it can be risked to try one that was down.
	Light bool
	// Input is the estimate that the route was judged by, in tokens, with what its upstream adds.
	Input int64
	// Behind is why the route is to be called where no other is left; nil where it serves.
	Behind error
	// Back is when the route is back, zero where it is not away: it is waited for.
	Back time.Time

	Quality float64 // expected, 0 to 1
	// Classified: the quality is what a classifier of the operator's says.
	Classified bool
	Output     float64 // expected, in tokens, at most Allowance
	Cached     int64   // tokens of the input that the upstream is expected to have in its cache
	Cost       float64 // expected, in microcents; of a conversation the mean of its turns to come; for comparing only
	Units      float64 // Cost as a share of what the request would cost on the dearest route (Exchange.Unit)
	Utility    float64 // Quality less what Units are worth; the largest is tried first, after Matches and Cramped
	Keeps      bool    // the profile's share of the best candidate's quality, where it has one
}

// Rejected is a route that is not a candidate.
type Rejected struct {
	Route *config.Route
	// Why is ErrRequired, ErrNotOffered, ErrTooLarge, ErrNoJSON, ErrReserved, or wraps ErrUnfit, ErrNotReady or ErrBusy.
	Why error
}

// Itinerary is the candidates in the order in which they are tried, each at most once, and the routes that
// were rejected, in file order.
type Itinerary struct {
	Candidates []Candidate
	Rejected   []Rejected
	// Waits are the routes among the rejected that are back soon, those that are back first in front: they are waited
	// for where no candidate has served. Their values for comparing are not filled in.
	Waits []Candidate
	// Steps is what is done: the strategy, if there is one, and the candidates one after the other, then Waits. Where
	// there is no candidate it is those, nil for none.
	Steps    *First
	Strategy *config.Strategy // nil for none
	Options  []Option         // the strategies as they were judged, in file order
	// Kinds says how likely the request is of each kind of work, and Trust how far what was predicted counts, 0 to 1.
	// Both are zero where nothing was predicted.
	Kinds [predict.NumKinds]float32
	Trust float32
	// Rate is how much quality the dearest route's price must bring (see Exchange), and Unit what the request would cost
	// there, in microcents.
	Rate, Unit float64
	// KeepFrom is the quality from which on a candidate keeps; 0 for a profile without keep_quality.
	KeepFrom float64
	// Stay says why the first candidate is the first one, where that is for the conversation's sake, and Home which
	// route is the conversation's from now on.
	Stay Stay
	Home string
	// Work is what the conversation has been about, with this turn.
	Work Work
	// Traits let the choice be made again, where Input.Keep asks for them.
	Traits Traits
}

// stages are the reasons that can be those of all routes, in the order in which a route meets them.
var stages = []error{ErrNotOffered, ErrTooLarge, ErrNoJSON, ErrUnfit, ErrNotReady, ErrBusy}

// stageOf is the stage that a reason is of.
func stageOf(why error) error {
	for _, stage := range stages[3:] { // those before are as they are
		if errors.Is(why, stage) {
			return stage
		}
	}
	return why
}

// judge says whether a route is a candidate, and with which values. The error is one of this package's, as it is.
func judge(in *Input, all survey, route *config.Route) (Candidate, error) {
	if !in.Requires.MetBy(route) {
		return Candidate{}, ErrRequired
	}
	if in.Needs.Tools && !route.Tools {
		return Candidate{}, ErrNotOffered
	}
	template := in.Templates.Of(route)
	input := Sum(in.InputTokens, template)
	allowance, fits := fit(route, input, in.Allowance)
	if !fits {
		return Candidate{}, ErrTooLarge
	}
	if !offersFormat(route, in.Needs.Format) {
		return Candidate{}, ErrNoJSON
	}
	if why := in.unfit(route); why != nil {
		return Candidate{}, why
	}
	matches := all.kinds.matches(route)
	if matches == 0 && special(route) && all.open {
		return Candidate{}, ErrReserved
	}
	c := Candidate{Route: route, Allowance: allowance, Template: template, Matches: matches, Input: input,
		Cramped: route.Reasons && allowance < TinyAllowance,
		Light:   input <= lightInput && allowance <= lightAllowance}
	if in.Standing != nil {
		s := in.Standing(route, c.Light)
		if s.Why != nil && !s.Behind {
			c.Back = s.Back
			return c, s.Why
		}
		c.Behind = s.Why
	}
	return c, nil
}

// unfit is why a route cannot carry the request, nil where it can as far as is known (GAP-127). It wraps ErrUnfit.
func (in *Input) unfit(route *config.Route) error {
	refuses := func(restriction string) bool {
		return slices.Contains(route.Unsupported, restriction) || in.Refuses != nil && in.Refuses(route, restriction)
	}
	switch {
	case in.Needs.ForcedCall && refuses(llm.RefusesForcedChoice):
		return errForced
	case in.Needs.FormatWithTools && refuses(llm.RefusesJSONWithTools):
		return errFormatted
	}
	return nil
}

// Why a route is unfit.
var (
	errForced    = fmt.Errorf("%w: it cannot be made to call a tool (%s)", ErrUnfit, llm.RefusesForcedChoice)
	errFormatted = fmt.Errorf("%w: it takes no format beside tools (%s)", ErrUnfit, llm.RefusesJSONWithTools)
)

// A request is light with at most that many tokens of input and of allowance.
const (
	lightInput     = 4000
	lightAllowance = 4096
)

// fit returns the allowance that a route would be sent (ALLOW-04 to ALLOW-17). given is 0 for none.
func fit(route *config.Route, input, given int64) (allowance int64, fits bool) {
	room := route.ContextWindow - input
	if given > 0 {
		sent := given
		if special(route) {
			sent = min(max(given, RaisedAllowance), room)
		}
		return min(sent, route.MaxOutput), given <= room
	}
	return min(DefaultAllowance, route.MaxOutput, room), room >= 1
}
