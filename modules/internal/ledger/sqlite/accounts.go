package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// CreateAccount implements ledger.Store.
func (s *Store) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	var v ledger.Account
	err := s.write(ctx, "create_account", func(t *tx) error {
		taken, err := t.nameTaken(name)
		if err != nil {
			return err
		}
		id, err := t.newID(book.AccountPrefix)
		if err != nil {
			return err
		}
		c, err := book.CreateAccount(id, name, plan, taken, t.by(ctx))
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO accounts (id, name, plan, state, created) VALUES (?, ?, ?, ?, ?)`,
			id, name, plan, string(c.Account.State), c.Account.Created)
		if err != nil {
			return err
		}
		if err := t.exec(`INSERT INTO balances (n, head) SELECT n, ? FROM accounts WHERE id = ?`, ledger.Digest{},
			id); err != nil {
			return err
		}
		a, err := t.account(id)
		if err != nil {
			return err
		}
		v = a.Show()
		return t.record(a, c.Act)
	})
	return result(v, err, "creating account %q", name)
}

// nameTaken reports whether there is an account of this name.
func (t *tx) nameTaken(name string) (bool, error) {
	return t.exists(`SELECT 1 FROM accounts WHERE name = ?`, name)
}

// RenameAccount implements ledger.Store.
func (s *Store) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "rename_account", id, func(t *tx, a book.Account, by book.By) (book.Changed, error) {
		taken, err := t.nameTaken(name)
		if err != nil {
			return book.Changed{}, err
		}
		return book.RenameAccount(a, name, taken, by)
	})
	return result(v, err, "renaming account %q", id)
}

// SetPlan implements ledger.Store. Periods that are over end on the terms of the plan before.
func (s *Store) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "set_plan", id, func(_ *tx, a book.Account, by book.By) (book.Changed, error) {
		return book.SetPlan(a, plan, by)
	})
	return result(v, err, "setting the plan of account %q", id)
}

// SetState implements ledger.Store.
func (s *Store) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "set_state", id, func(_ *tx, a book.Account, by book.By) (book.Changed, error) {
		return book.SetState(a, state, by)
	})
	return result(v, err, "setting the state of account %q", id)
}

// changeAccount changes an account as is decided and returns it as it is then, in its period.
func (s *Store) changeAccount(ctx context.Context, operation, id string,
	decide func(*tx, book.Account, book.By) (book.Changed, error)) (v ledger.Account, err error) {
	err = s.write(ctx, operation, func(t *tx) error {
		a, err := t.account(id)
		if err != nil {
			return err
		}
		c, err := decide(t, a.Account, t.by(ctx))
		if err != nil {
			return err
		}
		if c.Act.Seq > 0 {
			is, was := book.RequiredTexts(c.Account.Requires), book.RequiredTexts(a.Requires)
			a.Account = c.Account
			if err := t.record(a, c.Act); err != nil {
				return err
			}
			if is != was {
				err := t.exec(`UPDATE accounts SET requires_region = ?, requires_retention = ? WHERE n = ?`, is.Regions,
					is.Retention, a.n)
				if err != nil {
					return err
				}
			}
			if err := t.endPeriods(a); err != nil { // another plan may have others
				return err
			}
		}
		v = a.Show()
		return nil
	})
	if err != nil {
		return ledger.Account{}, err
	}
	return v, nil
}

// exists reports whether a query has a row.
func (t *tx) exists(query string, args ...any) (found bool, err error) {
	err = t.query(query, func(*sqlite.Stmt) error { found = true; return nil }, args...)
	return found, err
}
