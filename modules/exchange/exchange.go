package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// exchange is one charged request from its hold to its settlement: the order in which its parts meet. It is driven by
// the request's goroutine. No part selects a field of another one, and each knows only those before it
// (TestPartsKeepToThemselves):
//
//	scope      what the exchange is about, the same from its beginning to its end
//	prompt     how long the input is, and what upstreams want back with it
//	delivery   what the client sees
//	feedback   decisions, outcomes, conversations, calls for comparison      prompt
//	caching    the response cache
//	screening  the content policy                                            delivery
//	books      what is held and due                                          prompt
//	transport  one attempt, from its call to its end                         prompt delivery feedback caching
//	work       which attempts there are: steps, the race of two              prompt delivery feedback books transport
//	admission  which routes are planned, and what is held for them           prompt feedback books work
//
// What they hand to one another is an attempt with its reply, and a failure. Only transport, work and the attempt
// itself change an attempt.
type exchange struct {
	scope
	release   func() // ends the context
	prompt    prompt
	delivery  *delivery
	feedback  feedback
	caching   caching
	screening screening
	books     books
	transport transport
	work      work
	admission admission
}

// scope is what an exchange is about.
type scope struct {
	call    *gateway.Call
	request *http.Request
	req     *request
	engine  *engine.Engine
	gen     *engine.Generation

	// ctx ends at the request's total time limit or at the end of the drain; not when the client leaves,
	// for what is under way upstream is then read to its end (GAP-47).
	ctx context.Context
}

// healthCall is a call as the state of its route is asked for.
func (s *scope) healthCall(c *routing.Candidate) health.Call {
	return health.Call{Account: s.call.Principal.Account.ID, Input: c.Input, Light: c.Light, Whole: s.req.wantsWhole()}
}

func newExchange(w http.ResponseWriter, r *http.Request, call *gateway.Call, req *request) *exchange {
	settings := &call.Work.Generation().Config.Gateway
	x := &exchange{
		scope:     scope{call: call, request: r, req: req, engine: call.Work.Engine(), gen: call.Work.Generation()},
		delivery:  newDelivery(r.Context(), w, req.Stream, settings.Keepalive, settings.ClientStall),
		transport: newTransport(req),
	}
	call.Record.Stream, call.Record.Profile = req.Stream, req.profile
	x.ctx, x.release = lifetime(r.Context(), call.Work.Stopping(), call.BodyRead.Add(settings.RequestTimeout), x.delivery)
	return x.connect()
}

// connect gives each part those that it works with.
func (x *exchange) connect() *exchange {
	s := &x.scope
	x.prompt.scope = s
	x.feedback.scope, x.feedback.prompt = s, &x.prompt
	x.caching.scope = s
	x.screening.scope, x.screening.delivery = s, x.delivery
	x.books.scope, x.books.prompt = s, &x.prompt
	x.transport.scope, x.transport.prompt, x.transport.delivery = s, &x.prompt, x.delivery
	x.transport.feedback, x.transport.caching = &x.feedback, &x.caching
	x.work.scope, x.work.prompt, x.work.delivery = s, &x.prompt, x.delivery
	x.work.feedback, x.work.books, x.work.transport = &x.feedback, &x.books, &x.transport
	x.admission.scope, x.admission.prompt, x.admission.feedback = s, &x.prompt, &x.feedback
	x.admission.books, x.admission.work = &x.books, &x.work
	return x
}

// lifetime is a context for an exchange, with what parent carries and without its end. It ends at the deadline, with
// cause errTimeLimit, when stopping does, with engine.ErrShutdown, and when it is told to; nothing of it is left then.
// No write outlives it for long.
func lifetime(parent, stopping context.Context, deadline time.Time, d *delivery) (context.Context, context.CancelFunc) {
	ctx, over := context.WithCancelCause(context.WithoutCancel(parent))
	limit := time.AfterFunc(time.Until(deadline), func() {
		over(errTimeLimit)
		d.setLastDeadline()
	})
	stop := func() {
		over(engine.ErrShutdown)
		d.setLastDeadline()
	}
	unhook, unhookRelay := context.AfterFunc(stopping, stop), func() bool { return true }
	if ends := gateway.RelayEnds(parent); ends != nil {
		unhookRelay = context.AfterFunc(ends, stop)
	}
	return ctx, func() {
		unhook()
		unhookRelay()
		limit.Stop()
		over(nil)
		d.restoreConnection()
	}
}

// generate answers a charged request. It returns a refusal while nothing has been written.
func generate(w http.ResponseWriter, r *http.Request, call *gateway.Call) *families.Error {
	req, refusal := decode(r, call)
	if refusal != nil {
		return refusal
	}
	x := newExchange(w, r, call, req)
	defer x.close()
	return x.answer()
}

