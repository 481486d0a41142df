package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// BootID implements live.Store.
func (s *Store) BootID() string { return s.opts.BootID }

// HighestRequest implements live.Store.
func (s *Store) HighestRequest(ctx context.Context) (id string, err error) {
	err = s.read(ctx, "highest_request", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT coalesce(max(id), '') FROM requests`, to(&id))
	})
	return wrapResult(id, err, "looking for the last request")
}

// IsSettled implements live.Store.
func (s *Store) IsSettled(ctx context.Context, id string) (settled bool, err error) {
	err = s.read(ctx, "is_settled", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT 1 FROM requests WHERE id = ?`, func(*sqlite.Stmt) error { settled = true; return nil }, id)
	})
	return wrapResult(settled, err, "looking for request %q", id)
}

// AccountOf implements live.Store.
func (s *Store) AccountOf(ctx context.Context, id string) (account string, err error) {
	request, _, ok := ledger.ParseAttemptID(id)
	if !ok {
		request = id
	}
	err = s.read(ctx, "account_of", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT a.id FROM accounts AS a WHERE a.n = coalesce((SELECT account FROM requests WHERE id = ?1),
			(SELECT account FROM holds WHERE request = ?1), (SELECT account FROM keys WHERE id = ?2))`,
			to(&account), request, id)
	})
	return wrapResult(account, err, "looking for an account")
}

// ReadPrice implements live.Store.
func (s *Store) ReadPrice(ctx context.Context, route string, version int64) (price, cost config.Price, err error) {
	var p tariff
	err = s.read(ctx, "read_price", func(conn *sqlite.Conn) error {
		p, err = readTariff(conn, route, version)
		if err == nil && !p.found {
			err = book.NoPrice(route, version)
		}
		return err
	})
	return p.price, p.cost, wrap(err, "reading a price")
}

// ReadPayer implements live.Store.
func (s *Store) ReadPayer(ctx context.Context, id, key string) (r book.Rows, err error) {
	overdue := false
	read := func(conn *sqlite.Conn) error {
		a, k, l, err := findPayer(conn, heldInMemory, id, key)
		if err != nil {
			return err
		}
		r = book.Rows{Account: a.Account, Line: l.Line, Root: l.root}
		if overdue = s.opts.overdue(a); overdue {
			return nil
		}
		return run(conn, `SELECT coalesce(sum(h.hold), 0), coalesce(sum(iif(k.root = ?, h.hold, 0)), 0)
			FROM holds AS h JOIN keys AS k ON k.n = h.key WHERE h.account = ? AND h.owner <> ?`,
			to(&r.Account.Held, &r.Others), l.root, k.account, s.opts.BootID)
	}
	err = s.read(ctx, "read_payer", read)
	if err == nil && overdue {
		err = s.write(ctx, "end_period", func(t *tx) error {
			_, err := t.account(id)
			return err
		})
		if err == nil {
			err = s.read(ctx, "read_payer", read)
		}
	}
	return r, wrap(err, "reading an account")
}

// TakeUp implements live.Store.
func (s *Store) TakeUp(ctx context.Context, courses []book.Course) (all []book.TakenUp, err error) {
	err = s.write(ctx, "take_up", func(t *tx) error {
		all = make([]book.TakenUp, len(courses))
		wrote, before := false, false
		for i := range courses {
			t.wrote = false
			all[i] = t.takeUp(&courses[i])
			all[i].Entries = t.lastEntry
			if err := all[i].Err; err != nil && (t.wrote || t.err != nil || !isLedgerError(err)) {
				return fmt.Errorf("taking up request %q: %w", courses[i].ID, err)
			}
			wrote, before = wrote || t.wrote, before || all[i].Before
		}
		if t.wrote = wrote; before && !wrote {
			// Doubt about the commit that took them up ends only with one that changes something.
			return t.exec(`UPDATE meta SET releases = releases + 1`)
		}
		return nil
	})
	return all, wrap(err, "taking up requests")
}

// takeUp brings a request to where it is in its course. With a refusal nothing has changed.
func (t *tx) takeUp(c *book.Course) book.TakenUp {
	r := t.live[c.ID]
	if r == nil {
		s, settled, err := t.settledRequest(c.ID)
		switch {
		case err != nil:
			return book.TakenUp{Err: err}
		case settled:
			return book.TakenUp{Charge: s.Answer(ledger.Balance{}), Before: true}
		case c.End != nil && c.End.At.UnixNano() < t.prunedBefore:
			return book.TakenUp{Err: book.MayBePruned(c.End.At, moment(t.prunedBefore))}
		case c.Kept:
			return book.TakenUp{Err: book.NoRequest()}
		}
	}
	a, err := t.findAccount(c.Account)
	if err != nil {
		return book.TakenUp{Err: err}
	}
	k, l, err := t.line(a, c.Key)
	switch {
	case err != nil:
		return book.TakenUp{Err: err}
	case c.End != nil:
		charge, err := t.takeUpEnd(r, a, k, l, c)
		return book.TakenUp{Charge: charge, Err: err}
	}
	fresh := r == nil
	if fresh {
		r = &running{Running: c.Running, key: k}
		r.Held, r.Attempts = 0, nil
		if len(c.Attempts) == 0 {
			r.opening = &book.Attempt{AttemptRecord: ledger.AttemptRecord{Created: r.Created}}
		}
		t.live[r.ID] = r
	}
	return book.TakenUp{Err: t.takeUpHold(r, a, c, fresh)}
}

// takeUpHold writes what a running request has more than before; all of it when it is fresh.
func (t *tx) takeUpHold(r *running, a *account, c *book.Course, fresh bool) error {
	if len(c.Attempts) < len(r.Attempts) {
		return nil // older than what the store has
	}
	more := max(0, c.Held-r.Held)
	a.Held += more
	r.Held += more
	for i := range r.Attempts {
		if err := t.refer(c.Attempts[i].ID, c.Attempts[i].Reference); err != nil {
			return err
		}
	}
	begun := len(r.Attempts)
	r.Attempts = append(r.Attempts, c.Attempts[begun:]...)
	if fresh {
		t.addHold(r, r.from(), r.Held)
		begun = max(begun, r.from())
	} else if more > 0 {
		if err := t.raiseHold(r, more); err != nil {
			return err
		}
	}
	for seq := begun + 1; seq <= len(r.Attempts); seq++ {
		t.addHold(r, seq, 0)
	}
	return nil
}

// takeUpEnd puts a request that has ended on record; r is nil where its hold was never written.
func (t *tx) takeUpEnd(r *running, a *account, k keyRef, l *keyLine, c *book.Course) (ledger.Charge, error) {
	e := &running{Running: c.Running, key: k}
	if r != nil {
		e.opening, e.Attempts = r.opening, slices.Clone(c.Attempts)
		for i := range r.Attempts[:min(len(r.Attempts), len(e.Attempts))] {
			e.Attempts[i].Row = r.Attempts[i].Row
		}
	}
	s, err := book.RecordEnd(c.End, t.payer(a, l), &e.Running)
	if err != nil {
		return ledger.Charge{}, err
	}
	if r != nil {
		s.Account.Held -= r.Held
		t.end(r)
	}
	return s.Answer(), t.recordEnd(e, a, l, &c.End.Settlement, &s)
}

// findAccount finds an account as it is: what was decided about it was decided in its period.
func (t *tx) findAccount(id string) (*account, error) {
	if a, ok := t.accounts.get(id); ok {
		return a, nil
	}
	a, err := t.readAccount(t.conn, id)
	if err == nil {
		t.accounts.put(id, a)
	}
	return a, err
}
