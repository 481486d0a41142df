package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
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

	unlike       bool    // an attempt has failed for another reason than that its route cannot take this request
	shadow       *shadow // nil: nothing is compared
	conversation *conversation
	decision     *decisions.Record // nil where the decision log wants nothing, or has it
	lesson       *lesson
	training     *training

	tariff  *engine.Tariff // what it is charged by
	input   input          // how long it is, as far as that is known
	plan    *routing.First
	held    bool  // the ledger has a hold; of nothing on a route that is free
	hold    int64 // microcents
	settled bool

	hash     uint64                 // of what the client has said, see clientHash
	hashed   bool                   // there is one
	states   map[string]routeStates // by route
	attempts []*attempt
	current  *attempt           // whose reply is, or may become, the client's
	ready    *routing.Candidate // whose attempt was begun with the hold, until it is made
	race     *race              // nil where no attempt is made beside another one
	strategy string             // its name, "" for none
	several  bool               // the reply is worked on in several steps (GAP-85)
	from     int                // the attempt that the reply's work began with
	delivery *delivery

	surcharge int64       // that screening has made, in microcents
	found     []rules.Hit // by screening
	cacheKey  *cache.Key  // under which the reply is to be kept
	kept      int         // bytes of a stream's text that are
}

func newExchange(w http.ResponseWriter, r *http.Request, call *gateway.Call, req *request) *exchange {
	work := call.Work
	settings := &work.Generation().Config.Gateway
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
		d.setLastDeadline()
	})
	unhook := context.AfterFunc(stopping, func() {
		over(engine.ErrShutdown)
		d.setLastDeadline()
	})
	return ctx, func() {
		unhook()
		limit.Stop()
		over(nil)
		d.restoreConnection()
	}
}

// close gives back what the exchange took. A hold that nothing has settled (a panic on the way) is settled as
// a failure of the service, which is free.
func (x *exchange) close() {
	defer x.release()
	defer x.dropShadow(engine.ShadowNoReply)
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

// beginDelivery makes the encoder of the reply, and starts the keep-alives of a stream.
func (x *exchange) beginDelivery() {
	x.delivery.setEncoder(x.call.Family.NewEncoder(x.req.Request, families.Head{
		ID:            x.call.ID[len("req_"):],
		Created:       x.call.Start.Unix(),
		Model:         x.req.model,
		InputEstimate: x.estimate,
	}))
}

// run does the itinerary. It returns a refusal while nothing has been written.
func (x *exchange) run() *families.Error {
	x.beginDelivery()
	a, f := x.runFirst(x.plan, true)
	if again := x.findRetry(f); again != nil {
		if b, g := x.runFirst(again, true); b != nil || g != nil {
			a, f = b, g
		}
	}
	if a == nil && f == nil { // what a strategy still needed was at capacity, and so was all else
		f = &failure{kind: llm.ErrCapacity}
	}
	x.noteRoute()
	switch {
	case f == nil:
		return x.finish()
	case f.kind == llm.ErrCanceled:
		return x.abandon()
	}
	return x.fail(f)
}

// noteRoute puts on the access line which route it went to, at last.
func (x *exchange) noteRoute() {
	rec, a := &x.call.Record, x.current
	rec.Route, rec.Attempts, rec.Upstream, rec.ProviderKey = a.route.Name, len(x.attempts), a.upstreamID, a.key
}

// clientLeft reports whether the client has left.
func (x *exchange) clientLeft() bool {
	return x.delivery.gone.Load() || x.request.Context().Err() != nil
}

// writeError tells the client of an error: as a frame where the stream is open, otherwise as the reply.
func (x *exchange) writeError(e *families.Error) *families.Error {
	x.delivery.stopKeepAlives()
	if !x.delivery.opened {
		return e
	}
	x.delivery.writeFailure(e)
	return nil
}

// logFailure tells the operator of a failed attempt; the client is told by refusal, in other words.
func (x *exchange) logFailure(a *attempt, f *failure) {
	a.failure, a.refusedForTime = f.kind, f.namesTime()
	x.engine.Metrics().UpstreamError(a.route.Name, string(f.kind))
	if f.consequence().blames() {
		x.engine.Metrics().FailedAttempt(x.call.Principal.Account.ID)
	}
	x.unlike = x.unlike || !f.consequence().misfit
	x.call.Record.Misfit = !x.unlike
	log := x.engine.Logger().Warn
	if f.consequence().alert {
		log = x.engine.Logger().Error
	}
	route, c := "", f.consequence()
	if c.health == health.Failed || c.alert || f.kind == llm.ErrRejected || f.kind == attemptTimeout {
		route = a.route.Name
	}
	x.engine.NoteFailure(a.id, route, a.failureText(f))
	said := []any{"request_id", x.call.ID, "attempt", a.id, "route", a.route.Name, "provider", a.route.Provider,
		"kind", f.kind, "error", f.err}
	if a.key != "" {
		said = append(said, "key", a.key)
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		a.upstreamID = cmp.Or(a.upstreamID, failed.RequestID)
		x.noteRoute()
		if failed.RetryAfter > 0 {
			said = append(said, "retry_after", failed.RetryAfter)
		}
	}
	log("attempt failed", append(said, "upstream_request_id", a.upstreamID)...)
}

// failureText are why an attempt failed, for the operator: what the log says, and with which key.
func (a *attempt) failureText(f *failure) string {
	text := string(f.kind)
	if f.err != nil {
		text = f.err.Error()
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		if text = failed.Message; failed.Status != 0 {
			text += fmt.Sprintf(" (status %d)", failed.Status)
		}
	}
	if a.key != "" {
		text += "; with key " + a.key + " of provider " + a.route.Provider
	}
	return text
}

// warnOfUsage tells the operator of an attempt whose usage is no usage, and so proves nothing (GAP-111), or whose
// usage counts and may not be what was used (GAP-124, GAP-125).
func (x *exchange) warnOfUsage(a *attempt) {
	said := []any{"request_id", x.call.ID, "attempt", a.id, "route", a.route.Name, "provider", a.route.Provider}
	if flaw := a.flaw(); flaw != "" {
		x.engine.Logger().Warn("the upstream's usage is no usage", append(said, "flaw", flaw)...)
	} else if a.usage != nil && a.usage.Doubt != "" {
		x.engine.Logger().Warn("the upstream's usage is in doubt: compare it with its bill",
			append(said, "doubt", a.usage.Doubt)...)
	}
}
