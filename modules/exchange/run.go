package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/stop"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// exchange is one charged request from its hold to its settlement. It is driven by the request's goroutine.
type exchange struct {
	call    *gateway.Call
	request *http.Request
	req     *request
	engine  *engine.Engine
	gen     *engine.Generation
	stops   *stop.Set

	// ctx ends at the request's total time limit or at the end of the drain; not when the client leaves,
	// for what is under way upstream is then read to its end (GAP-47).
	ctx     context.Context
	release func()

	estimate, bound int64 // tokens of the input, as clients see it and at most
	candidates      []routing.Candidate
	held            bool  // the ledger has a hold; of nothing on a route that is free
	hold            int64 // microcents
	settled         bool

	attempts []*attempt
	reply    *reply
	delivery *delivery
}

func newExchange(w http.ResponseWriter, r *http.Request, call *gateway.Call, req *request) *exchange {
	work := call.Work
	settings := work.Generation().Config.Gateway
	x := &exchange{
		call: call, request: r, req: req,
		engine: work.Engine(), gen: work.Generation(),
		stops:    stop.New(req.LLM.Stop),
		delivery: newDelivery(w, req.Stream, settings.Keepalive),
	}
	call.Record.Stream, call.Record.Profile = req.Stream, req.profile

	limited, cancel := context.WithDeadlineCause(context.WithoutCancel(r.Context()),
		call.BodyRead.Add(settings.RequestTimeout), errTimeLimit)
	ctx, stopNow := context.WithCancelCause(limited)
	unhook := context.AfterFunc(work.Stopping(), func() { stopNow(engine.ErrShutdown) })
	unlimit := x.delivery.limit(ctx)
	x.ctx = ctx
	x.release = func() {
		unhook()
		unlimit()
		stopNow(nil)
		cancel()
	}
	return x
}

// end gives back what the exchange took. A hold that nothing has settled (a panic on the way) is settled as
// a failure of the service, which is free.
func (x *exchange) end() {
	defer x.release()
	for _, a := range x.attempts {
		x.leave(a)
	}
	if x.held && !x.settled {
		_, _ = x.settle(http.StatusInternalServerError, "panic", ledger.Settlement{Free: true})
	}
}

// run makes the attempts, one route after the other until one delivers. It returns a refusal while nothing
// has been written.
func (x *exchange) run() *families.Error {
	x.delivery.encoder = x.call.Family.NewEncoder(x.req.Request, families.Head{
		ID:            x.call.ID[len("req_"):],
		Created:       x.call.Start.Unix(),
		Model:         x.req.model,
		InputEstimate: x.estimate,
	})
	var last *failure
	for i, c := range x.candidates {
		if i > 0 {
			if last.kind == llm.ErrContext && c.Route.ContextWindow <= x.attempt().route.ContextWindow {
				continue // it was too long for a window at least as large
			}
			if !x.engine.TakeSlot(c.Route) {
				continue // at capacity; the answer stays that of the route that was called (GAP-39)
			}
			if f := x.fallback(c); f != nil {
				return x.fail(f)
			}
		}
		if x.left() {
			return x.abandon()
		}
		last = x.try()
		if last == nil {
			return x.finish()
		}
		if last.kind == llm.ErrCanceled {
			return x.abandon()
		}
		x.logFailure(last)
		if x.left() || x.delivery.shown || x.reply.matched() || !last.retriable() {
			break
		}
	}
	return x.fail(last)
}

// left reports whether the client has left.
func (x *exchange) left() bool { return x.delivery.gone || x.request.Context().Err() != nil }

// fallback records the next attempt, and raises the hold where the work proven so far and the next call may
// cost more than it (GAP-49).
func (x *exchange) fallback(c routing.Candidate) *failure {
	total := ledger.HoldFor(x.bound, c.Allowance, c.Route.Price)
	for _, a := range x.attempts {
		if a.usage.Known() {
			if cost, err := ledger.Cost(*a.usage, a.route.Price); err == nil {
				total += cost
			}
		}
	}
	x.begin(c)
	err := x.engine.Store().Begin(x.ctx, x.call.ID, x.attempt().ledger(x.gen), total)
	if err == nil {
		if total > x.hold {
			x.engine.Metrics().Held(total - x.hold)
			x.hold = total
		}
		return nil
	}
	x.leave(x.attempt())
	x.attempts = x.attempts[:len(x.attempts)-1] // nothing was recorded
	if errors.Is(err, ledger.ErrInsufficient) {
		return &failure{kind: overBudget, err: err}
	}
	return &failure{kind: ledgerAway, err: err}
}

