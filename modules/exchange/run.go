package exchange

import (
	"cmp"
	"context"
	"errors"
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

	conversation *conversation

	tariff     *engine.Tariff // what it is charged by
	input      input          // how long it is, as far as that is known
	candidates []routing.Candidate
	held       bool  // the ledger has a hold; of nothing on a route that is free
	hold       int64 // microcents
	settled    bool

	said     uint64              // a hash of what the client has said, behind which states are kept
	returned map[string]returned // by route
	attempts []*attempt
	reply    *reply
	reader   *reader // of the current attempt
	delivery *delivery
}

func newExchange(w http.ResponseWriter, r *http.Request, call *gateway.Call, req *request) *exchange {
	work := call.Work
	settings := work.Generation().Config.Gateway
	x := &exchange{
		call: call, request: r, req: req,
		engine: work.Engine(), gen: work.Generation(),
		stops:    stop.New(req.LLM.Stop),
		delivery: newDelivery(w, req.Stream, settings.Keepalive, settings.ClientStall),
	}
	call.Record.Stream, call.Record.Profile = req.Stream, req.profile

	x.ctx, x.release = lifetime(r.Context(), work.Stopping(), call.BodyRead.Add(settings.RequestTimeout), x.delivery)
	return x
}

// lifetime is a context for an exchange, with what parent carries and without its end. It ends at the deadline, with
// cause errTimeLimit, when stopping does, with engine.ErrShutdown, and when it is told to; nothing of it is left then.
// No write outlives it for long.
func lifetime(parent, stopping context.Context, deadline time.Time, d *delivery) (context.Context, context.CancelFunc) {
	ctx, over := context.WithCancelCause(context.WithoutCancel(parent))
	limit := time.AfterFunc(time.Until(deadline), func() {
		over(errTimeLimit)
		d.hurry()
	})
	unhook := context.AfterFunc(stopping, func() {
		over(engine.ErrShutdown)
		d.hurry()
	})
	return ctx, func() {
		unhook()
		limit.Stop()
		over(nil)
		d.release()
	}
}

// end gives back what the exchange took. A hold that nothing has settled (a panic on the way) is settled as
// a failure of the service, which is free.
func (x *exchange) end() {
	defer x.release()
	for _, a := range x.attempts {
		a.permit.Release()
	}
	if x.held && !x.settled {
		s := ledger.Settlement{Status: http.StatusInternalServerError, Reason: "panic", Free: true}
		if _, err := x.settle(s, ledger.Charge{}); err != nil {
			x.engine.Logger().Error("settling a request that panicked", "request_id", x.call.ID, "error", err)
		}
	}
}

