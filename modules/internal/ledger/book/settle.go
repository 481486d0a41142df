package book

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// CheckSettlement checks what a settlement says by itself.
func CheckSettlement(st *ledger.Settlement) error {
	if st.Surcharge < 0 || st.Surcharge > ledger.MaxCharge {
		return fmt.Errorf("%w: a surcharge of %d microcents", ledger.ErrInvalid, st.Surcharge)
	}
	for i, r := range st.Results {
		switch r.Outcome {
		case ledger.Finished, ledger.Failed, ledger.Unproven, ledger.NotMade:
		default:
			return fmt.Errorf("%w: outcome %q of attempt %q", ledger.ErrInvalid, r.Outcome, r.Attempt)
		}
		for _, other := range st.Results[:i] {
			if other.Attempt == r.Attempt {
				return fmt.Errorf("%w: two results of attempt %q", ledger.ErrInvalid, r.Attempt)
			}
		}
	}
	return nil
}

// Settled is a request that has ended: it runs no more, and is on record with what its settlement says, its attempts
// as they are in the running request, and this.
type Settled struct {
	Charged
	Pending bool // an attempt waits for a receipt
	At      time.Time
	LeftOut []LeftOut
}

// LeftOut is what an attempt's result says that cannot be priced.
type LeftOut struct {
	Attempt  string
	Estimate bool // its estimate, rather than what it used
	Err      error
}

// String says what is left out, for a log.
func (o LeftOut) String() string {
	if o.Estimate {
		return "an estimate of what an attempt used is left out"
	}
	return "a provider's usage is left out of its request's charge"
}

// Answer is what the settlement's caller is told.
func (s *Settled) Answer() ledger.Charge {
	return ledger.Charge{Microcents: s.Charge, Waived: s.Waived, Over: s.Over, Pending: s.Pending,
		Balance: s.Account.Balance}
}

// DecideSettlement ends a running request. unmade are attempts that were never made although they are on record.
//
// It concludes the attempts of r where they are, which costs nothing: a settlement that is refused after that leaves
// nothing behind that the next one does not set anew. ErrNotFound for a result of an attempt that r has not,
// ErrInvalid for a balance that would leave its range.
func DecideSettlement(st *ledger.Settlement, p Payer, r *Running, unmade map[string]bool, now time.Time) (
	s Settled, err error,
) {
	e, left, err := DecideEnd(st, p, r, unmade, now)
	if err != nil {
		return Settled{}, err
	}
	if s, err = RecordEnd(&e, p, r); err != nil {
		return Settled{}, err
	}
	s.Account.Held -= r.Held
	s.LeftOut = left
	return s, nil
}

// End is how a request ended: its settlement, and what that comes to.
type End struct {
	Settlement ledger.Settlement
	Part
	Prices  string // the price versions of what was used
	Pending bool   // an attempt waits for a receipt
	At      time.Time
}

// DecideEnd decides what a settlement comes to, as DecideSettlement does, and changes no account: Payer.Count says how
// the account and the line are then, and RecordEnd how they are on record.
func DecideEnd(st *ledger.Settlement, p Payer, r *Running, unmade map[string]bool, now time.Time) (
	e End, left []LeftOut, err error,
) {
	if left, err = r.conclude(st.Results, unmade); err != nil {
		return End{}, nil, err
	}
	due, err := makeBill(r.Attempts, st.Surcharge)
	if err != nil {
		return End{}, nil, err
	}
	e = End{Settlement: *st, Prices: due.prices, Pending: due.Pending && !st.Free, At: now}
	if !st.Free {
		e.Part = p.judge(st.ServiceLimit, due.microcents, due.Ceiling(st.Surcharge, r.Held), due.Tokens)
	}
	return e, left, nil
}

// RestoreEnd is what DecideEnd decided before, of a request whose attempts have not concluded here: with the same part.
// ErrInvalid where the settlement does not come to that, whatever of it was free.
func RestoreEnd(st *ledger.Settlement, r *Running, unmade map[string]bool, part Part, at time.Time) (*End, error) {
	e, _, err := DecideEnd(st, Payer{Account: &Account{}}, r, unmade, at)
	if err != nil {
		return nil, err
	}
	comes, said := e.Charge+e.Waived, part.Charge+part.Waived
	if comes != said || e.Over != part.Over || !st.ServiceLimit && e.Tokens != part.Tokens {
		return nil, fmt.Errorf("%w: it says %d microcents, %d over the hold and %d tokens, and comes to %d, %d and %d",
			ledger.ErrInvalid, said, part.Over, part.Tokens, comes, e.Over, e.Tokens)
	}
	e.Part = part
	return &e, nil
}

