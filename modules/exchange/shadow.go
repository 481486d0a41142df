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
	reply    comparisonSide
}

// prepareShadow sets a call for comparison aside, where the request is of the profile's share and the route is one of
// its candidates: what the account requires, what the request needs and how the route does was asked by routing.
func (f *feedback) prepareShadow(of config.Shadow, candidates []routing.Candidate) {
	if !of.Takes(f.call.ID) {
		return
	}
	m := f.engine.Metrics()
	i := slices.IndexFunc(candidates, func(c routing.Candidate) bool { return c.Route.Name == of.Route })
	if i < 0 || candidates[i].Behind != nil {
		m.Shadow(of.Route, engine.ShadowNotCandidate)
		return
	}
	body := int64(len(f.call.Body))
	if !f.engine.AcquireShadow(body) {
		m.Shadow(of.Route, engine.ShadowTooMany)
		return
	}
	decoded := *f.req.Request
	req := *f.req
	req.Request = &decoded
	f.shadow = &shadow{call: candidates[i], req: &req, body: body, report: decisions.Shadow{Route: of.Route}}
}

// takeShadow hands over the call that was set aside, with the reply of an attempt that it is compared with; nil where
// there is none, or where it would be to the route that the reply is of.
func (f *feedback) takeShadow(a *attempt, end ending) *shadow {
	s := f.shadow
	if s != nil && a.route.Name == s.call.Route.Name {
		f.dropShadow(engine.ShadowSameRoute)
	}
	if f.shadow == nil {
		return nil
	}
	s.report.ReplyFinish, s.report.ReplyTook, s.report.ReplyFirst = string(end.finish), a.took, a.firstAfter
	s.reply = comparisonSide{took: a.took, output: outputOf(a), cost: costOf(a), route: a.route,
		meant: f.meaningOf(a, end)}
	f.shadow = nil
	return s
}

// beginShadow begins the call for comparison, behind the settlement of a reply: on an exchange without a client, which
// ends with the request's time limit, and when the gateway begins to shut down.
func (x *exchange) beginShadow(a *attempt, end ending) {
	s := x.feedback.takeShadow(a, end)
	if s == nil {
		return
	}
	work := x.call.Work.Beside()
	if work == nil {
		s.noteResult(x.engine, engine.ShadowLeaving)
		return
	}
	now, settings, parent := time.Now(), work.Generation().Config.Gateway, context.Background()
	y := &exchange{
		scope: scope{
			call: &gateway.Call{ID: ledger.ShadowID(x.call.ID), Start: now, BodyRead: now, Kind: x.call.Kind,
				Family: x.call.Family, Work: work, Principal: x.call.Principal},
			request: (&http.Request{}).WithContext(parent),
			req:     s.req, engine: x.engine, gen: x.gen,
		},
		delivery: newDelivery(parent, discardClient{}, s.req.Stream, settings.Keepalive, settings.ClientStall),
		prompt:   x.prompt.copied(), feedback: x.feedback.copied(), books: x.books.copied(),
		transport: newTransport(s.req),
	}
	y.ctx, y.release = lifetime(parent, work.Leaving(), now.Add(settings.RequestTimeout), y.delivery)
	y.connect()
	go func() {
		defer work.Done()
		s.compare(y)
	}()
}

// dropShadow gives back what was set aside, for a call that is not made.
func (f *feedback) dropShadow(why string) {
	if s := f.shadow; s != nil {
		f.shadow = nil
		s.noteResult(f.engine, why)
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

// comparisonSide is one side of a comparison.
type comparisonSide struct {
	took         time.Duration
	output, cost int64
	route        *config.Route
	meant        *validate.Meaning // nil where nobody compares what they say
}

// compare makes the call, and compares what comes of it.
func (s *shadow) compare(y *exchange) {
	result, reply := engine.ShadowPanic, s.reply
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
	f := y.work.callBeside(a)
	if f != nil {
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
		y.feedback.teachPair(reply.route, a.route, validate.MeaningOf(a.forValidation()).Same(reply.meant), journal.Shadow)
	}
	m := y.engine.Metrics()
	m.ShadowCompared(s.report.Route, "shadow", a.took, outputOf(a), s.report.Cost)
	m.ShadowCompared(s.report.Route, "reply", reply.took, reply.output, reply.cost)
}

// beginCall records the call, or says why it is not made.
func (s *shadow) beginCall(y *exchange) (*attempt, string) {
	permit, err := y.work.acquire(&s.call)
	if err != nil {
		return nil, engine.ShadowRouteBusy
	}
	a, err := y.work.beginBeside(&s.call, permit)
	switch {
	case err == nil:
		return a, ""
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
	result := a.result(true)
	result.Operator = true
	status := http.StatusOK
	if a.failure != "" {
		status = http.StatusBadGateway
	}
	_, err := y.books.settle(&ledger.Settlement{Status: status, Reason: ledger.Shadow, Free: true,
		Results: []ledger.Result{result}})
	if err != nil {
		y.engine.Logger().Error("settling a call for comparison", "request_id", y.call.ID, "error", err)
	}
	if u := a.proven(); u != nil {
		s.report.Usage, s.report.Cost = decisions.UsageOf(u), costOf(a)
		y.engine.Metrics().Tokens(a.route.Name, u)
		y.engine.Metrics().Cost(a.route.Name, s.report.Cost)
	}
}

// discardClient is the client of nobody.
type discardClient struct{}

func (discardClient) Header() http.Header         { return http.Header{} }
func (discardClient) Write(b []byte) (int, error) { return len(b), nil }
func (discardClient) WriteHeader(int)             {}
