package ledgertest

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// model is the ledger as its rules describe it. It remembers what happened, fact by fact, and computes whatever is
// asked by summing facts: worth, counters, caps. It counts in microcents and fractions only, knows neither credits
// nor accruals, and shares no arithmetic with the stores.
type model struct {
	now      func() time.Time
	terms    func(plan string) ledger.Terms
	owners   []*owner
	facts    []fact // in their order
	requests []*request
}

// fact is something that moved an account's money or counters.
type fact struct {
	owner      *owner
	kind       ledger.EntryKind
	request    string
	reference  string
	microcents int64 // what the account gained
	all        bool  // a refund that left nothing to be refunded
	spent      int64
	tokens     int64
	waived     int64
	over       int64
	line       *line
}

// owner is an account.
type owner struct {
	ledger.Account // Balance and Period are not kept
	begin, end     time.Time
	from           int                // the first fact of the current period
	seen           map[string]fact    // by reference
	given          map[time.Time]bool // the beginnings of periods whose credits were added
	keys           []*key
}

type key struct {
	ledger.Key
	owner *owner
	line  *line
}

// line is what a key shares with those that replaced it.
type line struct{ spendCap int64 }

// request is what is to be on record of a request. Its entries are not kept.
type request struct {
	ledger.RequestRecord
	owner  *owner
	key    *key
	beside map[string]bool // its attempts that were made beside another one
	// references are what upstreams are asked by, by attempt.
	references map[string]string
}

// sum adds up one column of an account's facts, from one on.
func (m *model) sum(o *owner, from int, column func(fact) int64) (sum int64) {
	for _, f := range m.facts[from:] {
		if f.owner == o {
			sum += column(f)
		}
	}
	return sum
}

func (m *model) net(o *owner) int64 { return m.sum(o, 0, func(f fact) int64 { return f.microcents }) }

func (m *model) lineSpent(o *owner, l *line) int64 {
	return m.sum(o, o.from, func(f fact) int64 {
		if f.line != l {
			return 0
		}
		return f.spent
	})
}

func (m *model) period(o *owner) ledger.Period {
	return ledger.Period{
		End:    o.end,
		Spent:  m.sum(o, o.from, func(f fact) int64 { return f.spent }),
		Tokens: m.sum(o, o.from, func(f fact) int64 { return f.tokens }),
		Waived: m.sum(o, o.from, func(f fact) int64 { return f.waived }),
	}
}

func (m *model) held(o *owner) (sum int64) {
	for _, r := range m.requests {
		if r.owner == o && r.Running {
			sum += r.Held
		}
	}
	return sum
}

// balance writes an account's worth as the smallest number of whole credits that is not below it, and what is missing.
func (m *model) balance(o *owner) ledger.Balance {
	net := m.net(o)
	credits := net/1_000_000 - 1
	for credits*1_000_000 < net {
		credits++
	}
	return ledger.Balance{Credits: credits, Held: m.held(o), Accrued: credits*1_000_000 - net}
}

// available is what a new request may hold, in microcents.
func (m *model) available(o *owner) int64 { return m.free(o, m.held(o)) }

// free is what would be available if so much were held.
func (m *model) free(o *owner, held int64) int64 {
	b := m.balance(o)
	available := b.Credits*1_000_000 - (held+999_999)/1_000_000*1_000_000
	if b.Accrued > 0 {
		available -= 1_000_000
	}
	return available
}

// termsOf are the terms of an account: what it has of its own, and else its plan's.
func (m *model) termsOf(o *owner) ledger.Terms {
	terms := m.terms(o.Plan)
	for i, own := range o.Limits {
		if own == nil {
			continue
		}
		switch ledger.AllLimits[i] {
		case ledger.LimitSpendCap:
			terms.SpendCap = *own
		case ledger.LimitTokenBudget:
			terms.TokenBudget = *own
		case ledger.LimitFairUse:
			terms.FairUse = *own
		default: // not the ledger's to keep, or the owner's
		}
	}
	if own := o.Limits.Of(ledger.LimitOwnSpendCap); own != nil && (terms.SpendCap == 0 || terms.SpendCap > *own) {
		terms.SpendCap = *own
	}
	return terms
}

// lineHeld is what a key and those that share its cap hold.
func (m *model) lineHeld(k *key) (sum int64) {
	for _, r := range m.requests {
		if r.Running && r.key.line == k.line {
			sum += r.Held
		}
	}
	return sum
}

