package decisions

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
)

// Comparison is what two configurations make of the same requests: the one that serves, and another. Both are asked
// again, by the code that routes: so what differs is the configurations' doing, and no luck of that day.
type Comparison struct {
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // when the last of the requests ended
	Requests int64     `json:"requests"`
	// Unread requests were read by the model of neither configuration, and are judged by what the operator says of the
	// routes. Side has those that one of the two has not read.
	Unread int64 `json:"unread"`
	// Unpaid requests were refused for credits or limits, and are left out of everything else.
	Unpaid int64 `json:"unpaid"`
	// Charged and Cost are what the requests really came to, in microcents.
	Charged int64 `json:"charged_microcents"`
	Cost    int64 `json:"cost_microcents"`

	Before Side `json:"before"`
	After  Side `json:"after"`
	// Shifts are from which routes to which requests move, most first. "" is none: refused.
	Shifts []Shift `json:"shifts"`
}

// Side is what one configuration makes of the requests. Amounts are microcents, by the tokens that were used: those of
// a route that did not answer are scaled by what is expected of both, and its cache is as warm as its conversation
// would have made it.
type Side struct {
	Charged int64 `json:"expected_charged_microcents"`
	Cost    int64 `json:"expected_cost_microcents"`
	Margin  int64 `json:"expected_margin_microcents"`
	// Quality is the mean of what is expected, 0 to 1.
	Quality float64       `json:"expected_quality"`
	Routes  []RouteShare  `json:"routes"`  // most requests first
	Refused []RefusedHere `json:"refused"` // by reason, most first
	// Unread requests were not read by this configuration's model: another one served then, or none was asked. They are
	// judged by what the operator says of the routes.
	Unread int64 `json:"unread"`
	// Model is the trained one that predicts here.
	Model routing.About `json:"model"`
	// Unjudged are strategies that were passed over because nobody knows whether their condition held.
	Unjudged []Unjudged `json:"unjudged,omitempty"`
	// Shadows are how many calls for comparison are expected, and ShadowCost what they cost the operator, besides Cost.
	Shadows    int64 `json:"expected_shadows,omitempty"`
	ShadowCost int64 `json:"expected_shadow_cost_microcents,omitempty"`
}

// Unjudged is how many requests a strategy was passed over for, as its condition asks what is not recorded of them.
type Unjudged struct {
	Strategy string `json:"strategy"`
	Why      string `json:"why"`
	Requests int64  `json:"requests"`
}

// RouteShare is what a route gets of the requests, or a strategy: then Route is "strategy NAME", and what is expected
// is composed of its parts.
type RouteShare struct {
	Route    string  `json:"route"`
	Requests int64   `json:"requests"`
	Charged  int64   `json:"expected_charged_microcents"`
	Cost     int64   `json:"expected_cost_microcents"`
	Quality  float64 `json:"expected_quality"` // mean
}

// RefusedHere is how many requests no route can take, and why.
type RefusedHere struct {
	Reason   string `json:"reason"`
	Requests int64  `json:"requests"`
}

// Shift is how many requests move from a route to another.
type Shift struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Requests int64  `json:"requests"`
}

// Settings are what requests are planned again with.
type Settings struct {
	Before, After *config.Config
	Now           time.Time // whose prices count, on both sides
	// Requires is what an account demands of routes beside its plan; nil: nothing.
	Requires func(account string) config.Requires
	// Named is what an account is called, by its id; "" or nil: nobody knows.
	Named func(account string) string
	// Learned is how outcomes change what is predicted, nil for nothing.
	Learned routing.Learned
	// Templates are what routes add to prompts.
	Templates routing.Templates
	// Predictor is what predicts for a configuration; nil: its model, and nothing that was taught since.
	Predictor func(*config.Config) (*routing.Predictor, routing.About)
}

// Replay compares two configurations. Requests are added in the order in which they have ended.
type Replay struct {
	settings Settings
	sides    [2]*configurationSide
	shifts   map[[2]string]int64
	sum      Comparison
	// answer is what is expected of the route that answered the request at hand, the zero Candidate where no side has it
	// among its candidates.
	answer routing.Candidate
}

// NewReplay begins a comparison.
func NewReplay(s Settings) *Replay {
	if s.Requires == nil {
		s.Requires = func(string) config.Requires { return config.Requires{} }
	}
	if s.Predictor == nil {
		s.Predictor = func(cfg *config.Config) (*routing.Predictor, routing.About) {
			return routing.PredictorOf(cfg), routing.ModelOf(cfg)
		}
	}
	return &Replay{settings: s, shifts: make(map[[2]string]int64),
		sides: [2]*configurationSide{newSide(&s, s.Before), newSide(&s, s.After)}}
}

