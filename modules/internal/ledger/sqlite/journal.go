package sqlite

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// posted is an entry that is not in the journal's table yet.
type posted struct {
	book.Entry
	account int64
	before  int64 // number of the account's entry before it, 0 without one
}

const insertEntry = `INSERT OR FAIL INTO entries (n, account, seq, before, kind, book, request, reference, reason, ` +
	`prices,
	microcents, waived, over, tokens, detail, credits, accrued, created, format, prev, hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// postEntry adds an entry, with which its account is as it says.
func (t *tx) postEntry(a *account, is book.Account, e book.Entry) {
	t.markChanged(a)
	t.lastEntry++
	e.N = t.lastEntry
	t.posts = append(t.posts, posted{e, a.n, a.last})
	t.moved.entries++
	t.moved.move(e.Prev, e.Hash)
	a.Account, a.last = is, e.N
}

func bindEntry(row *rows, e *posted) {
	row.number(e.N, e.account, e.Seq)
	row.optionalNumber(e.before)
	row.usual(string(e.Kind), string(e.Book))
	row.optional(e.Request)
	row.optional(e.Reference)
	row.usual(e.Reason, e.Prices)
	row.number(e.Microcents, e.Waived, e.Over, e.Tokens)
	if e.Detail == (ledger.Digest{}) {
		row.null()
	} else {
		row.bytes(e.Detail[:])
	}
	row.number(e.Credits, e.Accrued, e.Created.UnixNano(), e.Format)
	row.bytes(e.Prev[:])
	row.bytes(e.Hash[:])
}

// findReference looks for an entry of an account, one of allotments or of people's, by its reference.
const findReference = `SELECT kind, microcents, request, created, n FROM entries
	WHERE account = ? AND (kind = 'allotment') = ? AND reference = ? AND reference IS NOT NULL`

// findSeen looks for the entry of an account that has a reference of people's, with what book.Seen needs of a refund;
// nil for none.
func (t *tx) findSeen(a *account, reference string) (seen *book.Seen, err error) {
	if reference == "" {
		return nil, nil
	}
	err = t.query(findReference, func(row *sqlite.Stmt) error {
		seen = &book.Seen{Entry: ledger.Entry{Reference: reference}}
		readColumns(row, 0, (*string)(&seen.Kind), &seen.Microcents, &seen.Request, &seen.Created)
		return nil
	}, a.n, false, reference)
	if err != nil || seen == nil || seen.Kind != ledger.Refund {
		return seen, err
	}
	r, _, err := t.settledRequest(seen.Request)
	if err != nil {
		return nil, err
	}
	seen.Charge = r.Charge
	return seen, t.query(laterEntries, appendTo(&seen.Later, scanEntry), seen.Request)
}

// AddCredit implements ledger.Store.
func (s *Store) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	v, change, err := s.changeAccount(ctx, "add_credit", func(t *tx) (*account, error) {
		if err := book.CheckCredit(&c); err != nil {
			return nil, err
		}
		return t.account(c.Account)
	}, func(t *tx, a *account, by book.By) (book.Change, error) {
		seen, err := t.findSeen(a, c.Reference)
		if err != nil {
			return book.Change{}, err
		}
		return book.DecideTopUp(&c, a.Account, seen, t.undecided(), by)
	})
	return v.Balance, len(change.Acts) > 0, wrap(err, "adding credits")
}

// Correct implements ledger.Store.
func (s *Store) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	var r *book.Request
	v, change, err := s.changeAccount(ctx, "correct", func(t *tx) (*account, error) {
		if err := book.CheckCorrection(&c); err != nil || c.Request == "" {
			return t.accountOr(c.Account, err)
		}
		r = nil
		settled, found, err := t.settledRequest(c.Request)
		if found {
			r = &settled.Request
		}
		if err == nil {
			err = book.CheckRefund(&c, r, t.live[c.Request] != nil)
		}
		return t.accountOr(settled.Account, err)
	}, func(t *tx, a *account, by book.By) (book.Change, error) {
		seen, err := t.findSeen(a, c.Reference)
		switch {
		case err != nil:
			return book.Change{}, err
		case r == nil:
			return book.DecideAdjustment(&c, a.Account, seen, t.undecided(), by)
		}
		return book.DecideRefund(&c, a.Account, r, seen, t.undecided(), by)
	})
	if c.Request != "" && errors.Is(err, ledger.ErrNotFound) {
		err = s.orPruned(ctx, c, err)
	}
	if pruned, ok := errors.AsType[*ledger.PrunedError](err); ok && pruned.Has(c) {
		v, err = s.Account(ctx, pruned.Account)
	}
	return v.Balance, len(change.Acts) > 0, wrap(err, "correcting a balance")
}

// orPruned is a PrunedError where the journal still has the request that was not found; beside the writer, for it
// takes its time.
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

// accountOr is account where nothing is wrong with what is asked for.
func (t *tx) accountOr(id string, err error) (*account, error) {
	if err != nil {
		return nil, err
	}
	return t.account(id)
}
