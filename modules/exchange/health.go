package exchange

import (
	"errors"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// stalledFrom is how long a route that had begun to reply must have been silent to have stalled, when its time is
// over: otherwise the reply was long, which is the client's affair.
const stalledFrom = 30 * time.Second

// observe is noteEvent, and notes the first token for the route.
func (a *attempt) observe(ev llm.Event) {
	produced := a.produced
	if a.noteEvent(ev); a.produced && !produced {
		a.permit.FirstToken()
		a.firstAfter = time.Since(a.made)
		if a.racer != nil {
			signal(a.racer.produced)
		}
	}
}

// judgeRoute notes what an attempt says of its route, when it has ended with f, or whole.
func (x *exchange) judgeRoute(a *attempt, f *failure) {
	if f == nil {
		switch {
		case a.outcome != ledger.Finished: // it panicked
		case x.isUnmetered(a):
			a.permit.Ended(consequences[noUsage].health, nil)
			x.noteServed(a)
		default:
			a.permit.Ended(health.Succeeded, nil)
			x.noteServed(a)
		}
		return
	}
	var said error
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		said = failed
	}
	a.permit.Ended(a.healthOutcome(f), said)
}

// isUnmetered reports whether a whole stream ends as a failure for lack of usage (GAP-57): the route does not serve
// streams as it is, and there is no receipt to come.
func (x *exchange) isUnmetered(a *attempt) bool {
	return x.delivery.stream && a.proven() == nil && !x.clientLeft() && !x.gen.Backend(a.route.Provider).GivesReceipts()
}

// noteServed notes that a route has served. One that did not say what it used has not, for a client that pays.
func (x *exchange) noteServed(a *attempt) {
	if a.usage.Known() || a.route.Price.Equal(config.Price{}) {
		x.engine.Served(a.route.Name)
		return
	}
	text := a.route.Unmetered()
	if x.engine.LastFailure(a.route.Name).Text != text {
		x.engine.Logger().Warn("an upstream reports no usage", "request_id", x.call.ID, "route", a.route.Name,
			"provider", a.route.Provider, "error", text)
	}
	x.engine.NoteFailure(a.id, a.route.Name, text)
}

// healthOutcome is what a failure says of the route: only what is none of the client's doing.
func (a *attempt) healthOutcome(f *failure) health.Outcome {
	if f.kind == attemptTimeout && (!a.produced || a.permit.Silent() >= min(stalledFrom, a.route.Timeout/2)) {
		return health.Failed
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok && failed.Unreached && f.kind == llm.ErrUpstream {
		return health.Unreached
	}
	return f.consequence().health
}

// acquire takes a permit for a call, and waits for a route that is back soon.
func (x *exchange) acquire(c *routing.Candidate) (engine.RoutePermit, error) {
	if !c.Back.IsZero() {
		return x.acquireInTurn(c)
	}
	permit, err := x.gen.AcquireRoute(x.ctx, c.Route, x.healthCall(c))
	if errors.Is(err, routing.ErrBusy) {
		x.noteFull(c.Route)
	}
	return permit, err
}

func (x *exchange) healthCall(c *routing.Candidate) health.Call {
	return health.Call{Account: x.call.Principal.Account.ID, Input: c.Input, Light: c.Light, Whole: x.req.wantsWhole()}
}

// refuseUnacquired is the refusal when no route could be called after all (GAP-39).
func (x *exchange) refuseUnacquired(why error, most routing.Worst) *families.Error {
	if x.ctx.Err() != nil { // while it waited
		return interrupted(x.ctx).consequence().error()
	}
	if errors.Is(why, routing.ErrBusy) {
		return x.refuseBusy(most)
	}
	if refusal := x.refuseExhausted(most); refusal != nil {
		return refusal
	}
	return noneReady()
}
