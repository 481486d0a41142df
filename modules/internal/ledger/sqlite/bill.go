package sqlite

import (
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// bill is what a request costs by its attempts.
type bill struct {
	ledger.Bill
	microcents int64 // with the surcharge, whoever pays for it
	prices     string
}

func billOf(attempts []attempt, surcharge int64) (bill, error) {
	var (
		b      bill
		prices []string
	)
	for i := range attempts {
		a := &attempts[i]
		if a.operator {
			continue
		}
		if err := b.Add(a.waits(), a.usage, a.price, a.Worst); err != nil {
			return bill{}, err
		}
		if a.usage.Known() {
			prices = addPrice(prices, a)
		}
	}
	var err error
	b.microcents, err = b.Microcents(surcharge)
	b.prices = strings.Join(prices, " ")
	return b, err
}

func addPrice(prices []string, a *attempt) []string {
	name := a.priceName()
	for _, p := range prices {
		if p == name {
			return prices
		}
	}
	return append(prices, name)
}

// priceName is a price version as entries name it.
func (a *attempt) priceName() string {
	return a.Route + "@" + strconv.FormatInt(a.PriceVersion, 10)
}

// tokens are what counts against a token budget.
func tokens(u llm.Usage) int64 { return u.Prompt() + llm.Tokens(u.Output) }

// part is what a settlement, a receipt or a closing adds to a request: microcents that are charged, left free by fair
// use, or beyond what was held, and tokens that count against the budget.
type part struct{ charge, waived, over, tokens int64 }

// judge decides what of so many microcents the account pays: what is beyond the ceiling is not charged (GAP-110), and
// what ends at a limit of the service is free as far as it fits in what remains of the fair-use allowance (GAP-135).
func (t *tx) judge(a *account, serviceLimit bool, microcents, ceiling, tokens int64) part {
	due, over := ledger.Cap(microcents, ceiling)
	p := part{charge: due, over: over, tokens: tokens}
	if serviceLimit {
		p.charge, p.waived = ledger.Waive(due, t.opts.terms(a).FairUse-a.now().waived)
		p.tokens = ledger.Counted(tokens, p.charge, due)
	}
	return p
}

// charge counts a part and posts it. e says what for.
func (t *tx) charge(a *account, l *line, p part, e ledger.Entry) error {
	if p.charge > 0 && a.payer != 0 {
		if _, err := a.line(t.conn, a.payer); err != nil {
			return err
		}
	}
	e.Microcents, e.Waived, e.Over, e.Tokens = -p.charge, p.waived, p.over, p.tokens
	if err := t.post(a, e); err != nil {
		return err
	}
	if p.charge > 0 {
		t.pay(a, l, p.charge)
	}
	a.ever.spent += p.charge
	a.ever.tokens += p.tokens
	a.ever.waived += p.waived
	return nil
}

// pay counts what a line of keys spent. Both it and the one that paid before are in memory.
func (t *tx) pay(a *account, l *line, microcents int64) {
	if before, ok := a.lines[a.payer]; ok && before != l {
		t.changeLine(before)
	}
	t.changeLine(l)
	l.spent += microcents
	a.payer, a.owed = l.root, l.spent-l.row
}
