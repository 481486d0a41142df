package audit

import (
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// claim is what a request should have been charged, or left free.
type claim struct {
	*Request
	bill   ledger.Bill // of what is proven so far: one division over everything (GAP-48)
	tokens int64       // of the settlement
	prices string      // of the settlement
	// ceiling is the most that the settlement may charge (GAP-123); up to format 3 of its entry that was the hold.
	ceiling int64
	proven  []proof // what receipts proved, and what was closed

	charged, waived, over int64 // as the entries show it
	counted               int64 // tokens
	// tokens that counted when what they cost came to nothing beside the rest, and else did not
	unsure int64
	many   bool // old receipts that may be taken for one another
}

// proof is an attempt that was proven, or closed, after the settlement.
type proof struct {
	*ledger.AttemptRecord
	seq    int
	prices string
	detail ledger.Digest
	kind   ledger.EntryKind
	cost   int64 // by itself, rounded down. What it added may be one more.
	tokens int64
	used   bool
}

// claimOf recomputes a request, whose prices are filled in, from its usage.
func claimOf(r *Request) (claim, error) {
	c := claim{Request: r}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Operator {
			continue
		}
		name, known := PriceName(a.Route, a.PriceVersion), a.Usage.Known()
		cost, err := ledger.Cost(a.Usage, a.Price)
		if err != nil {
			return c, Disagree(r.ID, "attempt %d: %v", i+1, err)
		}
		kind := ledger.Receipt
		switch {
		case a.Outcome == ledger.Closed:
			kind = ledger.Closing
		case !a.Receipt.IsZero():
		default:
			_ = c.bill.Add(a.Outcome == ledger.Unproven, a.Usage, a.Price, a.Worst) // like its cost
			if known {
				c.prices = withPrice(c.prices, name)
			}
			continue
		}
		_ = c.bill.Add(true, llm.Usage{}, a.Price, a.Worst) // it waited
		if !known {
			name = ""
		}
		c.proven = append(c.proven, proof{AttemptRecord: a, seq: i + 1, prices: name, detail: a.Detail(), kind: kind,
			cost: cost, tokens: book.CountTokens(a.Usage)})
	}
	c.tokens, c.ceiling = c.bill.Tokens, c.bill.Ceiling(r.Surcharge, r.Held)
	return c, nil
}

// worth is what is proven so far, with the surcharge.
func (c *claim) worth() (int64, error) {
	m, err := c.bill.Microcents(c.Surcharge)
	if err != nil {
		return 0, Disagree(c.ID, "its attempts: %v", err)
	}
	return m, nil
}

// withPrice adds a price version to a list that names each once.
func withPrice(list, name string) string {
	if list == "" {
		return name
	}
	if slices.Contains(strings.Split(list, " "), name) {
		return list
	}
	return list + " " + name
}

// settlement compares what the settlement should have charged with the entry that did.
func (c *claim) settlement(e *Entry) error {
	settled, err := c.worth()
	switch {
	case err != nil:
		return err
	case e != nil && e.Format >= 3:
		return c.settlementNow(e, settled)
	case len(c.Attempts) == 0:
		return Disagree(c.ID, "the request has no attempt")
	case slices.ContainsFunc(c.Attempts, func(a ledger.AttemptRecord) bool { return a.Worst >= 0 }):
		return Disagree(c.ID, "it has no entry of its settlement, which every request has since attempts say what they "+
			"may cost")
	case e == nil:
		switch {
		case c.Free:
		case settled == 0:
			c.counted += c.tokens
		case c.ServiceLimit:
			c.waived += settled
		default:
			return Disagree(c.ID, "its usage and prices make %d microcents at its settlement, and no entry charged them",
				settled)
		}
		return nil
	case c.Free:
		return e.disagree("it charges request %q, which was free", c.ID)
	case -e.Microcents != settled:
		return e.disagree("it charges %d microcents for request %q, whose usage and prices make %d", -e.Microcents, c.ID,
			settled)
	}
	if err := c.compareSettlement(e, e.Format > 1); err != nil {
		return err
	}
	c.charged += settled
	c.counted += c.tokens
	return nil
}