// Add plans a request on both sides.
func (r *Replay) Add(d *Record) {
	r.sum.Requests++
	r.sum.Until = d.Ended
	r.sum.Charged += d.Charge
	r.sum.Cost += d.Cost
	if d.Refused != "" && d.Choice != "" {
		r.sum.Unpaid++
		return
	}
	read := 0
	for _, s := range r.sides {
		if s.predictor.Reads(d.Traits.Signal) {
			read++
		} else {
			s.unread++
		}
	}
	if read == 0 {
		r.sum.Unread++
	}
	r.answer = routing.Candidate{}
	own := r.settings.Requires(d.Account)
	from, to := r.sides[0].add(r, d, own), r.sides[1].add(r, d, own)
	if from != to {
		r.shifts[[2]string{from, to}]++
	}
}

// Comparison is what came of the requests so far.
func (r *Replay) Comparison() Comparison {
	c := r.sum
	c.Before, c.After = r.sides[0].result(), r.sides[1].result()
	c.Shifts = []Shift{}
	for way, n := range r.shifts {
		c.Shifts = append(c.Shifts, Shift{way[0], way[1], n})
	}
	slices.SortFunc(c.Shifts, func(a, b Shift) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return c
}

// configurationSide is one of the configurations.
type configurationSide struct {
	cfg    *config.Config
	routes []config.Route
	// predictor is the configuration's, and unread are requests that it has no signal of.
	predictor *routing.Predictor
	exchange  *routing.Exchange
	model     routing.About
	unread    int64
	book      *affinity.Book
	at        time.Time
	shares    map[string]*share
	why       map[string]int64

	unjudged map[Unjudged]int64 // their Requests are the values

	shadows, shadowCost float64

	calls []*routing.Candidate // of the request at hand, and what each costs
	costs []float64
}

// share sums up what a route gets. Sums are floats: what is expected is no money.
type share struct {
	requests               int64
	charged, cost, quality float64
}

func newSide(of *Settings, cfg *config.Config) *configurationSide {
	s := &configurationSide{cfg: cfg, routes: slices.Clone(cfg.Routes), shares: make(map[string]*share),
		why: make(map[string]int64), unjudged: make(map[Unjudged]int64)}
	s.predictor, s.model = of.Predictor(cfg)
	for i := range s.routes {
		s.routes[i].Price, s.routes[i].Cost = s.routes[i].In(of.Now)
	}
	s.exchange = routing.NewExchange(s.routes, cfg.Profiles, s.predictor)
	s.book = affinity.New(affinity.Options{Now: func() time.Time { return s.at }})
	return s
}

// add plans a request and returns the route or strategy that it goes to, "" where none can take it.
func (s *configurationSide) add(r *Replay, d *Record, own config.Requires) string {
	in := d.Input(s.cfg, s.routes)
	in.Exchange, in.Predictor = s.exchange, s.predictor
	in.Learned, in.Templates = r.settings.Learned, r.settings.Templates
	in.Requires = s.cfg.PlanOf(d.Plan).Requires.And(own)
	if r.settings.Named != nil {
		in.Account.Name = r.settings.Named(d.Account)
	}
	if len(d.Full) > 0 {
		in.Standing = func(route *config.Route, light bool) routing.Standing {
			if slices.Contains(d.Full, route.Name) {
				return routing.Standing{Why: routing.ErrBusy}
			}
			return d.Standing(route, light)
		}
	}
	stays := s.cfg.Affinity.Mode != config.AffinityOff && len(s.routes) > 1 && d.Conversation != affinity.Key{}
	if stays {
		s.at = d.Begun
		if in.Past = s.book.Past(context.Background(), d.Conversation); in.Past == nil {
			in.Past = d.Past // it began before what is remembered
		}
	}
	it, err := routing.MakeItinerary(in)
	if err != nil {
		s.why[err.Error()]++
		return ""
	}
	s.noteUnjudged(&it)
	routing.Foresee(&in, &it)
	// A route that a side does not have any more may have thought at length.
	if answer := d.Answer(); answer != nil {
		at := slices.IndexFunc(it.Candidates, func(c routing.Candidate) bool { return c.Route.Name == answer.Route })
		if at >= 0 {
			r.answer = it.Candidates[at]
		}
	}
	first := it.Steps.Steps[0]
	name, last := nameOf(&it), lastOf(first)
	if stays {
		used := d.Expect(last, &r.answer)
		s.at = d.Ended
		s.book.Note(context.Background(), d.Conversation, affinity.Turn{Home: it.Home, Served: last.Route.Name,
			Tokens: used.Prompt() + used.Output, Work: it.Work}, s.cfg.Affinity.TTL)
	}
	s.shadow(r, d, in.Profile.Shadow, last, it.Candidates)
	to := s.shares[name]
	if to == nil {
		to = new(share)
		s.shares[name] = to
	}
	to.requests++
	if c, single := first.(*routing.Candidate); single {
		used := d.Expect(c, &r.answer)
		to.quality += c.Quality
		to.charged += priceOf(&used, &c.Route.Price)
		to.cost += priceOf(&used, &c.Route.Cost)
		return name
	}
	s.calls = slices.AppendSeq(s.calls[:0], first.Calls())
	s.costs = s.costs[:0]
	for _, c := range s.calls {
		used := d.Expect(c, &r.answer)
		c.Cost = priceOf(&used, &c.Route.Price)
		s.costs = append(s.costs, priceOf(&used, &c.Route.Cost))
	}
	quality, charged := first.Expect()
	for i, c := range s.calls {
		c.Cost = s.costs[i]
	}
	_, cost := first.Expect()
	to.quality += quality
	to.charged += charged
	to.cost += cost
	return name
}

// shadow sums up what a call for comparison with a reply is expected to cost, by the share of requests that has one. A
// route that answers itself, or could not take the request, is not called; and nothing is known of a request that had
// no reply.
func (s *configurationSide) shadow(r *Replay, d *Record, of config.Shadow, answers *routing.Candidate,
	candidates []routing.Candidate) {
	if _, answered := d.Prompt(); !answered || of.Share <= 0 || of.Route == answers.Route.Name {
		return
	}
	for i := range candidates {
		if c := &candidates[i]; c.Route.Name == of.Route && c.Behind == nil {
			used := d.Expect(c, &r.answer)
			s.shadows += of.Share
			s.shadowCost += of.Share * priceOf(&used, &c.Route.Cost)
		}
	}
}

// nameOf is what a request goes to: a route, or a strategy. No route has a blank in its name.
func nameOf(it *routing.Itinerary) string {
	if it.Strategy != nil {
		return "strategy " + it.Strategy.Name
	}
	return it.Candidates[0].Route.Name
}

// lastOf is the call of a step whose reply is likely to be that of the request.
func lastOf(s routing.Step) *routing.Candidate {
	switch s := s.(type) {
	case *routing.Candidate:
		return s
	case *routing.Panel:
		return s.Judge
	}
	return routing.Opening(s)
}

// noteUnjudged counts the strategies whose condition asks what is not recorded of the request.
func (s *configurationSide) noteUnjudged(it *routing.Itinerary) {
	for i := range it.Options {
		if o := &it.Options[i]; o.Why != nil && errors.Is(o.Why, config.ErrUnknownFact) {
			s.unjudged[Unjudged{Strategy: o.Strategy.Name, Why: o.Why.Error()}]++
		}
	}
}

// mostScale bounds by how much the tokens of one route are taken to differ from those of another.
const mostScale = 20

// Expect is what a request is expected to use on a route. What it used there counts, but for a call that reads the
// replies of others. answer is what is expected of the route that answered: its Output, 0 where nobody knows, and its
// Template.
func (r *Record) Expect(c, answer *routing.Candidate) Usage {
	if c.Reads == 0 {
		if used := r.On(c.Route.Name); used != nil {
			return *used
		}
	}
	prompt, output := r.InputTokens, c.Output
	if tokens, ok := r.Prompt(); ok {
		prompt, output = max(0, tokens-answer.Template), float64(r.Answer().Usage.Output)
		if answer.Output > 0 {
			output *= min(max(c.Output/answer.Output, 1./mostScale), mostScale)
		}
	}
	prompt += c.Template + c.Reads
	u := Usage{Known: true, CacheRead: min(c.Cached, prompt), Output: int64(math.Round(min(output, float64(c.Allowance))))}
	if price, _ := c.Route.Price.At(prompt); price.CacheRead < price.Input {
		u.CacheWrite = prompt - u.CacheRead
	} else {
		u.Input = prompt - u.CacheRead
	}
	return u
}

// priceOf is what tokens come to at a price, in microcents.
func priceOf(u *Usage, price *config.Price) float64 {
	p, _ := price.At(u.Prompt())
	return (float64(u.Input)*float64(p.Input) + float64(u.CacheRead)*float64(p.CacheRead) +
		float64(u.CacheWrite)*float64(p.CacheWrite) + float64(u.Output)*float64(p.Output)) / 1e6
}

func (s *configurationSide) result() Side {
	out := Side{Routes: []RouteShare{}, Refused: []RefusedHere{}, Shadows: roundAmount(s.shadows),
		ShadowCost: roundAmount(s.shadowCost), Unread: s.unread, Model: s.model}
	var all share
	for name, one := range s.shares {
		all.requests += one.requests
		all.quality += one.quality
		all.charged += one.charged
		all.cost += one.cost
		out.Routes = append(out.Routes, RouteShare{Route: name, Requests: one.requests, Charged: roundAmount(one.charged),
			Cost: roundAmount(one.cost), Quality: one.quality / float64(one.requests)})
	}
	for why, n := range s.why {
		out.Refused = append(out.Refused, RefusedHere{why, n})
	}
	for one, n := range s.unjudged {
		one.Requests = n
		out.Unjudged = append(out.Unjudged, one)
	}
	slices.SortFunc(out.Unjudged, func(a, b Unjudged) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Why, b.Why))
	})
	slices.SortFunc(out.Routes, func(a, b RouteShare) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Route, b.Route))
	})
	slices.SortFunc(out.Refused, func(a, b RefusedHere) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Reason, b.Reason))
	})
	out.Charged, out.Cost = roundAmount(all.charged), roundAmount(all.cost)
	out.Margin = out.Charged - out.Cost
	if all.requests > 0 {
		out.Quality = all.quality / float64(all.requests)
	}
	return out
}

func roundAmount(microcents float64) int64 { return int64(math.Round(microcents)) }
