package admin

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// Explanation is which route a request goes to, and why.
type Explanation struct {
	File   string `json:"file"` // the configuration
	Family string `json:"family"`
	Plan   string `json:"plan,omitempty"`
	// Model is the trained one that predicts.
	Model routing.About `json:"model"`
	// Classifier is the provider that predicts before it, and Unclassified why that has not.
	Classifier   string `json:"classifier,omitempty"`
	Unclassified string `json:"unclassified,omitempty"`
	routing.Explanation
	// Request is the one that the decision log has this of.
	Request *Decided `json:"request,omitempty"`
}

// Decided is a request that was routed. It is explained by the configuration that serves now, at the prices of its own
// time, and by what was the matter then: which routes were not ready or full, and what was known of its conversation.
type Decided struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"` // id
	Time      time.Time `json:"time"`
	OtherFile bool      `json:"other_configuration"` // another one served then
	// Signals is the fingerprint (routing.About) of the model that has read it, "" for none. Where another one predicts
	// now, OtherModel, what is expected follows from what the configuration says of the routes alone.
	Signals    string  `json:"signals,omitempty"`
	OtherModel bool    `json:"other_model,omitempty"`
	Choice     string  `json:"choice"` // the route that was planned first, "" for none
	Status     int     `json:"status"`
	Reason     string  `json:"reason,omitempty"` // of the settlement
	Refused    string  `json:"refused,omitempty"`
	Attempts   []Tried `json:"attempts"`
	// Waited is how long it waited for a route whose upstream had said when it takes more, in milliseconds.
	Waited int64 `json:"waited_milliseconds,omitempty"`
	// Charged and Cost are what it came to, in microcents. Pending: a receipt may add to it.
	Charged int64 `json:"charged_microcents"`
	Cost    int64 `json:"cost_microcents"`
	Pending bool  `json:"pending,omitempty"`
	// Shadow is the call that was made for comparison.
	Shadow *Compared `json:"shadow,omitempty"`
	// Elsewhere is what it came to on the route that answered, and would have come to on each other candidate.
	Elsewhere []Elsewhere `json:"elsewhere"`
}

// Compared is a call that was made beside a request for comparison, at the operator's cost.
type Compared struct {
	Route  string       `json:"route"`
	Result string       `json:"result"` // "answered", the kind of the failure, or why it was not made
	Cost   int64        `json:"cost_microcents"`
	Usage  *TriedTokens `json:"tokens,omitempty"`
	Finish string       `json:"finish,omitempty"`
	Took   int64        `json:"milliseconds,omitempty"`
	First  int64        `json:"first_token_milliseconds,omitempty"`
	Reply  struct {
		Finish string `json:"finish"`
		Took   int64  `json:"milliseconds"`
		First  int64  `json:"first_token_milliseconds"`
	} `json:"reply"` // that it is compared with
}

func viewCompared(s *decisions.Shadow) *Compared {
	if s == nil {
		return nil
	}
	v := &Compared{Route: s.Route, Result: s.Result, Cost: s.Cost, Finish: s.Finish, Took: s.Took.Milliseconds(),
		First: s.First.Milliseconds()}
	if u := s.Usage; u.Known {
		v.Usage = &TriedTokens{u.Input, u.CacheRead, u.CacheWrite, u.Output}
	}
	v.Reply.Finish, v.Reply.Took, v.Reply.First = s.ReplyFinish, s.ReplyTook.Milliseconds(), s.ReplyFirst.Milliseconds()
	return v
}

// Tried is an attempt of a request.
type Tried struct {
	Route   string       `json:"route"`
	Outcome string       `json:"outcome"`
	Failure string       `json:"failure,omitempty"` // why, while the gateway remembers
	Usage   *TriedTokens `json:"tokens,omitempty"`  // null where nothing is proven
}

// TriedTokens is what an attempt used.
type TriedTokens struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
}

// Elsewhere is what a request comes to on a route, in microcents. Where another one answered, its output is scaled by
// what is expected of both, and so much of the input is cached as its conversation would have left there.
type Elsewhere struct {
	Route      string `json:"route"`
	Microcents int64  `json:"microcents"`
	Cost       int64  `json:"cost_microcents"`
	Output     int64  `json:"output_tokens"`
}

// WorstOf is the most that a request can come to on a candidate, by the bound of its input.
func WorstOf(bound int64) func(*routing.Candidate) routing.Worst {
	return func(c *routing.Candidate) routing.Worst {
		longest, bound := c.Allowance, c.PromptBound(bound)
		if c.Route.BillsPastAllowance {
			longest = max(longest, c.Route.MaxOutput)
		}
		return routing.Worst{Microcents: ledger.HoldFor(bound, longest, c.Route.Price), Tokens: routing.Sum(bound, longest)}
	}
}

// RoutesAt are the routes of a configuration with the prices of a time.
func RoutesAt(cfg *config.Config, at time.Time) []config.Route {
	routes := slices.Clone(cfg.Routes)
	for i := range routes {
		routes[i].Price, routes[i].Cost = routes[i].In(at)
	}
	return routes
}

// explain says how the route of a request came to be chosen.
func (a *API) explain(r *http.Request) (any, error) {
	id := r.PathValue("request")
	g := a.engine.Current()
	if g == nil {
		return nil, engine.ErrReplaced
	}
	d, err := a.engine.Decisions().Find(r.Context(), id)
	switch {
	case errors.Is(err, decisions.ErrNotFound):
		return nil, a.undecided(r, id)
	case err != nil:
		return nil, err
	}
	if d.Pending {
		if err := a.prove(r, &d); err != nil {
			return nil, err
		}
	}
	name, err := a.nameOf(r, d.Account)
	if err != nil {
		return nil, err
	}
	v := explainDecision(a.engine, g.Config, &d, name)
	for i := range v.Request.Attempts {
		v.Request.Attempts[i].Failure = a.engine.FailureOf(r.Context(), ledger.AttemptID(d.ID, int64(i+1)))
	}
	return v, nil
}