// limits are the limits that a request would cross, at its worst so dear and long, or that are reached already. more
// is what it does not hold yet, own what it holds then.
func (m *model) limits(k *key, more, own, microcents, tokens int64) (crossed []error) {
	reached := ledger.ErrKeyHeld
	if l := k.line; m.lineSpent(k.owner, l) >= l.spendCap || m.lineSpent(k.owner, l)+own > l.spendCap {
		reached = ledger.ErrKeySpendCap
	}
	terms, period := m.termsOf(k.owner), m.period(k.owner)
	for _, l := range []struct {
		settled, worst, limit int64
		crossed               error
	}{
		{period.Spent, microcents, terms.SpendCap, ledger.ErrSpendCap},
		{period.Tokens, tokens, terms.TokenBudget, ledger.ErrTokenBudget},
		{m.lineSpent(k.owner, k.line), m.lineHeld(k) + more, k.line.spendCap, reached}, // strict (GAP-115)
	} {
		if l.limit > 0 && (l.settled+l.worst > l.limit || l.settled >= l.limit) {
			crossed = append(crossed, l.crossed)
		}
	}
	return crossed
}

// refusals are the reasons not to hold so much more for a request.
func (m *model) refusals(k *key, more, microcents, tokens int64) []error {
	why := m.limits(k, more, microcents, microcents, tokens)
	own := microcents - more
	free := func(held int64) int64 { return m.free(k.owner, held) }
	covers := func(available int64) bool { return available >= 1_000_000 && more <= available }
	switch held := m.held(k.owner); {
	case covers(free(held)):
	case free(0) < 1_000_000:
		why = append(why, ledger.ErrNothingLeft)
	case covers(free(own)):
		why = append(why, ledger.ErrHeld)
	default:
		why = append(why, ledger.ErrInsufficient)
	}
	return why
}