// answer takes steps 15 to 20 of the order in the package's doc.
func (x *exchange) answer() *families.Error {
	if refusal := x.planAndHold(); refusal != nil {
		x.feedback.noteRefusal(refusal)
		return refusal
	}
	if x.hasGate() {
		if done, refusal := x.passGate(); done {
			return refusal
		}
	}
	return x.run()
}

// planAndHold takes steps 15 to 17: it plans the routes and holds the most that the request can cost on any of
// them (GAP-49). When it returns nil, the hold is durable, and with it the first attempt, unless the gate comes before
// that.
func (x *exchange) planAndHold() *families.Error {
	tariff, err := x.books.fixPrices()
	if err != nil {
		return x.call.LedgerError("recording a price", err)
	}
	ask := x.admission.ask(tariff)
	x.feedback.recallConversation(&ask)
	x.prompt.measure(&ask)
	ask.Keep = x.feedback.traitsToKeep(len(ask.Routes))
	_ = x.gen.Classify(x.request.Context(), &ask) // where it fails, that is counted, and the model predicts
	plan, err := routing.MakeItinerary(ask)
	x.feedback.noteChoice(&ask, &plan)
	x.feedback.beginTraining(&plan)
	if err != nil && plan.Steps == nil { // with steps it is that they are busy, and may be waited for (GAP-139)
		return x.admission.refuseUnroutable(err)
	}
	x.admission.follow(&plan)
	x.feedback.lookBack(&plan, len(ask.Routes))
	x.prompt.findStates(plan.Steps)

	if !x.hasGate() {
		if refusal := x.admission.beginFirst(); refusal != nil {
			return refusal
		}
	}
	if err := x.admission.placeWhatFits(); err != nil {
		return x.admission.refuseUncovered("placing a hold", err)
	}
	x.feedback.prepareShadow(ask.Profile.Shadow, plan.Candidates)
	return nil
}

// hasGate reports whether something stands between the hold and the first attempt. The hold is placed without an
// attempt then.
func (x *exchange) hasGate() bool { return x.gen.Config.Screening.On() || x.caching.isCacheable() }

// passGate takes steps 18 and 19: the response cache and the screening. It is done when that answers or refuses.
func (x *exchange) passGate() (done bool, refusal *families.Error) {
	reply, hit := x.caching.find()
	cost, rejected := x.screening.screen()
	x.books.addSurcharge(cost)
	if rejected != nil {
		return true, x.reject(rejected)
	}
	switch {
	case hit:
		return true, x.answerCached(reply)
	case x.delivery.clientLeft():
		return true, x.abandon()
	}
	c, permit, err := x.admission.acquireRoute()
	if err != nil {
		return true, x.reject(&rejection{ledger.Settlement{Reason: string(llm.ErrCapacity)}, noneFree(err)})
	}
	if f := x.work.beginAttempt(c, permit); f != nil {
		return true, x.reject(rejectionFor(f, x.work.refusal(f)))
	}
	return false, nil
}

// rejection is how a request ends that made no attempt: what it is settled as, and what its client is told.
type rejection struct {
	settlement ledger.Settlement
	refusal    *families.Error
}

// rejectionFor is that of a request whose first attempt could not be begun.
func rejectionFor(f *failure, refusal *families.Error) *rejection {
	return &rejection{ledger.Settlement{Reason: string(f.kind), Free: f.isFree(), ServiceLimit: f.kind == timeLimit},
		refusal}
}

// reject settles a request that made no attempt, and is its refusal.
func (x *exchange) reject(r *rejection) *families.Error {
	r.settlement.Status = r.refusal.Status
	if _, err := x.settle(&r.settlement); err != nil {
		return x.call.LedgerError("settling", err)
	}
	return r.refusal
}

// answerCached answers with an earlier reply, in the events of any other, with new ids. The screening is charged.
func (x *exchange) answerCached(r cache.Reply) *families.Error {
	if x.delivery.clientLeft() {
		return x.abandon()
	}
	x.beginDelivery()
	s := ledger.Settlement{Status: http.StatusOK, Reason: "cached"}
	due := x.due(&s)
	end := families.End{Finish: llm.FinishStop, StopSequence: r.Stop, Usage: new(llm.Usage), Billed: due.Microcents,
		At: x.engine.Now().Unix()}
	if _, err := x.settle(&s); err != nil {
		return x.call.LedgerError("settling", err)
	}
	x.delivery.writeReply(r.Text, end)
	return nil
}

// beginDelivery makes the encoder of the reply, and starts the keep-alives of a stream.
func (x *exchange) beginDelivery() {
	x.delivery.setEncoder(x.call.Family.NewEncoder(x.req.Request, families.Head{
		ID:            x.call.ID[len("req_"):],
		Created:       x.call.Start.Unix(),
		Model:         x.req.model,
		InputEstimate: x.prompt.estimate,
	}))
}