// nameOf is what an account is called, "" where there is none.
func (a *API) nameOf(r *http.Request, id string) (string, error) {
	account, err := a.engine.Store().Account(r.Context(), id)
	if errors.Is(err, ledger.ErrNotFound) {
		return "", nil
	}
	return account.Name, err
}

// undecided says why the decision log has nothing of a request.
func (a *API) undecided(r *http.Request, id string) error {
	record, err := a.engine.Store().Request(r.Context(), id)
	switch {
	case err == nil && record.Running:
		return problem(http.StatusConflict, "request %q is running: it is explained when it has ended", id)
	case err == nil:
		if where := a.elsewhere(r.Context(), record.Owner); where != "" {
			return problem(http.StatusNotFound, "how request %q was routed is not known here: %s; ask there", id, where)
		}
		return problem(http.StatusNotFound, "how request %q was routed is not remembered: it is older than decision_log "+
			"keeps requests, or that was off; `fareway gateway usage %s` shows what it cost", id, id)
	case !errors.Is(err, ledger.ErrNotFound):
		return err
	}
	return problem(http.StatusNotFound, "the decision log has no request %q: its id is in the reply's X-Request-Id; what "+
		"was refused before a route was looked for is in `fareway gateway usage %s`", id, id)
}

// prove adds what was proven of a request since it was settled.
func (a *API) prove(r *http.Request, d *decisions.Record) error {
	record, err := a.engine.Store().Request(r.Context(), d.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil // its detail is pruned
	}
	if err != nil {
		return err
	}
	v := ViewRequest(record)
	d.Charge, d.Cost, d.Pending = v.Microcents, v.Cost, v.Pending
	for i := range d.Attempts {
		if i < len(record.Attempts) {
			d.Attempts[i].Usage = decisions.UsageOf(&record.Attempts[i].Usage)
			if d.Attempts[i].Outcome = string(record.Attempts[i].Outcome); record.Attempts[i].Operator {
				d.Attempts[i].Outcome = decisions.Outrun
			}
		}
	}
	return nil
}

// explainDecision explains a request of the account of that name by a configuration.
func explainDecision(e *engine.Engine, cfg *config.Config, d *decisions.Record, account string) *Explanation {
	predictor, about := e.PredictorOf(cfg)
	routes := RoutesAt(cfg, d.Begun)
	in := d.Input(cfg, routes)
	in.Past, in.Predictor, in.Learned, in.Templates = d.Past, predictor, e.Outcomes().Learned(), e.Templates().Known()
	in.Account.Name = account
	v := &Explanation{File: cfg.Path, Family: d.Endpoint, Plan: d.Plan, Model: about,
		Classifier:  cfg.Predictor.Provider,
		Explanation: routing.Explain(in, WorstOf(d.InputBound), nil)}
	for _, route := range d.Full {
		v.Refuse(route, routing.ErrFull)
	}
	for _, route := range d.LeftOut {
		v.Refuse(route, routing.ErrNotCovered)
	}
	v.Request = &Decided{ID: d.ID, Account: d.Account, Time: d.Begun, OtherFile: !d.By(cfg), Choice: d.Choice,
		Status: d.Status, Reason: d.Reason, Refused: d.Refused, Attempts: []Tried{}, Charged: d.Charge, Cost: d.Cost,
		Waited: d.Waited.Milliseconds(), Pending: d.Pending, Shadow: viewCompared(d.Shadow)}
	v.Request.Signals = routing.SignalsOf(d.Traits.Signal)
	v.Request.OtherModel = v.Request.Signals != "" && !in.Predictor.Reads(d.Traits.Signal)
	for _, a := range d.Attempts {
		t := Tried{Route: a.Route, Outcome: a.Outcome}
		if u := a.Usage; u.Known {
			t.Usage = &TriedTokens{u.Input, u.CacheRead, u.CacheWrite, u.Output}
		}
		v.Request.Attempts = append(v.Request.Attempts, t)
	}
	v.Request.Elsewhere = elsewhere(d, v.Candidates, routes)
	return v
}

// elsewhere is what a request that was answered comes to on each route that could take it.
func elsewhere(d *decisions.Record, candidates []routing.Explained, routes []config.Route) []Elsewhere {
	list := []Elsewhere{}
	answer := d.Answer()
	if answer == nil {
		return list
	}
	var expected routing.Candidate
	for i := range candidates {
		if c := &candidates[i]; c.Route == answer.Route {
			expected.Output, expected.Template = c.Output, c.Template
		}
	}
	for i := range routes {
		r := &routes[i]
		at := slices.IndexFunc(candidates, func(c routing.Explained) bool { return c.Route == r.Name })
		if at < 0 {
			continue
		}
		c := &candidates[at]
		used := d.Expect(&routing.Candidate{Route: r, Allowance: c.Allowance, Output: c.Output, Cached: c.Cached,
			Template: c.Template}, &expected)
		price, priced := ledger.Cost(used.LLM(), r.Price)
		cost, costed := ledger.Cost(used.LLM(), r.Cost)
		if priced == nil && costed == nil { // what is no usage at a price has none
			list = append(list, Elsewhere{r.Name, price, cost, used.Output})
		}
	}
	return list
}
