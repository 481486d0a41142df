// Package routing decides which routes may serve a request and in which order they are tried. It is pure:
// no clock, no network, no state; the same Input always gives the same Itinerary, so that a choice can be
// explained offline. It is for the exchange and for `explain`. It also knows which model names are accepted
// (Accept) and which profile a request runs with (Profile).
//
// # Candidates
//
// A route is a candidate when it is what the account and its plan require, when it offers the tools that the
// request needs, when the request fits it, when it offers the structured output that is asked for, when its upstream
// is not known to refuse what cannot be said otherwise (GAP-127), when it is not kept for others, and when it is to be
// called at the moment (Standing), judged in this order. A JSON object can be asked of a route that offers
// `json_object`, an answer by a schema also of one that offers `json_schema` only. A request fits when input +
// allowance <= context window, where what the route's upstream adds to a prompt (Templates) is input, with the
// allowance as the client gave it (GAP-34) or, when it gave none, min(32768, the route's output limit, the room left),
// which must be at least 1 (GAP-36). What is sent upstream is min(given, the route's output limit).
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
// up (ALLOW-20). Candidates of equal match are then ordered by compromise programming (Zeleny): each one's distance
// from an ideal route, which is as good as the best candidate and as cheap as the cheapest one.
//
//	quality = what is expected of the route for this request: see Predictor; without one what the operator says
//	cost   = (input estimate x input price + expected output x output price) / 1e6, in microcents,
//	         expected output = min(allowance sent, what is predicted, six times that where the route reasons; 500 without
//	         a Predictor), prices of the tier that the estimate reaches
//	c      = (log1p(cost) - log1p(lowest)) / (log1p(highest) - log1p(lowest)), 0 when all cost the same
//	s      = (best quality - quality) / spread, 0 when all are equally good
//	spread = how far apart the operator says that the candidates are, at the kind of work where that is the most
//	distance = sqrt((w_cost x c)^2 + (w_quality x s)^2), the profile's weights scaled to a sum of 1
//
// The smallest distance comes first; ties go to the lower cost, then to the higher quality, then to file
// order. The logarithm makes prices that differ tenfold equally far apart wherever they are on the scale;
// the Euclidean distance is what lets a route in the middle win under balanced weights (PROF-03), where a
// weighted sum would often leave only the extremes. How difficult a request is changes s alone: routes are nearer to
// each other for an easy one, so that the cheap route wins, and further apart for a hard one.
//
// # Conversations
//
// What is remembered of a conversation (Past, package affinity) changes the cost: to the mean of its turns to come, of
// which this one pays for what the upstream does not have in its cache, and the others read it there. The turns to
// come are taken to be as many as there were, 2 to 20. Where nothing is remembered it is one turn, but 5 at least
// where there are tools, for what begins as a loop of tool calls stays where it begins. It changes the quality alike:
// the turns to come are taken to be about what those so far were (Work), the last of them most. The conversation's
// route stays first unless another one is nearer to the ideal by more than 0.03, or it is no candidate. With
// keep_quality it stays first unless it falls clearly below the quality to keep, or one that is clearly above that is
// 5 percent cheaper: the more turns are known, the sooner that is clear. A turn that answers tool calls stays on the
// route that made them, whatever else there is, as long as that is a candidate. A route that is not ready stays the
// conversation's, which comes back to it.
//
// # Learning
//
// What came of requests (Learned, package outcome) changes the expected quality, by the kinds of work that the request
// is of: it is never more than halved by what the gateway has seen, nor moved more than half way by what people said of
// replies, and it changes in steps.
//
// # Keeping quality
//
// With keep_quality, the cheapest route comes first whose quality is at least that share of the best candidate's, and
// a margin (predict.Margin); then the others that are, by cost; then the rest, by distance.
package routing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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
// unsupported_field, GAP-78) and ErrUnfit (503 feature_unavailable, GAP-127); ErrNotReady can (503 upstream_error) and
// ErrBusy (429, GAP-39). ErrReserved is only ever the reason of one route in particular. Whoever knows why a route
// cannot be called wraps ErrNotReady or ErrBusy.
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
	// ErrFull is no reason of Plan's, which is the same however busy routes are, but of those who ask a route then.
	ErrFull = errors.New("the route was full: as many attempts as its max_concurrent allows were running")
	// ErrNotCovered is likewise none of Plan's, but of those who place the hold (GAP-137).
	ErrNotCovered = errors.New("what the account has available, or a limit of it or of its key, does not cover " +
		"the route, or one before it")
	ErrReserved = errors.New("the route is kept for requests of its specialty, and other routes can serve this one")
)

