package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// posted is an entry that is not in the journal's table yet.
type posted struct {
	ledger.Entry
	account int64
	before  int64 // number of the account's entry before it, 0 without one
	hash    ledger.Digest
}

const insertEntry = `INSERT OR FAIL INTO entries (n, account, seq, before, kind, book, request, reference, reason, ` +
	`prices,
	microcents, waived, over, tokens, detail, credits, accrued, created, format, prev, hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// post moves money: the caller says what and why, post what follows from it. ErrInvalid, before anything has
// changed, when the balance would leave its range.
func (t *tx) post(a *account, e ledger.Entry) error {
	after, err := a.Add(e.Microcents)
	if err != nil {
		return err
	}
	t.change(a)
	before := a.last
	t.lastEntry++
	a.Balance = after
	a.entries++
	e.N, e.Account, e.Seq, e.Book, e.Format, e.Prev = t.lastEntry, a.id, a.entries, e.Kind.Book(), ledger.EntryFormat,
		a.head
	e.Credits, e.Accrued = after.Credits, after.Accrued
	a.head, a.last = e.Hash(), e.N
	t.moved.entries++
	t.moved.move(e.Prev, a.head)

	t.posts = append(t.posts, posted{e, a.n, before, a.head})
	return nil
}

func bindEntry(row *rows, e *posted) {
	row.number(e.N)
	row.number(e.account)
	row.number(e.Seq)
	row.optionalNumber(e.before)
	row.usual(string(e.Kind))
	row.usual(string(e.Book))
	row.optional(e.Request)
	row.optional(e.Reference)
	row.usual(e.Reason)
	row.usual(e.Prices)
	row.number(e.Microcents)
	row.number(e.Waived)
	row.number(e.Over)
	row.number(e.Tokens)
	if e.Detail == (ledger.Digest{}) {
		row.null()
	} else {
		row.bytes(e.Detail[:])
	}
	row.number(e.Credits)
	row.number(e.Accrued)
	row.number(e.Created.UnixNano())
	row.number(e.Format)
	row.bytes(e.Prev[:])
	row.bytes(e.hash[:])
}

// findReference looks for an entry of an account, one of allotments or of people's, by its reference.
const findReference = `SELECT kind, microcents, request, created, n FROM entries
	WHERE account = ? AND (kind = 'allotment') = ? AND reference = ? AND reference IS NOT NULL`

// seen reports whether the account has an entry with this reference, of people's or of allotments.
func (t *tx) seen(a *account, reference string, kind ledger.EntryKind) (seen bool, err error) {
	if reference == "" {
		return false, nil
	}
	err = t.query(findReference,
		func(*sqlite.Stmt) error { seen = true; return nil }, a.n, kind == ledger.Allotment, reference)
	return seen, err
}

// repeats reports whether the account has this movement by its reference; ErrReference where that is another one's, and
// ErrLost where it would be a new one while nobody has decided about what the ledger has lost. A refund of 0 microcents
// is one of all that is left, which repeats one that left nothing.
func (t *tx) repeats(a *account, e ledger.Entry) (seen bool, err error) {
	if e.Reference == "" {
		return false, t.undecided()
	}
	err = t.query(findReference, func(row *sqlite.Stmt) error {
		seen = true
		was := ledger.Entry{Kind: ledger.EntryKind(row.ColumnText(0)), Microcents: row.ColumnInt64(1),
			Request: row.ColumnText(2), Created: columnTime(row, 3)}
		same := was.Kind == e.Kind && was.Request == e.Request
		if same && e.Microcents == 0 {
			left, err := t.leftBy(e.Request, row.ColumnInt64(4))
			if err != nil || left == 0 {
				return err
			}
			same = false
		}
		if same && was.Microcents == e.Microcents {
			return nil
		}
		return fmt.Errorf("%w: the reference %q is that of %s on %s, and not of %s; nothing was moved", ledger.ErrReference,
			e.Reference, movement(was), was.Created.UTC().Format(time.DateOnly), movement(e))
	}, a.n, false, e.Reference)
	if err == nil && !seen {
		err = t.undecided()
	}
	return seen, err
}

// leftBy is what a refund, the n-th row of the journal, left to be refunded of a request's charge.
func (t *tx) leftBy(request string, n int64) (left int64, err error) {
	r, _, err := t.settledRequest(request)
	if err != nil {
		return 0, err
	}
	left = r.charge
	err = t.query(laterEntries, func(row *sqlite.Stmt) error {
		switch e := scanEntry(row); {
		case e.Kind == ledger.Refund && e.N <= n, e.Kind != ledger.Refund && e.N > n: // what was charged later was not there
			left -= max(e.Microcents, -e.Microcents)
		}
		return nil
	}, request)
	return left, err
}

// movement says what an entry moves.
func movement(e ledger.Entry) string {
	if e.Kind == ledger.Refund && e.Microcents == 0 {
		return "a refund of all that is left of request " + e.Request
	}
	sign, amount := "", e.Microcents
	if amount < 0 {
		sign, amount = "-", -amount
	}
	text := fmt.Sprintf("a movement (%s) of %s%d.%06d credits", e.Kind, sign, amount/ledger.MicrocentsPerCredit,
		amount%ledger.MicrocentsPerCredit)
	if e.Request != "" {
		text += " for request " + e.Request
	}
	return text
}

// AddCredit implements ledger.Store.
func (s *Store) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	err = s.write(ctx, "add_credit", func(t *tx) error {
		applied = false
		if c.Credits < 1 || c.Credits > ledger.MaxTopUp {
			return fmt.Errorf("%w: a top-up has 1 to %d credits", ledger.ErrInvalid, int64(ledger.MaxTopUp))
		}
		if err := checkTexts(c.Reference, c.Reason); err != nil {
			return err
		}
		a, err := t.account(c.Account)
		if err != nil {
			return err
		}
		b = a.Balance
		e := ledger.Entry{
			Kind:       ledger.TopUp,
			Reference:  c.Reference,
			Reason:     c.Reason,
			Microcents: c.Credits * ledger.MicrocentsPerCredit,
			Created:    t.now(),
		}
		if seen, err := t.repeats(a, e); err != nil || seen {
			return err
		}
		if err := t.post(a, e); err != nil {
			return err
		}
		b, applied = a.Balance, true
		return t.act(ctx, "credit.add", a, a.id, nil, fields{
			"credits": c.Credits, "reference": c.Reference, "reason": c.Reason, "balance_credits": b.Credits,
		})
	})
	if err != nil {
		return ledger.Balance{}, false, fmt.Errorf("adding credits: %w", err)
	}
	return b, applied, nil
}

// Correct implements ledger.Store.
func (s *Store) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	err = s.write(ctx, "correct", func(t *tx) (err error) {
		if c.Reason == "" {
			return fmt.Errorf("%w: a correction needs a reason", ledger.ErrInvalid)
		}
		if err := checkTexts(c.Reference, c.Reason); err != nil {
			return err
		}
		if c.Request != "" {
			b, applied, err = t.refund(ctx, c)
		} else {
			b, applied, err = t.adjust(ctx, c)
		}
		return err
	})
	if c.Request != "" && errors.Is(err, ledger.ErrNotFound) {
		err = s.orPruned(ctx, c, err)
	}
	if pruned, ok := errors.AsType[*ledger.PrunedError](err); ok && pruned.Has(c) {
		var a ledger.Account
		a, err = s.Account(ctx, pruned.Account)
		b = a.Balance
	}
	if err != nil {
		return ledger.Balance{}, false, fmt.Errorf("correcting a balance: %w", err)
	}
	return b, applied, nil
}

// orPruned is a PrunedError where the journal still has the request that was not found; beside the writer, for it takes
// its time.
func (s *Store) orPruned(ctx context.Context, c ledger.Correction, notFound error) error {
	p, err := s.Pruned(ctx, c.Request)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && c.Account != "" && c.Account != p.Account:
		return notFound
	case err != nil:
		return err
	}
	return &ledger.PrunedError{PrunedRequest: p}
}

func (t *tx) adjust(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	a, err := t.account(c.Account)
	if err != nil {
		return b, false, err
	}
	if c.Microcents == 0 {
		return b, false, fmt.Errorf("%w: an adjustment of nothing", ledger.ErrInvalid)
	}
	e := ledger.Entry{
		Kind: ledger.Adjustment, Reference: c.Reference, Reason: c.Reason, Microcents: c.Microcents, Created: t.now(),
	}
	if seen, err := t.repeats(a, e); err != nil || seen {
		return a.Balance, false, err
	}
	if err := t.post(a, e); err != nil {
		return b, false, err
	}
	return a.Balance, true, t.act(ctx, "credit.adjust", a, a.id, nil, fields{
		"microcents": c.Microcents, "reference": c.Reference, "reason": c.Reason, "balance_credits": a.Credits,
	})
}

func (t *tx) refund(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	r, found, err := t.settledRequest(c.Request)
	switch {
	case err != nil:
		return b, false, err
	case t.live[c.Request] != nil:
		return b, false, fmt.Errorf("%w: request %q is running; refund it when it has ended", ledger.ErrInvalid, c.Request)
	case !found || c.Account != "" && c.Account != r.account:
		return b, false, fmt.Errorf("%w: request %q", ledger.ErrNotFound, c.Request)
	}
	a, err := t.account(r.account)
	if err != nil {
		return b, false, err
	}
	e := ledger.Entry{
		Kind: ledger.Refund, Request: r.id, Reference: c.Reference, Reason: c.Reason, Microcents: c.Microcents,
		Created: t.now(),
	}
	if seen, err := t.repeats(a, e); err != nil || seen {
		return a.Balance, false, err
	}
	left := r.charge - r.refunded
	amount := c.Microcents
	if amount == 0 {
		amount = left
	}
	if amount < 1 || amount > left {
		return b, false, fmt.Errorf("%w: a refund of %d microcents of request %q, which has %d left to refund",
			ledger.ErrInvalid, amount, c.Request, left)
	}
	e.Microcents = amount
	if err := t.post(a, e); err != nil {
		return b, false, err
	}
	err = t.resum(r.id, func() error {
		return t.exec(`UPDATE requests SET refunded = ? WHERE id = ?`, r.refunded+amount, r.id)
	})
	if err != nil {
		return b, false, err
	}
	return a.Balance, true, t.act(ctx, "credit.refund", a, r.id, fields{"refunded_microcents": r.refunded}, fields{
		"refunded_microcents": r.refunded + amount, "reference": c.Reference, "reason": c.Reason,
		"balance_credits": a.Credits,
	})
}
