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
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// admission is which routes are planned for an exchange, and what must be held for them.
type admission struct {
	*scope
	prompt   *prompt
	feedback *feedback
	books    *books
	work     *work
	steps    *routing.First // nil while nothing is planned
}

// ask is what routing is asked, but for what is remembered of the request and how long it is.
func (a *admission) ask(tariff *engine.Tariff) routing.Input {
	ask := routing.NewInput(a.gen.Config, tariff.Routes, a.req.profile, a.req.LLM)
	ask.Exchange, ask.Requires = tariff.Exchange, a.req.requires
	who := a.call.Principal.Account
	ask.Account = config.AccountFacts{ID: who.ID, Name: who.Name, Plan: who.Plan}
	ask.Standing, ask.Refuses = a.gen.Standing(who.ID), a.gen.Refuses
	ask.Predictor, ask.Learned = a.gen.Predictor(), a.engine.Outcomes().Learned()
	ask.Templates = a.engine.Templates().Known()
	return ask
}

// follow takes the itinerary that was planned.
func (a *admission) follow(plan *routing.Itinerary) {
	a.steps = plan.Steps
	if plan.Strategy != nil {
		a.call.Record.Strategy = plan.Strategy.Name
	}
}

func (a *admission) itinerary() *routing.First { return a.steps }

// beginFirst begins the first attempt, which the hold records.
func (a *admission) beginFirst() *families.Error {
	c, permit, err := a.acquireRoute()
	if err != nil {
		a.work.tightenBound()
		return a.refuseUnacquired(err, a.worstOfFirst())
	}
	a.work.addAttempt(c, permit)
	return nil
}

// placeWhatFits places the hold for the first choice and the fallbacks up to the first that is not covered; those
// behind are made no more (GAP-137). As a rule all are covered, and the ledger is asked once.
func (a *admission) placeWhatFits() error {
	for {
		most := a.withScreening(a.steps.Worst(a.prompt.worst))
		_, first := a.work.made()
		err := a.books.place(a.request.Context(), ledger.Hold{Endpoint: a.call.Family.Name(), Microcents: most.Microcents,
			Tokens: most.Tokens, Headroom: a.prompt.headroom()}, first)
		refused, ok := errors.AsType[*ledger.Refusal](err)
		if !ok {
			return err
		}
		tightened := a.work.tightenBound()
		left, _ := a.steps.LeaveOut(a.prompt.worst, a.fitsIn(refused.Room))
		if a.feedback.noteLeftOut(left, a.steps); len(left) == 0 && !tightened {
			return err
		}
	}
}

// fitsIn says whether calls can come to no more than there is room for, with what is screened beside them.
func (a *admission) fitsIn(room ledger.Room) func(routing.Worst) bool {
	return func(w routing.Worst) bool {
		w = a.withScreening(w)
		return w.Microcents <= room.Microcents && w.Tokens <= room.Tokens
	}
}

// acquireRoute takes a permit for the first step whose opening route has one, and puts that step before the others.
// The error is routing.ErrBusy when one is full, and otherwise that none is to be called after all.
func (a *admission) acquireRoute() (c *routing.Candidate, permit engine.RoutePermit, none error) {
	steps := a.steps.Steps
	for i, s := range steps {
		c = routing.Opening(s)
		permit, err := a.work.acquire(c)
		if err == nil {
			copy(steps[1:], steps[:i])
			steps[0] = s
			a.engine.Requested()
			return c, permit, nil
		}
		if none == nil || errors.Is(err, routing.ErrBusy) {
			none = err
		}
	}
	return nil, permit, none
}

