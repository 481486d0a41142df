package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Hold implements ledger.Store.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	var b ledger.Balance
	err := s.perform(ctx, "hold", h.Request, "", func(t *tx) (err error) {
		b, err = t.hold(&h)
		return err
	})
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("holding credits for request %q: %w", h.Request, err)
	}
	return b, nil
}

func (t *tx) hold(h *ledger.Hold) (ledger.Balance, error) {
	var none ledger.Balance
	if err := book.CheckHold(h, t.undecided()); err != nil {
		return none, err
	}
	a, err := t.readPayer(h.Account, h.Key)
	if err != nil {
		return none, err
	}
	r, settled := t.live[h.Request], false
	if r == nil {
		if _, settled, err = t.settledRequest(h.Request); err != nil {
			return none, err
		}
	}
	if repeated, err := book.RepeatsHold(h, r.request(), settled); err != nil || repeated {
		return a.Balance, err
	}
	key, l, err := t.line(a, h.Key)
	if err != nil {
		return none, err
	}
	now, first := t.now(), (*book.Attempt)(nil)
	if h.Attempt.ID != "" {
		next, err := t.beginAttempt(h.Attempt, now)
		if err != nil {
			return none, err
		}
		first = &next
	}
	c, err := book.DecideHold(h, t.payer(a, l), first, t.opts.BootID, now)
	if err != nil {
		return none, err
	}
	a.Balance = c.Balance
	r = &running{Running: c.Running, key: key}
	if first == nil {
		r.opening = &book.Attempt{AttemptRecord: ledger.AttemptRecord{Created: r.Created}}
	}
	t.live[r.ID] = r
	t.addHold(r, r.from(), r.Held)
	return a.Balance, nil
}

// payer is who pays for a request by a line of an account.
func (t *tx) payer(a *account, l *keyLine) book.Payer {
	return book.Payer{Account: &a.Account, Line: &l.Line, Terms: t.opts.terms(a), Held: t.heldBy[l.root]}
}

// Begin implements ledger.Store.
func (s *Store) Begin(ctx context.Context, n ledger.Next) error {
	err := s.perform(ctx, "begin", "", n.Attempt.ID, func(t *tx) error { return t.begin(&n) })
	if err != nil {
		return fmt.Errorf("beginning an attempt of request %q: %w", n.Request, err)
	}
	return nil
}

func (t *tx) begin(n *ledger.Next) error {
	r := t.live[n.Request]
	if repeated, err := book.RepeatsAttempt(n, r.request()); err != nil || repeated {
		return err
	}
	a, err := t.account(r.Account)
	if err != nil {
		return err
	}
	next, err := t.beginAttempt(n.Attempt, t.now())
	if err != nil {
		return err
	}
	l, err := a.line(t.conn, r.key.root)
	if err != nil {
		return err
	}
	c, err := book.DecideAttempt(n, t.payer(a, l), r.request(), &next)
	if err != nil {
		return err
	}
	a.Balance, r.Running = c.Balance, c.Running
	if c.Raised > 0 {
		if err := t.raiseHold(r, c.Raised); err != nil {
			return err
		}
	}
	t.addHold(r, len(r.Attempts), 0)
	return nil
}

// raiseHold writes that a request holds more, which it does already.
func (t *tx) raiseHold(r *running, more int64) error {
	t.raise(r.key, more)
	first := r.first()
	t.holds.marks -= first.Row.Mark
	first.Row.Mark = t.mark(r, r.from(), r.Held)
	t.holds.marks += first.Row.Mark
	return t.exec(`UPDATE holds SET hold = ? WHERE n = ?`, r.Held, first.Row.N)
}

// Check implements ledger.Store. It asks the writer only when a period has to be ended first.
func (s *Store) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	overdue := false
	err := s.read(ctx, "check", func(conn *sqlite.Conn) error {
		a, k, l, err := findPayer(conn, accountHeld, account, key)
		if err != nil {
			return err
		}
		if overdue = s.opts.overdue(a); overdue {
			return nil
		}
		p := book.Payer{Account: &a.Account, Line: &l.Line, Terms: s.opts.terms(a)}
		if l.Cap > 0 {
			if p.Held, err = heldByLine(conn, k); err != nil {
				return err
			}
		}
		return book.CheckPayer(p, microcents, tokens)
	})
	if err == nil && overdue {
		err = s.write(ctx, "check", func(t *tx) error {
			a, err := t.account(account)
			if err != nil {
				return err
			}
			_, l, err := t.line(a, key)
			if err != nil {
				return err
			}
			return book.CheckPayer(t.payer(a, l), microcents, tokens)
		})
	}
	return wrap(err, "checking an account")
}

// heldByLine is what a key and those that it shares its cap with hold. Like accountHeld it reads all running requests.
func heldByLine(conn *sqlite.Conn, k keyRef) (held int64, err error) {
	err = run(conn, `SELECT coalesce(sum(h.hold), 0) FROM holds AS h JOIN keys AS k ON k.n = h.key
		WHERE h.account = ? AND k.root = ?`,
		to(&held), k.account, k.root)
	return held, err
}

// findPayer reads an account, one of its keys and that key's line at one moment, beginning with the key: it is the
// only one to be looked for by its text. held is accountHeld or heldInMemory.
func findPayer(conn *sqlite.Conn, held, accountID, keyID string) (a *account, k keyRef, l *keyLine, err error) {
	err = run(conn, `SELECT `+accountColumns+`, r.n, r.spend_cap, r.spent + iif(b.line = r.n, b.line_spent, 0), `+
		`r.spent_before, k.n, `+held+`
		FROM keys AS k CROSS JOIN accounts AS a ON a.n = k.account CROSS JOIN balances AS b ON b.n = k.account
		CROSS JOIN keys AS r ON r.n = k.root WHERE k.id = ? AND +a.id = ?`,
		func(row *sqlite.Stmt) error {
			a, l = scanRow(row), scanLine(row, accountWidth)
			k = keyRef{n: row.ColumnInt64(accountWidth + 4), account: a.n, root: l.root}
			a.Held = row.ColumnInt64(accountWidth + 5)
			return nil
		}, keyID, accountID)
	if err == nil && a == nil {
		err = book.NoKey(keyID, accountID)
	}
	return a, k, l, err
}
