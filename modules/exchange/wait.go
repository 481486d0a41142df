package exchange

import (
	"context"
	"errors"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// findRetry is the call that is made once more when the itinerary has ended with f: to the route that is back first of
// those that said, when they were called, that they take more within seconds (GAP-139). It is nil for none.
func (x *exchange) findRetry(f *failure) *routing.First {
	if f == nil || !f.retriable() || x.clientLeft() || x.delivery.shown || x.current.matched() {
		return nil
	}
	now := x.engine.Now()
	var soonest *routing.Candidate
	for _, step := range x.plan.Steps {
		c, single := step.(*routing.Candidate)
		if !single || !c.Back.IsZero() || !x.wasRefusedForTime(c) {
			continue
		}
		at, ok := x.gen.Back(c.Route.Name)
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
func (x *exchange) wasRefusedForTime(c *routing.Candidate) (refused bool) {
	for _, a := range x.attempts {
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

// acquireInTurn waits for a route within the request's time, before the 200 of a stream and as long as the client is
// there, and takes a permit for it.
func (x *exchange) acquireInTurn(c *routing.Candidate) (engine.RoutePermit, error) {
	begun := x.engine.Now()
	longest := engine.MaxWait
	if x.delivery.stream {
		longest = min(longest, x.delivery.untilOpen())
	}
	ctx, leave := context.WithCancel(x.ctx)
	defer leave()
	defer context.AfterFunc(x.request.Context(), leave)()
	account := x.call.Principal.Account.ID
	turn := x.gen.AwaitTurn(ctx, c.Route, account, x.engine.Now().Add(longest))
	x.call.Record.Waited += x.engine.Now().Sub(begun)
	if turn == nil {
		return engine.RoutePermit{}, routing.ErrBusy
	}
	permit, err := turn.Acquire(x.ctx, x.healthCall(c))
	if errors.Is(err, routing.ErrBusy) {
		x.noteFull(c.Route)
	}
	return permit, err
}
