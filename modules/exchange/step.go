package exchange

import (
	"reflect"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// A step ends with the attempt whose reply is its own, or with the failure of the last one that it made. Both are nil
// when it made none because its routes are at capacity: the answer stays that of the route that was called (GAP-39).
// The reply of a live step is the client's as it comes; that of any other is kept whole, and shown when it is chosen.

// runStep does a step.
func (w *work) runStep(s routing.Step, live bool) (*attempt, *failure) {
	if c, ok := s.(*routing.Candidate); ok {
		return w.callRoute(c, live)
	}
	return stepRunners[reflect.TypeOf(s)](w, s, live) // TestEveryKindIsDone
}

// stepRunners do the steps that are made of others. The file of a kind adds it.
var stepRunners = make(map[reflect.Type]func(*work, routing.Step, bool) (*attempt, *failure))

// registerStep adds a kind.
func registerStep[S routing.Step](do func(*work, S, bool) (*attempt, *failure)) {
	stepRunners[reflect.TypeFor[S]()] = func(w *work, s routing.Step, live bool) (*attempt, *failure) {
		return do(w, s.(S), live)
	}
}

func init() { registerStep((*work).runFirst) }

// runFirst does one step after the other until one has a reply. A route that a step of several calls was made of, and
// that was called, is not called again: it has failed, or what it says was not accepted.
func (w *work) runFirst(s *routing.First, live bool) (a *attempt, last *failure) {
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
		if last != nil && !last.consequence().misfit && routing.Opening(step).Back.IsZero() && !w.engine.MayRetry() {
			break // an outage is not doubled; who is called when it is back was not asked twice
		}
		w.noteStep(step)
		from := len(w.attempts)
		if w.ready != nil {
			from = 0
		}
		a, f := w.runStepHedged(s, i, live)
		if a != nil {
			return a, nil
		}
		if w.race != nil || w.several {
			called = append(called, w.attempts[from:]...)
		}
		if f == nil {
			fit.noteFailed(&failure{kind: llm.ErrCapacity}, window)
			continue
		}
		fit.noteFailed(f, w.current.route.ContextWindow)
		if last == nil || f.kind != llm.ErrUnfit { // which says less than what became of a route that was called
			last = f
		}
		if w.delivery.clientLeft() || w.delivery.hasShown() || w.current.matched() || !f.retriable() {
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
func (w *work) runStepHedged(s *routing.First, i int, live bool) (*attempt, *failure) {
	if live && w.race == nil && (len(w.attempts) == 0 || w.ready != nil) {
		if spare := s.Spare(i); spare != nil {
			return w.runHedged(s.Steps[i].(*routing.Candidate), spare, s.Hedge)
		}
	}
	return w.runStep(s.Steps[i], live)
}

// noteStep notes from which attempt on the reply is worked on, and whether that is in several steps.
func (w *work) noteStep(s routing.Step) {
	_, single := s.(*routing.Candidate)
	if w.several = !single; w.ready != nil {
		return // of the first step, the first attempt was begun already
	}
	w.from = len(w.attempts)
}

// callRoute makes one attempt.
func (w *work) callRoute(c *routing.Candidate, live bool) (*attempt, *failure) {
	return w.callRouteWith(c, live, func(*attempt) {})
}

// callRouteWith makes one attempt, to which something is changed before.
func (w *work) callRouteWith(c *routing.Candidate, live bool, change func(*attempt)) (*attempt, *failure) {
	if ok, f := w.openAttempt(c); !ok {
		return nil, f
	}
	a := w.current
	change(a)
	if w.delivery.clientLeft() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	a.live, a.accept = live, w.delivery.addStart
	if !live {
		a.accept = w.delivery.openStream
	}
	f := w.transport.makeAttempt(w.ctx, a)
	if f == nil {
		return a, nil
	}
	w.noteFailed(a, f)
	return nil, f
}

// findRetry is the call that is made once more when the itinerary has ended with f: to the route that is back first of
// those that said, when they were called, that they take more within seconds (GAP-139). It is nil for none.
func (w *work) findRetry(plan *routing.First, f *failure) *routing.First {
	if f == nil || !f.retriable() || w.delivery.clientLeft() || w.delivery.hasShown() || w.current.matched() {
		return nil
	}
	now := w.engine.Now()
	var soonest *routing.Candidate
	for _, step := range plan.Steps {
		c, single := step.(*routing.Candidate)
		if !single || !c.Back.IsZero() || !w.wasRefusedForTime(c) {
			continue
		}
		at, ok := w.gen.Back(c.Route.Name)
		if at.Before(now) {
			at = now
		}
		if ok && (soonest == nil || at.Before(soonest.Back)) {
			waits := *c
			waits.Back, soonest = at, &waits
		}
	}
	if soonest == nil {
		return nil
	}
	return &routing.First{Steps: []routing.Step{soonest}}
}

// wasRefusedForTime reports whether the latest attempt on a route was refused for a time.
func (w *work) wasRefusedForTime(c *routing.Candidate) (refused bool) {
	for _, a := range w.attempts {
		if a.route.Name == c.Route.Name {
			refused = a.refusedForTime
		}
	}
	return refused
}
