package ledger

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Bill sums what the attempts of one request come to. A charge is composed here and nowhere else, for the ledger that
// settles and for a reply that says beforehand what it will be charged. The zero Bill is empty.
type Bill struct {
	tally   Tally
	Tokens  int64 // input and output, for the token budget
	Pending bool  // an attempt may still add to it
}

// Add adds an attempt: whether it waits for a receipt, and what it is proven to have used at its price. ErrUsage leaves
// the bill as it was.
func (b *Bill) Add(waits bool, u llm.Usage, p config.Price) error {
	if u.Known() {
		if err := b.tally.Add(u, p); err != nil {
			return err
		}
		b.Tokens += u.Prompt() + llm.Tokens(u.Output)
	}
	b.Pending = b.Pending || waits
	return nil
}

// Microcents is what the attempts come to with a surcharge, whoever pays for it.
func (b *Bill) Microcents(surcharge int64) (int64, error) {
	sum, err := b.tally.Microcents()
	return sum + surcharge, err
}

// Cap divides what was used: at most what is held is charged, and the rest is over (GAP-110).
func Cap(microcents, held int64) (due, over int64) {
	due = min(microcents, held)
	return due, microcents - due
}

// Due is what the settlement will charge, where so much is held and its results are of attempts with these prices. It
// does not know fair use: what that leaves free, the store alone says (GAP-54).
func (s *Settlement) Due(held int64, price func(result int) config.Price) (c Charge) {
	if s.Free {
		return c
	}
	var b Bill
	for i := range s.Results {
		if s.Results[i].Operator {
			continue
		}
		p := price(i)
		outcome, usage, _ := s.Results[i].Conclude(p)
		_ = b.Add(outcome == Unproven, usage, p) // what cannot be priced is in no conclusion
	}
	sum, _ := b.Microcents(s.Surcharge) // each attempt is bounded, and attempts are few
	c.Microcents, c.Over = Cap(sum, held)
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
