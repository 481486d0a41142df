package exchange

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stop"
	"github.com/fareway/fareway/plugins/llm"
)

// transport makes attempts, each from its call to its end.
type transport struct {
	*scope
	prompt   *prompt
	delivery *delivery
	feedback *feedback
	caching  *caching
	stops    *stop.Set
	kept     int // bytes of a stream's text that are kept beside what is sent
}

// newTransport makes attempts for a request.
func newTransport(req *request) transport { return transport{stops: stop.New(req.LLM.Stop)} }

// makeAttempt makes an attempt. It returns nil when the route finished its reply, which is then in a.reply. Of
// attempts that are made at the same time none is live: they share nothing that changes.
func (t *transport) makeAttempt(ctx context.Context, a *attempt) (f *failure) {
	a.made = time.Now()
	ctx, span := t.beginSpan(ctx, a)
	defer func() {
		a.running, a.took = false, time.Since(a.made)
		t.engine.Metrics().Attempted(a.route.Name, a.times())
		span.End(a.spanEnd(f))
	}()
	a.span = span
	defer a.permit.Release()
	defer func() { t.judgeRoute(a, f) }()
	defer t.warnOfUsage(a)
	a.reply = &reply{words: a.route.FinishReasons}
	if !a.isQuestion {
		a.reply.matcher = t.stops.Matcher()
	}
	a.outcome = ledger.Failed

	ctx, over := context.WithCancelCause(ctx)
	defer over(nil)
	limit := newRouteTime(a.route.Timeout, func() { over(errAttemptTimeout) })
	backend := t.gen.Backend(a.route.Provider)
	proves := backend.ProvesCancel(ctx, a.route.Model)
	calling, hangUp := ctx, context.CancelFunc(func() {})
	unbind := func() bool { return true }
	if proves { // what it used may come after its time
		calling, hangUp = context.WithCancel(context.WithoutCancel(ctx))
		unbind = context.AfterFunc(ctx, hangUp)
	}
	defer hangUp()
	defer unbind()
	stream, err := backend.Generate(calling, t.call.Principal.Account.ID, t.requestFor(a))
	if err != nil {
		limit.end()
		return failureOf(ctx, err)
	}
	defer stream.Close()
	if keyed, ok := stream.(engine.Keyed); ok {
		defer func() { a.key = keyed.Key() }()
	}
	if proves && unbind() {
		ended := make(chan struct{})
		defer close(ended)
		go t.awaitProof(ctx, a, stream, hangUp, ended)
	}
	a.reader = &reader{
		stream: stream, memory: t.engine, delivery: t.delivery, time: limit, ctx: ctx, hungUp: calling.Done(),
		proves: proves, flood: newFlood(maxReply(a.route, a.allowance)),
	}
	defer a.reader.close()
	if a.live {
		t.delivery.readBeside(a.reader.readAhead)
	}
	defer func() {
		if a.live { // of a race, by now
			t.delivery.readBeside(nil)
		}
	}()
	for noted := false; ; {
		b, more := a.reader.next()
		end, f := t.takeBatch(a, b, more)
		if !noted && a.live && t.delivery.isGone() {
			noted = true
			t.noteStall()
		}
		if end {
			return f
		}
	}
}

// failureOf names the failure that ended the attempt. An attempt that ended because its time was over ended for
// that reason, whatever the stream says.
func failureOf(ctx context.Context, err error) *failure {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return &failure{kind: llm.KindOf(err), err: err}
}

// takeBatch delivers a batch, behind which more may be ready, and returns how the attempt ended, if it did.
func (t *transport) takeBatch(a *attempt, b batch, more bool) (end bool, f *failure) {
	a.permit.NoteProgress()
	a.pace.now = b.at
	if b.late {
		for _, ev := range b.events {
			t.noteEvent(a, ev)
		}
	} else {
		// A client that left while something came has left all the same: what it gets must not look whole.
		if t.delivery.clientLeft() {
			t.delivery.markGone()
		}
		t.takeEvents(a, b.events)
	}
	if a.live && (!more || b.end || t.delivery.isFull()) {
		t.delivery.flush()
	}
	if !b.end || b.failure != nil {
		return b.end, b.failure
	}
	if f = a.reply.unfinished(); f == nil {
		a.outcome = ledger.Finished
	}
	return true, f
}