// RecordEnd puts what DecideEnd decided of a request, whose attempts have concluded, on record. The payer's rows may be
// others than those that it was decided on: what was decided holds. Its hold is not released: who held it, does.
func RecordEnd(e *End, p Payer, r *Running) (s Settled, err error) {
	s.Charged, err = p.charge(e.Part, ledger.Entry{
		Kind: ledger.Charged, Request: r.ID, Reason: e.Settlement.Reason, Prices: e.Prices, Created: e.At,
		Detail: r.detail(&e.Settlement, e.At),
	})
	if err != nil {
		return Settled{}, err
	}
	s.Account.Requests++
	s.Pending, s.At = e.Pending, e.At
	return s, nil
}

// detail is what the entry of a request's settlement vouches for.
func (r *Running) detail(st *ledger.Settlement, now time.Time) ledger.Digest {
	var few [3]ledger.AttemptRecord // most requests have no more
	attempts := few[:0]
	for i := range r.Attempts {
		attempts = append(attempts, r.Attempts[i].AttemptRecord)
	}
	record := ledger.RequestRecord{
		ID: r.ID, Account: r.Account, Key: r.Key, Endpoint: r.Endpoint, Profile: r.Profile, Owner: r.Owner, Held: r.Held,
		Created: r.Created, Settled: now, Status: st.Status, Reason: st.Reason, Free: st.Free,
		ServiceLimit: st.ServiceLimit, Surcharge: st.Surcharge, Attempts: attempts,
	}
	return record.Detail()
}

// conclude ends the attempts (see ledger.Result.Conclude). Those of a call for comparison are the operator's, and so
// is one that was made beside another, where nobody says how they ended.
func (r *Running) conclude(results []ledger.Result, unmade map[string]bool) (left []LeftOut, err error) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Outcome, a.Usage, a.Estimate, a.Key, a.Operator = ledger.Unproven, llm.Usage{}, nil, "", false
		if a.Beside || r.Endpoint == ledger.Shadow {
			a.Outcome, a.Operator = ledger.Failed, true
		}
		if unmade[a.ID] {
			a.Outcome = ledger.NotMade
		}
	}
results:
	for _, result := range results {
		for i := range r.Attempts {
			if r.Attempts[i].ID == result.Attempt {
				result.Operator = result.Operator || r.Endpoint == ledger.Shadow
				left = r.Attempts[i].conclude(&result, left)
				continue results
			}
		}
		return nil, fmt.Errorf("%w: attempt %q of this request", ledger.ErrNotFound, result.Attempt)
	}
	return left, nil
}

// conclude ends an attempt, and adds to left what cannot be priced.
func (a *Attempt) conclude(r *ledger.Result, left []LeftOut) []LeftOut {
	var err error
	a.Key, a.Operator, a.Reference = r.Key, r.Operator, cmp.Or(r.Reference, a.Reference)
	if a.Outcome, a.Usage, err = r.Conclude(a.Price); err != nil {
		left = append(left, LeftOut{Attempt: a.ID, Err: err})
	}
	if a.Outcome != ledger.Unproven || !r.Estimate.Known() {
		return left
	}
	u := llm.Usage{Input: r.Estimate.Input, Output: r.Estimate.Output, Estimated: true}
	if _, err := ledger.Cost(u, a.Price); err != nil {
		return append(left, LeftOut{Attempt: a.ID, Estimate: true, Err: err})
	}
	a.Estimate = &u
	return left
}

// SettleUnanswered is the settlement of a request whose hold was committed when nobody waited for it any more: its
// call was never made.
func SettleUnanswered(r *Running) *ledger.Settlement {
	st := &ledger.Settlement{Request: r.ID, Reason: "hold_not_answered", Free: true}
	if len(r.Attempts) > 0 {
		st.Results = []ledger.Result{{Attempt: ledger.AttemptID(r.ID, 1), Outcome: ledger.NotMade}}
	}
	return st
}

const crashed = "crashed"

// SettleCrashed is the settlement of a request whose owner is gone (GAP-99): nothing of it is proven.
func SettleCrashed(r *Running) *ledger.Settlement {
	return &ledger.Settlement{Request: r.ID, Reason: crashed}
}
