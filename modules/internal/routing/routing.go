// Package routing decides which routes may serve a request and in which order they are tried. It is pure:
// no clock, no network, no state; the same Input always gives the same Itinerary, so that a choice can be
// explained offline. It is for the exchange and for `explain`. It also knows which model names are accepted
// (Accept) and which profile a request runs with (Profile).
//
// # Candidates
//
// A route is a candidate when it is what the account and its plan require, when it offers the tools that the
// request needs, when the request fits it, when it offers the structured output that is asked for, when its upstream
// is not known to refuse what cannot be said otherwise (GAP-127), when it is not kept for others, and when it is to
// be called at the moment (Standing), judged in this order. A JSON object can be asked of a route that offers
// `json_object`, an answer by a schema also of one that offers `json_schema` only. A request fits when input +
// allowance <= context window, where what the route's upstream adds to a prompt (Templates) is input, with the
// allowance as the client gave it (GAP-34) or, when it gave none, min(32768, the route's output limit, the room
// left), which must be at least 1 (GAP-36). What is sent upstream is min(given, the route's output limit).
//
// # Specialties
//
// Routes can be kept for requests of a kind (GAP-37). A request is for graphics when its last text from the user
// says so (Graphics), and long when its input and the allowance that it gives pass the configured threshold, or
// when no ordinary route (one without a specialty) offers what it needs and fits it. The routes whose specialty
// it has are tried first, those that match both kinds before those that match one, and ordinary routes after
// them. A route with other specialties only is left out, unless neither an ordinary nor a matching route offers
// what is needed and fits: a specialty is a wish of the operator's, never a reason to refuse. Only that decides,
// never how the others are at the moment: what serves a kind of request does not change with load.
//
// On a route with a specialty, whatever brought the request there, a given allowance is raised to at least
// 4,096 tokens, as far as the route's output limit and its window allow (ALLOW-13 to ALLOW-17, GAP-35).
// Whether it fits is judged before that.
//
// # Order
//
// A route that is to be called only where no other is left (Standing.Behind) comes behind all others; that aside, one
// that reasons comes behind all others when it would be sent less than TinyAllowance, which thoughts could use
// up (ALLOW-20). Candidates of equal match are then ordered by what they are worth (GAP-131):
//
//	quality = what is expected of the route for this request: see Predictor; without one what the operator says
//	cost    = (input estimate x input price + expected output x output price) / 1e6, in microcents,
//	          expected output = min(allowance sent, what is predicted, six times that where the route reasons; 500
//	          without a Predictor), by `price`, of the tier that the estimate reaches
//	units   = cost / what the request would cost on the unit, which is one route for all requests (see Exchange);
//	          1 + its logarithm where it is more than 1, on routes that are dearer than the unit
//	utility = quality - rate x units
//
// The largest utility comes first; of equal ones the lower cost, then the higher quality, then file order. Quality
// and money are weighed as they are, and never by how far the candidates at hand lie apart: that would divide away
// the very difference that is to be weighed. How difficult a request is changes the qualities alone: routes are
// nearer to each other for an easy one, so that the cheap route wins, and further apart for a hard one.
//
// # The exchange
//
// The unit and the rates are fixed when a configuration is loaded, of all its routes (NewExchange), on a reference
// workload: requests as numbers, which the predictor's model ships, or the usual ones (workload.go) where it has
// none. The unit is the route with the largest mean cost there, of those that a hundredth of the requests goes to
// with the weights of max. For each request of the workload, the routes that its
// choice is between lie on a hull of quality over units, whose slopes are the rates at which the choice changes. In
// the order of these rates, from infinity to 0, the workload climbs from its cheapest choices to the best ones; a
// profile takes the largest rate at which quality/(cost + quality) of that way, in mean quality, is behind it, within
// LeastRate and MostRate. The rate is a hair less than where that choice changes, for there both would be equal.
// Learned is not in it, nor anything else of the moment: rates are the same after a restart. Prices that begin later
// make another exchange.
//
// The unit's price for a request is what the request would cost there if nothing kept it from going there, at the
// tier that it would have there, and with nothing in that upstream's cache: the measure is the same whichever route a
// conversation is on.
//
// # Dropping out
//
// A candidate that was not chosen, nor is a part of a strategy that was, drops out (it is down, full, held off,
// behind, or unfit), and the choice stays: the order of two candidates depends on nothing but these two, rate and
// unit on none, and by how much a conversation's route may be behind, on that route alone. It does not hold
//
//   - with keep_quality, where it was the best that counts, for a share of its quality is what is kept; and in a
//     conversation, which may have stayed because the first one was not clearly above what is kept;
//   - where the last ordinary route that fits is unfit: then the request is long, or what is kept for others serves.
//
// # Conversations
//
// What is remembered of a conversation (Past, package affinity) changes the cost: to the mean of its turns to come,
// of which this one pays for what the upstream does not have in its cache, and the others read it there. The turns to
// come are taken to be as many as there were, 2 to 20. Where nothing is remembered it is one turn, but 5 at least
// where there are tools, for what begins as a loop of tool calls stays where it begins, and where the first prompt is
// long, for that is an agent's or about a document. It changes the quality alike: the turns to come are taken to be
// about what those so far were (Work), the last of them most; those behind a long first prompt, about what the
// workload's long requests are. The conversation's route stays first unless the utility of another one is ahead by
// what a hundredth of its route's price is worth (staying), or it is no candidate. With keep_quality it stays first
// unless it falls clearly below the quality to keep, or one that is clearly above that is 5 percent cheaper: the more
// turns are known, the sooner that is clear. A turn that answers tool calls stays on the route that made them,
// whatever else there is, as long as that is a candidate. A route that is not ready stays the conversation's, which
// comes back to it.
//
// # Strategies
//
// A strategy without a condition is a candidate among the others, by what is expected of it (Step.Expect) and the
// same utility. It is as special as the least of its calls, and cramped, or called last, where one of them is.
//
// # Learning
//
// What came of requests (Learned, package outcome) changes the expected quality, by the kinds of work that the
// request is of: it is never more than halved by what the gateway has seen, nor moved more than half way by what
// people said of replies, and it changes in steps.
//
// # Keeping quality
//
// With keep_quality, the cheapest route comes first whose quality is at least that share of the best candidate's, and
// a margin (predict.Margin); then the others that are, by cost; then the rest, by utility.
package routing

