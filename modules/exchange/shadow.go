package exchange

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/stop"
	"github.com/fareway/fareway/modules/internal/validate"
)

// shadow is a call to a second route, for comparison only. It begins when the reply of its exchange is settled, in a
// goroutine of its own, and is an exchange of its own without a client: a request of the ledger that holds nothing, so
// that no account can be charged for it.
type shadow struct {
	call     routing.Candidate
	req      *request // as it was before its exchange let go of it
	body     int64    // bytes that are set aside for it
	decision *decisions.Record
	report   decisions.Shadow
}

// prepareShadow sets a call for comparison aside, where the request is of the profile's share and the route is one of
// its candidates: what the account requires, what the request needs and how the route does was asked by routing.
func (x *exchange) prepareShadow(of config.Shadow, candidates []routing.Candidate) {
	if !of.Takes(x.call.ID) {
		return
	}
	m := x.engine.Metrics()
	i := slices.IndexFunc(candidates, func(c routing.Candidate) bool { return c.Route.Name == of.Route })
	if i < 0 || candidates[i].Behind != nil {
		m.Shadow(of.Route, engine.ShadowNotCandidate)
		return
	}
	body := int64(len(x.call.Body))
	if !x.engine.AcquireShadow(body) {
		m.Shadow(of.Route, engine.ShadowTooMany)
		return
	}
	decoded := *x.req.Request
	req := *x.req
	req.Request = &decoded
	x.shadow = &shadow{call: candidates[i], req: &req, body: body, report: decisions.Shadow{Route: of.Route}}
}

// beginShadow begins the call, behind the settlement of a reply.
func (x *exchange) beginShadow(end ending) {
	s, a := x.shadow, x.current
	if s == nil || x.clientLeft() {
		return
	}
	if a.route.Name == s.call.Route.Name {
		x.dropShadow(engine.ShadowSameRoute)
		return
	}
	work := x.call.Work.Beside()
	if work == nil {
		x.dropShadow(engine.ShadowLeaving)
		return
	}
	s.report.ReplyFinish, s.report.ReplyTook, s.report.ReplyFirst = string(end.finish), a.took, a.firstAfter
	reply := compared{took: a.took, output: outputOf(a), cost: costOf(a), route: a.route, meant: x.meaningOf(end)}
	y := x.shadowExchange(work)
	x.shadow = nil
	go func() {
		defer work.Done()
		s.compare(y, reply)
	}()
}

// dropShadow gives back what was set aside, for a call that is not made.
func (x *exchange) dropShadow(why string) {
	if s := x.shadow; s != nil {
		x.shadow = nil
		s.noteResult(x.engine, why)
	}
}

// noteResult notes what came of it.
func (s *shadow) noteResult(e *engine.Engine, result string) {
	e.Metrics().Shadow(s.report.Route, result)
	if s.report.Result = result; s.decision != nil {
		s.decision.Shadow = &s.report
		e.Decisions().Add(s.decision)
	}
	e.ReleaseShadow(s.body)
}

// compared is one side of a comparison.
type compared struct {
	took         time.Duration
	output, cost int64
	route        *config.Route
	meant        *validate.Meaning // nil where nobody compares what they say
}

// costOf is what an attempt is proven to have cost the operator, in microcents.
func costOf(a *attempt) int64 {
	if u := a.proven(); u != nil {
		cost, _ := ledger.Cost(*u, a.route.Cost) // what cannot be priced costs nothing that is known
		return cost
	}
	return 0
}

// shadowExchange is an exchange without a client for the shadow of this one. It ends with the request's time limit,
// and when the gateway begins to shut down.
func (x *exchange) shadowExchange(work *engine.Work) *exchange {
	s, now := x.shadow, time.Now()
	settings := work.Generation().Config.Gateway
	parent := context.Background()
	y := &exchange{
		call: &gateway.Call{ID: ledger.ShadowID(x.call.ID), Start: now, BodyRead: now, Kind: x.call.Kind,
			Family: x.call.Family, Work: work, Principal: x.call.Principal},
		request: (&http.Request{}).WithContext(parent),
		req:     s.req, engine: x.engine, gen: x.gen,
		stops:    stop.New(s.req.LLM.Stop),
		delivery: newDelivery(nowhere{}, s.req.Stream, settings.Keepalive, settings.ClientStall),
		tariff:   x.tariff, input: x.input, states: x.states, hash: x.clientHash(), hashed: true,
	}
	if x.training != nil {
		y.training = new(*x.training)
	}
	y.ctx, y.release = lifetime(parent, work.Leaving(), now.Add(settings.RequestTimeout), y.delivery)
	return y
}

