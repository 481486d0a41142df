package exchange

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// finish ends a reply whose route has finished: what its end says of the charge is encoded, then the request is
// settled, and then the end is written. So a reply that cannot be encoded is never charged, and what says that the
// charge is final is durable before the last byte leaves.
func (x *exchange) finish() *families.Error {
	a, d := x.current, x.delivery
	end, f := a.finishReply()
	if f == nil {
		f = x.proveUsage()
	}
	if f != nil {
		return x.fail(f)
	}
	s := ledger.Settlement{Status: http.StatusOK, Reason: "ok"}
	switch {
	case x.clientLeft():
		s.Reason = gateway.ReasonLeft
	case end.finish == llm.FinishPolicy:
		s.Reason = engine.EndedByPolicy
	}
	s.Results = x.results(d.stream && !x.clientLeft())
	due := x.due(&s)
	body := x.encodeEnd(end, families.End{Finish: end.finish, StopSequence: end.stop, Usage: x.usageOfReply(),
		Billed: due.Microcents, Pending: due.Pending, At: x.engine.Now().Unix()})
	charge, err := x.settle(s, due)
	if err != nil {
		return x.writeError(x.call.LedgerError("settling", err))
	}
	if charge.Microcents != due.Microcents || charge.Pending != due.Pending {
		x.engine.Logger().Error("the ledger charges another amount than the reply says", "request_id", x.call.ID,
			"charged", charge.Microcents, "said", due.Microcents)
	}
	x.rememberTurn()
	x.cacheReply(end)
	x.beginShadow(end)
	if d.stream {
		d.writeEnd()
	} else {
		d.writeBody(body)
	}
	return nil
}

// usageOfReply is what the reply says that it used: the work of all its steps (GAP-13).
func (x *exchange) usageOfReply() *llm.Usage {
	if !x.several {
		return x.current.usage
	}
	var sum llm.Usage
	for _, a := range x.attempts[x.from:] {
		if u := a.proven(); u != nil {
			sum = sum.Plus(u)
		}
	}
	return &sum
}

// proveUsage makes sure of what the reply used. The end of a stream must not come before (GAP-57); usage that cannot
// be priced is no usage at all.
func (x *exchange) proveUsage() *failure {
	a := x.current
	var err error
	if x.delivery.stream && !a.usage.Known() && !x.clientLeft() {
		err = x.awaitReceipt()
	}
	var f *failure
	switch {
	case a.proven() != nil:
		return nil
	case a.usage.Known():
		_, err = ledger.Cost(*a.usage, a.route.Price)
		f = &failure{kind: llm.ErrProtocol, err: err}
	case errors.Is(err, engine.ErrShutdown):
		f = interrupted(x.ctx)
	case x.delivery.stream && !x.clientLeft():
		f = &failure{kind: noUsage, err: cmp.Or(err, errors.New(a.route.Unmetered()))}
	default:
		return nil
	}
	x.logFailure(a, f)
	return f
}

// encodeEnd writes the end of the reply: into the frames at hand of a stream, otherwise as the body. Text that a
// stream still owes is sent at once, for the frames at hand go when the settlement fails.
func (x *exchange) encodeEnd(end ending, e families.End) (body []byte) {
	d, rest := x.delivery, llm.Event{Kind: llm.EventText, Text: end.rest}
	if d.stream {
		if end.rest != "" {
			d.addEvent(rest)
			d.flush()
		}
		d.addFrames(func(b []byte) []byte { return d.encoder.AppendEnd(b, e) })
		return nil
	}
	if end.rest != "" {
		x.current.reply.fold.Add(rest)
		x.current.reply.fold.Close()
	}
	return d.encoder.AppendReply(make([]byte, 0, 1<<10), &x.current.reply.fold, e)
}

// fail settles an exchange that did not become a reply, and tells the client.
func (x *exchange) fail(f *failure) *families.Error {
	e := x.refusal(f)
	x.current.failure = cmp.Or(x.current.failure, f.kind)
	estimate := x.estimateUnproven(f)
	s := ledger.Settlement{Status: e.Status, Reason: string(f.kind), Free: f.isFree(), ServiceLimit: x.serviceLimit(f),
		Results: x.results(false)}
	s.Results[slices.Index(x.attempts, x.current)].Estimate = estimate
	if _, err := x.settle(s, x.due(&s)); err != nil {
		x.engine.Logger().Error("settling a failed request", "request_id", x.call.ID, "error", err)
	}
	return x.writeError(e)
}

// serviceLimit reports whether a limit of the service's own ended the request: the total time limit, the route's after
// text was delivered (GAP-113), or an output limit that was not the client's (GAP-54). Below it the client's own
// counts, raised or not. A client that kept its reply waiting has itself to thank for the end of the time (GAP-112).
func (x *exchange) serviceLimit(f *failure) bool {
	switch f.kind {
	case timeLimit:
		return !x.clientHeldUp()
	case attemptTimeout:
		return x.delivery.shown && !x.clientHeldUp()
	case noVisibleText:
		own := x.req.LLM.MaxTokens
		return x.current.reply.finish == llm.FinishLength && (own == 0 || x.current.allowance < own)
	}
	return false
}