// noteEvent takes what an event says of the attempt itself. What its upstream is asked by for a receipt is kept in the
// ledger too: after a crash of this process or of the provider's somebody else asks.
func (t *transport) noteEvent(a *attempt, ev llm.Event) {
	produced := a.produced
	a.noteEvent(ev)
	switch {
	case ev.Kind == llm.EventReference && t.gen.Backend(a.route.Provider).GivesReceipts():
		a.reference = ev.ID
		t.engine.Ledger().Refer(a.id, ev.ID)
	case a.produced && !produced:
		a.permit.FirstToken()
		a.firstAfter = time.Since(a.made)
		if a.racer != nil {
			signal(a.racer.produced)
		}
	}
}

// takeEvents takes a batch of events.
func (t *transport) takeEvents(a *attempt, events []llm.Event) {
	pass := a.reply.fold.Add
	switch {
	case a.racer != nil:
		pass = a.racer.showEvent
	case a.live:
		pass = func(ev llm.Event) { t.showEvent(a, ev) }
	}
	for _, ev := range events {
		t.noteEvent(a, ev)
		switch ev.Kind {
		case llm.EventAccepted:
			a.permit.Accepted()
			a.accept()
		case llm.EventToolCall, llm.EventToolEnd:
			if a.live {
				t.prompt.keepState(a, ev)
			} else {
				a.states = append(a.states, ev)
			}
		}
		if t.req.Stream && t.delivery.isGone() {
			a.output.Add(ev) // nobody reads it, and it is work
		}
		a.reply.addEvent(ev, pass)
	}
}

// showEvent passes a visible event on to the client, now or in the folded reply.
func (t *transport) showEvent(a *attempt, ev llm.Event) {
	if t.req.Stream {
		if !t.delivery.isGone() {
			a.output.Add(ev)
		}
		if t.delivery.addEvent(ev); t.delivery.hasShown() {
			t.forgetPrompt(a)
		}
		if ev.Kind == llm.EventText && !t.keepsText(ev) {
			return // what was streamed need not be kept
		}
	}
	a.reply.fold.Add(ev)
}

// keptPrompt is how long a body may be, in bytes, that is not worth being let go of.
const keptPrompt = 4 << 10

// forgetPrompt lets go of the request, once: when something of the reply was shown, no other route is tried. What a
// stream costs does not depend on its prompt then.
func (t *transport) forgetPrompt(a *attempt) {
	if t.call.Forget == nil || a.racer != nil && a.racer.race.running.Load() > 1 { // another attempt may be sending it
		return
	}
	long := len(t.call.Body) > keptPrompt // its texts are slices of the body
	t.call.Forget()
	t.call.Forget = nil
	if long {
		t.prompt.forget()
	}
}

// warnOfUsage tells the operator of an attempt whose usage is no usage, and so proves nothing (GAP-111), or whose
// usage counts and may not be what was used (GAP-124, GAP-125).
func (t *transport) warnOfUsage(a *attempt) {
	warn := func(message, name, text string) {
		t.engine.Logger().Warn(message, "request_id", t.call.ID, "attempt", a.id, "route", a.route.Name,
			"provider", a.route.Provider, name, text)
	}
	if flaw := a.flaw(); flaw != "" {
		warn("the upstream's usage is no usage", "flaw", flaw)
	} else if a.usage != nil && a.usage.Doubt != "" {
		warn("the upstream's usage is in doubt: compare it with its bill", "doubt", a.usage.Doubt)
	}
}

