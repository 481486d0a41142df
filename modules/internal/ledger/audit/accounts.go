package audit

import (
	"errors"
	"fmt"
	"math"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// accountFindings are what readAccounts has found first, by the steps that tell it.
type accountFindings struct {
	overflow, accounts, strangers, keys    error
	trail, made, lines, said, unsaid, caps error
}

// accountPass reads accounts, with all that is summed or said by account, in the order of their numbers.
type accountPass struct {
	*verification
	entries          *cursor[EntrySum]
	requests, pruned *cursor[RequestSum]
	keys             *cursor[Key]
	acts             *cursor[Act]

	// The smallest numbers of what the trail says was made, and a key of which it does not, the last one; 0 for none.
	madeAccount, madeKey int64
	unmade               Key
}

// owned is of an account, by its number.
type owned interface{ owner() int64 }

func (s EntrySum) owner() int64   { return s.Account }
func (s RequestSum) owner() int64 { return s.Account }
func (k Key) owner() int64        { return k.AccountNumber }
func (a Act) owner() int64        { return a.Number }

// upTo does something for each of the next rows of an account. Those before them are of no account. Rows that do not
// come in the order of their accounts are an error: what is compared would be passed over.
func upTo[T owned](c *cursor[T], account int64, stray, do func(T) error) error {
	inOrder := func(do func(T) error) func(T) error {
		return func(row T) error {
			if row.owner() < c.last {
				return fmt.Errorf("the store gives a row of account %d behind one of account %d (%T)", row.owner(), c.last, row)
			}
			c.last = row.owner()
			return do(row)
		}
	}
	if err := c.take(func(row T) bool { return row.owner() < account }, inOrder(stray)); err != nil {
		return err
	}
	return c.take(func(row T) bool { return row.owner() == account }, inOrder(do))
}

func skip[T any](T) error { return nil }

// readAccounts compares each account's balance with its last entry, its counters with what its entries and requests
// come to, its keys with theirs, and all of that with what the audit trail says.
func (v *verification) readAccounts() (err error) {
	p := &accountPass{verification: v}
	p.entries, p.requests, p.pruned = open(v.EntrySums(), &err), open(v.RequestSums(), &err), open(v.Pruned(), &err)
	p.keys, p.acts = open(v.Keys(), &err), open(v.Acts(true, false), &err)
	for _, stop := range []func(){p.entries.stop, p.requests.stop, p.pruned.stop, p.keys.stop, p.acts.stop} {
		defer stop()
	}
	if err != nil {
		return err
	}
	none := trailOf("meta")
	if err := upTo(p.acts, 0, skip, func(a Act) error { return keep(&v.books.trail, none.add(&a)) }); err != nil {
		return err
	}
	if err := keep(&v.books.trail, none.compare(v.head.Trail)); err != nil {
		return err
	}
	if err := each(v.Accounts(), p.account); err != nil {
		return err
	}
	err = errors.Join(p.keysOf(math.MaxInt64, skip), upTo(p.entries, math.MaxInt64, skip, skip),
		upTo(p.acts, math.MaxInt64, skip, skip))
	if err != nil {
		return err
	}
	if p.madeKey > 0 && p.unmade.Number > p.madeKey {
		_ = keep(&v.books.made, unmade(p.unmade.ID))
	}
	return p.requestsOf(&holder{Account: &Account{Number: math.MaxInt64}})
}

// holder is an account with what belongs to it.
type holder struct {
	*Account
	keys     []Key // by their numbers
	byNumber map[int64]*Key
	byID     map[string]*Key
	lines    map[int64]int64 // what the requests of a line were charged, by the number of its first key
	requests RequestSum
	entries  EntrySum
	trail    *trail
}

// keysOf does something for each key of an account, and says which belong to none.
func (p *accountPass) keysOf(account int64, do func(Key) error) error {
	return upTo(p.keys, account, func(k Key) error {
		return keep(&p.books.keys, Disagree(k.ID, "the key belongs to an account that does not exist"))
	}, do)
}

func (p *accountPass) account(a Account) error {
	if a.ID == "" {
		return keep(&p.books.accounts, Disagree(fmt.Sprintf("balance/%d", a.Number), "it is of no account"))
	}
	p.report.Accounts++
	p.report.Sums["accounts"] += a.Net()
	h := &holder{Account: &a, byNumber: map[int64]*Key{}, byID: map[string]*Key{}, lines: map[int64]int64{},
		trail: trailOf(a.ID)}
	err := p.keysOf(a.Number, func(k Key) error {
		h.keys = append(h.keys, k)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range h.keys {
		k := &h.keys[i]
		h.byNumber[k.Number], h.byID[k.ID] = k, k
	}
	err = upTo(p.entries, a.Number, skip, func(s EntrySum) error {
		h.entries = s
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.requestsOf(h); err != nil {
		return err
	}
	err = upTo(p.acts, a.Number, skip, func(act Act) error { return keep(&p.books.trail, h.trail.add(&act)) })
	if err != nil {
		return err
	}
	for _, step := range []struct {
		told *error
		look func() error
	}{
		{&p.books.accounts, h.verifyCounters}, {&p.books.accounts, func() error { return p.verifyLast(h) }},
		{&p.books.accounts, func() error { return p.verifyPeriod(h) }}, {&p.books.keys, h.verifyKeys},
		{&p.books.trail, func() error { return h.trail.compare(a.Trail) }},
		{&p.books.made, func() error { return p.verifyMade(h) }}, {&p.books.lines, h.verifyLines},
		{&p.books.said, h.verifySaid}, {&p.books.unsaid, h.verifyUnsaid}, {&p.books.caps, h.verifyCaps},
	} {
		if err := keep(step.told, step.look()); err != nil {
			return err
		}
	}
	return nil
}

// requestsOf adds up what the requests of an account came to, with those that were pruned.
func (p *accountPass) requestsOf(h *holder) error {
	for _, rows := range []*cursor[RequestSum]{p.requests, p.pruned} {
		stray := func(s RequestSum) error { return p.strangers(s, rows == p.pruned) }
		err := upTo(rows, h.Number, stray, func(s RequestSum) error {
			k := h.byNumber[s.Key]
			if k == nil {
				return stray(s)
			}
			fits := add(&h.requests.Requests, s.Requests) && add(&h.requests.Tokens, s.Tokens) &&
				add(&h.requests.Charge, s.Charge) && add(&h.requests.Waived, s.Waived) &&
				add(&h.requests.Refunded, s.Refunded)
			h.lines[k.Root] += s.Charge
			if fits {
				return nil
			}
			// Requests were looked at one by one, but for those before Verification.From.
			if rows == p.requests {
				return keep(&p.books.overflow, TooLarge("requests", "requests"))
			}
			return keep(&p.books.overflow, TooLarge("pruned", "pruned requests"))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds to a sum, and reports whether it fits.
func add(sum *int64, n int64) bool {
	was := *sum
	*sum += n
	return (*sum < was) == (n < 0)
}

// strangers names what belongs to a key that does not exist, or that is another account's.
func (p *accountPass) strangers(s RequestSum, pruned bool) error {
	if p.books.strangers != nil {
		return nil
	}
	if pruned {
		return keep(&p.books.strangers, Disagree("pruned", "it names the key number %d, which does not exist", s.Key))
	}
	return keep(&p.books.strangers, each(p.Requests(Span{Strangers: true}), func(r *Request) error {
		if r.AccountNumber != s.Account || r.KeyNumber != s.Key {
			return nil
		}
		return Disagree(r.ID, "its key, number %d, is none of its account's", s.Key)
	}))
}

// verifyCounters compares what an account counts with what its entries and requests come to.
func (a *holder) verifyCounters() error {
	is, requests, entries := a.Ever, a.requests, a.entries
	switch {
	case a.NoBalance:
		return Disagree(a.ID, "the account has no balance")
	case a.Entries != entries.Entries:
		return Disagree(a.ID, "the account counts %d entries and the journal has %d", a.Entries, entries.Entries)
	case a.Requests != requests.Requests:
		return Disagree(a.ID, "the account counts %d settled requests, and with those that were pruned there are %d",
			a.Requests, requests.Requests)
	case requests.Charge != entries.Spent:
		return Disagree(a.ID, "its requests were charged %d microcents, the journal says %d", requests.Charge, entries.Spent)
	case requests.Refunded != entries.Refunded:
		return Disagree(a.ID, "%d microcents of its requests were refunded, the journal says %d", requests.Refunded,
			entries.Refunded)
	case is.Spent != entries.Spent:
		return Disagree(a.ID, "the account counts %d microcents as spent, its charges make %d", is.Spent, entries.Spent)
	case is.Tokens != requests.Tokens:
		return Disagree(a.ID, "the account counts %d tokens, its requests make %d", is.Tokens, requests.Tokens)
	case is.Waived != requests.Waived:
		return Disagree(a.ID, "the account counts %d microcents as left free, its requests make %d", is.Waived,
			requests.Waived)
	case (a.Line == nil) != (a.LineSpent == 0):
		return Disagree(a.ID, "the account names a key that paid last without what that spent, or the other way round")
	}
	return nil
}

// verifyLast compares an account with the entry that it names as its last.
func (p *accountPass) verifyLast(a *holder) error {
	var last int64
	if a.Last != nil {
		last = *a.Last
	}
	e, _, err := p.Entry(a.ID, last)
	none := a.Last == nil
	switch {
	case err != nil:
		return err
	case none != (a.Entries == 0):
		return Disagree(a.ID, "the account has %d entries and names entry %d of the journal as its last", a.Entries, last)
	case !none && e.Account != a.ID || e.Seq != a.Entries:
		return Disagree(a.ID, "entry %d of the journal, which the account names as its last, is not its entry %d", last,
			a.Entries)
	case a.Head != e.Hash:
		return Disagree(a.ID, "the head of the account's hash chain is not its last entry's hash")
	case a.Credits != e.Credits || a.Accrued != e.Accrued:
		return Disagree(a.ID, "the account has %d credits and %d microcents accrued, its entries make %d and %d",
			a.Credits, a.Accrued, e.Credits, e.Accrued)
	}
	return nil
}

// verifyPeriod checks an account's period, its allotment and the counters of its beginning. Why a period began when it
// did (a plan that gains periods, which is in the configuration) is not recorded, so what was counted before it is
// known to be no more than what was ever; nor is what a plan gives, so that a period may have no allotment.
func (p *accountPass) verifyPeriod(a *holder) error {
	if none := a.PeriodNumber == nil; none != (a.PeriodEnd == nil) || none != (a.Allotted == nil) {
		return Disagree(a.ID, "the account has a part of a period: its number, its end, or whether it has its credits")
	}
	ever, before := a.Ever, a.Account.Before
	if a.PeriodNumber == nil {
		if before != (book.Counters{}) {
			return Disagree(a.ID, "the account has no periods, and what it counts does not begin with nothing")
		}
		return nil
	}
	number := *a.PeriodNumber
	a.Period.Number = number
	switch end := ledger.PeriodEnd(a.Created, number); {
	case !end.Equal(*a.PeriodEnd):
		return Disagree(a.ID, "period %d of the account ends at %s, and not at %s", number, end, *a.PeriodEnd)
	case outside(before.Spent, ever.Spent) || outside(before.Tokens, ever.Tokens) || outside(before.Waived, ever.Waived):
		return Disagree(a.ID, "the account's period began at %d microcents spent, %d tokens and %d microcents left free; "+
			"there are %d, %d and %d now",
			before.Spent, before.Tokens, before.Waived, ever.Spent, ever.Tokens, ever.Waived)
	case *a.Allotted:
		return nil
	}
	has, err := p.HasAllotment(a.Account, a.PeriodName())
	if has {
		err = Disagree(a.ID, "period %d of the account does not say that it has its credits, and the journal has them",
			number)
	}
	return err
}

func outside(n, limit int64) bool { return n < 0 || n > limit }

// verifyKeys compares what lines of keys spent with the requests of all their keys. Only the first key of a line
// counts.
func (a *holder) verifyKeys() error {
	for i := range a.keys {
		k := &a.keys[i]
		spent, before := k.Line.Spent, k.Line.Before
		if a.Line != nil && *a.Line == k.Number {
			spent += a.LineSpent
		}
		root, first := a.byNumber[k.Root], k.Root == k.Number
		switch {
		case root == nil || root.Root != k.Root:
			return Disagree(k.ID, "the key replaces one that is not the first of a line of keys of its account")
		case !first && (k.Cap != 0 || spent != 0 || before != 0):
			return Disagree(k.ID, "the key has a cap or counts what it spent, which only the first key of its line does")
		case first && spent != a.lines[k.Number]:
			return Disagree(k.ID, "the key and those that replaced it count %d microcents as spent, their requests make %d",
				spent, a.lines[k.Number])
		case before < 0 || before > spent || before > 0 && a.PeriodNumber == nil:
			return Disagree(k.ID, "the key counts from %d microcents on and has spent %d", before, spent)
		}
	}
	return nil
}

// verifyPruned checks that what is pruned has a date. verifyPrunedDays compares it with the sums of its days.
func (v *verification) verifyPruned() error {
	if v.pruned > 0 {
		return nil
	}
	return each(v.Pruned(), func(RequestSum) error {
		return Disagree("pruned", "it says what pruned requests came to, and nothing was ever pruned")
	})
}