// batch is what one Recv returned.
type batch struct {
	events []llm.Event
	err    error
}

// try makes the current attempt and delivers its events as they come. It returns nil when the route finished
// its reply, which is then in x.reply.
func (x *exchange) try() *failure {
	a := x.attempt()
	defer x.leave(a)
	x.reply = &reply{matcher: x.stops.Matcher()}
	a.outcome = ledger.Failed

	ctx, cancel := context.WithTimeoutCause(x.ctx, a.route.Timeout, errAttemptTimeout)
	defer cancel()
	backend := x.gen.Backend(a.route.Provider)
	stream, err := backend.Generate(ctx, a.upstream(x.req))
	if err != nil {
		return x.failed(ctx, err)
	}
	defer stream.Close()

	// The reader has at most one batch in hand: a slow client slows the stream, and so its upstream.
	batches := make(chan batch)
	go func() {
		for {
			events, err := stream.Recv()
			select {
			case batches <- batch{events, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	left := x.request.Context().Done()
	for {
		select {
		case b := <-batches:
			x.deliver(a, b.events)
			switch {
			case errors.Is(b.err, io.EOF):
				a.outcome = ledger.Finished
				return nil
			case b.err != nil:
				return x.failed(ctx, b.err)
			}
		case <-x.delivery.silence():
			x.delivery.keepAlive()
		case <-left:
			left = nil
			x.delivery.gone = true
			if backend.ProvesCancel() {
				if err := stream.Cancel(ctx); err != nil {
					x.engine.Logger().Warn("cancelling an attempt", "request_id", x.call.ID, "error", err)
				}
			}
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
}

// failed names the failure that ended the attempt. An attempt that ended because its time was over ended for
// that reason, whatever the stream says.
func (x *exchange) failed(ctx context.Context, err error) *failure {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return &failure{kind: llm.KindOf(err), err: err}
}

// deliver takes a batch of events: one write for all of them.
func (x *exchange) deliver(a *attempt, events []llm.Event) {
	d := x.delivery
	for _, ev := range events {
		switch ev.Kind {
		case llm.EventAccepted:
			a.accepted = true
			d.start()
		case llm.EventUsage:
			a.usage = ev.Usage
		}
		x.reply.event(ev, x.show)
	}
	d.flush()
}

// show passes a visible event on to the client, now or in the folded reply.
func (x *exchange) show(ev llm.Event) {
	if x.delivery.stream {
		x.delivery.event(ev)
		if ev.Kind == llm.EventText {
			return // what was streamed need not be kept
		}
	}
	x.reply.fold.Add(ev)
}

// finish settles a reply whose route has finished, and then writes its end: what says that the charge is
// final is durable before the last byte leaves.
func (x *exchange) finish() *families.Error {
	a, d := x.attempt(), x.delivery
	x.reply.fold.Close()
	end, f := x.reply.end()
	if f == nil && d.stream && !a.usage.Known() {
		f = &failure{kind: noUsage}
	}
	if f != nil {
		return x.fail(f)
	}
	reason := "ok"
	if x.left() {
		reason = "client_left"
	}
	charge, err := x.settle(http.StatusOK, reason, ledger.Settlement{Results: x.results(d.stream)})
	if err != nil {
		return x.write(x.call.LedgerError("settling", err))
	}
	e := families.End{Finish: end.finish, StopSequence: end.stop, Usage: a.usage, Billed: charge.Microcents, Pending: charge.Pending}
	rest := llm.Event{Kind: llm.EventText, Text: end.rest}
	if d.stream {
		if end.rest != "" {
			d.event(rest)
		}
		d.add(func(b []byte) []byte { return d.encoder.AppendEnd(b, e) })
		d.flush()
		return nil
	}
	if end.rest != "" {
		x.reply.fold.Add(rest)
		x.reply.fold.Close()
	}
	writeBody(d.w, d.encoder.AppendReply(nil, &x.reply.fold, e))
	return nil
}

// fail settles an exchange that did not become a reply, and tells the client.
func (x *exchange) fail(f *failure) *families.Error {
	e := x.refusal(f)
	s := ledger.Settlement{Free: f.free(), Results: x.results(false)}
	if _, err := x.settle(e.Status, string(f.kind), s); err != nil {
		x.engine.Logger().Error("settling a failed request", "request_id", x.call.ID, "error", err)
	}
	return x.write(e)
}

// abandon settles an exchange whose client left before the next call upstream, or whose last call was
// cancelled for that and proved what it had used (GAP-47).
func (x *exchange) abandon() *families.Error {
	x.delivery.gone = true
	const clientClosedRequest = 499 // nginx's number for it; nobody gets it
	if _, err := x.settle(clientClosedRequest, "client_left", ledger.Settlement{Results: x.results(false)}); err != nil {
		x.engine.Logger().Error("settling an abandoned request", "request_id", x.call.ID, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// write tells the client of an error: as a frame where the stream is open, otherwise as the reply.
func (x *exchange) write(e *families.Error) *families.Error {
	if !x.delivery.opened {
		return e
	}
	x.delivery.fail(e)
	if x.delivery.aborted {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (x *exchange) results(final bool) []ledger.Result {
	results := make([]ledger.Result, len(x.attempts))
	for i, a := range x.attempts {
		results[i] = a.result(final)
	}
	return results
}

// settleTime bounds a settlement, which must not depend on a client that may be gone.
const settleTime = 30 * time.Second

// settle ends the request in the ledger, once, and counts it.
func (x *exchange) settle(status int, reason string, s ledger.Settlement) (ledger.Charge, error) {
	x.settled = true
	s.Request, s.Status, s.Reason = x.call.ID, status, reason
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.request.Context()), settleTime)
	defer cancel()
	charge, err := x.engine.Store().Settle(ctx, s)
	if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
		// The ledger is there and does not take this settlement: the service's failure, and so free. Left as
		// it is, the hold would stay until the next start.
		_, freeErr := x.engine.Store().Settle(ctx, ledger.Settlement{
			Request: x.call.ID, Status: http.StatusInternalServerError, Reason: "ledger", Free: true})
		err = errors.Join(err, freeErr)
	}
	x.engine.Metrics().Held(-x.hold)
	if err != nil {
		return charge, err
	}
	x.account(charge, reason)
	return charge, nil
}

// account counts a settlement in the metrics and on the access line.
func (x *exchange) account(charge ledger.Charge, reason string) {
	rec := &x.call.Record
	rec.Microcents, rec.Pending, rec.Reason = charge.Microcents, charge.Pending, reason
	m := x.engine.Metrics()
	for _, a := range x.attempts {
		if a.usage == nil {
			continue
		}
		rec.Input += a.usage.Prompt()
		rec.Output += llm.Tokens(a.usage.Output)
		m.Tokens(a.route.Name, "input", llm.Tokens(a.usage.Input))
		m.Tokens(a.route.Name, "cache_read", llm.Tokens(a.usage.CacheRead))
		m.Tokens(a.route.Name, "cache_write", llm.Tokens(a.usage.CacheWrite))
		m.Tokens(a.route.Name, "output", llm.Tokens(a.usage.Output))
	}
	m.Charged(x.attempt().route.Name, charge.Microcents)
}

// logFailure tells the operator of a failed attempt; the client is told by refusal, in other words.
func (x *exchange) logFailure(f *failure) {
	a := x.attempt()
	x.engine.Metrics().UpstreamError(a.route.Name, string(f.kind))
	log := x.engine.Logger().Warn
	if f.kind == llm.ErrCredentials {
		log = x.engine.Logger().Error
	}
	log("attempt failed", "request_id", x.call.ID, "attempt", a.id, "route", a.route.Name,
		"provider", a.route.Provider, "kind", f.kind, "error", f.err)
}