// statusLeft is what a settlement says of a client that left: nginx's number for it, which nobody gets.
const statusLeft = 499

// abandon settles an exchange whose client left before the next call upstream, or whose last call was
// cancelled for that and proved what it had used (GAP-47).
func (x *exchange) abandon() *families.Error {
	x.delivery.gone.Store(true)
	s := ledger.Settlement{Status: statusLeft, Reason: gateway.ReasonLeft, Results: x.results(false)}
	if _, err := x.settle(s, x.due(&s)); err != nil {
		x.engine.Logger().Error("settling an abandoned request", "request_id", x.call.ID, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// results is what the settlement gets of the attempts, see attempt.result.
func (x *exchange) results(final bool) []ledger.Result {
	results := make([]ledger.Result, len(x.attempts))
	for i, a := range x.attempts {
		results[i] = a.result(final)
	}
	return results
}

// due is what the settlement of all attempts will charge.
func (x *exchange) due(s *ledger.Settlement) ledger.Charge {
	s.Surcharge += x.surcharge
	return s.Due(x.hold, func(i int) (config.Price, int64) { return x.attempts[i].route.Price, x.attempts[i].worst })
}

// settle ends the request in the ledger, once, and counts it.
func (x *exchange) settle(s ledger.Settlement, due ledger.Charge) (ledger.Charge, error) {
	x.settled = true
	x.concludeAttempts()
	x.learnTemplates()
	s.Request, s.Reason = x.call.ID, x.reasonWithFindings(s.Reason)
	charge, err := x.engine.Ledger().Settle(x.request.Context(), x.endingOf(s, due))
	x.engine.Metrics().Held(-x.hold)
	x.noteSettlement(&s, charge)
	x.call.Work.Release() // before the last byte leaves, which may bring the account's next request
	if err != nil {
		return charge, err
	}
	if charge.Over > 0 && x.current != nil { // the surcharge alone is within the hold
		x.warnOver(charge)
	}
	x.countSettlement(charge, s.Reason)
	x.noteDeclined(s.Reason)
	return charge, nil
}

// warnOver says that the operator pays for what an upstream reported beyond the hold, and what to set where that can
// be meant.
func (x *exchange) warnOver(charge ledger.Charge) {
	a := x.current
	for _, tried := range x.attempts {
		u := tried.proven()
		if tried.operator || u == nil {
			continue
		}
		if cost, err := ledger.Cost(*u, tried.route.Price); err == nil && cost > tried.worst {
			a = tried
			break
		}
	}
	// What was learned by now holds for the next request; what is too much to be learned, the operator can say.
	setting := "template_tokens"
	if output := outputOf(a); output > maxReply(a.route, a.allowance) {
		if setting = "bills_past_allowance"; a.route.BillsPastAllowance || output > a.route.MaxOutput {
			setting = "max_output"
		}
	}
	x.engine.Metrics().Over(a.route.Name, charge.Over)
	x.engine.Logger().Warn("an upstream reported more than was held: the rest is not charged and the operator's",
		"request_id", x.call.ID, "route", a.route.Name, "setting", setting, "prompt_over_bound", x.beyondBound(a),
		"held_microcents", x.hold, "worst_microcents", a.worst, "charged_microcents", charge.Microcents, "over_microcents",
		charge.Over)
}

// outputOf is what an attempt is proven to have written, in tokens.
func outputOf(a *attempt) int64 {
	if u := a.proven(); u != nil {
		return llm.Tokens(u.Output)
	}
	return 0
}

// endingOf is a settlement with what its request was.
func (x *exchange) endingOf(s ledger.Settlement, due ledger.Charge) engine.Ending {
	p := x.call.Principal
	end := engine.Ending{Settlement: s, Account: p.Account.ID, Key: p.Key.ID, Charge: due}
	for _, a := range x.attempts {
		end.Attempts = append(end.Attempts, engine.Tried{Attempt: a.ledgerAttempt(x.tariff), Price: a.route.Price})
	}
	return end
}

// countSettlement counts a settlement in the metrics and on the access line.
func (x *exchange) countSettlement(charge ledger.Charge, reason string) {
	rec := &x.call.Record
	rec.Microcents, rec.Pending, rec.Reason = charge.Microcents, charge.Pending, reason
	m := x.engine.Metrics()
	for _, a := range x.attempts {
		u := a.proven()
		if u == nil {
			continue
		}
		m.Cost(a.route.Name, costOf(a))
		if m.Tokens(a.route.Name, u); a.operator {
			continue
		}
		rec.Input += u.Prompt()
		rec.Output += llm.Tokens(u.Output)
	}
	route := "" // none was called
	if x.current != nil {
		route = x.current.route.Name
	}
	m.Charged(route, charge.Microcents)
}