import (
	"errors"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// DefaultAllowance is the output allowance, in tokens, of a request that gives none (ALLOW-06).
	DefaultAllowance = 32768
	// RaisedAllowance is what smaller allowances are raised to on routes with a specialty (ALLOW-13, ALLOW-14).
	RaisedAllowance = 4096
	// ExpectedOutput is how many output tokens a reply is taken to have when routes are compared and nothing is
	// predicted; holds never count on it.
	ExpectedOutput = predict.UsualOutput
	// TinyAllowance is what routes that reason are not sent less than, where another route can take the request.
	TinyAllowance = 1024
)

// Why no route, or one route in particular, cannot serve a request. Wrapped or not, they are compared with
// errors.Is. The first three cannot be helped by a retry (503 feature_unavailable), nor can the fourth (400
// unsupported_field, GAP-78) and ErrUnfit (503 feature_unavailable, GAP-127); ErrNotReady can (503 upstream_error)
// and ErrBusy (429, GAP-39). ErrReserved is only ever the reason of one route in particular. Whoever knows why a
// route cannot be called wraps ErrNotReady or ErrBusy.
var (
	ErrRequired = errors.New("the route is not what the account or its plan requires: see region and retention of the " +
		"route, and requires in the plan")
	ErrNotOffered = errors.New("no route offers what the request needs: add it to a route's `offers`, or send the " +
		"request without it")
	ErrTooLarge = errors.New("input and output allowance fit no route's context window: send less, or ask for a " +
		"smaller allowance")
	ErrNoJSON = errors.New("no route that offers JSON output can take the request: add json_object to a route's " +
		"`offers`, or send the request without a format")
	ErrUnfit    = errors.New("the route's upstream cannot carry the request")
	ErrNotReady = errors.New("no provider of a route that fits is ready: retry later")
	ErrBusy     = errors.New("no upstream of a route that fits takes more at the moment: retry later")
	// ErrFull is no reason of MakeItinerary's, which is the same however busy routes are, but of those who ask a route
	// then.
	ErrFull = errors.New("the route was full: as many attempts as its max_concurrent allows were running")
	// ErrNotCovered is likewise none of its, but of those who place the hold (GAP-137).
	ErrNotCovered = errors.New("what the account has available, or a limit of it or of its key, does not cover " +
		"the route, or one before it")
	ErrReserved = errors.New("the route is kept for requests of its specialty, and other routes can serve this one")
)

// Input is everything a choice depends on.
type Input struct {
	Routes  []config.Route // in file order
	Profile config.Profile
	// Exchange says what quality is worth. Whoever plans many requests makes it once of all routes; nil: it is made of
	// Routes, Profile and Predictor each time, which takes milliseconds.
	Exchange *Exchange
	Needs    Needs
	// InputTokens is the estimate of the prompt that clients see (tokens.Estimate), not the bound that
	// holds are sized by. A guess will do where Decided says so.
	InputTokens int64
	// Allowance is the output allowance that the client gave, 0 when it gave none.
	Allowance int64
	// Graphics says that the request is for graphics (see Graphics), LongAbove from how many tokens on a
	// request is long, 0 for none (config.Special).
	Graphics  bool
	LongAbove int64
	// Requires is what the account demands of routes.
	Requires config.Requires
	// Standing says whether a route is to be called at the moment, by a request that is light (see Candidate) or not.
	// nil: all are.
	Standing func(route *config.Route, light bool) Standing
	// Refuses says whether a route's upstream is known to refuse that (llm.Restrictions), beside what the route itself
	// names. nil: nothing is known.
	Refuses func(route *config.Route, restriction string) bool
	// Predictor reads Request to tell how good each route would be and how much it would write. nil: each is as good
	// as the operator says. It is asked only where there is a choice.
	Predictor *Predictor
	Request   *llm.Request
	// Classified is what a classifier of the operator's says of the routes, in their order, which comes before the
	// Predictor's quality where it is known; nil for nothing.
	Classified llm.Prediction
	// Traits stand for a Request that is not there any more.
	Traits *Traits
	// Keep says whether Itinerary.Traits are wanted.
	Keep Keep
	// Learned is how outcomes change what is predicted, nil for nothing.
	Learned Learned
	// Templates are what routes add to the input, nil for nothing but what the operator says.
	Templates Templates
	// Past is what is remembered of the conversation, nil for nothing.
	Past *Past
	// Strategies are those of the configuration, and Account is what their conditions can ask of who sent the request.
	Strategies []config.Strategy
	Account    config.AccountFacts

	shift float32 // added to what the predictor says of how easy it is, in log odds
	usual *usual  // in place of what the predictor would read, for a workload without a model's
}

