package exchange

import (
	"reflect"
	"slices"

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
	var fit sizeRefusals
	for i, step := range s.Steps {
		c, single := step.(*routing.Candidate)
		if single && slices.ContainsFunc(called, func(a *attempt) bool { return a.route.Name == c.Route.Name }) {
			continue
		}
		window := routing.Opening(step).Route.ContextWindow
		if window < fit.short {
			continue // it was too long for a larger one; of equal ones, one upstream may count otherwise
		}
		if last != nil && !last.consequence().misfit && routing.Opening(step).Back.IsZero() && !w.engine.MayRetry() {
			break // an outage is not doubled; who is called when it is back was not asked twice
		}
		if w.several = !single; w.ready == nil { // of the first step, the first attempt was begun already
			w.from = len(w.attempts)
		}
		from := w.from
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

// sizeRefusals is what routes said of the size of a request.
type sizeRefusals struct {
	short int64    // the largest window that it did not fit, by the word of its upstream
	other *failure // of the largest window that it may fit: why it was not served there
	room  int64    // that window
}

// noteFailed notes why a route with a window did not serve.
func (s *sizeRefusals) noteFailed(f *failure, window int64) {
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
func (s *sizeRefusals) verdict(last *failure) *failure {
	if last != nil && last.kind == llm.ErrContext && s.other != nil && s.room >= s.short {
		return s.other
	}
	return last
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

// callRoute makes one attempt.
func (w *work) callRoute(c *routing.Candidate, live bool) (*attempt, *failure) {
	return w.callRouteWith(c, live, func(*attempt) {})
}

// callRouteWith makes one attempt, to which something is changed before.
func (w *work) callRouteWith(c *routing.Candidate, live bool, change func(*attempt)) (*attempt, *failure) {
	a, f := w.openAttempt(c)
	if a == nil {
		return nil, f
	}
	change(a)
	a.live, a.accept = live, w.delivery.addStart
	if !live {
		a.accept = w.delivery.openStream
	}
	if f = w.transport.makeAttempt(w.ctx, a); f != nil {
		w.noteFailed(a, f)
		return nil, f
	}
	return a, nil
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

// seat is one of several calls that are made at the same time.
type seat struct {
	call    *routing.Candidate
	attempt *attempt // nil where its route is at capacity
	failure *failure
	panic   any
}

// callRoutes makes calls at the same time, whose replies are kept back. It fails where the request itself cannot go
// on: what the account has is used up, its time is over, the client has left, or a route declined it (POL-02). A seat
// that fails in another way is left out by whoever reads them.
func (w *work) callRoutes(calls []*routing.Candidate) ([]seat, *failure) {
	seats := make([]seat, len(calls))
	for i, c := range calls {
		seats[i].call = c
		a, f := w.openAttempt(c)
		if f != nil {
			w.releaseUnmade()
			return nil, f
		}
		seats[i].attempt = a
	}
	accepted, ended := make(chan struct{}, 1), make(chan struct{})
	running := 0
	for i := range seats {
		s := &seats[i]
		if s.attempt == nil {
			continue
		}
		s.attempt.accept = func() { signal(accepted) }
		running++
		go func() {
			defer func() {
				s.panic = recover()
				ended <- struct{}{}
			}()
			s.failure = w.transport.makeAttempt(w.ctx, s.attempt)
		}()
	}
	for running > 0 {
		select {
		case <-accepted:
			w.delivery.openStream()
		case <-ended:
			running--
		}
	}
	for i := range seats {
		s := &seats[i]
		if s.attempt == nil {
			continue
		}
		if s.panic != nil {
			panic(s.panic) // as the request's own goroutine would
		}
		if s.failure == nil {
			s.failure = s.attempt.finishKept()
		}
		if s.failure != nil {
			w.current = s.attempt
			w.noteFailed(s.attempt, s.failure)
		}
	}
	for i := range seats {
		if f := seats[i].failure; f != nil && f.endsRequest() {
			w.current = seats[i].attempt
			return nil, f
		}
	}
	if w.delivery.clientLeft() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	return seats, nil
}

// releaseUnmade gives back the permits of attempts that were begun and will not be made.
func (w *work) releaseUnmade() {
	for _, a := range w.attempts {
		if a.running {
			a.running = false
			a.permit.Release()
		}
	}
}

// answeredSeats are the seats that have a reply.
func answeredSeats(seats []seat) []*attempt {
	var list []*attempt
	for _, s := range seats {
		if s.attempt != nil && s.failure == nil {
			list = append(list, s.attempt)
		}
	}
	return list
}

// lastFailure is why none of the seats answered; nil where all their routes are at capacity.
func lastFailure(seats []seat) (f *failure) {
	for _, s := range seats {
		if s.failure != nil {
			f = s.failure
		}
	}
	return f
}
