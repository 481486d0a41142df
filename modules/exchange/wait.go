package exchange

import (
	"errors"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

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

// namesTime reports whether an upstream takes no more, and said for how long.
func (f *failure) namesTime() bool {
	failed, ok := errors.AsType[*llm.Error](f.err)
	return ok && f.kind == llm.ErrCapacity && failed.RetryAfter > 0
}