// Standing is whether a route is to be called at the moment.
type Standing struct {
	Why error // why not; nil when it is. It wraps ErrNotReady or ErrBusy
	// Behind: it is called nevertheless where no other route is left.
	Behind bool
	// Back is when it is to be called again, where that is worth waiting for when no other route is left (GAP-139).
	Back time.Time
}

// MakeItinerary chooses the routes. When there is no candidate it returns the reason of the route that came furthest:
// ErrRequired if no route is what the account requires, else ErrNotOffered if none of those offers the tools that are
// needed, else ErrTooLarge if none of those fits, else ErrNoJSON if none of those offers the format, else ErrUnfit if
// none of those can carry the request, else ErrNotReady, else ErrBusy if one that is ready takes no more. Where no
// route at all offers the format, it is ErrNoJSON, whatever fits (GAP-78). Rejected is filled then too.
func MakeItinerary(in Input) (Itinerary, error) {
	in.exchangeFor([]config.Profile{in.Profile})
	it := Itinerary{Candidates: make([]Candidate, 0, len(in.Routes)), Traits: in.traits()}
	all := look(&in)
	furthest := ErrNotOffered
	for i := range in.Routes {
		route := &in.Routes[i]
		c, why := judge(&in, all, route)
		if why != nil && !c.Back.IsZero() {
			it.Waits = append(it.Waits, c)
		}
		if why == nil {
			it.Candidates = append(it.Candidates, c)
			continue
		}
		it.Rejected = append(it.Rejected, Rejected{Route: route, Why: why})
		if stage := stageOf(why); slices.Index(stages, stage) > slices.Index(stages, furthest) {
			furthest = stage
		}
	}
	slices.SortStableFunc(it.Waits, func(a, b Candidate) int { return a.Back.Compare(b.Back) })
	if len(it.Candidates) == 0 && len(it.Waits) > 0 {
		it.Steps = new(First)
		it.wait()
	}
	switch {
	case len(in.Routes) > 0 && !all.met:
		return it, ErrRequired
	case len(it.Candidates) == 0 && !all.format:
		return it, ErrNoJSON
	case len(it.Candidates) == 0:
		return it, furthest
	}
	expect(&in, &it)
	compareAll(&in, &it)
	slices.SortStableFunc(it.Candidates, func(a, b Candidate) int { return compare(&a, &b) })
	stay(&in, &it)
	it.choose()
	it.steps(in.Profile.Hedge)
	return it, nil
}

// Decided reports whether a request whose input has at most that many tokens gets the same candidates with the same
// allowances whatever the estimate says, so that a rough guess will do for InputTokens: it fits all windows with the
// largest allowance that it could be sent with, and is not long.
func Decided(in Input, most int64) bool {
	if len(in.Strategies) > 0 { // a judge's room, and what conditions ask, is measured
		return false
	}
	if in.LongAbove > 0 && in.Allowance > in.LongAbove-most {
		return false
	}
	for i := range in.Routes {
		r := &in.Routes[i]
		allowance := in.Allowance
		switch {
		case allowance == 0:
			allowance = min(DefaultAllowance, r.MaxOutput)
		case special(r):
			allowance = max(allowance, RaisedAllowance)
		}
		if allowance > r.ContextWindow-Sum(most, in.Templates.Of(r)) {
			return false
		}
	}
	return true
}

// NewInput is what a request asks of routes, with nothing of the moment: who asks, what is ready, what is remembered.
func NewInput(cfg *config.Config, routes []config.Route, profile string, req *llm.Request) Input {
	return Input{
		Routes:    routes,
		Profile:   *cfg.Profile(profile),
		Needs:     NeedsOf(req),
		Allowance: req.MaxTokens,
		Graphics:  Graphics(cfg, req),
		LongAbove: cfg.Special.LongContextAbove,
		Request:   req,

		Strategies: cfg.Strategies,
	}
}
