package sqlite

import (
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// recentOwners is how many processes that admitted requests are remembered.
const recentOwners = 1 << 10

// verifyRequests recomputes every charge from usage and price, and looks for its entries. It goes on after a
// finding, for requests are in the order of their ids and not in that of the journal.
func (v *verification) verifyRequests() error {
	return eachDetail(v.conn, ``, func(d *detail) error {
		v.report.Requests++
		v.attempts += int64(len(d.attempts))
		return v.note(v.verifyRequest(d))
	})
}

// verifyRequest checks one request against its attempts, their prices and its entries.
func (v *verification) verifyRequest(d *detail) error {
	if err := v.verifyFacts(d); err != nil {
		return err
	}
	c, err := v.claimOf(d)
	if err != nil {
		return err
	}
	charge, later, err := v.entriesFor(d)
	if err != nil {
		return err
	}
	if err := c.settlement(d, charge); err != nil {
		return err
	}
	if err := c.later(d, later); err != nil {
		return err
	}
	return c.compare(d)
}

// verifyFacts checks what a request says of itself and of its attempts, but for the money.
func (v *verification) verifyFacts(d *detail) error {
	if len(d.attempts) == 0 {
		return disagree(d.id, "the request has no attempt")
	}
	pending := false
	for i, t := range d.attempts {
		waits := t.outcome == ledger.Unproven && t.receipt == nil && !d.free
		switch {
		case t.seq != int64(i)+1:
			return disagree(d.id, "attempt %d of the request is missing before its attempt %d", i+1, t.seq)
		case t.outcome == ledger.Finished && !t.usage.Known():
			return disagree(d.id, "attempt %d finished without usage; it should be unproven", t.seq)
		case t.usage.Known() && t.receipt == nil && (t.outcome == ledger.Unproven || t.outcome == ledger.Closed):
			return disagree(d.id, "attempt %d is %s and has usage", t.seq, t.outcome)
		case t.receipt != nil && (t.outcome != ledger.Unproven || d.free || !t.usage.Known()):
			return disagree(d.id, "attempt %d has a receipt, which only an unproven one of a request that is not free can get", t.seq)
		}
		if waits {
			pending = true
			v.waiting++
		}
	}
	if pending != d.pending {
		return disagree(d.id, "the request says pending: %t, its attempts say %t", d.pending, pending)
	}
	return v.verifyOwner(d.id, d.owner)
}

func (v *verification) verifyOwner(request, owner string) error {
	if v.owners[owner] {
		return nil
	}
	known := false
	err := run(v.conn, `SELECT 1 FROM owners WHERE boot_id = ?`, func(*sqlite.Stmt) error { known = true; return nil }, owner)
	if err == nil && !known {
		return disagree(request, "it was admitted by the process %q, which never opened this ledger", owner)
	}
	if len(v.owners) >= recentOwners {
		clear(v.owners)
	}
	v.owners[owner] = true
	return err
}

// claim is what a request should have been charged, or left free.
type claim struct {
	settled int64   // by its settlement
	total   int64   // with all receipts; one division over everything (GAP-48)
	tokens  int64   // of the settlement
	prices  string  // of the settlement
	proven  []proof // by receipts

	charged, waived int64 // as the entries show it
	counted         int64 // tokens
	unsure          int64 // tokens that counted when what they cost came to nothing beside the rest, and else did not
}

// proof is an attempt that a receipt proved.
type proof struct {
	prices string
	at     int64
	cost   int64 // by itself, rounded down. What it added may be one more.
	tokens int64
	used   bool
}

// claimOf recomputes a request from usage and prices.
func (v *verification) claimOf(d *detail) (claim, error) {
	var (
		c              claim
		settled, total ledger.Tally
	)
	for _, t := range d.attempts {
		p, err := v.prices.of(t.route, t.version)
		switch {
		case err != nil:
			return c, err
		case !p.found:
			return c, disagree(d.id, "attempt %d is to be charged at a price that does not exist, %s@%d", t.seq, t.route, t.version)
		case !t.usage.Known():
			continue
		}
		name, used := t.route+"@"+strconv.FormatInt(t.version, 10), t.usage.Prompt()+llm.Tokens(t.usage.Output)
		if err := total.Add(t.usage, p.price); err != nil {
			return c, disagree(d.id, "attempt %d: %v", t.seq, err)
		}
		if t.receipt == nil {
			_ = settled.Add(t.usage, p.price) // like the one before
			c.tokens += used
			c.prices = withPrice(c.prices, name)
			continue
		}
		cost, _ := ledger.Cost(t.usage, p.price)
		c.proven = append(c.proven, proof{prices: name, at: *t.receipt, cost: cost, tokens: used})
	}
	all, err := total.Microcents()
	if err != nil {
		return c, disagree(d.id, "its attempts: %v", err)
	}
	first, err := settled.Microcents()
	c.settled, c.total = first+d.surcharge, all+d.surcharge
	return c, err
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

// entriesFor reads the entries of a request. Those that came later are looked for only when there is a sign of them:
// verifyPairs finds that none was passed over.
func (v *verification) entriesFor(d *detail) (charge *ledger.Entry, later []ledger.Entry, err error) {
	if d.entry != nil {
		err := run(v.conn, entryByNumber, func(row *sqlite.Stmt) error {
			e := scanEntry(row)
			charge = &e
			return nil
		}, *d.entry)
		switch {
		case err != nil:
			return nil, nil, err
		case charge == nil:
			return nil, nil, disagree(d.id, "the journal has no entry %d, which the request names as its charge", *d.entry)
		case charge.Kind != ledger.Charged || charge.Request != d.id:
			return nil, nil, disagree(d.id, "entry %d of the journal, which the request names as its charge, is not that", *d.entry)
		}
		v.count(v.found, charge.Kind, charge.Created.UnixNano())
	}
	receipts := slices.ContainsFunc(d.attempts, func(t tried) bool { return t.receipt != nil })
	if !receipts && d.refunded == 0 {
		return charge, nil, nil
	}
	err = run(v.conn, laterEntries, func(row *sqlite.Stmt) error {
		e := scanEntry(row)
		v.count(v.found, e.Kind, e.Created.UnixNano())
		later = append(later, e)
		return nil
	}, d.id)
	return charge, later, err
}

func whereOf(e ledger.Entry) string { return e.Account + "/" + strconv.FormatInt(e.Seq, 10) }

// settlement compares what the settlement should have charged with the entry that did.
func (c *claim) settlement(d *detail, e *ledger.Entry) error {
	if e == nil {
		switch {
		case d.free:
		case c.settled == 0:
			c.counted += c.tokens
		case d.serviceLimit:
			c.waived += c.settled
		default:
			return disagree(d.id, "its usage and prices make %d microcents at its settlement, and no entry charged them", c.settled)
		}
		return nil
	}
	where := whereOf(*e)
	switch {
	case d.free:
		return entryDisagrees(e.N, where, "it charges request %q, which was free", d.id)
	case -e.Microcents != c.settled:
		return entryDisagrees(e.N, where, "it charges %d microcents for request %q, whose usage and prices make %d", -e.Microcents, d.id, c.settled)
	case e.Format > 1 && e.Prices != c.prices:
		return entryDisagrees(e.N, where, "it names the prices %q, the attempts of request %q began at %q", e.Prices, d.id, c.prices)
	case e.Created.UnixNano() != d.settled:
		return entryDisagrees(e.N, where, "it is not of the moment when request %q was settled", d.id)
	case e.Reason != d.reason:
		return entryDisagrees(e.N, where, "it has the reason %q, request %q was settled for %q", e.Reason, d.id, d.reason)
	}
	c.charged += c.settled
	c.counted += c.tokens
	return nil
}

// later compares receipts and refunds with their entries. A receipt adds what the whole request comes to with it,
// divided once, less what it came to before. In which order receipts came is not recorded, so each is compared with
// its own cost, within the microcent that rounding may move, and compare has their sum to the microcent.
func (c *claim) later(d *detail, entries []ledger.Entry) error {
	var refunded int64
	for _, e := range entries {
		if e.Kind == ledger.Refund {
			refunded += e.Microcents
			continue
		}
		if !c.prove(e) {
			return entryDisagrees(e.N, whereOf(e), "it is a receipt of %d microcents at %q for request %q, and no attempt has such a receipt",
				-e.Microcents, e.Prices, d.id)
		}
	}
	for _, p := range c.proven {
		switch {
		case p.used:
		case p.cost == 0 && d.serviceLimit:
			c.unsure += p.tokens
		case p.cost == 0:
			c.counted += p.tokens
		case !d.serviceLimit:
			return disagree(d.id, "a receipt at %q came to %d microcents, and no entry charged them", p.prices, p.cost)
		}
	}
	if refunded != d.refunded {
		return disagree(d.id, "the request says that %d microcents of it were refunded, the journal says %d", d.refunded, refunded)
	}
	return nil
}

// prove finds the receipt that an entry is for: the one that costs the same before one that costs one less.
func (c *claim) prove(e ledger.Entry) bool {
	for _, rounding := range [...]int64{0, 1} {
		for i := range c.proven {
			p := &c.proven[i]
			if !p.used && p.prices == e.Prices && p.at == e.Created.UnixNano() && p.cost+rounding == -e.Microcents {
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
func (c *claim) compare(d *detail) error {
	total := c.total
	if d.free {
		total = 0
	}
	many := len(c.proven) > 1 && d.serviceLimit // then two receipts may be taken for one another
	switch {
	case d.charge != c.charged:
		return disagree(d.id, "the request was charged %d microcents, its entries make %d", d.charge, c.charged)
	case d.charge+d.waived != total:
		return disagree(d.id, "the request was charged %d microcents and %d were left free, its usage and prices make %d", d.charge, d.waived, total)
	case d.waived != 0 && !d.serviceLimit:
		return disagree(d.id, "%d microcents of the request were left free, and it did not end at a limit of the service", d.waived)
	case d.waived < c.waived:
		return disagree(d.id, "%d microcents of the request were left free, its settlement came to %d that no entry charged", d.waived, c.waived)
	case !many && (d.tokens < c.counted || d.tokens > c.counted+c.unsure):
		return disagree(d.id, "the request says that %d tokens of it count, its usage makes %d", d.tokens, c.counted)
	}
	return nil
}
