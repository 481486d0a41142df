package exchange

import (
	"cmp"
	"context"
	"errors"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// work is which attempts are made for an exchange.
type work struct {
	*scope
	prompt    *prompt
	delivery  *delivery
	feedback  *feedback
	books     *books
	transport *transport

	attempts []*attempt
	current  *attempt           // whose reply is, or may become, the client's
	ready    *routing.Candidate // whose attempt was begun before the itinerary, until it is made
	race     *race              // nil where no attempt is made beside another one
	several  bool               // the reply is worked on in several steps (GAP-85)
	from     int                // the attempt that the reply's work began with
	unlike   bool               // an attempt has failed for another reason than that its route cannot take this request
}

// made are the attempts so far, and the one whose reply is, or may become, the client's.
func (w *work) made() (all []*attempt, current *attempt) { return w.attempts, w.current }

// beginBeside begins an attempt that no client waits for and no account is charged for.
func (w *work) beginBeside(c *routing.Candidate, permit engine.RoutePermit) (*attempt, error) {
	w.addAttempt(c, permit)
	a := w.current
	a.worst, a.accept = 0, func() {}
	err := w.books.place(w.ctx, ledger.Hold{Endpoint: ledger.Shadow}, a)
	if err != nil {
		w.dropAttempt(nil)
	}
	return a, err
}

// callBeside makes that attempt, whose reply is kept.
func (w *work) callBeside(a *attempt) *failure {
	f := w.transport.makeAttempt(w.ctx, a)
	if f == nil {
		f = a.finishKept()
	}
	if f != nil {
		a.failure = f.kind
	}
	return f
}

// follow does the itinerary, and says why there is no reply, nil where there is one.
func (w *work) follow(plan *routing.First) *failure {
	a, f := w.runFirst(plan, true)
	if retry := w.findRetry(plan, f); retry != nil {
		if b, g := w.runFirst(retry, true); b != nil || g != nil {
			a, f = b, g
		}
	}
	if a == nil && f == nil { // what a strategy still needed was at capacity, and so was all else
		f = &failure{kind: llm.ErrCapacity}
	}
	w.noteRoute()
	return f
}

// addAttempt makes the next attempt the current one, on a route whose permit was acquired for it. It is recorded with
// the hold or with Begin, before it is made.
func (w *work) addAttempt(c *routing.Candidate, permit engine.RoutePermit) {
	if len(w.attempts) == 0 {
		w.ready = c
	}
	w.current = &attempt{
		id:        ledger.AttemptID(w.call.ID, int64(len(w.attempts)+1)),
		route:     c.Route,
		allowance: c.Allowance,
		extra:     c.Extra,
		template:  c.Template,
		worst:     w.prompt.worst(c).Microcents,
		permit:    permit,
		running:   true,
		outcome:   ledger.NotMade,
	}
	w.attempts = append(w.attempts, w.current)
	w.noteRoute()
}

// dropAttempt takes the last attempt back, which was not recorded.
func (w *work) dropAttempt(before *attempt) {
	last := len(w.attempts) - 1
	w.attempts[last].permit.Release()
	w.attempts, w.current = w.attempts[:last], before
}

// openAttempt begins the next attempt, and raises the hold where the work proven so far and the next call may come to
// more (GAP-49). The limits of the account are looked at again, too (BILL-19). The first attempt was begun with the
// hold. It is nil where there is no attempt, with a failure unless it is that its route is at capacity.
func (w *work) openAttempt(c *routing.Candidate) (*attempt, *failure) {
	if w.ready == c {
		w.ready = nil
	} else if permit, err := w.acquire(c); err == nil {
		if f := w.beginAttempt(c, permit); f != nil {
			return nil, f
		}
	} else if w.ctx.Err() != nil { // while it waited
		return nil, interrupted(w.ctx)
	} else if !w.delivery.clientLeft() {
		return nil, nil
	}
	if w.delivery.clientLeft() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	return w.current, nil
}

// beginAttempt begins an attempt for which there is a permit.
func (w *work) beginAttempt(c *routing.Candidate, permit engine.RoutePermit) *failure {
	before := w.current
	w.addAttempt(c, permit)
	next := w.books.next(w.current, w.attempts)
	err := w.engine.Ledger().Begin(w.ctx, next)
	if limitRefusal(err) != nil && w.tightenBound() {
		next = w.books.next(w.current, w.attempts)
		err = w.engine.Ledger().Begin(w.ctx, next)
	}
	if err == nil {
		w.books.noteRaised(next.Microcents)
		return nil
	}
	w.dropAttempt(before)
	switch {
	case limitRefusal(err) != nil:
		return &failure{kind: overBudget, err: err}
	case w.ctx.Err() != nil:
		return interrupted(w.ctx)
	}
	return &failure{kind: ledgerAway, err: err}
}

// noteFailed notes that an attempt did not become a reply, and tells the operator; the client is told by refusal, in
// other words.
func (w *work) noteFailed(a *attempt, f *failure) {
	if f.kind == llm.ErrCanceled {
		return
	}
	// The upstream may have been at work: that its provider died before it said so proves nothing.
	a.lost = f.kind == llm.ErrDied && w.gen.Backend(a.route.Provider).GivesReceipts()
	a.failure, a.refusedForTime = f.kind, f.namesTime()
	c := f.consequence()
	w.engine.Metrics().UpstreamError(a.route.Name, string(f.kind))
	if c.mayBlameConfiguration() {
		w.engine.Metrics().FailedAttempt(w.call.Principal.Account.ID)
	}
	w.unlike = w.unlike || !c.misfit
	w.call.Record.Misfit = !w.unlike
	log := w.engine.Logger().Warn
	if c.alert {
		log = w.engine.Logger().Error
	}
	route := ""
	if c.health == health.Failed || c.alert || f.kind == llm.ErrRejected || f.kind == attemptTimeout {
		route = a.route.Name
	}
	w.engine.NoteFailure(a.id, route, a.failureText(f))
	fields := []any{"request_id", w.call.ID, "attempt", a.id, "route", a.route.Name, "provider", a.route.Provider,
		"kind", f.kind, "error", f.err}
	if a.key != "" {
		fields = append(fields, "key", a.key)
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		a.upstreamID = cmp.Or(a.upstreamID, failed.RequestID)
		w.noteRoute()
		if failed.RetryAfter > 0 {
			fields = append(fields, "retry_after", failed.RetryAfter)
		}
	}
	log("attempt failed", append(fields, "upstream_request_id", a.upstreamID)...)
}

// noteRoute puts on the access line which route it went to, at last.
func (w *work) noteRoute() {
	rec, a := &w.call.Record, w.current
	rec.Route, rec.Attempts, rec.Upstream, rec.ProviderKey = a.route.Name, len(w.attempts), a.upstreamID, a.key
}

// acquire takes a permit for a call, and waits for a route that is back soon.
func (w *work) acquire(c *routing.Candidate) (permit engine.RoutePermit, err error) {
	if c.Back.IsZero() {
		permit, err = w.gen.AcquireRoute(w.ctx, c.Route, w.healthCall(c))
	} else if turn := w.awaitTurn(c); turn == nil {
		return permit, routing.ErrBusy
	} else {
		permit, err = turn.Acquire(w.ctx, w.healthCall(c))
	}
	if errors.Is(err, routing.ErrBusy) {
		w.feedback.noteFull(c.Route)
	}
	return permit, err
}

// awaitTurn waits for a route within the request's time, before the 200 of a stream and as long as the client is
// there; nil where that is over.
func (w *work) awaitTurn(c *routing.Candidate) *engine.Turn {
	begun := w.engine.Now()
	longest := engine.MaxWait
	if w.req.Stream {
		longest = min(longest, w.delivery.untilOpen())
	}
	ctx, leave := context.WithCancel(w.ctx)
	defer leave()
	defer context.AfterFunc(w.request.Context(), leave)()
	turn := w.gen.AwaitTurn(ctx, c.Route, w.call.Principal.Account.ID, w.engine.Now().Add(longest))
	w.call.Record.Waited += w.engine.Now().Sub(begun)
	return turn
}

// reveal shows a reply that was kept back, and makes it the client's.
func (w *work) reveal(a *attempt) {
	w.current = a
	for _, kept := range a.states {
		w.prompt.keepState(a, kept)
	}
	w.delivery.showKept(&a.reply.fold)
	if w.req.Stream {
		w.transport.forgetPrompt(a)
	}
}

// tightenBound makes the bound of the prompt exact, and the current attempt's share of the hold; false when it was.
func (w *work) tightenBound() bool {
	if !w.prompt.tightenBound() {
		return false
	}
	if a := w.current; a != nil {
		a.worst = w.prompt.worst(a.candidate()).Microcents
	}
	return true
}
