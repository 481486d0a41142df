package book_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/plugins/llm"
)

// TestWalk takes a million random steps through the rules of GAP-49, GAP-53, GAP-110, GAP-115, GAP-123, GAP-135 and
// GAP-60, and counts beside them in whole microcents what has to come of each.
func TestWalk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWalk(seed)
			for n := range ledgertest.WalkSteps / 4 {
				require.NoError(t, w.step(), "step %d", n)
			}
			for kind, n := range w.took {
				require.Greater(t, n, ledgertest.WalkSteps/10_000, "steps of kind %d: %v", kind, w.took)
			}
		})
	}
}

func BenchmarkWalk(b *testing.B) {
	w := newWalk(1)
	for b.Loop() {
		if err := w.step(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

// walk is one account with two lines of keys, and what was counted of it apart from the rules. A token costs a
// microcent.
type walk struct {
	random  *rand.Rand
	now     time.Time
	plan    ledger.Terms
	account book.Account
	lines   [2]book.Line
	running []*walked
	waiting []*walked
	settled []*walked // the last of them
	n       int
	took    [9]int // steps that changed a balance or a setting, by their kind

	net, held             int64
	spent, tokens, waived int64 // in the period
	of, heldBy            [2]int64
	given                 map[string]bool

	before ledger.Balance // the account's before the step, as is head
	head   ledger.Digest
}

type walked struct {
	book.Running
	line int
	book.Request
}

var unit = config.Price{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}

func newWalk(seed uint64) *walk {
	w := &walk{random: rand.New(rand.NewPCG(seed, 7)), now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
		given: map[string]bool{}}
	c, _ := book.CreateAccount("acct_1", "walker", "pro", false, book.By{Now: w.now})
	w.account = c.Account
	w.lines[1].Cap = 5_000_000
	return w
}

func (w *walk) chance(n int) bool     { return w.random.IntN(n) == 0 }
func (w *walk) upTo(n int64) int64    { return w.random.Int64N(n + 1) }
func (w *walk) terms() ledger.Terms   { return w.account.Limits.Over(w.plan) }
func (w *walk) by() book.By           { return book.By{Actor: "walk", Now: w.now} }
func pick[T any](w *walk, of []T) int { return w.random.IntN(len(of)) }

func (w *walk) payer(line int) book.Payer {
	return book.Payer{Account: &w.account, Line: &w.lines[line], Terms: w.terms(), Held: w.heldBy[line]}
}

// step takes one, and compares what was counted.
func (w *walk) step() error {
	w.n++
	w.now = w.now.Add(time.Second)
	if err := w.look(); err != nil {
		return err
	}
	before, entries := w.account.Balance, w.account.Entries
	w.before, w.head = before, w.account.Head
	kind, err := w.take()
	if err != nil {
		return fmt.Errorf("kind %d: %w", kind, err)
	}
	if w.account.Balance != before || w.account.Entries != entries || kind == 8 {
		w.took[kind]++
	}
	credits := w.net / 1_000_000
	if w.net > credits*1_000_000 {
		credits++
	}
	period := book.Counters{Spent: w.spent, Tokens: w.tokens, Waived: w.waived}
	switch want := (ledger.Balance{Credits: credits, Held: w.held, Accrued: credits*1_000_000 - w.net}); {
	case w.account.Balance != want:
		return fmt.Errorf("kind %d: the balance is %+v, and was to be %+v", kind, w.account.Balance, want)
	case w.account.CountPeriod() != period:
		return fmt.Errorf("kind %d: the period has %+v, and was to have %+v", kind, w.account.CountPeriod(), period)
	case w.lines[0].Spent-w.lines[0].Before != w.of[0] || w.lines[1].Spent-w.lines[1].Before != w.of[1]:
		return fmt.Errorf("kind %d: lines spent %+v, and were to have spent %v", kind, w.lines, w.of)
	}
	return nil
}

func (w *walk) take() (kind int, err error) {
	switch n := w.random.IntN(1000); {
	case n < 400 && len(w.running) < 8 || n < 850 && len(w.running) == 0:
		return 0, w.hold()
	case n < 500:
		return 1, w.begin(w.running[pick(w, w.running)])
	case n < 850:
		return 2, w.settle(pick(w, w.running))
	case n < 920 && len(w.waiting) > 0:
		return 3, w.prove(pick(w, w.waiting), false)
	case n < 950 && len(w.waiting) > 0:
		return 4, w.prove(pick(w, w.waiting), true)
	case n < 975:
		return 5, w.move()
	case n < 983 && len(w.settled) > 0:
		return 6, w.refund(w.settled[pick(w, w.settled)])
	case n < 990:
		w.now = w.now.Add(time.Duration(w.upTo(20*24)) * time.Hour)
		return 7, w.look()
	case n < 995:
		w.plan = ledger.Terms{FairUse: w.upTo(2) * 500_000, MonthlyCredits: w.upTo(3), Periods: w.chance(2)}
		if w.chance(3) {
			w.plan.SpendCap, w.plan.TokenBudget = w.upTo(4)*5_000_000, w.upTo(4)*5_000_000
		}
		return 8, w.look()
	default:
		var value *int64
		if w.chance(4) {
			value = new(w.upTo(20_000_000))
		}
		c, err := book.SetLimit(w.account, ledger.AllLimits[w.random.IntN(3)], value, w.by())
		w.account = c.Account
		return 8, err
	}
}

// look ends the periods that are over.
func (w *walk) look() error {
	terms := w.terms()
	has := terms.Periods || terms.MonthlyCredits > 0
	over := w.account.Overdue(terms, w.now)
	was := w.account
	c, err := book.EndPeriods(&w.account, terms, w.now, func(name string) (bool, error) { return w.given[name], nil })
	if err != nil || !over {
		if err == nil && (c.Began || len(c.Entries) > 0) {
			err = errors.New("a period that is not over has ended")
		}
		return err
	}
	for _, e := range c.Entries {
		if w.given[e.Reference] || e.Microcents != terms.MonthlyCredits*1_000_000 {
			return fmt.Errorf("GAP-118: credits for %s: %+v", e.Reference, e)
		}
		w.given[e.Reference] = true
		w.net += e.Microcents
	}
	w.account = c.Account
	p := w.account.Period
	switch {
	case p.Begun() != has, has && (w.now.Before(ledger.PeriodBegin(was.Created, p.Number)) || !w.now.Before(p.End)):
		return fmt.Errorf("GAP-60: the period is %+v at %s", p, w.now)
	case has && terms.MonthlyCredits > 0 && !w.given[w.account.PeriodName()]:
		return fmt.Errorf("GAP-118: no credits for %s", w.account.PeriodName())
	case c.Began != (p.Begun() != was.Period.Begun() || p.Number != was.Period.Number):
		return fmt.Errorf("counters began anew: %v, after %+v", c.Began, was.Period)
	}
	if !c.Began {
		return nil
	}
	w.spent, w.tokens, w.waived, w.of = 0, 0, 0, [2]int64{}
	for i := range w.lines {
		w.lines[i] = w.lines[i].BeginPeriod(p)
		if !has { // they count for ever
			w.of[i] = w.lines[i].Spent
		}
	}
	if !has {
		w.spent, w.tokens, w.waived = w.account.Ever.Spent, w.account.Ever.Tokens, w.account.Ever.Waived
	}
	return nil
}

// covered says whether a request may come to so much, of which it holds some already.
func (w *walk) covered(line int, microcents, tokens, own int64) bool {
	b := w.account.Balance
	available := b.Credits*1_000_000 - (w.held+999_999)/1_000_000*1_000_000
	if b.Accrued > 0 {
		available -= 1_000_000
	}
	terms, limit := w.terms(), w.lines[line].Cap
	more := max(0, microcents-own)
	return (own > 0 && more == 0 || available >= 1_000_000 && more <= available) &&
		(terms.SpendCap == 0 || w.spent < terms.SpendCap && w.spent+microcents <= terms.SpendCap) &&
		(terms.TokenBudget == 0 || w.tokens < terms.TokenBudget && w.tokens+tokens <= terms.TokenBudget) &&
		(limit == 0 || w.of[line] < limit && w.of[line]+w.heldBy[line]+more <= limit)
}

func (w *walk) attempt(request string, seq int64) book.Attempt {
	a := ledger.Attempt{ID: ledger.AttemptID(request, seq), Route: "r", PriceVersion: w.upTo(2),
		Worst: w.upTo(400_000) - 1}
	return book.BeginAttempt(a, unit, unit, w.now)
}

func (w *walk) hold() error {
	line := w.random.IntN(2)
	h := &ledger.Hold{Request: fmt.Sprint("req_", w.n), Account: "acct_1", Microcents: w.upTo(800_000),
		Tokens: w.upTo(800_000)}
	var first *book.Attempt
	if !w.chance(5) {
		a := w.attempt(h.Request, 1)
		first, h.Attempt = &a, a.Attempt
	}
	if w.chance(8) {
		h.Headroom = w.upTo(3)
	}
	n := max(1, h.Headroom)
	want := w.covered(line, h.Microcents, h.Tokens, 0) && w.covered(line, n*h.Microcents, n*h.Tokens, 0)
	c, err := book.DecideHold(h, w.payer(line), first, "boot", w.now)
	if got := err == nil; got != want {
		return fmt.Errorf("a hold of %d was admitted: %v (%w)", h.Microcents, got, err)
	}
	if err != nil {
		return nil
	}
	w.account.Balance = c.Balance
	w.running = append(w.running, &walked{Running: c.Running, line: line})
	w.held += h.Microcents
	w.heldBy[line] += h.Microcents
	return nil
}

func (w *walk) begin(r *walked) error {
	next := w.attempt(r.Running.ID, int64(len(r.Attempts))+1)
	n := &ledger.Next{Request: r.Running.ID, Attempt: next.Attempt, Microcents: w.upTo(900_000), Tokens: w.upTo(800_000),
		Beside: w.chance(6)}
	own := r.Running.Held
	want := w.covered(r.line, n.Microcents, n.Tokens, own)
	if own == 0 && n.Microcents == 0 { // it needs nothing
		return nil
	}
	c, err := book.DecideAttempt(n, w.payer(r.line), &r.Running, &next)
	if got := err == nil; got != want {
		return fmt.Errorf("an attempt of %d beside %d was admitted: %v (%w)", n.Microcents, own, got, err)
	}
	if err != nil {
		return nil
	}
	if c.Raised != max(0, n.Microcents-own) || c.Running.Held != max(own, n.Microcents) {
		return fmt.Errorf("the hold of %d was raised by %d for %d", own, c.Raised, n.Microcents)
	}
	w.account.Balance, r.Running = c.Balance, c.Running
	w.held += c.Raised
	w.heldBy[r.line] += c.Raised
	return nil
}

// charge counts what is due of an account, and returns the part.
func (w *walk) charge(line int, serviceLimit bool, microcents, ceiling, tokens int64) book.Part {
	p := book.Part{Charge: min(microcents, ceiling), Tokens: tokens}
	p.Over = microcents - p.Charge
	if left := w.terms().FairUse - w.waived; serviceLimit && p.Charge > 0 && left > 0 {
		due := p.Charge
		p.Waived = min(due, left)
		p.Charge -= p.Waived
		p.Tokens = tokens * p.Charge / due
	}
	w.net -= p.Charge
	w.spent += p.Charge
	w.tokens += p.Tokens
	w.waived += p.Waived
	w.of[line] += p.Charge
	return p
}

// apply takes over what a charge changes, which is what was counted, with an entry that follows the one before it.
func (w *walk) apply(line int, c *book.Charged, want book.Part) error {
	if w.account.Balance != w.before || w.account.Head != w.head {
		return errors.New("the account that was given was changed")
	}
	if c.Part != want {
		return fmt.Errorf("it charged %+v, and was to charge %+v", c.Part, want)
	}
	if c.Entry.Prev != w.account.Head || c.Account.Head != c.Entry.Hash || c.Entry.Seq != w.account.Entries+1 ||
		c.Entry.Microcents != -want.Charge || w.n%16 == 0 && c.Entry.Entry.Hash() != c.Entry.Hash {
		return fmt.Errorf("the entry %+v does not follow", c.Entry)
	}
	w.account, w.lines[line] = c.Account, c.Line
	return nil
}

func (w *walk) settle(i int) error {
	r := w.running[i]
	st := &ledger.Settlement{Request: r.Running.ID, Free: w.chance(12), ServiceLimit: w.chance(3), Surcharge: w.upTo(3)}
	total, within, room, tokens, waits := st.Surcharge, st.Surcharge, r.Running.Held, int64(0), false
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if w.chance(7) { // nobody says
			if !a.Beside {
				waits, room = true, room-max(0, a.Worst)
			}
			continue
		}
		result := ledger.Result{Attempt: a.ID, Outcome: ledger.Finished, Operator: w.chance(9)}
		if w.chance(4) {
			result.Outcome = ledger.Unproven
			if w.chance(2) {
				result.Estimate = &llm.Usage{Input: llm.Count(w.upTo(300_000))}
			}
			if !result.Operator {
				waits, room = true, room-max(0, a.Worst)
			}
		} else {
			used := w.upTo(400_000)
			result.Usage = &llm.Usage{Input: llm.Count(used / 3), Output: llm.Count(used - used/3)}
			if !result.Operator {
				total, tokens = total+used, tokens+used
				if a.Worst >= 0 {
					used = min(used, a.Worst)
				}
				within += used
			}
		}
		st.Results = append(st.Results, result)
	}
	var want book.Part
	if !st.Free {
		want = w.charge(r.line, st.ServiceLimit, total, max(0, min(within, room)), tokens)
	}
	c, err := book.DecideSettlement(st, w.payer(r.line), &r.Running, nil, w.now)
	if err != nil {
		return err
	}
	if w.n%8 == 0 {
		again, err := book.DecideSettlement(st, w.payer(r.line), &r.Running, nil, w.now)
		if err != nil || again.Entry != c.Entry || again.Part != c.Part {
			return fmt.Errorf("decided again it is another one: %+v, %w", again.Entry, err)
		}
	}
	w.held -= r.Running.Held
	w.heldBy[r.line] -= r.Running.Held
	if c.Pending != (waits && !st.Free) {
		return fmt.Errorf("it is pending: %v", c.Pending)
	}
	w.running = append(w.running[:i], w.running[i+1:]...)
	r.Request = book.Request{ID: st.Request, Held: r.Running.Held, ServiceLimit: st.ServiceLimit, Surcharge: st.Surcharge,
		Charge: c.Charge, Waived: c.Waived, Over: c.Over, Pending: c.Pending}
	if r.Pending {
		w.waiting = append(w.waiting, r)
	}
	if w.settled = append(w.settled, r); len(w.settled) > 16 {
		w.settled = w.settled[1:]
	}
	return w.apply(r.line, &c.Charged, want)
}

// prove delivers a receipt for an attempt of a request that waits, or closes it.
func (w *walk) prove(i int, closing bool) error {
	r := w.waiting[i]
	seq := int64(pick(w, r.Attempts)) + 1
	a := r.Attempts[seq-1]
	used := w.upTo(400_000)
	u := llm.Usage{Input: llm.Count(used)}
	switch {
	case !a.Waits():
		_, taken, err := book.DecideReceipt(w.payer(r.line), &r.Request, r.Attempts, seq, u, w.now)
		if err != nil || taken {
			return fmt.Errorf("an attempt that does not wait took a receipt: %v, %w", taken, err)
		}
		return nil
	case closing && a.Estimate != nil:
		used = *a.Estimate.Input
	case closing:
		used = 0
	}
	total := r.Surcharge + used
	for i := range r.Attempts {
		if a := &r.Attempts[i]; !a.Operator {
			total += llm.Tokens(a.Usage.Input) + llm.Tokens(a.Usage.Output)
		}
	}
	ceiling := max(0, r.Request.Held-r.Charge-r.Waived)
	if a.Worst >= 0 {
		ceiling = min(ceiling, a.Worst)
	}
	var want book.Part
	if !closing || a.Estimate != nil {
		want = w.charge(r.line, r.Request.ServiceLimit, total-r.Charge-r.Waived-r.Over, ceiling, used)
	}
	var c book.Proven
	var err error
	if closing {
		c, err = book.DecideClosing(w.payer(r.line), &r.Request, r.Attempts, seq, w.now)
	} else {
		c, _, err = book.DecideReceipt(w.payer(r.line), &r.Request, r.Attempts, seq, u, w.now)
	}
	if err != nil {
		return err
	}
	if c.Attempt.Waits() || r.Attempts[seq-1].Usage.Known() {
		return fmt.Errorf("it still waits, or has changed where it was: %+v", r.Attempts[seq-1])
	}
	r.Request, r.Attempts[seq-1] = c.Request, c.Attempt
	if !r.Pending {
		w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	}
	if r.Charge+r.Waived > r.Request.Held {
		return fmt.Errorf("GAP-110: %d of a hold of %d", r.Charge+r.Waived, r.Request.Held)
	}
	return w.apply(r.line, &c.Charged, want)
}

func (w *walk) move() error {
	var c book.Change
	var err error
	if w.chance(3) {
		down := &ledger.Correction{Microcents: w.upTo(2_000_000) - 1_000_000, Reason: "r"}
		if down.Microcents == 0 {
			return nil
		}
		c, err = book.DecideAdjustment(down, w.account, nil, nil, w.by())
	} else {
		c, err = book.DecideTopUp(&ledger.Credit{Credits: 1 + w.upTo(8)}, w.account, nil, nil, w.by())
	}
	w.net += c.Entry.Microcents
	w.account = c.Account
	return err
}

func (w *walk) refund(r *walked) error {
	c := &ledger.Correction{Request: r.Request.ID, Microcents: w.upTo(20_000), Reason: "r"}
	left, amount := r.Charge-r.Refunded, c.Microcents
	if amount == 0 {
		amount = left
	}
	m, err := book.DecideRefund(c, w.account, &r.Request, nil, nil, w.by())
	made := len(m.Acts) > 0
	if want := amount >= 1 && amount <= left; made != want {
		return fmt.Errorf("%d of %d was refunded: %v (%w)", amount, left, made, err)
	}
	if !made {
		return nil
	}
	w.net += amount
	r.Refunded, w.account = m.Refunded, m.Account
	return nil
}
