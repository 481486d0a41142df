package exchange

import (
	"errors"
	"net/http"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/tokens"
)

// admit takes steps 15 to 17: it plans the routes and holds the most that the request can cost on any of
// them (GAP-49). When it returns nil, the first attempt and the hold are durable.
func (x *exchange) admit() *families.Error {
	x.estimate = tokens.Estimate(x.req.LLM)
	x.bound = tokens.Bound(x.req.LLM)
	cfg := x.gen.Config
	profile := slices.IndexFunc(cfg.Profiles, func(p config.Profile) bool { return p.Name == x.req.profile })
	plan, err := routing.Plan(routing.Input{
		Routes:      cfg.Routes,
		Profile:     cfg.Profiles[profile],
		Needs:       routing.NeedsOf(x.req.LLM),
		InputTokens: x.estimate,
		Allowance:   x.req.LLM.MaxTokens,
		Ready:       func(r *config.Route) bool { return x.gen.Ready(r.Provider) },
	})
	if err != nil {
		return x.unroutable(err)
	}
	x.candidates = plan.Candidates

	var hold int64
	for _, c := range x.candidates {
		hold = max(hold, ledger.HoldFor(x.bound, c.Allowance, c.Route.Price))
	}
	x.begin(x.candidates[0])
	_, err = x.engine.Store().Hold(x.request.Context(), ledger.Hold{
		Request:    x.call.ID,
		Account:    x.call.Principal.Account.ID,
		Key:        x.call.Principal.Key.ID,
		Endpoint:   x.call.Family.Name(),
		Profile:    x.req.profile,
		Microcents: hold,
		Attempt:    x.attempt().ledger(x.gen),
	})
	switch {
	case errors.Is(err, ledger.ErrInsufficient):
		return budgetExceeded("The request's largest possible cost exceeds the available credits. Add credits, or ask for a smaller output allowance.")
	case err != nil:
		return ledgerError(x.call, "placing a hold", err)
	}
	x.hold = hold
	x.engine.Metrics().Held(hold)
	return nil
}

// unroutable is the refusal when no route can serve. An exhausted account is told so first (GAP-38): it gets
// one answer, whatever it asks for.
func (x *exchange) unroutable(why error) *families.Error {
	b, err := x.engine.Store().Balance(x.request.Context(), x.call.Principal.Account.ID)
	if err != nil {
		return ledgerError(x.call, "reading a balance", err)
	}
	if b.Available() < 1 {
		return budgetExceeded("No credits are available. Add credits.")
	}
	switch {
	case errors.Is(why, routing.ErrNotReady):
		return noneReady()
	case errors.Is(why, routing.ErrTooLarge):
		return featureUnavailable("The request's input and output allowance fit no route's context window. Send less, or ask for a smaller allowance.")
	default:
		return featureUnavailable("No route offers what the request needs, such as tools. Send it without.")
	}
}

func budgetExceeded(message string) *families.Error {
	return &families.Error{Status: http.StatusPaymentRequired, Code: families.BudgetExceeded, Message: message}
}

func featureUnavailable(message string) *families.Error {
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.FeatureUnavailable, Message: message}
}

func noneReady() *families.Error {
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
		Message: "No route could take the request at the moment. Try again later."}
}