// requestFor is the request as an attempt's route gets it, with what its upstream wants back.
func (t *transport) requestFor(a *attempt) *llm.Request {
	if a.racer != nil {
		sent := a.racer.request
		a.racer.request = nil
		return sent
	}
	up := a.upstreamRequest(t.req)
	up.States = t.prompt.statesFor(a.route)
	if a.extraMessage != nil {
		up.Messages = append(slices.Clip(up.Messages), *a.extraMessage)
	}
	if a.isQuestion {
		up.Stop, up.Format = nil, nil
		if len(up.Tools) > 0 { // they stay: some upstreams refuse calls in a conversation without any
			up.ToolChoice = llm.ToolChoice{Mode: llm.ToolNone}
		}
	}
	return up
}

// keepsText reports whether the text of a stream is kept as it is sent, for the response cache or a comparison.
func (t *transport) keepsText(ev llm.Event) bool {
	if !t.caching.isWanted() && !t.feedback.comparesText() {
		return false
	}
	if t.kept += len(ev.Text); t.kept > maxKeptReply {
		t.caching.drop()
		t.feedback.dropText()
		return false
	}
	return true
}

// proofWait is how long an attempt whose time is over is heard out for what it used. The client waits for its answer
// meanwhile, and it is less than what delivery.setLastDeadline leaves for the last frame.
const proofWait = 3 * time.Second

// cancelAttempt asks a provider that can prove it to stop an attempt and to say what it used (GAP-47). What it used,
// and the end, can be here before the answer to that: then nobody waits for the answer any more.
func (t *transport) cancelAttempt(ctx context.Context, stream engine.Stream, ended <-chan struct{}) {
	err := stream.Cancel(ctx)
	if err == nil {
		return
	}
	select {
	case <-ended:
	default:
		t.engine.Logger().Warn("cancelling an attempt", "request_id", t.call.ID, "error", err)
	}
}

// awaitProof sees to it that an attempt which can prove it says what it used, beside the exchange, which reads its
// stream to the end: it cancels the attempt when the client has left, and when its time is over, for which it hears it
// out for a while. Where the proof does not come, a later receipt may. A failure of the service's own needs no proof.
func (t *transport) awaitProof(ctx context.Context, a *attempt, stream engine.Stream, hangUp func(),
	ended <-chan struct{},
) {
	select {
	case <-ended:
		return
	case <-t.delivery.connectionBroken():
		t.cancelAttempt(ctx, stream, ended)
	case <-t.request.Context().Done():
		t.cancelAttempt(ctx, stream, ended)
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	defer hangUp()
	if interrupted(ctx).isFree() {
		return
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofWait)
	defer cancel()
	if a.racer != nil {
		defer context.AfterFunc(a.racer.race.over, cancel)()
	}
	t.cancelAttempt(wait, stream, ended)
	select {
	case <-ended:
	case <-wait.Done():
	}
}

// noteStall tells the operator of a client that was given up.
func (t *transport) noteStall() {
	if t.delivery.gaveUp() {
		t.engine.Metrics().ClientStalled()
		t.engine.Logger().Info("a client took nothing for too long; its connection is broken", "request_id", t.call.ID,
			"account", t.call.Principal.Account.Name)
	}
}

// judgeRoute notes what an attempt says of its route, when it has ended with f, or whole.
func (t *transport) judgeRoute(a *attempt, f *failure) {
	outcome, reason := health.Succeeded, error(nil)
	switch {
	case f != nil:
		outcome = a.healthOutcome(f)
		if failed, ok := errors.AsType[*llm.Error](f.err); ok {
			reason = failed
		}
	case a.outcome != ledger.Finished: // it panicked
		return
	case t.req.Stream && a.proven() == nil && !t.delivery.clientLeft() &&
		!t.gen.Backend(a.route.Provider).GivesReceipts():
		// It ends as a failure (GAP-57): the route does not serve streams as it is, and there is no receipt to come.
		outcome = consequences[noUsage].health
	}
	if a.permit.Ended(outcome, reason); f == nil {
		t.noteServed(a)
	}
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