// monthEnd is the moment so many months after another, in the last day of a month that is too short for it.
func monthEnd(t time.Time, months int) time.Time {
	t = t.UTC()
	day := func(month time.Month, day int) time.Time {
		return time.Date(t.Year(), month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	end := day(t.Month()+time.Month(months), t.Day())
	if end.Day() != t.Day() {
		end = day(t.Month()+time.Month(months)+1, 0)
	}
	return end
}

// periodAt is the period that holds a moment, the first one for what was before the account.
func (o *owner) periodAt(moment time.Time) (begin, end time.Time) {
	months := 1
	for !monthEnd(o.Created, months).After(moment) {
		months++
	}
	return monthEnd(o.Created, months-1), monthEnd(o.Created, months)
}

// look ends and begins the periods of an account, and gives it what is due.
func (m *model) look(o *owner) {
	terms := m.terms(o.Plan)
	if !terms.Periods && terms.MonthlyCredits == 0 {
		if !o.end.IsZero() {
			o.begin, o.end, o.from = time.Time{}, time.Time{}, 0
		}
		return
	}
	if o.end.IsZero() {
		o.from = len(m.facts)
		o.begin, o.end = o.periodAt(m.now())
	}
	for !m.now().Before(o.end) {
		o.from = len(m.facts)
		o.begin, o.end = o.periodAt(o.end)
		m.give(o, terms.MonthlyCredits)
	}
	m.give(o, terms.MonthlyCredits)
}

// give adds the credits of an account's period, once.
func (m *model) give(o *owner, credits int64) {
	if credits > 0 && !o.given[o.begin] {
		o.given[o.begin] = true
		m.facts = append(m.facts, fact{owner: o, kind: ledger.Allotment, microcents: credits * 1_000_000})
	}
}

// total is what a request comes to, by all that is proven.
func (r *request) total() int64 {
	sum := new(big.Rat)
	for _, a := range r.Attempts {
		if a.Operator {
			continue
		}
		sum.Add(sum, exactly(a.Usage, a.Price))
	}
	return floor(sum) + r.Surcharge
}

// ceiling is the most that the settlement of a request may charge (GAP-123).
func (r *request) ceiling() int64 {
	sum, room := new(big.Rat), r.Held
	for _, a := range r.Attempts {
		used, most := exactly(a.Usage, a.Price), new(big.Rat).SetInt64(a.Worst)
		switch {
		case a.Operator:
		case waits(a):
			room = max(room-max(a.Worst, 0), 0)
		case a.Worst >= 0 && used.Cmp(most) > 0:
			sum.Add(sum, most)
		default:
			sum.Add(sum, used)
		}
	}
	return min(floor(sum)+r.Surcharge, room)
}

// charge adds to a request's charge what its total has grown by, at most the ceiling, less what fair use leaves free.
func (m *model) charge(r *request, kind ledger.EntryKind, ceiling, tokens int64) {
	f := fact{owner: r.owner, kind: kind, request: r.ID, line: r.key.line}
	if !r.Free {
		more := r.total() - r.Microcents - r.Waived - r.Over
		if more > ceiling {
			more, f.over = ceiling, more-ceiling
		}
		left := max(0, m.termsOf(r.owner).FairUse-m.period(r.owner).Waived)
		f.tokens = tokens
		if r.ServiceLimit && more > 0 && left > 0 {
			f.waived = min(more, left)
			part := new(big.Rat).Mul(new(big.Rat).SetInt64(tokens), big.NewRat(more-f.waived, more))
			f.tokens = floor(part)
		}
		f.spent = more - f.waived
		f.microcents = -f.spent
	}
	r.Microcents += f.spent
	r.Waived += f.waived
	r.Over += f.over
	m.facts = append(m.facts, f)
}

// waits reports whether any attempt of a settled request waits for a receipt.
func (r *request) waits() bool { return slices.ContainsFunc(r.Attempts, waits) }

func waits(a ledger.AttemptRecord) bool { return a.Outcome == ledger.Unproven && a.Receipt.IsZero() }

// settle ends a request: results are in the order of its attempts.
func (m *model) settle(r *request, s ledger.Settlement) {
	r.Running, r.Settled = false, m.now().UTC()
	r.Status, r.Reason, r.Free, r.ServiceLimit, r.Surcharge = s.Status, s.Reason, s.Free, s.ServiceLimit, s.Surcharge
	var tokens int64
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Outcome = ledger.Unproven
		if a.Operator = r.beside[a.ID]; a.Operator {
			a.Outcome = ledger.Failed
		}
		for _, result := range s.Results {
			if result.Attempt != a.ID {
				continue
			}
			a.Outcome, a.Key, a.Operator = result.Outcome, result.Key, result.Operator
			if result.Reference != "" {
				r.references[a.ID] = result.Reference
			}
			switch u := result.Usage; {
			case u != nil && *u.Output >= 0:
				a.Usage = *u
				if !a.Operator {
					tokens += *u.Input + *u.Output
				}
				if a.Outcome == ledger.Unproven {
					a.Outcome = ledger.Failed
				}
			case u != nil || a.Outcome == ledger.Finished:
				a.Outcome = ledger.Unproven
			}
			if a.Operator && a.Outcome == ledger.Unproven {
				a.Outcome = ledger.Failed
			}
			if u := result.Estimate; a.Outcome == ledger.Unproven && u != nil && *u.Output >= 0 {
				a.Estimate = &llm.Usage{Input: u.Input, Output: u.Output, Estimated: true}
			}
		}
	}
	r.Pending = r.waits() && !s.Free
	m.charge(r, ledger.Charged, r.ceiling(), tokens)
}

// prove adds what an attempt of a settled request is now known to have used: at most its worst, and what is left of
// what was held.
func (m *model) prove(r *request, kind ledger.EntryKind, a *ledger.AttemptRecord, tokens int64) {
	ceiling := r.Held - r.Microcents - r.Waived
	if a.Worst >= 0 {
		ceiling = min(ceiling, a.Worst)
	}
	m.charge(r, kind, ceiling, tokens)
}

// key finds a name among an account's keys.
func (o *owner) named(name string) bool {
	return slices.ContainsFunc(o.keys, func(k *key) bool { return k.Name == name })
}

// aside is the name of a key that another takes the place of.
func (o *owner) aside(name string) string {
	n := 1
	for o.named(fmt.Sprintf("%s~%d", name, n)) {
		n++
	}
	return fmt.Sprintf("%s~%d", name, n)
}

// anyOf reports whether an error is one of those that are right.
func anyOf(err error, want []error) bool {
	return slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) })
}

// sortedKeys gives random draws an order to draw from.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
