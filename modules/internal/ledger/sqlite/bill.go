package sqlite

import (
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// bill is what a request costs by its attempts, whoever pays for it.
type bill struct {
	microcents int64 // with the surcharge
	tokens     int64 // input and output
	unproven   bool  // an attempt may add to it
	prices     string
}

func billOf(attempts []attempt, surcharge int64) (bill, error) {
	var (
		b      bill
		tally  ledger.Tally
		prices []string
	)
	for i := range attempts {
		a := &attempts[i]
		b.unproven = b.unproven || a.waits()
		if !a.usage.Known() {
			continue
		}
		if err := tally.Add(a.usage, a.price); err != nil {
			return bill{}, err
		}
		b.tokens += tokens(a.usage)
		prices = addPrice(prices, a)
	}
	microcents, err := tally.Microcents()
	b.microcents = microcents + surcharge
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

// part is what a settlement or a receipt adds to a request.
type part struct{ charge, waived, tokens int64 }

// judge decides whether the account pays. What ends at a limit of the service is free when all of it fits in
// what remains of the fair-use allowance (GAP-54).
func (t *tx) judge(a *account, serviceLimit bool, microcents, tokens int64) part {
	if serviceLimit && microcents > 0 && microcents <= t.opts.terms(a.plan).FairUse-a.now().waived {
		return part{waived: microcents}
	}
	return part{charge: microcents, tokens: tokens}
}

// charge counts a part and posts what is to be paid. e says what for. It returns the entry's number, 0
// without one.
func (t *tx) charge(a *account, l *line, p part, e ledger.Entry) (entry int64, err error) {
	if p.charge > 0 {
		if a.payer != 0 {
			if _, err := a.line(t.conn, a.payer); err != nil {
				return 0, err
			}
		}
		e.Microcents = -p.charge
		if err := t.post(a, e); err != nil {
			return 0, err
		}
		entry = a.last
		t.pay(a, l, p.charge)
	}
	t.change(a)
	a.ever.spent += p.charge
	a.ever.tokens += p.tokens
	a.ever.waived += p.waived
	return entry, nil
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
