package sqlite

import (
	"context"
	"slices"

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
		return t.recordActs(a, c.Acts...)
	})
	return wrapResult(v, err, "creating account %q", name)
}

// nameTaken reports whether there is an account of this name.
func (t *tx) nameTaken(name string) (bool, error) {
	return t.exists(`SELECT 1 FROM accounts WHERE name = ?`, name)
}

// RenameAccount implements ledger.Store.
func (s *Store) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	rename := func(t *tx, a *account, by book.By) (book.Change, error) {
		taken, err := t.nameTaken(name)
		if err != nil {
			return book.Change{}, err
		}
		return book.RenameAccount(a.Account, name, taken, by)
	}
	v, _, err := s.changeAccount(ctx, "rename_account", byID(id), rename)
	return wrapResult(v, err, "renaming account %q", id)
}

// SetPlan implements ledger.Store. Periods that are over end on the terms of the plan before.
func (s *Store) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_plan", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetPlan(a.Account, plan, by)
	})
	return wrapResult(v, err, "setting the plan of account %q", id)
}

// SetState implements ledger.Store.
func (s *Store) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_state", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetState(a.Account, state, by)
	})
	return wrapResult(v, err, "setting the state of account %q", id)
}

// changeAccount finds an account, and changes it and its rows as is decided. It returns the account as it is then, in
// its period.
func (s *Store) changeAccount(ctx context.Context, operation string, find func(*tx) (*account, error),
	decide func(*tx, *account, book.By) (book.Change, error)) (v ledger.Account, c book.Change, err error) {
	err = s.write(ctx, operation, func(t *tx) error {
		a, err := find(t)
		if err != nil {
			return err
		}
		if c, err = decide(t, a, t.by(ctx)); err != nil {
			return err
		}
		if len(c.Acts) > 0 {
			if err := t.applyChange(a, &c); err != nil {
				return err
			}
			if err := t.endPeriods(a); err != nil { // another plan may have others
				return err
			}
		}
		v = a.Show()
		return nil
	})
	if err != nil {
		return ledger.Account{}, book.Change{}, err
	}
	return v, c, nil
}

// byID finds an account by its id.
func byID(id string) func(*tx) (*account, error) {
	return func(t *tx) (*account, error) { return t.account(id) }
}

// applyChange writes a change of an account.
func (t *tx) applyChange(a *account, c *book.Change) error {
	t.wrote = true
	if c.Entry.Seq > 0 {
		t.postEntry(a, c.Account, c.Entry)
	}
	if c.Entry.Kind == ledger.Refund {
		err := t.resum(c.Entry.Request, func() error {
			return t.exec(`UPDATE requests SET refunded = ? WHERE id = ?`, c.Refunded, c.Entry.Request)
		})
		if err != nil {
			return err
		}
	}
	is, was := book.RequiredTexts(c.Account.Requires), book.RequiredTexts(a.Requires)
	mailed := !slices.Equal(c.Account.Mail, a.Mail)
	a.Account = c.Account
	if mailed {
		if err := t.exec(`UPDATE accounts SET mail = ? WHERE n = ?`, book.MailText(a.Mail), a.n); err != nil {
			return err
		}
	}
	if is != was {
		err := t.exec(`UPDATE accounts SET requires_region = ?, requires_retention = ? WHERE n = ?`, is.Regions,
			is.Retention, a.n)
		if err != nil {
			return err
		}
	}
	if c.Key.ID != "" {
		if err := t.saveKey(a, &c.Key); err != nil {
			return err
		}
	}
	if c.Fresh.ID != "" {
		if err := t.insertKey(a, &c.Fresh, c.Key.ID); err != nil {
			return err
		}
	}
	return t.recordActs(a, c.Acts...)
}

// exists reports whether a query has a row.
func (t *tx) exists(query string, args ...any) (found bool, err error) {
	err = t.query(query, func(*sqlite.Stmt) error { found = true; return nil }, args...)
	return found, err
}
