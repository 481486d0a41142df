package audit

import (
	"cmp"
	"slices"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// verifyRequests recomputes the charges of requests, by their ids from the first on and before the second ("": to the
// end), from usage and price, and looks for their entries. It goes on after a finding, for requests are in the order
// of their ids and not in that of the journal.
func (v *verification) verifyRequests(first, end string) error {
	return each(v.Requests(Span{First: first, End: end, After: v.from}), func(r *Request) error {
		v.report.Requests++
		v.done.Add(1)
		v.attempts += int64(len(r.Attempts))
		err := v.verifyRequest(r, v.price(r))
		if r.Entry <= v.head.Summed {
			v.days.count(r, v.head.Unprofiled.ProfileOf(r))
		}
		return v.note(err)
	})
}

// price fills in what prices say of a request's attempts.
func (v *verification) price(r *Request) (err error) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		p, found := v.prices[version{a.Route, a.PriceVersion}]
		if a.Price, a.Cost = p.price, p.cost; !found && err == nil {
			err = Disagree(r.ID, "attempt %d is to be charged at a price that does not exist, %s@%d", i+1, a.Route,
				a.PriceVersion)
		}
	}
	return err
}

// verifyRequest checks one request against its attempts, their prices (priced: whether there are all) and its entries.
func (v *verification) verifyRequest(r *Request, priced error) error {
	if err := cmp.Or(v.verifyFacts(r), priced); err != nil {
		return err
	}
	c, err := claimOf(r)
	if err != nil {
		return err
	}
	charge, later, err := v.entriesFor(r)
	if err != nil {
		return err
	}
	if err := c.settlement(charge); err != nil {
		return err
	}
	if err := c.later(later); err != nil {
		return err
	}
	return c.compare()
}

// verifyFacts checks what a request says of itself and of its attempts, but for the money.
func (v *verification) verifyFacts(r *Request) error {
	pending := false
	for i := range r.Attempts {
		a := &r.Attempts[i]
		waits, closed, known := a.Outcome == ledger.Unproven, a.Outcome == ledger.Closed, a.Usage.Known()
		proven := !a.Receipt.IsZero()
		_, seq, _ := ledger.ParseAttemptID(a.ID)
		switch {
		case seq != int64(i)+1:
			return Disagree(r.ID, "attempt %d of the request is missing before its attempt %d", i+1, seq)
		case a.Outcome == ledger.Finished && !known:
			return Disagree(r.ID, "attempt %d finished without usage; it should be unproven", seq)
		case known && !proven && waits:
			return Disagree(r.ID, "attempt %d is %s and has usage", seq, a.Outcome)
		case closed && !isEstimate(a.Usage, a.Estimate):
			return Disagree(r.ID, "attempt %d is closed at another usage than its estimate", seq)
		case a.Estimate != nil && !waits && !closed:
			return Disagree(r.ID, "attempt %d is %s and has an estimate, which only one that nobody proved has", seq, a.Outcome)
		case a.Operator && (waits || closed):
			return Disagree(r.ID, "attempt %d is the operator's and %s; nobody waits for what such a one used", seq, a.Outcome)
		case proven && (!waits || r.Free || !known):
			return Disagree(r.ID, "attempt %d has a receipt, which only an unproven one of a request that is not free can get",
				seq)
		}
		if isWaiting(r, a) {
			pending = true
			v.waiting++
		}
	}
	if pending != r.Pending {
		return Disagree(r.ID, "the request says pending: %t, its attempts say %t", r.Pending, pending)
	}
	return v.verifyOwner(r.ID, r.Owner)
}

// isWaiting reports whether an attempt of a settled request waits for a receipt.
func isWaiting(r *Request, a *ledger.AttemptRecord) bool {
	return a.Outcome == ledger.Unproven && a.Receipt.IsZero() && !r.Free
}

// isEstimate reports whether an attempt's usage is its estimate; none is nothing.
func isEstimate(u llm.Usage, estimate *llm.Usage) bool {
	if estimate == nil {
		return u == llm.Usage{}
	}
	same := func(a, b *int64) bool { return (a == nil) == (b == nil) && llm.Tokens(a) == llm.Tokens(b) }
	return same(u.Input, estimate.Input) && same(u.Output, estimate.Output) && u.Estimated &&
		u.CacheRead == nil && u.CacheWrite == nil && u.Reasoning == nil
}

