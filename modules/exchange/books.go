package exchange

import (
	"context"
	"math"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// books are what is held for an exchange, and what is due.
type books struct {
	*scope
	prompt    *prompt
	tariff    *engine.Tariff // what it is charged by
	held      bool           // the ledger has a hold; of nothing on a route that is free
	hold      int64          // microcents
	surcharge int64          // that screening has made, in microcents
	settled   bool
}

// fixPrices fixes the prices that the exchange is charged by.
func (b *books) fixPrices() (tariff *engine.Tariff, err error) {
	b.tariff, err = b.gen.Tariff(b.request.Context())
	return b.tariff, err
}

// copied are books by the same prices, of an exchange beside this one.
func (b *books) copied() books { return books{tariff: b.tariff} }

// areOpen reports whether there is a hold that nothing has settled.
func (b *books) areOpen() bool                 { return b.held && !b.settled }
func (b *books) addSurcharge(microcents int64) { b.surcharge += microcents }

// place places a hold of the request's, with its first attempt unless that is nil.
func (b *books) place(ctx context.Context, h ledger.Hold, first *attempt) error {
	p := b.call.Principal
	h.Request, h.Account, h.Key, h.Profile = b.call.ID, p.Account.ID, p.Key.ID, b.req.profile
	if h.WriteBehind = b.allowsWriteBehind(first); first != nil {
		h.Attempt = first.ledgerAttempt(b.tariff)
	}
	if err := b.engine.Ledger().Hold(ctx, h); err != nil {
		return err
	}
	b.held, b.hold, b.call.Record.Held = true, h.Microcents, true
	b.call.Work.Enter()
	b.engine.Metrics().Held(b.hold)
	return nil
}

// next is the next of the attempts as the ledger begins it: with what they all may come to.
func (b *books) next(a *attempt, all []*attempt) ledger.Next {
	total := b.sumSpent(all)
	return ledger.Next{Request: b.call.ID, Attempt: a.ledgerAttempt(b.tariff), Microcents: total.Microcents,
		Tokens: total.Tokens, WriteBehind: b.allowsWriteBehind(a)}
}

// allowsWriteBehind reports whether an attempt (nil: none yet) may be made before the ledger has it on the disk:
// nothing that its provider says later could ever prove what it used (GAP-132).
func (b *books) allowsWriteBehind(a *attempt) bool {
	if a == nil {
		return true
	}
	backend := b.gen.Backend(a.route.Provider)
	return !backend.GivesReceipts() && !backend.ProvesCancel(b.request.Context(), a.route.Model)
}

// computeDue is what the settlement of all attempts will charge.
func (b *books) computeDue(s *ledger.Settlement, all []*attempt) ledger.Charge {
	due := *s
	due.Surcharge = b.surcharge
	return due.Due(b.hold, func(i int) (config.Price, int64) { return all[i].route.Price, all[i].worst })
}

// settle ends the request in the ledger.
func (b *books) settle(s *ledger.Settlement) (ledger.Charge, error) {
	b.settled, s.Request, s.Surcharge = true, b.call.ID, b.surcharge
	charge, err := b.engine.Ledger().Settle(b.request.Context(), *s)
	b.engine.Metrics().Held(-b.hold)
	return charge, err
}

// warnOver says that the operator pays for what an upstream reported beyond the hold, and what to set about it.
func (b *books) warnOver(charge ledger.Charge, all []*attempt, a *attempt) {
	for _, tried := range all {
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
	b.engine.Metrics().Over(a.route.Name, charge.Over)
	b.engine.Logger().Warn("an upstream reported more than was held: the rest is not charged and the operator's",
		"request_id", b.call.ID, "route", a.route.Name, "setting", setting, "prompt_over_bound", b.prompt.beyondBound(a),
		"held_microcents", b.hold, "worst_microcents", a.worst, "charged_microcents", charge.Microcents, "over_microcents",
		charge.Over)
}

// countSettlement counts a settlement in the metrics and on the access line.
func (b *books) countSettlement(charge ledger.Charge, reason string, all []*attempt, current *attempt) {
	if charge.Over > 0 && current != nil { // the surcharge alone is within the hold
		b.warnOver(charge, all, current)
	}
	b.gen.NoteCharged(&b.call.Principal.Account, charge)
	rec := &b.call.Record
	rec.Microcents, rec.Pending, rec.Reason = charge.Microcents, charge.Pending, reason
	m := b.engine.Metrics()
	for _, a := range all {
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
	if current != nil {
		route = current.route.Name
	}
	m.Charged(route, charge.Microcents)
}

// sumSpent is what the attempts so far are proven to have come to, and at most what those may that have not ended or
// that a later proof can still add to (GAP-110). Of the attempts of a race the account pays for one.
func (b *books) sumSpent(all []*attempt) routing.Worst {
	var (
		bill         ledger.Bill
		open, either routing.Worst
	)
	for _, a := range all {
		if a.operator {
			continue
		}
		if a.racer != nil && !a.racer.done { // its goroutine changes what it has used
			either = either.Or(b.prompt.worstOf(a))
			continue
		}
		if u := a.proven(); !a.running && u != nil && bill.Add(false, *u, a.route.Price, a.worst) == nil {
			continue
		}
		if a.running || a.isUnproven() {
			open = open.And(b.prompt.worstOf(a))
		}
	}
	due := routing.Worst{Microcents: bill.Ceiling(b.surcharge, math.MaxInt64), Tokens: bill.Tokens}
	return due.And(open).And(either)
}

// noteRaised notes that the ledger holds so much, in microcents.
func (b *books) noteRaised(total int64) {
	if more := total - b.hold; more > 0 {
		b.engine.Metrics().Held(more)
		b.hold = total
	}
}

// outputOf is what an attempt is proven to have written, in tokens.
func outputOf(a *attempt) int64 {
	if u := a.proven(); u != nil {
		return llm.Tokens(u.Output)
	}
	return 0
}

// costOf is what an attempt is proven to have cost the operator, in microcents.
func costOf(a *attempt) int64 {
	if u := a.proven(); u != nil {
		cost, _ := ledger.Cost(*u, a.route.Cost) // what cannot be priced costs nothing that is known
		return cost
	}
	return 0
}
