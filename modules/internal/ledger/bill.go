package ledger

import (
	"math"
	"math/bits"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Bill sums what the attempts of one request come to. A charge is composed here and nowhere else, for the ledger that
// settles and for a reply that says beforehand what it will be charged. The zero Bill is empty.
type Bill struct {
	whole   Tally
	within  Tally // of each attempt no more than its worst
	waiting int64 // the worst of those that wait for their proof
	Tokens  int64 // input and output, for the token budget
	Pending bool  // an attempt may still add to it
}

// Add adds an attempt: whether it waits for a receipt, what it is proven to have used at its price, and the most that
// it may add (Attempt.Worst; below zero: not known). ErrUsage leaves the bill as it was.
func (b *Bill) Add(waits bool, u llm.Usage, p config.Price, worst int64) error {
	if u.Known() {
		if err := b.whole.Add(u, p); err != nil {
			return err
		}
		b.within.addWithin(u, p, worst)
		b.Tokens += u.Prompt() + llm.Tokens(u.Output)
	}
	if waits {
		b.Pending = true
		b.waiting += min(max(0, worst), math.MaxInt64-b.waiting)
	}
	return nil
}

// addWithin adds what an attempt that can be priced used, or its worst where that is less.
func (t *Tally) addWithin(u llm.Usage, p config.Price, worst int64) {
	var one, most Tally
	_ = one.Add(u, p)
	if most.addMicrocents(max(0, worst)); worst >= 0 && most.less(one) {
		one = most
	}
	t.add(one.hi, one.lo)
}

// Microcents is what the attempts come to with a surcharge, whoever pays for it.
func (b *Bill) Microcents(surcharge int64) (int64, error) {
	sum, err := b.whole.Microcents()
	return sum + surcharge, err
}

// Ceiling is the most that a settlement may charge of the bill, where so much is held (GAP-123): of each attempt its
// worst, and in all what is held less the worst of those that wait, which is room for their receipts.
func (b *Bill) Ceiling(surcharge, held int64) int64 {
	sum, err := b.within.Microcents()
	if err != nil { // it is no more than the whole, of which that is said
		return 0
	}
	return max(0, min(sum+surcharge, held-b.waiting))
}

// Cap divides what was used: at most the ceiling is charged, and the rest is over (GAP-110).
func Cap(microcents, ceiling int64) (due, over int64) {
	due = min(microcents, ceiling)
	return due, microcents - due
}

// Waive divides what is due of a request that ended at a limit of the service: what fits in what is left of the
// account's fair-use allowance is free, and only what goes beyond it is charged (GAP-135).
func Waive(due, left int64) (charge, waived int64) {
	waived = max(0, min(due, left))
	return due - waived, waived
}

// Counted is how many of a part's tokens count against the token budget, where so many of the microcents that were due
// are charged: those of what was left free do not. It is rounded down, and with nothing due they all count.
func Counted(tokens, charge, due int64) int64 {
	if due <= 0 || charge >= due {
		return tokens
	}
	hi, lo := bits.Mul64(uint64(max(0, tokens)), uint64(max(0, charge)))
	counted, _ := bits.Div64(hi, lo, uint64(due)) // at most the tokens
	return int64(counted)
}

// Due is what the settlement will charge, where so much is held and terms are the prices of its results' attempts and
// the most that these may add. It does not know fair use: what that leaves free, the store alone says (GAP-135).
func (s *Settlement) Due(held int64, terms func(result int) (config.Price, int64)) (c Charge) {
	if s.Free {
		return c
	}
	var b Bill
	for i := range s.Results {
		if s.Results[i].Operator {
			continue
		}
		p, worst := terms(i)
		outcome, usage, _ := s.Results[i].Conclude(p)
		_ = b.Add(outcome == Unproven, usage, p, worst) // what cannot be priced is in no conclusion
	}
	sum, _ := b.Microcents(s.Surcharge) // each attempt is bounded, and attempts are few
	c.Microcents, c.Over = Cap(sum, b.Ceiling(s.Surcharge, held))
	c.Pending = b.Pending
	return c
}

// Conclude is what the result means for its attempt's charge: its outcome, and its usage where that proves something.
// What a provider says never stops a settlement, for that would keep the hold: usage that cannot be priced proves
// nothing, and ErrUsage says so beside the outcome.
func (r *Result) Conclude(p config.Price) (o Outcome, u llm.Usage, err error) {
	o = r.Outcome
	if r.Usage != nil {
		if _, err = Cost(*r.Usage, p); err != nil {
			o = Unproven
		} else {
			u = *r.Usage
		}
	}
	switch known := u.Known(); {
	case r.Operator && (o == Unproven || o == Finished && !known):
		o = Failed
	case o == Finished && !known:
		o = Unproven
	case o == Unproven && known:
		o = Failed // no receipt may replace what is charged already
	}
	return o, u, err
}