// entriesFor reads the entries of a request. Those that came later are looked for only when there is a sign of them:
// verifyPairs finds that none was passed over.
func (v *verification) entriesFor(r *Request) (charge *Entry, later []Entry, err error) {
	if r.Entry != 0 {
		e, found, err := v.Entry(r.Account, r.Entry)
		switch {
		case err != nil:
			return nil, nil, err
		case !found:
			return nil, nil, Disagree(r.ID, "the journal has no entry %d, which the request names as its charge", r.Entry)
		case e.Kind != ledger.Charged || e.Request != r.ID:
			return nil, nil, Disagree(r.ID, "entry %d of the journal, which the request names as its charge, is not that",
				r.Entry)
		}
		charge = &e
		v.countFound(charge)
	}
	if r.Refunded == 0 && !slices.ContainsFunc(r.Attempts, wasProvenLater) {
		return charge, nil, nil
	}
	err = each(v.LaterEntries(r.Account, r.ID), func(e Entry) error {
		v.countFound(&e)
		later = append(later, e)
		return nil
	})
	return charge, later, err
}

func wasProvenLater(a ledger.AttemptRecord) bool {
	return !a.Receipt.IsZero() || a.Outcome == ledger.Closed
}

// countFound counts an entry that a request accounts for, unless it is taken as it is.
func (v *verification) countFound(e *Entry) {
	if e.N > v.from {
		v.count(v.found, e)
	}
}

// verifyPairs compares how many entries are about requests with how many of them the requests accounted for. Each
// request accounts for its own only, so that equal numbers mean the same entries. Requests that were settled before
// the last pruning may be without detail: of their settlements the moment shows it, and what they came to is
// compared account by account.
func (v *verification) verifyPairs() error {
	for _, kind := range []ledger.EntryKind{ledger.Charged, ledger.Receipt, ledger.Closing, ledger.Refund} {
		all, found := v.counted[kind], v.found[kind]
		if v.pruned == 0 && all.all != found.all || kind == ledger.Charged && all.young != found.young {
			return v.unpaired(kind, all.all-found.all)
		}
	}
	return nil
}

// unpaired names the first entry about a request that the request knows nothing of.
func (v *verification) unpaired(kind ledger.EntryKind, n int64) error {
	err := each(v.Entries(minPlace, maxPlace, false), func(e Entry) error {
		if e.Request == "" {
			return nil
		}
		r, err := v.FindRequest(e.Request)
		switch {
		case err != nil:
			return err
		case r != nil && !accountsFor(r, &e):
			return e.disagree("it is a %s for request %q, which knows nothing of it", e.Kind, e.Request)
		case r == nil && (v.pruned == 0 || e.Kind == ledger.Charged && e.Created.UnixNano() >= v.pruned):
			return e.disagree("it is a %s for request %q, whose detail is missing", e.Kind, e.Request)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return Disagree("journal", "it has %d entries of the kind %s more than the requests account for", n, kind)
}

// accountsFor reports whether a request knows of an entry.
func accountsFor(r *Request, e *Entry) bool {
	has := func(is func(ledger.AttemptRecord) bool) bool { return slices.ContainsFunc(r.Attempts, is) }
	switch e.Kind {
	case ledger.Charged:
		return r.Entry == e.N
	case ledger.Refund:
		return r.Refunded != 0
	case ledger.Closing:
		return has(func(a ledger.AttemptRecord) bool { return a.Outcome == ledger.Closed })
	default:
		return has(func(a ledger.AttemptRecord) bool { return a.Receipt.Equal(e.Created) })
	}
}

// verifyAttempts looks for attempts of no request, if there are more than the requests have.
func (v *verification) verifyAttempts() error {
	if v.from > 0 || v.head.Attempts == v.attempts { // not all were looked at, or all are somebody's
		return nil
	}
	return each(v.Strays(), func(request string) error {
		return Disagree(request, "there are attempts of it, and no request")
	})
}
