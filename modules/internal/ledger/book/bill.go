package book

import (
	"strconv"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// bill is what a request costs by its attempts.
type bill struct {
	ledger.Bill
	microcents int64 // with the surcharge, whoever pays for it
	prices     string
}

func makeBill(attempts []Attempt, surcharge int64) (b bill, err error) {
	for i := range attempts {
		a := &attempts[i]
		if a.Operator {
			continue
		}
		if err := b.Add(a.Waits(), a.Usage, a.Price, a.Worst); err != nil {
			return bill{}, err
		}
		if a.Usage.Known() && !pricedBefore(attempts[:i], a) {
			if b.prices != "" {
				b.prices += " "
			}
			b.prices += a.priceName()
		}
	}
	b.microcents, err = b.Microcents(surcharge)
	return b, err
}

// pricedBefore reports whether an earlier attempt has the price version of a.
func pricedBefore(earlier []Attempt, a *Attempt) bool {
	for i := range earlier {
		e := &earlier[i]
		if !e.Operator && e.Usage.Known() && e.Route == a.Route && e.PriceVersion == a.PriceVersion {
			return true
		}
	}
	return false
}

// priceName is a price version as entries name it.
func (a *Attempt) priceName() string { return a.Route + "@" + strconv.FormatInt(a.PriceVersion, 10) }

// CountTokens is what counts against a token budget.
func CountTokens(u llm.Usage) int64 { return u.Prompt() + llm.Tokens(u.Output) }

// Part is what a settlement, a receipt or a closing adds to a request: microcents that are charged, left free by fair
// use, or beyond what was held, and tokens that count against the budget.
type Part struct{ Charge, Waived, Over, Tokens int64 }

// judge decides what of so many microcents the account pays: what is beyond the ceiling is not charged (GAP-110), and
// what ends at a limit of the service is free as far as it fits in what remains of the fair-use allowance (GAP-135).
func (p Payer) judge(serviceLimit bool, microcents, ceiling, tokens int64) Part {
	due, over := ledger.Cap(microcents, ceiling)
	part := Part{Charge: due, Over: over, Tokens: tokens}
	if serviceLimit {
		part.Charge, part.Waived = ledger.Waive(due, p.Terms.FairUse-p.Account.CountPeriod().Waived)
		part.Tokens = ledger.Counted(tokens, part.Charge, due)
	}
	return part
}

// Charged is what a part changes: the account, the line of its key, and the new entry.
type Charged struct {
	Account Account
	Line    Line
	Entry   Entry
	Part
}

// charge counts a part and posts it. e says what for.
func (p Payer) charge(part Part, e ledger.Entry) (c Charged, err error) {
	c.Account, c.Line, c.Part = *p.Account, *p.Line, part
	e.Microcents, e.Waived, e.Over, e.Tokens = -part.Charge, part.Waived, part.Over, part.Tokens
	if c.Entry, err = c.Account.post(e); err != nil {
		return Charged{}, err
	}
	c.Account.Ever.add(part)
	c.Line.Spent += part.Charge
	return c, nil
}

// Count is how the account and the line are after a part, but for the entry that says so: for who decides the next
// request before that entry is written.
func (p Payer) Count(part Part) (a Account, l Line, err error) {
	a, l = *p.Account, *p.Line
	if a.Balance, err = a.Add(-part.Charge); err != nil {
		return a, l, err
	}
	a.Ever.add(part)
	l.Spent += part.Charge
	return a, l, nil
}

func (c *Counters) add(part Part) {
	c.Spent += part.Charge
	c.Tokens += part.Tokens
	c.Waived += part.Waived
}
