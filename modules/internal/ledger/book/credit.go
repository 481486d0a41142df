package book

import (
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Seen is the entry of an account, none of allotments, that has a movement's reference already.
type Seen struct {
	ledger.Entry
	// Of a refund: what its request is charged now, later receipts included, and its entries behind that charge's,
	// oldest first.
	Charge int64
	Later  []ledger.Entry
}

// left is what the refund left to be refunded then.
func (s *Seen) left() int64 {
	left, passed := s.Charge, false
	for _, e := range s.Later {
		switch {
		case e.Kind == ledger.Refund && !passed:
			left -= e.Microcents
			passed = e.Reference == s.Reference
		case e.Kind != ledger.Refund && passed: // what was charged later was not there
			left += e.Microcents
		}
	}
	return left
}

// repeats reports whether the account has this movement by its reference; ErrReference where that is another one's,
// and lost where it would be a new one (see CheckHold). A refund of 0 microcents is one of all that is left, which
// repeats one that left nothing.
func repeats(e *ledger.Entry, seen *Seen, lost error) (bool, error) {
	if seen == nil {
		return false, lost
	}
	if seen.Kind == e.Kind && seen.Request == e.Request &&
		(seen.Microcents == e.Microcents || e.Microcents == 0 && seen.left() == 0) {
		return true, nil
	}
	return true, fmt.Errorf("%w: the reference %q is that of %s on %s, and not of %s; nothing was moved",
		ledger.ErrReference, e.Reference, sayMovement(&seen.Entry), seen.Created.UTC().Format(time.DateOnly),
		sayMovement(e))
}

// sayMovement says what an entry moves.
func sayMovement(e *ledger.Entry) string {
	if e.Kind == ledger.Refund && e.Microcents == 0 {
		return "a refund of all that is left of request " + e.Request
	}
	sign, amount := "", e.Microcents
	if amount < 0 {
		sign, amount = "-", -amount
	}
	text := fmt.Sprintf("a movement (%s) of %s%d.%06d credits", e.Kind, sign, amount/ledger.MicrocentsPerCredit,
		amount%ledger.MicrocentsPerCredit)
	if e.Request != "" {
		text += " for request " + e.Request
	}
	return text
}

// move makes a movement, and the act that says it: of that the subject, and what it was before, and is after, beside
// what every movement says.
func (a Account) move(e ledger.Entry, action, subject string, before, after Fields, by By) (Change, error) {
	e.Created = by.Now
	posted, err := a.post(e)
	if err != nil {
		return Change{}, err
	}
	after["reference"], after["reason"], after["balance_credits"] = e.Reference, e.Reason, a.Credits
	return a.record(Change{Entry: posted}, action, subject, before, after, by)
}

// CheckCredit checks what a top-up says by itself.
func CheckCredit(c *ledger.Credit) error {
	if c.Credits < 1 || c.Credits > ledger.MaxTopUp {
		return fmt.Errorf("%w: a top-up has 1 to %d credits", ledger.ErrInvalid, int64(ledger.MaxTopUp))
	}
	return checkTexts(c.Reference, c.Reason)
}

// DecideTopUp adds credits, unless that was done before (see Seen, nil: it was not).
func DecideTopUp(c *ledger.Credit, a Account, seen *Seen, lost error, by By) (Change, error) {
	e := ledger.Entry{Kind: ledger.TopUp, Reference: c.Reference, Reason: c.Reason,
		Microcents: c.Credits * ledger.MicrocentsPerCredit}
	if repeated, err := repeats(&e, seen, lost); err != nil || repeated {
		return Change{Account: a}, err
	}
	return a.move(e, "credit.add", a.ID, nil, Fields{"credits": c.Credits}, by)
}

// CheckCorrection checks what a correction says by itself.
func CheckCorrection(c *ledger.Correction) error {
	if c.Reason == "" {
		return fmt.Errorf("%w: a correction needs a reason", ledger.ErrInvalid)
	}
	return checkTexts(c.Reference, c.Reason)
}

// DecideAdjustment moves money up or down, like DecideTopUp.
func DecideAdjustment(c *ledger.Correction, a Account, seen *Seen, lost error, by By) (Change, error) {
	if c.Microcents == 0 {
		return Change{}, fmt.Errorf("%w: an adjustment of nothing", ledger.ErrInvalid)
	}
	e := ledger.Entry{Kind: ledger.Adjustment, Reference: c.Reference, Reason: c.Reason, Microcents: c.Microcents}
	if repeated, err := repeats(&e, seen, lost); err != nil || repeated {
		return Change{Account: a}, err
	}
	return a.move(e, "credit.adjust", a.ID, nil, Fields{"microcents": c.Microcents}, by)
}

// CheckRefund checks that the request of a refund can be one's: r is what is on record of it, nil for nothing.
func CheckRefund(c *ledger.Correction, r *Request, running bool) error {
	switch {
	case running:
		return fmt.Errorf("%w: request %q is running; refund it when it has ended", ledger.ErrInvalid, c.Request)
	case r == nil || c.Account != "" && c.Account != r.Account:
		return fmt.Errorf("%w: request %q", ledger.ErrNotFound, c.Request)
	}
	return nil
}

// DecideRefund gives back what a request was charged, like DecideTopUp. ErrInvalid for more than is left of that.
func DecideRefund(c *ledger.Correction, a Account, r *Request, seen *Seen, lost error, by By) (Change, error) {
	e := ledger.Entry{Kind: ledger.Refund, Request: r.ID, Reference: c.Reference, Reason: c.Reason,
		Microcents: c.Microcents}
	if repeated, err := repeats(&e, seen, lost); err != nil || repeated {
		return Change{Account: a}, err
	}
	left := r.Charge - r.Refunded
	if e.Microcents == 0 {
		e.Microcents = left
	}
	if e.Microcents < 1 || e.Microcents > left {
		return Change{}, fmt.Errorf("%w: a refund of %d microcents of request %q, which has %d left to refund",
			ledger.ErrInvalid, e.Microcents, c.Request, left)
	}
	refunded := r.Refunded + e.Microcents
	moved, err := a.move(e, "credit.refund", r.ID, Fields{"refunded_microcents": r.Refunded},
		Fields{"refunded_microcents": refunded}, by)
	moved.Refunded = refunded
	return moved, err
}
