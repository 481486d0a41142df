package exchange

import (
	"errors"
	"fmt"
	"net/http"
	"sort"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// admit takes steps 15 to 17: it plans the routes and holds the most that the request can cost on any of
// them (GAP-49). When it returns nil, the hold is durable, and with it the first attempt, unless the gate comes before
// that.
func (x *exchange) admit() *families.Error {
	var err error
	if x.tariff, err = x.gen.Tariff(x.request.Context()); err != nil {
		return x.call.LedgerError("recording a price", err)
	}
	ask := routing.NewInput(x.gen.Config, x.tariff.Routes, x.req.profile, x.req.LLM)
	ask.Exchange, ask.Requires = x.tariff.Exchange, x.req.requires
	who := x.call.Principal.Account
	ask.Account = config.AccountFacts{ID: who.ID, Name: who.Name, Plan: who.Plan}
	ask.Standing, ask.Refuses = x.gen.Standing(x.call.Principal.Account.ID), x.gen.Refuses
	ask.Predictor, ask.Learned = x.gen.Predictor(), x.engine.Outcomes().Learned()
	ask.Templates = x.engine.Templates().Known()
	x.recallConversation(&ask)
	x.measureInput(&ask)
	ask.Keep = x.traitsToKeep()
	_ = x.gen.Classify(x.request.Context(), &ask) // it is counted, and the model predicts then
	plan, err := routing.Plan(ask)
	x.noteChoice(&ask, &plan)
	x.beginTraining(&plan)
	if err != nil && plan.Steps == nil {
		return x.refuseUnroutable(err)
	}
	x.plan = plan.Steps
	if plan.Strategy != nil {
		x.strategy, x.call.Record.Strategy = plan.Strategy.Name, plan.Strategy.Name
	}
	if x.conversation != nil {
		x.conversation.home, x.conversation.work = plan.Home, plan.Work
	}
	x.lookBack(&plan)
	x.findStates()

	if !x.hasGate() {
		permit, err := x.acquireRoute()
		if err != nil {
			x.tightenBound()
			return x.refuseUnacquired(err, x.worstOfFirst())
		}
		x.engine.Requested()
		x.ready = routing.Opening(x.plan)
		x.addAttempt(x.ready, permit)
	}
	most, err := x.placeWhatFits()
	if err != nil {
		return x.refuseUncovered("placing a hold", err)
	}
	x.held, x.hold, x.call.Record.Held = true, most.Microcents, true
	x.engine.Metrics().Held(x.hold)
	x.prepareShadow(ask.Profile.Shadow, plan.Candidates)
	return nil
}

// placeWhatFits places the hold for the first choice and the fallbacks up to the first that is not covered; those
// behind are made no more (GAP-137). As a rule all are covered, and the ledger is asked once.
func (x *exchange) placeWhatFits() (routing.Worst, error) {
	for {
		times := int64(headroom)
		if x.input.exact {
			times = 0
		}
		most, err := x.placeHold(times)
		refused, ok := errors.AsType[*ledger.Refusal](err)
		if !ok {
			return most, err
		}
		tightened := x.tightenBound()
		if left := x.leaveOut(refused.Room); !left && !tightened {
			return most, err
		}
	}
}

// leaveOut leaves the steps out that there is no room for; false where that is none, or the first.
func (x *exchange) leaveOut(room ledger.Room) bool {
	left, _ := x.plan.LeaveOut(x.worst, x.fitsIn(room))
	x.noteLeftOut(left)
	return len(left) > 0
}

// fitsIn says whether calls can come to no more than there is room for, with what is screened beside them.
func (x *exchange) fitsIn(room ledger.Room) func(routing.Worst) bool {
	return func(w routing.Worst) bool {
		w = x.withScreening(w)
		return w.Microcents <= room.Microcents && w.Tokens <= room.Tokens
	}
}

// placeHold places the hold, for which there must be so many times as much as it needs.
func (x *exchange) placeHold(headroom int64) (routing.Worst, error) {
	most := x.worstOfAll()
	h := ledger.Hold{
		Request:    x.call.ID,
		Account:    x.call.Principal.Account.ID,
		Key:        x.call.Principal.Key.ID,
		Endpoint:   x.call.Family.Name(),
		Profile:    x.req.profile,
		Microcents: most.Microcents,
		Tokens:     most.Tokens,
		Headroom:   headroom,
	}
	if x.current != nil {
		h.Attempt = x.current.ledgerAttempt(x.tariff)
	}
	return most, x.engine.Ledger().Hold(x.request.Context(), h)
}

// acquireRoute takes a permit for the first step whose opening route has one, and puts that step before the others.
// The error is routing.ErrBusy when one is full, and otherwise that none is to be called after all.
func (x *exchange) acquireRoute() (engine.RoutePermit, error) {
	steps := x.plan.Steps
	var none error
	for i, s := range steps {
		permit, err := x.acquire(routing.Opening(s))
		if err == nil {
			copy(steps[1:], steps[:i])
			steps[0] = s
			return permit, nil
		}
		if none == nil || errors.Is(err, routing.ErrBusy) {
			none = err
		}
	}
	return engine.RoutePermit{}, none
}

// refuseUnroutable is the refusal when no route can serve.
func (x *exchange) refuseUnroutable(why error) *families.Error {
	if refusal := x.refuseExhausted(routing.Worst{}); refusal != nil {
		return refusal
	}
	switch {
	case errors.Is(why, routing.ErrNotReady):
		return noneReady()
	case errors.Is(why, routing.ErrBusy):
		return routesFull()
	case errors.Is(why, routing.ErrNoJSON):
		return families.Unsupported("No route that offers JSON output can take the request: send it without a format.")
	case errors.Is(why, routing.ErrUnfit):
		return featureUnavailable("No route can be made to call a tool, or takes a format beside tools, as the request " +
			"asks. Trying again does not help: send it without.")
	case errors.Is(why, routing.ErrRequired):
		return featureUnavailable("No route is what the account or its plan requires of where requests are worked on " +
			"and for how long they are kept. Trying again does not help." + families.Support)
	case errors.Is(why, routing.ErrTooLarge):
		return featureUnavailable("The request's input and output allowance fit no route's context window. " +
			"Trying again does not help: send less, begin a new conversation, or ask for a smaller allowance.")
	default:
		return featureUnavailable("No route offers what the request needs, such as tools. " +
			"Trying again does not help: send it without.")
	}
}

// refuseBusy is the refusal when every route that could take the request is full (GAP-39). Nothing is held or
// recorded for it: there is nothing to settle.
func (x *exchange) refuseBusy(most routing.Worst) *families.Error {
	if refusal := x.refuseExhausted(most); refusal != nil {
		return refusal
	}
	return routesFull()
}

// refuseExhausted refuses an account that could not pay for that, or that has reached a limit of its own. That answer
// comes before those that are about routes (GAP-01, GAP-38): it is the same whatever the account asks for and
// however busy the routes are.
func (x *exchange) refuseExhausted(most routing.Worst) *families.Error {
	p := x.call.Principal
	err := x.engine.Ledger().Check(x.request.Context(), p.Account.ID, p.Key.ID, most.Microcents, most.Tokens)
	if err != nil {
		return x.refuseUncovered("checking an account", err)
	}
	return nil
}

// refuseUncovered is the refusal for what the ledger said instead of a hold: where it is that a limit does not cover
// the first choice, with what that can come to, what is left, and which allowance fits (GAP-137).
func (x *exchange) refuseUncovered(doing string, err error) *families.Error {
	refusal := limitRefusal(err)
	if refusal == nil {
		return x.call.LedgerError(doing, err)
	}
	if refused, ok := errors.AsType[*ledger.Refusal](err); ok && x.plan != nil {
		refusal.Message += " " + x.figures(refused)
	}
	return refusal
}

// figures are the numbers of a refusal, for the client.
func (x *exchange) figures(refused *ledger.Refusal) string {
	worst := x.worstOfFirst()
	text := fmt.Sprintf("It can come to %s credits, and %s are available", human.Exact(worst.Microcents),
		human.Exact(refused.Left))
	if errors.Is(refused, ledger.ErrTokenBudget) {
		text = fmt.Sprintf("It can come to %s tokens (%s credits), and %s tokens are available",
			human.Thousands(worst.Tokens), human.Exact(worst.Microcents), human.Thousands(refused.Left))
	}
	if n := x.largestAllowance(refused.Room); n > 0 {
		return fmt.Sprintf("%s: an output allowance of at most %d tokens fits.", text, n)
	}
	return text + ": no output allowance is small enough to fit."
}

// largestAllowance is the largest output allowance of the client's with which the first choice would fit, in tokens;
// 0: none.
func (x *exchange) largestAllowance(room ledger.Room) int64 {
	first, fits := x.plan.Start(), x.fitsIn(room)
	longest := int64(0)
	for c := range first.Calls() {
		longest = max(longest, c.Allowance)
	}
	return int64(sort.Search(int(longest), func(n int) bool {
		return !fits(first.Worst(func(c *routing.Candidate) routing.Worst { return x.worst(c.Given(int64(n) + 1)) }))
	}))
}

// limitRefusal is the refusal of what the account's credits or limits do not cover; nil for any other error. It says
// which limit that is.
func limitRefusal(err error) *families.Error {
	for _, limit := range [...]struct {
		err     error
		message string
	}{
		{ledger.ErrNothingLeft, "The account has no credits left. Trying again helps once credits are added."},
		{ledger.ErrHeld, "The account's credits are held by requests that run, " +
			"and what is free does not cover this request's largest possible cost. " +
			"Try again when they have ended, ask for a smaller output allowance, or add credits."},
		{ledger.ErrInsufficient, "The available credits do not cover the request's largest possible cost. " +
			"Trying again helps once credits are added; a smaller output allowance may fit now."},
		{ledger.ErrSpendCap, "The account's spend cap is reached, or the request could cross it. " +
			"Trying again helps once the cap is raised or a new period begins; a smaller output allowance may fit now."},
		{ledger.ErrTokenBudget, "The account's token budget is used up, or the request could cross it. " +
			"Trying again helps once the budget is raised or a new period begins; a smaller output allowance may fit now."},
		{ledger.ErrKeyHeld, "The API key's spend cap is held by its requests that run, " +
			"and what is free of it does not cover this request's largest possible cost. " +
			"Try again when they have ended, or ask for a smaller output allowance."},
		{ledger.ErrKeySpendCap, "The API key's spend cap is spent, or the request could cross it. " +
			"Trying again helps once the cap is raised or a new period begins; a smaller output allowance may fit now."},
	} {
		if errors.Is(err, limit.err) {
			return &families.Error{Status: http.StatusPaymentRequired, Code: families.BudgetExceeded, Message: limit.message}
		}
	}
	return nil
}

// routesFull is the 429 without headers: the client backs off and tries again (LIM-12).
func routesFull() *families.Error {
	return consequences[llm.ErrCapacity].error()
}

func featureUnavailable(message string) *families.Error {
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.FeatureUnavailable, Message: message}
}

func noneReady() *families.Error {
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
		Message: "No route that can take the request is working at the moment. " +
			"Trying again in a minute may help." + families.Support}
}