// compareSettlement compares what both a request and the entry of its charge say, but for amounts.
func (c *claim) compareSettlement(e *Entry, priced bool) error {
	switch {
	case e.Reason != c.Reason:
		return e.disagree("it has the reason %q, request %q was settled for %q", e.Reason, c.ID, c.Reason)
	case !e.Created.Equal(c.Settled):
		return e.disagree("it is not of the moment when request %q was settled", c.ID)
	case priced && e.Prices != c.prices:
		return e.disagree("it names the prices %q, the attempts of request %q began at %q", e.Prices, c.ID, c.prices)
	}
	return nil
}

// settlementNow is settlement since entries vouch for what is on record of a request, and charge no more than was
// held: since format 4 no more than its ceiling.
func (c *claim) settlementNow(e *Entry, settled int64) error {
	if err := c.compareSettlement(e, true); err != nil {
		return err
	}
	if c.Free {
		settled, c.tokens = 0, 0
	}
	ceiling := c.ceiling
	if e.Format == 3 {
		ceiling = c.Held
	}
	if err := c.take(e, settled, ceiling, c.tokens); err != nil {
		return err
	}
	if e.Detail != c.Detail() {
		return e.disagree("what is on record of request %q is not what it was settled with", c.ID)
	}
	return nil
}

// take compares an entry with what it should have moved: so many microcents, of which the account pays at most the
// ceiling, less what fair use left free. Up to format 4 that was all or nothing (GAP-135).
func (c *claim) take(e *Entry, microcents, ceiling, tokens int64) error {
	due, over := ledger.Cap(microcents, ceiling)
	charge, waived, counted := due, int64(0), tokens
	if e.Waived != 0 && c.ServiceLimit {
		if e.Format <= 4 {
			charge, waived, counted = 0, due, 0
		} else {
			charge, waived = ledger.Waive(due, e.Waived)
			counted = ledger.Counted(tokens, charge, due)
		}
	}
	if -e.Microcents != charge || e.Waived != waived || e.Over != over || e.Tokens != counted {
		return e.disagree("it charges %d microcents for request %q, leaves %d free and %d over the hold, "+
			"and counts %d tokens; %d, %d, %d and %d follow from usage and prices",
			-e.Microcents, c.ID, e.Waived, e.Over, e.Tokens, charge, waived, over, counted)
	}
	c.charged += charge
	c.waived += waived
	c.over += over
	c.counted += counted
	return nil
}

// later compares receipts, closings and refunds with their entries. Those of format 3 name what they are about, and
// are in the order in which they came; receipts of before came before them, see oldReceipts.
func (c *claim) later(entries []Entry) error {
	var refunded int64
	var old, now []*Entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.Kind == ledger.Refund:
			refunded += e.Microcents
		case e.Format < 3:
			old = append(old, e)
		default:
			now = append(now, e)
		}
	}
	about := make([]*proof, len(now))
	for i, e := range now {
		for j := range c.proven {
			if p := &c.proven[j]; !p.used && p.detail == e.Detail && p.kind == e.Kind && p.prices == e.Prices {
				about[i], p.used = p, true
				break
			}
		}
		if about[i] == nil {
			return e.disagree("what it is about is not on record of request %q: no attempt has such a %s", c.ID, e.Kind)
		}
	}
	if err := c.oldReceipts(old); err != nil {
		return err
	}
	for i, e := range now {
		p := about[i]
		if !p.Receipt.IsZero() && !e.Created.Equal(p.Receipt) {
			return e.disagree("it is not of the moment when the receipt of request %q came", c.ID)
		}
		if err := c.addLater(e, p); err != nil {
			return err
		}
	}
	if refunded != c.Refunded {
		return Disagree(c.ID, "the request says that %d microcents of it were refunded, the journal says %d", c.Refunded,
			refunded)
	}
	return nil
}

