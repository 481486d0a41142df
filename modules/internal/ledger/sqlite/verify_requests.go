package sqlite

import (
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// recentOwners is how many processes that admitted requests are remembered.
const recentOwners = 1 << 10

// verifyRequests recomputes the charges of requests, by their ids from the first on and before the second ("": to the
// end), from usage and price, and looks for their entries. It goes on after a finding, for requests are in the order
// of their ids and not in that of the journal.
func (v *verification) verifyRequests(first, end string) error {
	where, args := `WHERE r.id >= ?1 AND (?2 = '' OR r.id < ?2)`, []any{first, end}
	if v.from > 0 {
		where += ` AND r.id IN (SELECT request FROM entries WHERE n > ?3 AND request IS NOT NULL)`
		args = append(args, v.from)
	}
	return eachDetail(v.conn, where, func(d *detail) error {
		v.report.Requests++
		v.done.Add(1)
		v.attempts += int64(len(d.attempts))
		if d.entry == nil || *d.entry <= v.summed {
			if err := v.note(v.days.count(d)); err != nil {
				return err
			}
		}
		return v.note(v.verifyRequest(d))
	}, args...)
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
	if err := v.settlement(&c, d, charge); err != nil {
		return err
	}
	if err := c.later(d, later); err != nil {
		return err
	}
	return c.compare(d)
}

// verifyFacts checks what a request says of itself and of its attempts, but for the money.
func (v *verification) verifyFacts(d *detail) error {
	pending := false
	for i := range d.attempts {
		t := &d.attempts[i]
		waits := t.outcome == ledger.Unproven && t.receipt == nil && !d.free
		closed := t.outcome == ledger.Closed
		switch {
		case t.seq != int64(i)+1:
			return disagree(d.id, "attempt %d of the request is missing before its attempt %d", i+1, t.seq)
		case t.outcome == ledger.Finished && !t.usage.Known():
			return disagree(d.id, "attempt %d finished without usage; it should be unproven", t.seq)
		case t.usage.Known() && t.receipt == nil && t.outcome == ledger.Unproven:
			return disagree(d.id, "attempt %d is %s and has usage", t.seq, t.outcome)
		case closed && !sameUsage(t.usage, t.estimate):
			return disagree(d.id, "attempt %d is closed at another usage than its estimate", t.seq)
		case t.estimate != nil && t.outcome != ledger.Unproven && !closed:
			return disagree(d.id, "attempt %d is %s and has an estimate, which only one that nobody proved has", t.seq,
				t.outcome)
		case t.operator && (t.outcome == ledger.Unproven || closed):
			return disagree(d.id, "attempt %d is the operator's and %s; nobody waits for what such a one used", t.seq, t.outcome)
		case t.receipt != nil && (t.outcome != ledger.Unproven || d.free || !t.usage.Known()):
			return disagree(d.id, "attempt %d has a receipt, which only an unproven one of a request that is not free can get",
				t.seq)
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
	err := run(v.conn, `SELECT 1 FROM owners WHERE boot_id = ?`, func(*sqlite.Stmt) error { known = true; return nil },
		owner)
	if err == nil && !known {
		return disagree(request, "it was admitted by the process %q, which never opened this ledger", owner)
	}
	if len(v.owners) >= recentOwners {
		clear(v.owners)
	}
	v.owners[owner] = true
	return err
}

// sameUsage reports whether an attempt's usage is its estimate; none is nothing.
func sameUsage(u llm.Usage, estimate *llm.Usage) bool {
	if estimate == nil {
		return u == llm.Usage{}
	}
	same := func(a, b *int64) bool { return (a == nil) == (b == nil) && llm.Tokens(a) == llm.Tokens(b) }
	return same(u.Input, estimate.Input) && same(u.Output, estimate.Output) && u.Estimated &&
		u.CacheRead == nil && u.CacheWrite == nil && u.Reasoning == nil
}

// claim is what a request should have been charged, or left free.
type claim struct {
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
	*tried
	price  config.Price
	prices string
	detail ledger.Digest
	kind   ledger.EntryKind
	cost   int64 // by itself, rounded down. What it added may be one more.
	tokens int64
	used   bool
}

// claimOf recomputes a request from usage and prices.
func (v *verification) claimOf(d *detail) (claim, error) {
	var c claim
	for i := range d.attempts {
		t := &d.attempts[i]
		p, err := v.prices.of(t.route, t.version)
		switch {
		case err != nil:
			return c, err
		case !p.found:
			return c, disagree(d.id, "attempt %d is to be charged at a price that does not exist, %s@%d", t.seq, t.route,
				t.version)
		}
		if t.operator {
			continue
		}
		name, used := t.route+"@"+strconv.FormatInt(t.version, 10), t.usage.Prompt()+llm.Tokens(t.usage.Output)
		cost, err := ledger.Cost(t.usage, p.price)
		if err != nil {
			return c, disagree(d.id, "attempt %d: %v", t.seq, err)
		}
		kind := ledger.Receipt
		switch {
		case t.outcome == ledger.Closed:
			kind = ledger.Closing
		case t.receipt != nil:
		case t.usage.Known():
			_ = c.bill.Add(false, t.usage, p.price, t.worst) // like its cost
			c.prices = withPrice(c.prices, name)
			continue
		default:
			_ = c.bill.Add(t.outcome == ledger.Unproven, llm.Usage{}, p.price, t.worst) // nothing is added
			continue
		}
		_ = c.bill.Add(true, llm.Usage{}, p.price, t.worst) // it waited
		if !t.usage.Known() {
			name = ""
		}
		record, err := t.record(d.id, v.prices)
		if err != nil {
			return c, err
		}
		c.proven = append(c.proven, proof{
			tried: t, price: p.price, prices: name, detail: record.Detail(), kind: kind, cost: cost, tokens: used,
		})
	}
	c.tokens, c.ceiling = c.bill.Tokens, c.bill.Ceiling(d.surcharge, d.hold)
	return c, nil
}

// worth is what is proven so far, with the surcharge.
func (c *claim) worth(d *detail) (int64, error) {
	m, err := c.bill.Microcents(d.surcharge)
	if err != nil {
		return 0, disagree(d.id, "its attempts: %v", err)
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
			return nil, nil, disagree(d.id, "entry %d of the journal, which the request names as its charge, is not that",
				*d.entry)
		}
		v.countFound(charge)
	}
	late := slices.ContainsFunc(d.attempts, func(t tried) bool { return t.receipt != nil || t.outcome == ledger.Closed })
	if !late && d.refunded == 0 {
		return charge, nil, nil
	}
	err = run(v.conn, laterEntries, func(row *sqlite.Stmt) error {
		e := scanEntry(row)
		v.countFound(&e)
		later = append(later, e)
		return nil
	}, d.id)
	return charge, later, err
}

// countFound counts an entry that a request accounts for, unless it is taken as it is.
func (v *verification) countFound(e *ledger.Entry) {
	if e.N > v.from {
		v.count(v.found, e.Kind, e.Created.UnixNano())
	}
}

func whereOf(e ledger.Entry) string { return e.Account + "/" + strconv.FormatInt(e.Seq, 10) }

// settlement compares what the settlement should have charged with the entry that did.
func (v *verification) settlement(c *claim, d *detail, e *ledger.Entry) error {
	settled, err := c.worth(d)
	switch {
	case err != nil:
		return err
	case e != nil && e.Format >= 3:
		return v.settlementNow(c, d, e, settled)
	case len(d.attempts) == 0:
		return disagree(d.id, "the request has no attempt")
	case slices.ContainsFunc(d.attempts, func(t tried) bool { return t.worst >= 0 }):
		return disagree(d.id, "it has no entry of its settlement, which every request has since attempts say what they "+
			"may cost")
	case e == nil:
		switch {
		case d.free:
		case settled == 0:
			c.counted += c.tokens
		case d.serviceLimit:
			c.waived += settled
		default:
			return disagree(d.id, "its usage and prices make %d microcents at its settlement, and no entry charged them",
				settled)
		}
		return nil
	}
	where := whereOf(*e)
	switch {
	case d.free:
		return entryDisagrees(e.N, where, "it charges request %q, which was free", d.id)
	case -e.Microcents != settled:
		return entryDisagrees(e.N, where, "it charges %d microcents for request %q, whose usage and prices make %d",
			-e.Microcents, d.id, settled)
	case e.Format > 1 && e.Prices != c.prices:
		return entryDisagrees(e.N, where, "it names the prices %q, the attempts of request %q began at %q", e.Prices, d.id,
			c.prices)
	case e.Created.UnixNano() != d.settled:
		return entryDisagrees(e.N, where, "it is not of the moment when request %q was settled", d.id)
	case e.Reason != d.reason:
		return entryDisagrees(e.N, where, "it has the reason %q, request %q was settled for %q", e.Reason, d.id, d.reason)
	}
	c.charged += settled
	c.counted += c.tokens
	return nil
}

// settlementNow is settlement since entries vouch for what is on record of a request, and charge no more than was
// held: since format 4 no more than its ceiling.
func (v *verification) settlementNow(c *claim, d *detail, e *ledger.Entry, settled int64) error {
	r := d.head()
	err := v.named(&r, d)
	if err == nil {
		err = d.addAttempts(&r, v.prices)
	}
	if err != nil {
		return err
	}
	where := whereOf(*e)
	switch {
	case e.Reason != d.reason:
		return entryDisagrees(e.N, where, "it has the reason %q, request %q was settled for %q", e.Reason, d.id, d.reason)
	case e.Created.UnixNano() != d.settled:
		return entryDisagrees(e.N, where, "it is not of the moment when request %q was settled", d.id)
	case e.Prices != c.prices:
		return entryDisagrees(e.N, where, "it names the prices %q, the attempts of request %q began at %q", e.Prices, d.id,
			c.prices)
	case d.free:
		settled, c.tokens = 0, 0
	}
	ceiling := c.ceiling
	if e.Format == 3 {
		ceiling = d.hold
	}
	if err := c.take(d, *e, settled, ceiling, c.tokens); err != nil {
		return err
	}
	if e.Detail != r.Detail() {
		return entryDisagrees(e.N, where, "what is on record of request %q is not what it was settled with", d.id)
	}
	return nil
}

// recentNames is how many pairs of an account and a key are remembered.
const recentNames = 1 << 13

// named fills in the ids of the account and the key.
func (v *verification) named(r *ledger.RequestRecord, d *detail) error {
	numbers := [2]int64{d.account, d.key}
	if names, ok := v.names[numbers]; ok {
		r.Account, r.Key = names[0], names[1]
		return nil
	}
	err := named(v.conn, r, d.account, d.key)
	if len(v.names) >= recentNames {
		clear(v.names)
	}
	v.names[numbers] = [2]string{r.Account, r.Key}
	return err
}

// take compares an entry with what it should have moved: so many microcents, of which the account pays at most the
// ceiling, less what fair use left free. Up to format 4 that was all or nothing (GAP-135).
func (c *claim) take(d *detail, e ledger.Entry, microcents, ceiling, tokens int64) error {
	due, over := ledger.Cap(microcents, ceiling)
	charge, waived, counted := due, int64(0), tokens
	if e.Waived != 0 && d.serviceLimit {
		if e.Format <= 4 {
			charge, waived, counted = 0, due, 0
		} else {
			charge, waived = ledger.Waive(due, e.Waived)
			counted = ledger.Counted(tokens, charge, due)
		}
	}
	if -e.Microcents != charge || e.Waived != waived || e.Over != over || e.Tokens != counted {
		return entryDisagrees(e.N, whereOf(e), "it charges %d microcents for request %q, leaves %d free and %d over the "+
			"hold, "+
			"and counts %d tokens; %d, %d, %d and %d follow from usage and prices",
			-e.Microcents, d.id, e.Waived, e.Over, e.Tokens, charge, waived, over, counted)
	}
	c.charged += charge
	c.waived += waived
	c.over += over
	c.counted += counted
	return nil
}

// later compares receipts, closings and refunds with their entries. Those of format 3 name what they are about, and
// are in the order in which they came; receipts of before came before them, see oldReceipts.
func (c *claim) later(d *detail, entries []ledger.Entry) error {
	var refunded int64
	var old, now []ledger.Entry
	for _, e := range entries {
		switch {
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
			return entryDisagrees(e.N, whereOf(e), "what it is about is not on record of request %q: no attempt has such a %s",
				d.id, e.Kind)
		}
	}
	if err := c.oldReceipts(d, old); err != nil {
		return err
	}
	for i, e := range now {
		p := about[i]
		if p.receipt != nil && e.Created.UnixNano() != *p.receipt {
			return entryDisagrees(e.N, whereOf(e), "it is not of the moment when the receipt of request %q came", d.id)
		}
		if err := c.addLater(d, e, p); err != nil {
			return err
		}
	}
	if refunded != d.refunded {
		return disagree(d.id, "the request says that %d microcents of it were refunded, the journal says %d", d.refunded,
			refunded)
	}
	return nil
}

// addLater compares one entry with what the whole request comes to with its attempt, less what it came to before.
func (c *claim) addLater(d *detail, e ledger.Entry, p *proof) error {
	before, err := c.worth(d)
	if err != nil {
		return err
	}
	_ = c.bill.Add(false, p.usage, p.price, p.worst) // like its cost
	after, err := c.worth(d)
	if err != nil {
		return err
	}
	ceiling := max(0, d.hold-c.charged-c.waived)
	if e.Format == 3 {
		ceiling = d.hold
	}
	if p.worst >= 0 {
		ceiling = min(ceiling, p.worst)
		if e.Format == 3 {
			ceiling = p.worst
		}
	}
	return c.take(d, e, after-before, ceiling, p.tokens)
}

// oldReceipts are those of before format 3. In which order they came is not recorded, so each is compared with its
// own cost, within the microcent that rounding may move, and compare has their sum to the microcent. Those that moved
// nothing have no entry.
func (c *claim) oldReceipts(d *detail, entries []ledger.Entry) error {
	receipts := 0
	for i := range c.proven {
		p := &c.proven[i]
		if p.used {
			continue
		}
		if p.worst >= 0 {
			return disagree(d.id, "no entry says that its attempt %d was %s", p.seq, map[ledger.EntryKind]string{
				ledger.Receipt: "proven by a receipt", ledger.Closing: "closed",
			}[p.kind])
		}
		if p.kind == ledger.Receipt {
			receipts++
			_ = c.bill.Add(false, p.usage, p.price, p.worst) // like its cost
		}
	}
	c.many = receipts > 1 && d.serviceLimit
	for _, e := range entries {
		if !c.prove(e) {
			return entryDisagrees(e.N, whereOf(e), "it is a receipt of %d microcents at %q for request %q, and no attempt "+
				"has such a receipt",
				-e.Microcents, e.Prices, d.id)
		}
	}
	for i := range c.proven {
		p := &c.proven[i]
		switch {
		case p.used || p.kind == ledger.Closing:
		case p.cost == 0 && d.serviceLimit:
			c.unsure += p.tokens
		case p.cost == 0:
			c.counted += p.tokens
		case !d.serviceLimit:
			return disagree(d.id, "a receipt at %q came to %d microcents, and no entry charged them", p.prices, p.cost)
		}
	}
	return nil
}

// prove finds the receipt that an old entry is for: the one that costs the same before one that costs one less.
func (c *claim) prove(e ledger.Entry) bool {
	for _, rounding := range [...]int64{0, 1} {
		for i := range c.proven {
			p := &c.proven[i]
			if !p.used && p.kind == ledger.Receipt && p.prices == e.Prices &&
				*p.receipt == e.Created.UnixNano() && p.cost+rounding == -e.Microcents {
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
	total, err := c.worth(d)
	if err != nil {
		return err
	}
	if d.free {
		total = 0
	}
	switch {
	case d.charge != c.charged:
		return disagree(d.id, "the request was charged %d microcents, its entries make %d", d.charge, c.charged)
	case d.over != c.over:
		return disagree(d.id, "the request says that %d microcents were over its hold, its entries make %d", d.over, c.over)
	case d.charge+d.waived+d.over != total:
		return disagree(d.id, "the request was charged %d microcents and %d were left free, its usage and prices make %d",
			d.charge, d.waived, total)
	case d.waived != 0 && !d.serviceLimit:
		return disagree(d.id, "%d microcents of the request were left free, and it did not end at a limit of the service",
			d.waived)
	case d.waived < c.waived:
		return disagree(d.id, "%d microcents of the request were left free, its settlement came to %d that no entry charged",
			d.waived, c.waived)
	case !c.many && (d.tokens < c.counted || d.tokens > c.counted+c.unsure):
		return disagree(d.id, "the request says that %d tokens of it count, its usage makes %d", d.tokens, c.counted)
	}
	return nil
}