// compare makes the call, and compares what comes of it.
func (s *shadow) compare(y *exchange, reply compared) {
	result := engine.ShadowPanic
	defer func() { s.noteResult(y.engine, result) }()
	defer func() {
		if p := recover(); p != nil {
			y.engine.Logger().Error("a call for comparison panicked", "request_id", y.call.ID, "panic", p,
				"stack", string(debug.Stack()))
		}
	}()
	defer y.close()
	a, why := s.beginCall(y)
	if a == nil {
		result = why
		return
	}
	f := y.makeAttempt(y.ctx, a)
	if f == nil {
		f = a.finishKept()
	}
	if f != nil {
		a.failure = f.kind
		y.engine.Logger().Info("a call for comparison failed", "request_id", y.call.ID, "route", a.route.Name,
			"kind", f.kind, "error", f.err)
	}
	s.settle(y, a)
	if f != nil {
		result = string(f.kind)
		return
	}
	result = engine.ShadowAnswered
	s.report.Finish = string(a.ended.finish)
	s.report.Took, s.report.First = a.took, a.firstAfter
	if reply.meant != nil {
		y.teachPair(reply.route, a.route, validate.MeaningOf(a.forValidation()).Same(reply.meant), journal.Shadow)
	}
	m := y.engine.Metrics()
	m.ShadowCompared(s.report.Route, "shadow", a.took, outputOf(a), s.report.Cost)
	m.ShadowCompared(s.report.Route, "reply", reply.took, reply.output, reply.cost)
}

// beginCall records the call, or says why it is not made.
func (s *shadow) beginCall(y *exchange) (*attempt, string) {
	permit, err := y.acquire(&s.call)
	if err != nil {
		return nil, engine.ShadowRouteBusy
	}
	y.addAttempt(&s.call, permit)
	a := y.current
	a.worst, a.accept = 0, func() {}
	err = y.engine.Ledger().Hold(y.ctx, ledger.Hold{Request: y.call.ID, Account: y.call.Principal.Account.ID,
		Key: y.call.Principal.Key.ID, Endpoint: ledger.Shadow, Profile: y.req.profile, Attempt: a.ledgerAttempt(y.tariff)})
	if err == nil {
		y.held = true
		return a, ""
	}
	y.dropAttempt(nil)
	switch {
	case limitRefusal(err) != nil:
		return nil, engine.ShadowNoCredits
	case y.ctx.Err() != nil:
		return nil, string(interrupted(y.ctx).kind)
	}
	y.engine.Logger().Error("recording a call for comparison", "request_id", y.call.ID, "error", err)
	return nil, engine.ShadowLedger
}

// settle records what the call used: it is free, and the operator's.
func (s *shadow) settle(y *exchange, a *attempt) {
	y.settled = true
	result := a.result(true)
	result.Operator = true
	status := http.StatusOK
	if a.failure != "" {
		status = http.StatusBadGateway
	}
	end := y.endingOf(ledger.Settlement{Request: y.call.ID, Status: status, Reason: ledger.Shadow, Free: true,
		Results: []ledger.Result{result}}, ledger.Charge{})
	if _, err := y.engine.Ledger().Settle(y.request.Context(), end); err != nil {
		y.engine.Logger().Error("settling a call for comparison", "request_id", y.call.ID, "error", err)
	}
	if u := a.proven(); u != nil {
		s.report.Usage, s.report.Cost = decisions.UsageOf(u), costOf(a)
		y.engine.Metrics().Tokens(a.route.Name, u)
		y.engine.Metrics().Cost(a.route.Name, s.report.Cost)
	}
}

// nowhere is the client of nobody.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