// run makes the attempts, one route after the other until one delivers. It returns a refusal while nothing
// has been written.
func (x *exchange) run() *families.Error {
	x.delivery.begin(x.call.Family.NewEncoder(x.req.Request, families.Head{
		ID:            x.call.ID[len("req_"):],
		Created:       x.call.Start.Unix(),
		Model:         x.req.model,
		InputEstimate: x.estimate,
	}))
	var last *failure
	for i, c := range x.candidates {
		if i > 0 {
			if last.kind == llm.ErrContext && c.Route.ContextWindow <= x.attempt().route.ContextWindow {
				continue // it was too long for a window at least as large
			}
			permit, ok := x.engine.AcquireRoute(x.ctx, c.Route)
			if !ok {
				continue // at capacity; the answer stays that of the route that was called (GAP-39)
			}
			if f := x.fallback(c, permit); f != nil {
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
		// The upstream may have been at work: that its provider died before it said so proves nothing.
		x.attempt().lost = last.kind == llm.ErrDied && x.gen.Backend(x.attempt().route.Provider).GivesReceipts()
		x.logFailure(last)
		if x.left() || x.delivery.shown || x.reply.matched() || !last.retriable() {
			break
		}
	}
	return x.fail(last)
}

// left reports whether the client has left.
func (x *exchange) left() bool { return x.delivery.gone.Load() || x.request.Context().Err() != nil }

// fallback records the next attempt, and raises the hold where the work proven so far and the next call may
// come to more (GAP-49). The limits of the account are looked at again, too (BILL-19).
func (x *exchange) fallback(c routing.Candidate, permit engine.RoutePermit) *failure {
	x.begin(c, permit)
	begin := func() (total worst, err error) {
		total = x.spent().and(worstOf(x.bound(c.Route), c))
		err = x.engine.Ledger().Begin(x.ctx, ledger.Next{Request: x.call.ID, Attempt: x.attempt().ledger(x.tariff),
			Microcents: total.microcents, Tokens: total.tokens})
		return total, err
	}
	total, err := begin()
	if overLimit(err) != nil && x.tighten() {
		total, err = begin()
	}
	if err == nil {
		if more := total.microcents - x.hold; more > 0 {
			x.engine.Metrics().Held(more)
			x.hold = total.microcents
		}
		return nil
	}
	x.attempt().permit.Release()
	x.attempts = x.attempts[:len(x.attempts)-1] // nothing was recorded
	switch {
	case overLimit(err) != nil:
		return &failure{kind: overBudget, err: err}
	case x.ctx.Err() != nil:
		return interrupted(x.ctx)
	}
	return &failure{kind: ledgerAway, err: err}
}

// try makes the current attempt and delivers its events as they come. It returns nil when the route finished
// its reply, which is then in x.reply.
func (x *exchange) try() *failure {
	a := x.attempt()
	defer a.permit.Release()
	defer x.warnOfUsage(a)
	x.call.Record.Route, x.call.Record.Attempts = a.route.Name, len(x.attempts)
	defer func() { x.call.Record.Upstream, x.call.Record.ProviderKey = a.upstreamID, a.key }()
	x.reply = &reply{matcher: x.stops.Matcher(), words: a.route.FinishReasons}
	a.outcome = ledger.Failed

	ctx, over := context.WithCancelCause(x.ctx)
	defer over(nil)
	limit := newRouteTime(a.route.Timeout, func() { over(errAttemptTimeout) })
	backend := x.gen.Backend(a.route.Provider)
	proves := backend.ProvesCancel()
	calling, hangUp := ctx, context.CancelFunc(func() {})
	unbind := func() bool { return true }
	if proves { // what it used may come after its time
		calling, hangUp = context.WithCancel(context.WithoutCancel(ctx))
		unbind = context.AfterFunc(ctx, hangUp)
	}
	defer hangUp()
	defer unbind()
	stream, err := backend.Generate(calling, x.call.Principal.Account.ID, x.upstream(a))
	if err != nil {
		limit.end()
		return x.failed(ctx, err)
	}
	defer stream.Close()
	if keyed, ok := stream.(engine.Keyed); ok {
		defer func() { a.key = keyed.Key() }()
	}
	if proves && unbind() {
		ended := make(chan struct{})
		defer close(ended)
		go x.awaitProof(ctx, stream, hangUp, ended)
	}
	x.reader = &reader{
		stream: stream, memory: x.engine, delivery: x.delivery, time: limit,
		over: ctx.Done(), hungUp: calling.Done(), proves: proves,
		flood:  newFlood(longest(a.route, a.allowance)),
		failed: func(err error) *failure { return x.failed(ctx, err) },
	}
	defer x.reader.close()
	x.delivery.readAhead = x.reader.ahead
	defer func() { x.delivery.readAhead = nil }()
	for told := false; ; {
		b, more := x.reader.next()
		end, f := x.take(a, b, more)
		if !told && x.delivery.gone.Load() {
			told = true
			x.noteStall()
		}
		if end {
			return f
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

// take delivers a batch, behind which more may be ready, and returns how the attempt ended, if it did.
func (x *exchange) take(a *attempt, b batch, more bool) (end bool, f *failure) {
	if b.late {
		for _, ev := range b.events {
			a.note(ev)
		}
	} else {
		// A client that left while something came has left all the same: what it gets must not look whole.
		if x.left() {
			x.delivery.gone.Store(true)
		}
		x.deliver(a, b.events)
	}
	if !more || b.end || x.delivery.full() {
		x.delivery.flush()
	}
	if !b.end || b.failure != nil {
		return b.end, b.failure
	}
	if f = x.reply.unfinished(); f == nil {
		a.outcome = ledger.Finished
	}
	return true, f
}

// deliver takes a batch of events.
func (x *exchange) deliver(a *attempt, events []llm.Event) {
	d := x.delivery
	for _, ev := range events {
		a.note(ev)
		switch ev.Kind {
		case llm.EventAccepted:
			d.start()
		case llm.EventToolCall:
			x.keepState(a, ev)
		}
		if d.stream && d.gone.Load() {
			a.output.Add(ev) // nobody reads it, and it is work
		}
		x.reply.event(ev, x.show)
	}
}

// show passes a visible event on to the client, now or in the folded reply.
func (x *exchange) show(ev llm.Event) {
	if d := x.delivery; d.stream {
		if !d.gone.Load() {
			x.attempt().output.Add(ev)
		}
		if d.event(ev); d.shown {
			x.forget()
		}
		if ev.Kind == llm.EventText {
			return // what was streamed need not be kept
		}
	}
	x.reply.fold.Add(ev)
}

// keptPrompt is how long a body may be, in bytes, that is not worth being let go of.
const keptPrompt = 4 << 10

// forget lets go of the request, once: when something of the reply was shown, no other route is tried. What a stream
// costs does not depend on its prompt then.
func (x *exchange) forget() {
	if x.call.Forget == nil {
		return
	}
	long := len(x.call.Body) > keptPrompt // its texts are slices of the body
	x.call.Forget()
	x.call.Forget = nil
	if long {
		x.estimate() // a limit of the service may end the request yet (GAP-113)
		x.input.exact = true
		x.req.LLM, x.req.told = &llm.Request{MaxTokens: x.req.LLM.MaxTokens}, nil
	}
}

// write tells the client of an error: as a frame where the stream is open, otherwise as the reply.
func (x *exchange) write(e *families.Error) *families.Error {
	x.delivery.alone()
	if !x.delivery.opened {
		return e
	}
	x.delivery.fail(e)
	return nil
}

// logFailure tells the operator of a failed attempt; the client is told by refusal, in other words.
func (x *exchange) logFailure(f *failure) {
	a := x.attempt()
	x.engine.Metrics().UpstreamError(a.route.Name, string(f.kind))
	log := x.engine.Logger().Warn
	if f.kind == llm.ErrCredentials || f.kind == llm.ErrQuota {
		log = x.engine.Logger().Error
	}
	said := []any{"request_id", x.call.ID, "attempt", a.id, "route", a.route.Name, "provider", a.route.Provider,
		"kind", f.kind, "error", f.err}
	if a.key != "" {
		said = append(said, "key", a.key)
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		a.upstreamID = cmp.Or(a.upstreamID, failed.RequestID)
		x.call.Record.Upstream = a.upstreamID
		if failed.RetryAfter > 0 {
			said = append(said, "retry_after", failed.RetryAfter)
		}
	}
	log("attempt failed", append(said, "upstream_request_id", a.upstreamID)...)
}

// warnOfUsage tells the operator of an attempt whose usage is no usage, and so proves nothing (GAP-111).
func (x *exchange) warnOfUsage(a *attempt) {
	if flaw := a.flaw(); flaw != "" {
		x.engine.Logger().Warn("the upstream's usage is no usage", "request_id", x.call.ID, "attempt", a.id,
			"route", a.route.Name, "provider", a.route.Provider, "flaw", flaw)
	}
}
