package exchange

import (
	"context"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// makeAttempt makes an attempt. It returns nil when the route finished its reply, which is then in a.reply. Of
// attempts that are made at the same time none is live: they share nothing that changes.
func (x *exchange) makeAttempt(ctx context.Context, a *attempt) (f *failure) {
	a.made = time.Now()
	defer func() {
		a.running, a.took = false, time.Since(a.made)
		x.engine.Metrics().Attempted(a.route.Name, a.firstAfter, a.took)
	}()
	defer a.permit.Release()
	defer func() { x.judgeRoute(a, f) }()
	defer x.warnOfUsage(a)
	a.reply = &reply{words: a.route.FinishReasons}
	if !a.isQuestion {
		a.reply.matcher = x.stops.Matcher()
	}
	a.outcome = ledger.Failed

	ctx, over := context.WithCancelCause(ctx)
	defer over(nil)
	limit := newRouteTime(a.route.Timeout, func() { over(errAttemptTimeout) })
	backend := x.gen.Backend(a.route.Provider)
	proves := backend.ProvesCancel(ctx, a.route.Model)
	calling, hangUp := ctx, context.CancelFunc(func() {})
	unbind := func() bool { return true }
	if proves { // what it used may come after its time
		calling, hangUp = context.WithCancel(context.WithoutCancel(ctx))
		unbind = context.AfterFunc(ctx, hangUp)
	}
	defer hangUp()
	defer unbind()
	stream, err := backend.Generate(calling, x.call.Principal.Account.ID, x.upstreamRequest(a))
	if err != nil {
		limit.end()
		return x.failureOf(ctx, err)
	}
	defer stream.Close()
	if keyed, ok := stream.(engine.Keyed); ok {
		defer func() { a.key = keyed.Key() }()
	}
	if proves && unbind() {
		ended := make(chan struct{})
		defer close(ended)
		go x.awaitProof(ctx, a, stream, hangUp, ended)
	}
	a.reader = &reader{
		stream: stream, memory: x.engine, delivery: x.delivery, time: limit,
		over: ctx.Done(), hungUp: calling.Done(), proves: proves,
		flood:  newFlood(maxReply(a.route, a.allowance)),
		failed: func(err error) *failure { return x.failureOf(ctx, err) },
	}
	defer a.reader.close()
	if a.live {
		x.delivery.readAhead = a.reader.readAhead
		defer func() { x.delivery.readAhead = nil }()
	}
	if a.racer != nil {
		defer a.racer.stopReadingAhead()
	}
	for told := false; ; {
		b, more := a.reader.next()
		end, f := x.takeBatch(a, b, more)
		if !told && a.live && x.delivery.gone.Load() {
			told = true
			x.noteStall()
		}
		if end {
			return f
		}
	}
}

// failureOf names the failure that ended the attempt. An attempt that ended because its time was over ended for
// that reason, whatever the stream says.
func (x *exchange) failureOf(ctx context.Context, err error) *failure {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return &failure{kind: llm.KindOf(err), err: err}
}

// takeBatch delivers a batch, behind which more may be ready, and returns how the attempt ended, if it did.
func (x *exchange) takeBatch(a *attempt, b batch, more bool) (end bool, f *failure) {
	a.permit.Heard()
	if b.late {
		for _, ev := range b.events {
			x.noteEvent(a, ev)
		}
	} else {
		// A client that left while something came has left all the same: what it gets must not look whole.
		if x.clientLeft() {
			x.delivery.gone.Store(true)
		}
		x.takeEvents(a, b.events)
	}
	if a.live && (!more || b.end || x.delivery.isFull()) {
		x.delivery.flush()
	}
	if !b.end || b.failure != nil {
		return b.end, b.failure
	}
	if f = a.reply.unfinished(); f == nil {
		a.outcome = ledger.Finished
	}
	return true, f
}

// noteEvent takes what an event says of the attempt itself.
func (x *exchange) noteEvent(a *attempt, ev llm.Event) {
	if a.observe(ev); ev.Kind == llm.EventReference {
		x.noteReference(a, ev.ID)
	}
}

// takeEvents takes a batch of events.
func (x *exchange) takeEvents(a *attempt, events []llm.Event) {
	d := x.delivery
	pass := a.reply.fold.Add
	switch {
	case a.racer != nil:
		pass = a.racer.showEvent
	case a.live:
		pass = x.showEvent
	}
	for _, ev := range events {
		x.noteEvent(a, ev)
		switch ev.Kind {
		case llm.EventAccepted:
			a.permit.Accepted()
			a.accept()
		case llm.EventToolCall, llm.EventToolEnd:
			if a.live {
				x.keepState(a, ev)
			} else {
				a.states = append(a.states, ev)
			}
		}
		if d.stream && d.gone.Load() {
			a.output.Add(ev) // nobody reads it, and it is work
		}
		a.reply.addEvent(ev, pass)
	}
}

// showEvent passes a visible event on to the client, now or in the folded reply.
func (x *exchange) showEvent(ev llm.Event) {
	if d := x.delivery; d.stream {
		if !d.gone.Load() {
			x.current.output.Add(ev)
		}
		if d.addEvent(ev); d.shown {
			x.forgetPrompt()
		}
		if ev.Kind == llm.EventText && !x.keepsText(ev) {
			return // what was streamed need not be kept
		}
	}
	x.current.reply.fold.Add(ev)
}

// keptPrompt is how long a body may be, in bytes, that is not worth being let go of.
const keptPrompt = 4 << 10

// forgetPrompt lets go of the request, once: when something of the reply was shown, no other route is tried. What a
// stream costs does not depend on its prompt then.
func (x *exchange) forgetPrompt() {
	if x.call.Forget == nil || x.race != nil && x.race.running.Load() > 1 { // another attempt may be sending it
		return
	}
	long := len(x.call.Body) > keptPrompt // its texts are slices of the body
	x.call.Forget()
	x.call.Forget = nil
	if long {
		x.estimate() // a limit of the service may end the request yet (GAP-113)
		x.input.exact = true
		x.clientHash()
		x.req.LLM, x.req.described = &llm.Request{MaxTokens: x.req.LLM.MaxTokens}, nil
	}
}