// addLater compares one entry with what the whole request comes to with its attempt, less what it came to before.
func (c *claim) addLater(e *Entry, p *proof) error {
	before, err := c.worth()
	if err != nil {
		return err
	}
	_ = c.bill.Add(false, p.Usage, p.Price, p.Worst) // like its cost
	after, err := c.worth()
	if err != nil {
		return err
	}
	ceiling := max(0, c.Held-c.charged-c.waived)
	if e.Format == 3 {
		ceiling = c.Held
	}
	if p.Worst >= 0 {
		ceiling = min(ceiling, p.Worst)
		if e.Format == 3 {
			ceiling = p.Worst
		}
	}
	return c.take(e, after-before, ceiling, p.tokens)
}

// oldReceipts are those of before format 3. In which order they came is not recorded, so each is compared with its
// own cost, within the microcent that rounding may move, and compare has their sum to the microcent. Those that moved
// nothing have no entry.
func (c *claim) oldReceipts(entries []*Entry) error {
	receipts := 0
	for i := range c.proven {
		p := &c.proven[i]
		if p.used {
			continue
		}
		if p.Worst >= 0 {
			return Disagree(c.ID, "no entry says that its attempt %d was %s", p.seq, map[ledger.EntryKind]string{
				ledger.Receipt: "proven by a receipt", ledger.Closing: "closed",
			}[p.kind])
		}
		if p.kind == ledger.Receipt {
			receipts++
			_ = c.bill.Add(false, p.Usage, p.Price, p.Worst) // like its cost
		}
	}
	c.many = receipts > 1 && c.ServiceLimit
	for _, e := range entries {
		if !c.prove(e) {
			return e.disagree("it is a receipt of %d microcents at %q for request %q, and no attempt has such a receipt",
				-e.Microcents, e.Prices, c.ID)
		}
	}
	for i := range c.proven {
		p := &c.proven[i]
		switch {
		case p.used || p.kind == ledger.Closing:
		case p.cost == 0 && c.ServiceLimit:
			c.unsure += p.tokens
		case p.cost == 0:
			c.counted += p.tokens
		case !c.ServiceLimit:
			return Disagree(c.ID, "a receipt at %q came to %d microcents, and no entry charged them", p.prices, p.cost)
		}
	}
	return nil
}

// prove finds the receipt that an old entry is for: the one that costs the same before one that costs one less.
func (c *claim) prove(e *Entry) bool {
	for _, rounding := range [...]int64{0, 1} {
		for i := range c.proven {
			p := &c.proven[i]
			if !p.used && p.kind == ledger.Receipt && p.prices == e.Prices && p.Receipt.Equal(e.Created) &&
				p.cost+rounding == -e.Microcents {
				p.used = true
				c.charged += -e.Microcents
				c.counted += p.tokens
				return true
			}
		}
	}
	return false
}

// compare checks the request's own sums.
func (c *claim) compare() error {
	total, err := c.worth()
	if err != nil {
		return err
	}
	if c.Free {
		total = 0
	}
	switch {
	case c.Microcents != c.charged:
		return Disagree(c.ID, "the request was charged %d microcents, its entries make %d", c.Microcents, c.charged)
	case c.Over != c.over:
		return Disagree(c.ID, "the request says that %d microcents were over its hold, its entries make %d", c.Over, c.over)
	case c.Microcents+c.Waived+c.Over != total:
		return Disagree(c.ID, "the request was charged %d microcents and %d were left free, its usage and prices make %d",
			c.Microcents, c.Waived, total)
	case c.Waived != 0 && !c.ServiceLimit:
		return Disagree(c.ID, "%d microcents of the request were left free, and it did not end at a limit of the service",
			c.Waived)
	case c.Waived < c.waived:
		return Disagree(c.ID, "%d microcents of the request were left free, its settlement came to %d that no entry charged",
			c.Waived, c.waived)
	case !c.many && (c.Tokens < c.counted || c.Tokens > c.counted+c.unsure):
		return Disagree(c.ID, "the request says that %d tokens of it count, its usage makes %d", c.Tokens, c.counted)
	}
	return nil
}
