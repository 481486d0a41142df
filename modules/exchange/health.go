package exchange

import (
	"errors"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
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
func (t *transport) judgeRoute(a *attempt, f *failure) {
	if f == nil {
		switch {
		case a.outcome != ledger.Finished: // it panicked
		case t.isUnmetered(a):
			a.permit.Ended(consequences[noUsage].health, nil)
			t.noteServed(a)
		default:
			a.permit.Ended(health.Succeeded, nil)
			t.noteServed(a)
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
func (t *transport) isUnmetered(a *attempt) bool {
	return t.req.Stream && a.proven() == nil && !t.delivery.clientLeft() &&
		!t.gen.Backend(a.route.Provider).GivesReceipts()
}

// noteServed notes that a route has served. One that did not say what it used has not, for a client that pays.
func (t *transport) noteServed(a *attempt) {
	if a.usage.Known() || a.route.Price.Equal(config.Price{}) {
		t.engine.Served(a.route.Name)
		return
	}
	text := a.route.Unmetered()
	if t.engine.LastFailure(a.route.Name).Text != text {
		t.engine.Logger().Warn("an upstream reports no usage", "request_id", t.call.ID, "route", a.route.Name,
			"provider", a.route.Provider, "error", text)
	}
	t.engine.NoteFailure(a.id, a.route.Name, text)
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
