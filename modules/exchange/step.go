package exchange

import (
	"reflect"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// A step ends with the attempt whose reply is its own, or with the failure of the last one that it made. Both are nil
// when it made none because its routes are at capacity: the answer stays that of the route that was called (GAP-39).
// The reply of a live step is the client's as it comes; that of any other is kept whole, and shown when it is chosen.

// runStep does a step.
func (x *exchange) runStep(s routing.Step, live bool) (*attempt, *failure) {
	if c, ok := s.(*routing.Candidate); ok {
		return x.callRoute(c, live)
	}
	return stepRunners[reflect.TypeOf(s)](x, s, live) // TestEveryKindIsDone
}

// stepRunners do the steps that are made of others. The file of a kind adds it.
var stepRunners = make(map[reflect.Type]func(*exchange, routing.Step, bool) (*attempt, *failure))

// registerStep adds a kind.
func registerStep[S routing.Step](do func(*exchange, S, bool) (*attempt, *failure)) {
	stepRunners[reflect.TypeFor[S]()] = func(x *exchange, s routing.Step, live bool) (*attempt, *failure) {
		return do(x, s.(S), live)
	}
}

func init() { registerStep((*exchange).runFirst) }

// runFirst does one step after the other until one has a reply. A route that a step of several calls was made of, and
// that was called, is not called again: it has failed, or what it says was not accepted.
func (x *exchange) runFirst(s *routing.First, live bool) (a *attempt, last *failure) {
	var called []*attempt // by steps of several calls
	var fit fitting
	for i, step := range s.Steps {
		if c, ok := step.(*routing.Candidate); ok && isAnyOn(called, c.Route) {
			continue
		}
		window := routing.Opening(step).Route.ContextWindow
		if window < fit.short {
			continue // it was too long for a larger one; of equal ones, one upstream may count otherwise
		}
		if last != nil && !last.consequence().misfit && routing.Opening(step).Back.IsZero() && !x.engine.MayRetry() {
			break // an outage is not doubled; who is called when it is back was not asked twice
		}
		x.noteStep(step)
		from := len(x.attempts)
		if x.ready != nil {
			from = 0
		}
		a, f := x.runStepHedged(s, i, live)
		if a != nil {
			return a, nil
		}
		if x.race != nil || x.several {
			called = append(called, x.attempts[from:]...)
		}
		if f == nil {
			fit.noteFailed(&failure{kind: llm.ErrCapacity}, window)
			continue
		}
		fit.noteFailed(f, x.current.route.ContextWindow)
		if last == nil || f.kind != llm.ErrUnfit { // which says less than what became of a route that was called
			last = f
		}
		if x.clientLeft() || x.delivery.shown || x.current.matched() || !f.retriable() {
			break
		}
	}
	return nil, fit.verdict(last)
}

// fitting is what routes said of the size of a request.
type fitting struct {
	short int64    // the largest window that it did not fit, by the word of its upstream
	other *failure // of the largest window that it may fit: why it was not served there
	room  int64    // that window
}

// noteFailed notes why a route with a window did not serve.
func (s *fitting) noteFailed(f *failure, window int64) {
	switch {
	case f.kind == llm.ErrContext:
		s.short = max(s.short, window)
	case f.kind == llm.ErrUnfit: // whatever its window
	case window >= s.room:
		s.other, s.room = f, window
	}
}

// verdict is how an itinerary ended whose last failure is this one. That no window is large enough is true only where
// all that might be were asked (GAP-126).
func (s *fitting) verdict(last *failure) *failure {
	if last != nil && last.kind == llm.ErrContext && s.other != nil && s.room >= s.short {
		return s.other
	}
	return last
}

// isAnyOn reports whether one of these attempts was made on a route.
func isAnyOn(attempts []*attempt, route *config.Route) bool {
	return slices.ContainsFunc(attempts, func(a *attempt) bool { return a.route.Name == route.Name })
}

// runStepHedged does a step, with another call beside it where it is the first one and the profile says so.
func (x *exchange) runStepHedged(s *routing.First, i int, live bool) (*attempt, *failure) {
	if live && x.race == nil && (len(x.attempts) == 0 || x.ready != nil) {
		if spare := s.Spare(i); spare != nil {
			return x.runHedged(s.Steps[i].(*routing.Candidate), spare, s.Hedge)
		}
	}
	return x.runStep(s.Steps[i], live)
}

// noteStep notes from which attempt on the reply is worked on, and whether that is in several steps.
func (x *exchange) noteStep(s routing.Step) {
	_, single := s.(*routing.Candidate)
	if x.several = !single; x.ready != nil {
		return // of the first step, the first attempt was begun already
	}
	x.from = len(x.attempts)
}

// raise notes that the ledger holds so much.
func (x *exchange) raise(total routing.Worst) {
	if more := total.Microcents - x.hold; more > 0 {
		x.engine.Metrics().Held(more)
		x.hold = total.Microcents
	}
}

// callRoute makes one attempt.
func (x *exchange) callRoute(c *routing.Candidate, live bool) (*attempt, *failure) {
	return x.callRouteWith(c, live, func(*attempt) {})
}

// callRouteWith makes one attempt, to which something is changed before.
func (x *exchange) callRouteWith(c *routing.Candidate, live bool, change func(*attempt)) (*attempt, *failure) {
	if ok, f := x.openAttempt(c); !ok {
		return nil, f
	}
	a := x.current
	change(a)
	if x.clientLeft() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	a.live, a.accept = live, x.delivery.addStart
	if !live {
		a.accept = x.delivery.openStream
	}
	f := x.makeAttempt(x.ctx, a)
	if f == nil {
		return a, nil
	}
	x.noteFailed(a, f)
	return nil, f
}

// noteFailed notes that an attempt did not become a reply.
func (x *exchange) noteFailed(a *attempt, f *failure) {
	if f.kind == llm.ErrCanceled {
		return
	}
	// The upstream may have been at work: that its provider died before it said so proves nothing.
	a.lost = f.kind == llm.ErrDied && x.gen.Backend(a.route.Provider).GivesReceipts()
	x.logFailure(a, f)
}

// openAttempt begins the next attempt, and raises the hold where the work proven so far and the next call may come to
// more (GAP-49). The limits of the account are looked at again, too (BILL-19). The first attempt was begun with the
// hold. It is false where there is no attempt, with a failure unless it is that its route is at capacity.
func (x *exchange) openAttempt(c *routing.Candidate) (bool, *failure) {
	if x.ready == c {
		x.ready = nil
		return true, nil
	}
	permit, err := x.acquire(c)
	switch {
	case err != nil && x.ctx.Err() != nil: // while it waited
		return false, interrupted(x.ctx)
	case err != nil && x.clientLeft():
		return false, &failure{kind: llm.ErrCanceled}
	case err != nil:
		return false, nil
	}
	f := x.beginAttempt(c, permit)
	return f == nil, f
}

// beginAttempt begins an attempt for which there is a permit.
func (x *exchange) beginAttempt(c *routing.Candidate, permit engine.RoutePermit) *failure {
	before := x.current
	x.addAttempt(c, permit)
	begin := func() (total routing.Worst, err error) {
		total = x.sumSpent()
		err = x.engine.Ledger().Begin(x.ctx, ledger.Next{Request: x.call.ID, Attempt: x.current.ledgerAttempt(x.tariff),
			Microcents: total.Microcents, Tokens: total.Tokens})
		return total, err
	}
	total, err := begin()
	if limitRefusal(err) != nil && x.tightenBound() {
		total, err = begin()
	}
	if err == nil {
		x.raise(total)
		return nil
	}
	x.dropAttempt(before)
	switch {
	case limitRefusal(err) != nil:
		return &failure{kind: overBudget, err: err}
	case x.ctx.Err() != nil:
		return interrupted(x.ctx)
	}
	return &failure{kind: ledgerAway, err: err}
}
