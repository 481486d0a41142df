package book

import (
	"fmt"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Request is what is on record of a settled request, as far as what comes later needs it. Amounts are microcents.
type Request struct {
	ID           string
	Account      string // id
	Held         int64
	ServiceLimit bool
	Surcharge    int64
	Charge       int64 // later receipts included
	Waived, Over int64
	Refunded     int64
	Pending      bool
}

// Answer is what a repeated settlement is told: what was charged, and the account's balance now.
func (r *Request) Answer(b ledger.Balance) ledger.Charge {
	return ledger.Charge{Microcents: r.Charge, Waived: r.Waived, Over: r.Over, Pending: r.Pending, Balance: b}
}

// Proven is what a receipt or a closing changes.
type Proven struct {
	Charged
	Request Request // as it is on record now
	Attempt Attempt // likewise; it waits no more
}

// DecideReceipt charges what the seq-th attempt of a settled request is proven to have used; taken is false, and
// nothing changes, where it does not wait. ErrNotFound where there is no such attempt, ErrUsage where the usage says
// nothing or cannot be priced.
func DecideReceipt(p Payer, r *Request, attempts []Attempt, seq int64, usage llm.Usage, now time.Time) (
	c Proven, taken bool, err error,
) {
	if seq > int64(len(attempts)) {
		return c, false, NoAttempt()
	}
	if !r.Pending || !attempts[seq-1].Waits() {
		return c, false, nil
	}
	if !usage.Known() {
		return c, false, fmt.Errorf("%w: the receipt says nothing", ledger.ErrUsage)
	}
	attempts = slices.Clone(attempts)
	this := &attempts[seq-1]
	this.Usage, this.Receipt = usage, now
	c, err = p.prove(r, attempts, this, ledger.Receipt, now)
	return c, err == nil, err
}

// NoAttempt is what a store says of a receipt for an attempt that is not on record.
func NoAttempt() error { return fmt.Errorf("%w: no attempt has this id", ledger.ErrNotFound) }

// DecideClosing closes the seq-th attempt of a settled request, which waits, at its estimate (GAP-113).
func DecideClosing(p Payer, r *Request, attempts []Attempt, seq int64, now time.Time) (Proven, error) {
	attempts = slices.Clone(attempts)
	this := &attempts[seq-1]
	this.Outcome = ledger.Closed
	if this.Estimate != nil {
		this.Usage = *this.Estimate
	}
	return p.prove(r, attempts, this, ledger.Closing, now)
}

// IsCrashed reports whether a request was ended because its process was taken for dead (SettleCrashed), by its reason.
func IsCrashed(reason string) bool { return reason == crashed }

// DecideLate applies one result of a settlement that comes after its request was ended as IsCrashed: the process
// lived, and another one has released what it held. What it proves of an attempt that waits is charged as by a
// receipt, and an attempt that came to nothing is closed at nothing. seq is the attempt's number; 0, and nothing
// changes, where that does not wait, and where the result proves nothing: a receipt may come yet.
func DecideLate(p Payer, r *Request, attempts []Attempt, st *ledger.Settlement, result *ledger.Result, now time.Time) (
	c Proven, seq int64, err error,
) {
	request, seq, _ := ledger.ParseAttemptID(result.Attempt)
	if request != r.ID || seq < 1 || seq > int64(len(attempts)) || !r.Pending || !attempts[seq-1].Waits() {
		return c, 0, nil
	}
	outcome, usage, err := result.Conclude(attempts[seq-1].Price)
	switch {
	case st.Free || result.Operator || err == nil && outcome != ledger.Unproven && !usage.Known():
		attempts = slices.Clone(attempts)
		attempts[seq-1].Estimate = nil
		c, err = DecideClosing(p, r, attempts, seq, now)
	case err == nil && usage.Known():
		c, _, err = DecideReceipt(p, r, attempts, seq, usage, now)
	default:
		return c, 0, err
	}
	return c, seq, err
}

// prove adds to a settled request what one of its attempts is now known, or taken, to have used: kind is why. What it
// adds is at most that attempt's worst, and with what the request is charged already at most its hold (GAP-123).
func (p Payer) prove(r *Request, attempts []Attempt, this *Attempt, kind ledger.EntryKind, now time.Time) (
	c Proven, err error,
) {
	due, err := makeBill(attempts, r.Surcharge)
	if err != nil {
		return c, err
	}
	ceiling, prices, part := max(0, r.Held-r.Charge-r.Waived), "", Part{}
	if this.Worst >= 0 {
		ceiling = min(ceiling, this.Worst)
	}
	if this.Usage.Known() {
		part = p.judge(r.ServiceLimit, due.microcents-r.Charge-r.Waived-r.Over, ceiling, CountTokens(this.Usage))
		prices = this.priceName()
	}
	charged, err := p.charge(part, ledger.Entry{
		Kind: kind, Request: r.ID, Prices: prices, Created: now, Detail: this.Detail(),
	})
	if err != nil {
		return c, err
	}
	c = Proven{charged, *r, *this}
	c.Request.Charge += part.Charge
	c.Request.Waived += part.Waived
	c.Request.Over += part.Over
	c.Request.Pending = due.Pending
	return c, nil
}
