package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	estimator "github.com/fareway/fareway/plugins/tokens"
)

// Codecs are the families by name.
var Codecs = map[string]families.Server{
	"chat": chat.Server{}, "responses": responses.Server{}, "messages": messages.Server{},
}

// Body is that of a request as a client would send it, and who would.
type Body struct {
	JSON    []byte
	Family  string // "": as it looks
	Profile string // of the header, "" for none
	Account ledger.Account
	Weights *Weights // in place of the profile's, nil for those
}

// Weights are what a profile weighs with.
type Weights struct {
	Cost        float64 `json:"cost"`
	Quality     float64 `json:"quality"`
	KeepQuality float64 `json:"keep_quality,omitempty"` // 0: none
}

// Moment is what is known of the routes when a request comes. Only Routes have to be there.
type Moment struct {
	Routes    []config.Route // with their prices
	Predictor *routing.Predictor
	Model     routing.About
	Exchange  *routing.Exchange
	Learned   routing.Learned
	Templates routing.Templates
	Standing  func(account string) func(r *config.Route, light bool) routing.Standing
	Refuses   func(r *config.Route, restriction string) bool
	Classify  func(*routing.Input) error
	Fits      func(routing.Worst) bool // what the account covers, nil for everything
}

// ExplainBody does with the body of a request what the gateway does, up to the choice of a route. An error is what the
// gateway would refuse.
func ExplainBody(cfg *config.Config, body Body, m Moment) (*Explanation, error) {
	family := body.Family
	if family == "" {
		family = familyOf(body.JSON)
	}
	codec, ok := Codecs[family]
	if !ok {
		return nil, fmt.Errorf("there is no family %q: it is one of %s", family,
			strings.Join(slices.Sorted(maps.Keys(Codecs)), ", "))
	}
	doc, refusal := families.Parse(body.JSON)
	if refusal != nil {
		return nil, refused(refusal)
	}
	model, refusal := doc.Model()
	if refusal != nil {
		return nil, refused(refusal)
	}
	byModel, ok := routing.Accept(cfg.Gateway.Namespace, cfg.Gateway.ClientModels, model)
	if !ok {
		return nil, fmt.Errorf("the gateway would refuse the request with 404 model_not_found: it does not accept the "+
			"model %q", model)
	}
	decoded, refusal := codec.Decode(doc, families.Rules{StructuredOutput: cfg.Gateway.StructuredOutput})
	if refusal != nil {
		return nil, refused(refusal)
	}
	plan := body.Account.Plan
	if _, ok := cfg.Plan(plan); plan != "" && !ok {
		return nil, fmt.Errorf("the configuration has no plan %q", plan)
	}
	terms := engine.PlanOf(cfg, body.Account)
	ask := routing.Ask{Model: byModel, Effort: decoded.Effort}
	if body.Profile != "" {
		ask.Header = []string{body.Profile}
	}
	profile, err := routing.Profile(ask, terms.DefaultProfile)
	if err != nil {
		return nil, err
	}
	in := routing.NewInput(cfg, m.Routes, profile, decoded.LLM)
	if w := body.Weights; w != nil {
		in.Profile.Cost, in.Profile.Quality, in.Profile.KeepQuality = w.Cost, w.Quality, w.KeepQuality
	}
	in.Refuses, in.Requires, in.Predictor, in.Exchange = m.Refuses, terms.Requires, m.Predictor, m.Exchange
	in.Learned, in.Templates = m.Learned, m.Templates
	if m.Standing != nil {
		in.Standing = m.Standing(body.Account.ID)
	}
	in.InputTokens = estimator.Estimate(decoded.LLM)
	in.Account = config.AccountFacts{ID: body.Account.ID, Name: body.Account.Name, Plan: plan}
	v := &Explanation{File: cfg.Path, Family: family, Plan: plan, Model: m.Model, Classifier: cfg.Predictor.Provider}
	if m.Classify != nil {
		if err := m.Classify(&in); err != nil {
			v.Unclassified = err.Error()
		}
	}
	v.Explanation = routing.Explain(in, WorstOf(estimator.Bound(decoded.LLM)), m.Fits)
	return v, nil
}

func refused(e *families.Error) error {
	return fmt.Errorf("the gateway would refuse the request with %d %s: %w", e.Status, e.Code, errors.New(e.Message))
}