// Input is everything a choice depends on.
type Input struct {
	Routes  []config.Route // in file order
	Profile config.Profile
	Needs   Needs
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
}

// Standing is whether a route is to be called at the moment.
type Standing struct {
	Why error // why not; nil when it is. It wraps ErrNotReady or ErrBusy
	// Behind: it is called nevertheless where no other route is left.
	Behind bool
	// Back is when it is to be called again, where that is worth waiting for when no other route is left (GAP-139).
	Back time.Time
}

// Needs is what a request needs a route to offer.
type Needs struct {
	Tools bool
	// Format is the kind of structured output that is asked for, "" for none.
	Format llm.FormatKind
	// ForcedCall: a call of a tool is demanded. FormatWithTools: a format is asked for where there are tools.
	ForcedCall, FormatWithTools bool
}

// NeedsOf reads the needs from a request. A conversation that has tool calls in it needs a route that knows
// tools even when this turn declares none.
func NeedsOf(req *llm.Request) Needs {
	tools := len(req.Tools) > 0 || slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleTool || slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil })
	})
	needs := Needs{Tools: tools, ForcedCall: req.ForcesCall(), FormatWithTools: req.FormatsWithTools()}
	if req.Format != nil {
		needs.Format = req.Format.Kind
	}
	return needs
}

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

	Quality   float64 // expected, 0 to 1
	Output    float64 // expected, in tokens, at most Allowance
	Cached    int64   // tokens of the input that the upstream is expected to have in its cache
	Cost      float64 // expected, in microcents; of a conversation the mean of its turns to come; for comparing only
	CostScore float64 // c, 0 for the cheapest candidate to 1 for the dearest
	Shortfall float64 // s, 0 for the best candidate, about 1 for the worst
	Distance  float64 // from the ideal; the smallest is tried first, after Matches and Cramped
	Keeps     bool    // the profile's share of the best candidate's quality, where it has one
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

// Plan makes the itinerary. When there is no candidate it returns the reason of the route that came furthest:
// ErrRequired if no route is what the account requires, else ErrNotOffered if none of those offers the tools that are
// needed, else ErrTooLarge if none of those fits, else ErrNoJSON if none of those offers the format, else ErrUnfit if
// none of those can carry the request, else ErrNotReady, else ErrBusy if one that is ready takes no more. Where no
// route at all offers the format, it is ErrNoJSON, whatever fits (GAP-78). Rejected is filled then too.
func Plan(in Input) (Itinerary, error) {
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

// compareAll fills in how the candidates, and the strategies that compete with them, compare with each other.
func compareAll(in *Input, it *Itinerary) {
	all := it.Candidates
	if len(it.Options) > 0 {
		all = scored(it)
	}
	score(all, in.Profile)
	if in.Profile.KeepQuality > 0 {
		it.KeepFrom = keep(all, in.Profile.KeepQuality, in.Predictor.margin(in.Profile.KeepQuality))
	}
	at := copy(it.Candidates, all)
	for i := range it.Options {
		if o := &it.Options[i]; o.Step != nil && o.Strategy.When == nil {
			o.Distance, o.Keeps = all[at].Distance, all[at].Keeps
			at++
		}
	}
}

// compare says which of two candidates is tried first.
func compare(a, b *Candidate) int {
	if order := cmp.Or(truth(a.Behind != nil)-truth(b.Behind != nil), cmp.Compare(b.Matches, a.Matches),
		truth(a.Cramped)-truth(b.Cramped),
		truth(b.Keeps)-truth(a.Keeps)); order != 0 {
		return order
	}
	if a.Keeps {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Quality, a.Quality))
	}
	return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Quality, a.Quality))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
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