// refuseUnroutable is the refusal when no route can serve.
func (a *admission) refuseUnroutable(why error) *families.Error {
	if refusal := a.refuseExhausted(routing.Worst{}); refusal != nil {
		return refusal
	}
	switch {
	case errors.Is(why, routing.ErrNotReady), errors.Is(why, routing.ErrBusy):
		return noneFree(why)
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

// refuseExhausted refuses an account that could not pay for that, or that has reached a limit of its own. That answer
// comes before those that are about routes (GAP-01, GAP-38): it is the same whatever the account asks for and
// however busy the routes are.
func (a *admission) refuseExhausted(most routing.Worst) *families.Error {
	p := a.call.Principal
	err := a.engine.Ledger().Check(a.request.Context(), p.Account.ID, p.Key.ID, most.Microcents, most.Tokens)
	if err != nil {
		return a.refuseUncovered("checking an account", err)
	}
	return nil
}

// refuseUncovered is the refusal for what the ledger said instead of a hold: where it is that a limit does not cover
// the first choice, with what that can come to, what is left, and which allowance fits (GAP-137).
func (a *admission) refuseUncovered(doing string, err error) *families.Error {
	refusal := limitRefusal(err)
	if refusal == nil {
		return a.call.LedgerError(doing, err)
	}
	a.gen.NoteRefused(&a.call.Principal.Account)
	if refused, ok := errors.AsType[*ledger.Refusal](err); ok {
		a.call.Record.Refused = refusedBy(refused)
		if a.steps != nil {
			refusal.Message += " " + a.figures(refused, a.call.Record.Refused)
		}
	}
	return refusal
}

// refusedBy is the arithmetic of a refusal, for who looks at the request later.
func refusedBy(refused *ledger.Refusal) *requestlog.Refused {
	s := &refused.Sum
	v := &requestlog.Refused{By: "balance", Unit: "microcents", Limit: s.Limit, Used: s.Used, Held: s.Held,
		Left: refused.Left}
	switch {
	case errors.Is(refused, ledger.ErrSpendCap):
		v.By = "spend_cap"
	case errors.Is(refused, ledger.ErrTokenBudget):
		v.By, v.Unit = "token_budget", "tokens"
	case errors.Is(refused, ledger.ErrKeySpendCap):
		v.By = "key_spend_cap"
	}
	if !s.Ends.IsZero() {
		v.Resets = new(s.Ends.UTC())
	}
	return v
}

// figures are the numbers of a refusal, for the client; those that are not known before, it adds to the record's.
func (a *admission) figures(refused *ledger.Refusal, record *requestlog.Refused) string {
	worst := a.worstOfFirst()
	record.Needed = worst.Microcents
	text := fmt.Sprintf("It can come to %s credits, and %s are available", human.Exact(worst.Microcents),
		human.Exact(refused.Left))
	if errors.Is(refused, ledger.ErrTokenBudget) {
		record.Needed = worst.Tokens
		text = fmt.Sprintf("It can come to %s tokens (%s credits), and %s tokens are available",
			human.Thousands(worst.Tokens), human.Exact(worst.Microcents), human.Thousands(refused.Left))
	}
	if n := a.largestAllowance(refused.Room); n > 0 {
		record.Allowance = n
		return fmt.Sprintf("%s: an output allowance of at most %d tokens fits.", text, n)
	}
	return text + ": no output allowance is small enough to fit."
}

// largestAllowance is the largest output allowance with which the first choice would fit, in tokens; 0: none.
func (a *admission) largestAllowance(room ledger.Room) int64 {
	first, fits := a.steps.Start(), a.fitsIn(room)
	longest := int64(0)
	for c := range first.Calls() {
		longest = max(longest, c.Allowance)
	}
	return int64(sort.Search(int(longest), func(n int) bool {
		return !fits(first.Worst(func(c *routing.Candidate) routing.Worst { return a.prompt.worst(c.Given(int64(n) + 1)) }))
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

func featureUnavailable(message string) *families.Error {
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.FeatureUnavailable, Message: message}
}

// worstOfFirst is the most that its first choice can come to, with the screening: what must be covered (GAP-137).
func (a *admission) worstOfFirst() routing.Worst {
	return a.withScreening(a.steps.Start().Worst(a.prompt.worst))
}

// withScreening adds the screening to what calls can come to.
func (a *admission) withScreening(w routing.Worst) routing.Worst {
	if a.gen.Config.Screening.Mode == config.ScreeningEnforce {
		w = w.And(routing.Worst{Microcents: screeningCost})
	}
	return w
}

// refuseUnacquired is the refusal when no route could be called after all (GAP-39). Nothing is held or recorded for
// it: there is nothing to settle.
func (a *admission) refuseUnacquired(why error, most routing.Worst) *families.Error {
	if a.ctx.Err() != nil { // while it waited
		return interrupted(a.ctx).consequence().error()
	}
	if refusal := a.refuseExhausted(most); refusal != nil {
		return refusal
	}
	return noneFree(why)
}

// noneFree is the refusal where a route that could take the request is full, a 429 without headers: the client backs
// off and tries again (LIM-12); or where none works.
func noneFree(why error) *families.Error {
	if errors.Is(why, routing.ErrBusy) {
		return consequences[llm.ErrCapacity].error()
	}
	return &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
		Message: "No route that can take the request is working at the moment. " +
			"Trying again in a minute may help." + families.Support}
}