// run does the itinerary. It returns a refusal while nothing has been written.
func (x *exchange) run() *families.Error {
	x.beginDelivery()
	f := x.work.follow(x.admission.itinerary())
	switch {
	case f == nil:
		return x.finish()
	case f.kind == llm.ErrCanceled:
		return x.abandon()
	}
	return x.fail(f)
}

// finish ends a reply whose route has finished: what its end says of the charge is encoded, then the request is
// settled, and then the end is written. So a reply that cannot be encoded is never charged, and what says that the
// charge is final is durable before the last byte leaves.
func (x *exchange) finish() *families.Error {
	_, a := x.work.made()
	end, f := a.finishReply()
	if f == nil {
		f = x.work.proveUsage()
	}
	if f != nil {
		return x.fail(f)
	}
	s := ledger.Settlement{Status: http.StatusOK, Reason: "ok"}
	switch {
	case x.delivery.clientLeft():
		s.Reason = gateway.ReasonLeft
	case end.finish == llm.FinishPolicy:
		s.Reason = engine.EndedByPolicy
	}
	s.Results = x.work.results(x.req.Stream && !x.delivery.clientLeft())
	due := x.due(&s)
	x.delivery.encodeEnd(end, &a.reply.fold, families.End{Finish: end.finish, StopSequence: end.stop,
		Usage: x.work.usageOfReply(), Billed: due.Microcents, Pending: due.Pending, At: x.engine.Now().Unix()})
	charge, err := x.settle(&s)
	if err != nil {
		return x.delivery.writeError(x.call.LedgerError("settling", err))
	}
	if charge.Microcents != due.Microcents || charge.Pending != due.Pending {
		x.engine.Logger().Error("the ledger charges another amount than the reply says", "request_id", x.call.ID,
			"charged", charge.Microcents, "said", due.Microcents)
	}
	x.feedback.rememberTurn(a)
	if !x.delivery.clientLeft() {
		x.caching.keep(&a.reply.fold, end)
		x.beginShadow(a, end)
	}
	x.delivery.finish()
	return nil
}

// fail settles an exchange that did not become a reply, and tells the client.
func (x *exchange) fail(f *failure) *families.Error {
	e := x.work.refusal(f)
	s := ledger.Settlement{Status: e.Status, Reason: string(f.kind), Free: f.isFree(),
		ServiceLimit: x.work.serviceLimit(f),
		Results:      x.work.resultsOfFailure(f)}
	if _, err := x.settle(&s); err != nil {
		x.engine.Logger().Error("settling a failed request", "request_id", x.call.ID, "error", err)
	}
	return x.delivery.writeError(e)
}

// statusLeft is what a settlement says of a client that left: nginx's number for it, which nobody gets.
const statusLeft = 499

// abandon settles an exchange whose client left before the next call upstream, or whose last call was cancelled for
// that and proved what it had used (GAP-47). It ends with the panic that makes net/http drop the connection, and is a
// refusal only for its callers.
func (x *exchange) abandon() *families.Error {
	x.delivery.markGone()
	s := ledger.Settlement{Status: statusLeft, Reason: gateway.ReasonLeft, Results: x.work.results(false)}
	if _, err := x.settle(&s); err != nil {
		x.engine.Logger().Error("settling an abandoned request", "request_id", x.call.ID, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// due is what the settlement of all attempts will charge.
func (x *exchange) due(s *ledger.Settlement) ledger.Charge {
	attempts, _ := x.work.made()
	return x.books.computeDue(s, attempts)
}

// settle ends the request in the ledger, once, and counts it.
func (x *exchange) settle(s *ledger.Settlement) (ledger.Charge, error) {
	attempts, current := x.work.made()
	x.feedback.concludeAttempts(attempts, current)
	x.prompt.learnTemplates(attempts)
	s.Reason = x.screening.reasonWithFindings(s.Reason)
	charge, err := x.books.settle(s)
	x.feedback.noteSettlement(s, charge, attempts)
	x.call.Work.Release() // before the last byte leaves, which may bring the account's next request
	if err == nil {
		x.books.countSettlement(charge, s.Reason, attempts, current)
		x.screening.noteDeclined(s.Reason)
	}
	return charge, err
}

// close gives back what the exchange took. A hold that nothing has settled (a panic on the way) is settled as
// a failure of the service, which is free.
func (x *exchange) close() {
	defer x.release()
	defer x.feedback.dropShadow(engine.ShadowNoReply)
	x.work.releaseUnmade()
	if x.books.areOpen() {
		s := ledger.Settlement{Status: http.StatusInternalServerError, Reason: "panic", Free: true}
		if _, err := x.settle(&s); err != nil {
			x.engine.Logger().Error("settling a request that panicked", "request_id", x.call.ID, "error", err)
		}
	}
}
