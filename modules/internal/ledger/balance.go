package ledger

import "fmt"

// MicrocentsPerCredit is how many microcents one credit (US$0.01) holds.
const MicrocentsPerCredit = 1_000_000

// MaxBalance bounds a balance on both sides, in credits, so that all arithmetic in microcents fits an int64.
const MaxBalance = 1_000_000_000_000

// Balance is an account's money. Its worth in microcents (Net) decides Credits and Accrued: there is one
// way only to write an amount as whole credits less an accrued remainder below one credit.
type Balance struct {
	Credits int64 // whole credits; may be negative (E04)
	Held    int64 // microcents, the sum of the live holds
	Accrued int64 // microcents metered and not yet debited, 0 <= Accrued < 1,000,000
}

// Reserved is the holds in whole credits, rounded up (GAP-49).
func (b Balance) Reserved() int64 {
	return (b.Held + MicrocentsPerCredit - 1) / MicrocentsPerCredit
}

// Available is what a new request can use, in credits, unclamped (GAP-50, GAP-51).
func (b Balance) Available() int64 {
	a := b.Credits - b.Reserved()
	if b.Accrued > 0 {
		a--
	}
	return a
}

// Net is what the account owns, in microcents, before holds.
func (b Balance) Net() int64 { return b.Credits*MicrocentsPerCredit - b.Accrued }

// Covers reports whether a further hold is admitted: something is available, and it is enough (GAP-49).
func (b Balance) Covers(microcents int64) bool {
	a := b.Available()
	return microcents >= 0 && a >= 1 && microcents <= a*MicrocentsPerCredit
}

// Refuse is why a further hold is not covered: ErrNothingLeft, ErrHeld or ErrInsufficient; nil when it is. own is what
// of Held is the request's own.
func (b Balance) Refuse(microcents, own int64) error {
	unheld, alone := b, b
	unheld.Held, alone.Held = 0, own
	switch {
	case b.Covers(microcents):
		return nil
	case unheld.Available() < 1:
		return ErrNothingLeft
	case alone.Covers(microcents):
		return ErrHeld
	}
	return ErrInsufficient
}

// Add moves the account's worth: up for a top-up, down for a charge, which debits whole credits as the accrued
// remainder fills them (BILL-04). ErrInvalid when the result leaves MaxBalance.
func (b Balance) Add(microcents int64) (Balance, error) {
	const limit = MaxBalance * MicrocentsPerCredit
	if microcents < -limit || microcents > limit {
		return b, fmt.Errorf("moving %d microcents: %w: more than any balance", microcents, ErrInvalid)
	}
	net := b.Net() + microcents
	if net < -limit || net > limit {
		return b, fmt.Errorf("moving %d microcents: %w: the balance would leave its range of %d credits",
			microcents, ErrInvalid, int64(MaxBalance))
	}
	b.Credits = net / MicrocentsPerCredit // towards zero, which is up when net is negative
	if net > 0 && net%MicrocentsPerCredit != 0 {
		b.Credits++
	}
	b.Accrued = b.Credits*MicrocentsPerCredit - net
	return b, nil
}