// familyOf is the family that a body looks like.
func familyOf(body []byte) string {
	var top struct {
		Input, System, StopSequences json.RawMessage
		Tools                        []struct {
			InputSchema json.RawMessage `json:"input_schema"`
		}
	}
	// What is not right is said when the body is decoded.
	_ = json.Unmarshal(body, &top)
	switch {
	case top.Input != nil:
		return "responses"
	case top.System != nil || len(top.Tools) > 0 && top.Tools[0].InputSchema != nil:
		return "messages"
	}
	return "chat"
}

// Covers says what an account covers now, but for the caps of its keys (GAP-137).
func (v Account) Covers(w routing.Worst) bool {
	limits := v.Limits
	if limits == nil {
		limits = new(Limits)
	}
	within := func(more, settled, limit int64) bool { return limit == 0 || settled < limit && more <= limit-settled }
	return v.AvailableCredits >= 1 && w.Microcents <= v.AvailableCredits*ledger.MicrocentsPerCredit &&
		within(w.Microcents, v.Period.SpentMicrocents, limits.SpendCapCredits*ledger.MicrocentsPerCredit) &&
		within(w.Tokens, v.Period.Tokens, limits.TokenBudget)
}

// ExplainRequest asks where a request would go now. It is sent nowhere, and nothing of it is kept.
type ExplainRequest struct {
	// Prompt is a text that a client would ask, Body that of a whole request: one of the two.
	Prompt  string   `json:"prompt,omitempty"`
	Body    string   `json:"body,omitempty"`
	Family  string   `json:"family,omitempty"`  // of the body: chat, responses or messages; "": as it looks
	Profile string   `json:"profile,omitempty"` // of the header, "" for none
	Account string   `json:"account,omitempty"` // a name or an id: with what it requires and covers
	Weights *Weights `json:"weights,omitempty"` // in place of the profile's
}

// explainBody says where a request would go by what the gateway knows now.
func (a *API) explainBody(r *http.Request) (any, error) {
	in, err := readJSON[ExplainRequest](r)
	if err != nil {
		return nil, err
	}
	g := a.engine.Current()
	if g == nil {
		return nil, engine.ErrReplaced
	}
	body := Body{JSON: []byte(in.Body), Family: in.Family, Profile: in.Profile, Weights: in.Weights}
	switch {
	case (in.Prompt == "") == (in.Body == ""):
		return nil, problem(http.StatusBadRequest, "give a prompt, or the body of a request: one of the two")
	case in.Prompt != "":
		body.Family = "chat"
		body.JSON, err = json.Marshal(map[string]any{"model": g.Config.Gateway.Namespace + "/auto",
			"messages": []map[string]string{{"role": "user", "content": in.Prompt}}})
		if err != nil {
			return nil, err
		}
	}
	if err := in.Weights.check(); err != nil {
		return nil, err
	}
	tariff, err := g.Tariff(r.Context())
	if err != nil {
		return nil, err
	}
	predictor, about := a.engine.PredictorOf(g.Config)
	m := Moment{Routes: tariff.Routes, Predictor: predictor, Model: about, Exchange: tariff.Exchange,
		Learned: a.engine.Outcomes().Learned(), Templates: a.engine.Templates().Known(), Standing: g.Standing,
		Refuses: g.Refuses, Classify: func(in *routing.Input) error { return g.Classify(r.Context(), in) }}
	if in.Account != "" {
		if body.Account, err = a.books.account(r.Context(), in.Account); err != nil {
			return nil, err
		}
		m.Fits = a.books.view(body.Account).Covers
	}
	v, err := ExplainBody(g.Config, body, m)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "%w", err)
	}
	return v, nil
}

// check refuses weights that no profile could have.
func (w *Weights) check() error {
	if w == nil {
		return nil
	}
	const most = 1_000_000
	for _, v := range [...]float64{w.Cost, w.Quality} {
		if math.IsNaN(v) || v < 0 || v > most {
			return problem(http.StatusBadRequest, "a weight is a number from 0 to %d", most)
		}
	}
	switch {
	case w.Cost == 0 && w.Quality == 0:
		return problem(http.StatusBadRequest, "cost and quality are both 0, so that nothing would choose: make one larger")
	case math.IsNaN(w.KeepQuality) || w.KeepQuality < 0 || w.KeepQuality > 1:
		return problem(http.StatusBadRequest, "keep_quality is over 0 and at most 1; 0 is none")
	}
	return nil
}
