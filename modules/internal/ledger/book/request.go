package book

import (
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Running is a request between its hold and its settlement.
type Running struct {
	ID           string
	Account, Key string // ids
	Owner        string // boot id of the process that admitted it
	Endpoint     string
	Profile      string
	Held         int64 // microcents
	Created      time.Time
	Attempts     []Attempt // in their order
}

// Attempt is an attempt of a request. Its Outcome is "" while it runs.
type Attempt struct {
	ledger.AttemptRecord
	Beside    bool   // see ledger.Next
	Reference string // what its upstream is asked by for a receipt, "" for none that is known
	Row       Row
}

// Row is for a store to find a row again. The rules carry it along, and neither read nor change it.
type Row struct{ N, Mark int64 }

// BeginAttempt is an attempt that begins now, at a price and a cost.
func BeginAttempt(a ledger.Attempt, price, cost config.Price, now time.Time) Attempt {
	return Attempt{AttemptRecord: ledger.AttemptRecord{Attempt: a, Price: price, Cost: cost, Created: now}}
}

// Waits reports whether a receipt may add to an attempt of a settled request.
func (a *Attempt) Waits() bool { return a.Outcome == ledger.Unproven && a.Receipt.IsZero() }

// CheckHold checks what a hold says by itself. lost is ledger.ErrLost, with what to do, while nobody has decided
// about what the ledger has lost (GAP-133), else nil: nothing is held then, but for a request that can cost nothing.
func CheckHold(h *ledger.Hold, lost error) error {
	switch {
	case h.Request == "" || h.Microcents < 0 || h.Tokens < 0 || h.Headroom < 0:
		return fmt.Errorf("%w: a hold needs a request id and amounts that are not negative", ledger.ErrInvalid)
	case h.Attempt != ledger.Attempt{} && !isAttempt(h.Attempt.ID, h.Request, 1):
		return fmt.Errorf("%w: attempt %q; the first attempt of this request is %q",
			ledger.ErrInvalid, h.Attempt.ID, ledger.AttemptID(h.Request, 1))
	case h.Microcents > 0:
		return lost
	}
	return nil
}

// isAttempt is id == ledger.AttemptID(request, seq), without making that for the first nine.
func isAttempt(id, request string, seq int64) bool {
	if n := len(request); seq < 10 && len(id) == n+2 {
		return id[:n] == request && id[n] == '.' && id[n+1] == byte('0'+seq)
	}
	return id == ledger.AttemptID(request, seq)
}

// RepeatsHold reports whether a hold is one of a request that runs (nil: none of its id does): it changes nothing
// then. ErrExists where the id is another account's, or of a request that is settled.
func RepeatsHold(h *ledger.Hold, r *Running, settled bool) (bool, error) {
	switch {
	case r != nil && r.Account != h.Account:
		return false, fmt.Errorf("%w: a request of another account with this id, which is running", ledger.ErrExists)
	case r == nil && settled:
		return false, fmt.Errorf("%w: a request with this id, which is settled", ledger.ErrExists)
	}
	return r != nil, nil
}

// Held is a hold that is admitted.
type Held struct {
	Balance ledger.Balance // the account's
	Running Running        // the new request
}

// DecideHold admits a request, which is new, with its first attempt (nil: it has none yet), or returns a
// *ledger.Refusal.
func DecideHold(h *ledger.Hold, p Payer, first *Attempt, owner string, now time.Time) (Held, error) {
	n := need{microcents: h.Microcents, tokens: h.Tokens, others: p.Held}
	if err := p.admit(n); err != nil {
		return Held{}, err
	}
	if h.Headroom > 1 {
		n.microcents, n.tokens = multiply(h.Headroom, h.Microcents), multiply(h.Headroom, h.Tokens)
		if err := p.admit(n); err != nil {
			return Held{}, err
		}
	}
	c := Held{p.Account.Balance, Running{
		ID: h.Request, Account: h.Account, Key: h.Key, Owner: owner, Endpoint: h.Endpoint, Profile: h.Profile,
		Held: h.Microcents, Created: now,
	}}
	c.Balance.Held += h.Microcents
	if first != nil {
		c.Running.Attempts = []Attempt{*first}
	}
	return c, nil
}

// RepeatsAttempt reports whether a running request (nil: it does not run) has an attempt already: it changes nothing
// then. ErrInvalid for amounts below zero, and for an attempt that is not the next.
func RepeatsAttempt(n *ledger.Next, r *Running) (bool, error) {
	switch {
	case n.Microcents < 0 || n.Tokens < 0:
		return false, fmt.Errorf("%w: an attempt needs amounts that are not negative", ledger.ErrInvalid)
	case r == nil:
		return false, fmt.Errorf("%w: a running request with this id", ledger.ErrNotFound)
	}
	for i := range r.Attempts {
		if r.Attempts[i].ID == n.Attempt.ID {
			return true, nil
		}
	}
	if seq := int64(len(r.Attempts)) + 1; !isAttempt(n.Attempt.ID, r.ID, seq) {
		return false, fmt.Errorf("%w: attempt %q; the next attempt of this request is %q",
			ledger.ErrInvalid, n.Attempt.ID, ledger.AttemptID(r.ID, seq))
	}
	return false, nil
}

// Begun is a further attempt that is admitted: the last of the running request.
type Begun struct {
	Balance ledger.Balance // the account's
	Raised  int64          // microcents that the request holds more
	Running Running
}

// DecideAttempt admits a further attempt, with what the hold has to be raised by, or returns a *ledger.Refusal.
func DecideAttempt(n *ledger.Next, p Payer, r *Running, next *Attempt) (Begun, error) {
	worst := need{microcents: n.Microcents, tokens: n.Tokens, held: r.Held, others: p.Held - r.Held}
	more := max(0, n.Microcents-r.Held)
	err := p.checkLimits(worst)
	if more > 0 { // what is held already needs nothing of what is available
		err = p.admit(worst)
	}
	if err != nil {
		return Begun{}, err
	}
	c := Begun{p.Account.Balance, more, *r}
	c.Balance.Held += more
	c.Running.Held += more
	c.Running.Attempts = append(c.Running.Attempts, *next)
	c.Running.Attempts[len(r.Attempts)].Beside = n.Beside
	return c, nil
}

// FindReferred finds the attempt of a running request (nil: it does not run) whose reference is another one now; nil
// where there is nothing to note: that of an attempt that has ended was in its settlement.
func FindReferred(r *Running, attempt, reference string) *Attempt {
	_, seq, _ := ledger.ParseAttemptID(attempt)
	if r == nil || seq < 1 || seq > int64(len(r.Attempts)) || r.Attempts[seq-1].Reference == reference {
		return nil
	}
	return &r.Attempts[seq-1]
}