func offersFormat(route *config.Route, format llm.FormatKind) bool {
	switch format {
	case llm.FormatJSONObject:
		return route.JSONObject
	case llm.FormatJSONSchema:
		return route.JSONObject || route.JSONSchema
	}
	return true
}

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

// expect fills in what is expected of each candidate: by the predictor, and where there is none, or nothing to choose,
// by what the operator says.
func expect(in *Input, it *Itinerary) {
	var s *sight
	if in.Past != nil {
		it.Work = in.Past.Work
	}
	if len(it.Candidates)+len(in.Strategies) > 1 && loopRoute(in, it.Candidates) < 0 {
		s = in.read()
	}
	if s != nil {
		it.Work = s.lasts(in.Past, in.rest())
	}
	for i := range it.Candidates {
		c := &it.Candidates[i]
		c.Quality, c.Output = c.Route.Quality, ExpectedOutput
		if s != nil {
			c.Quality, c.Output = s.of(c.Route)
		}
		c.Output = min(c.Output, float64(c.Allowance))
		in.price(c)
	}
	in.keep(it, s)
	options(in, it, s)
	if s != nil {
		it.Kinds, it.Trust = s.signal.Kinds, s.signal.Trust
		in.Predictor.done(s)
	}
}

// price fills in what the request is expected to cost on a route.
func (in *Input) price(c *Candidate) {
	if turns := in.rest(); turns > 1 {
		c.Cost, c.Cached = turnCost(c, in, turns)
		return
	}
	c.Cost = expectedCost(c.Route, c.Input, c.Output)
}

// expectedCost is what the request is likely to cost on a route, in microcents. Prices are in microcents per
// million tokens.
func expectedCost(route *config.Route, input int64, output float64) float64 {
	price, _ := route.Price.At(input)
	return (float64(input)*float64(price.Input) + output*float64(price.Output)) / 1e6
}

// score fills in how far each candidate is from the ideal.
func score(candidates []Candidate, profile config.Profile) {
	low, high, best := math.MaxFloat64, 0.0, 0.0
	for i := range candidates {
		c := &candidates[i]
		low, high, best = min(low, c.Cost), max(high, c.Cost), max(best, c.Quality)
	}
	cost, quality := weights(profile)
	apart := spread(candidates)
	for i := range candidates {
		c := &candidates[i]
		c.CostScore = share(math.Log1p(c.Cost)-math.Log1p(low), math.Log1p(high)-math.Log1p(low))
		c.Shortfall = share(best-c.Quality, apart)
		c.Distance = math.Hypot(cost*c.CostScore, quality*c.Shortfall)
	}
}

// spread is how far apart the operator says that the candidates are, at the kind of work where that is the most.
func spread(candidates []Candidate) (most float64) {
	for k := range predict.NumKinds {
		low, high := math.Inf(1), math.Inf(-1)
		for i := range candidates {
			q := candidates[i].Route.QualityFor(k.String())
			low, high = min(low, q), max(high, q)
		}
		most = max(most, high-low)
	}
	return most
}

// keep marks the candidates that keep a share of the best one's quality. Those that are cramped may not answer at all,
// and those that stand behind are not to be called: they count only among themselves. It returns the quality from which
// on one keeps.
func keep(candidates []Candidate, share, margin float64) (from float64) {
	last := func(c *Candidate) bool { return c.Cramped || c.Behind != nil }
	free := slices.ContainsFunc(candidates, func(c Candidate) bool { return !last(&c) })
	best := math.Inf(-1)
	for i := range candidates {
		if c := &candidates[i]; !free || !last(c) {
			best = max(best, c.Quality)
		}
	}
	from = min(share*best+margin, best)
	for i := range candidates {
		c := &candidates[i]
		c.Keeps = c.Quality >= from
	}
	return from
}

// share is part / whole, and 0 where the candidates do not differ.
func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// weights scales a profile's weights to a sum of 1. A profile without any weighs both alike.
func weights(p config.Profile) (cost, quality float64) {
	sum := p.Cost + p.Quality
	if sum <= 0 {
		return 0.5, 0.5
	}
	return p.Cost / sum, p.Quality / sum
}
