package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	accountPrefix = "acct_"
	// maxName bounds names, references and reasons, in bytes.
	maxName = 256
)

// CreateAccount implements ledger.Store.
func (s *Store) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	var v ledger.Account
	err := s.write(ctx, "create_account", func(t *tx) error {
		if err := t.checkAccountName(name); err != nil {
			return err
		}
		if err := checkText("a plan", plan); err != nil {
			return err
		}
		id, err := t.newID(accountPrefix)
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO accounts (id, name, plan, state, created) VALUES (?, ?, ?, ?, ?)`,
			id, name, plan, string(ledger.Active), t.now())
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
		v = a.view()
		return t.act(ctx, "account.create", a, id, nil, fields{
			"name": name, "plan": plan, "state": a.state, "created": a.created.Format(time.RFC3339Nano),
		})
	})
	if err != nil {
		return ledger.Account{}, fmt.Errorf("creating account %q: %w", name, err)
	}
	return v, nil
}

// RenameAccount implements ledger.Store.
func (s *Store) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "rename_account", id, func(t *tx, a *account) error {
		if a.name == name {
			return nil
		}
		if err := t.checkAccountName(name); err != nil {
			return err
		}
		if err := t.exec(`UPDATE accounts SET name = ? WHERE n = ?`, name, a.n); err != nil {
			return err
		}
		was := a.name
		a.name = name
		return t.act(ctx, "account.rename", a, a.id, fields{"name": was}, fields{"name": name})
	})
	if err != nil {
		return v, fmt.Errorf("renaming account %q: %w", id, err)
	}
	return v, nil
}

// SetPlan implements ledger.Store. Periods that are over end on the terms of the plan before.
func (s *Store) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "set_plan", id, func(t *tx, a *account) error {
		if a.plan == plan {
			return nil
		}
		if err := checkText("a plan", plan); err != nil {
			return err
		}
		if err := t.exec(`UPDATE accounts SET plan = ? WHERE n = ?`, plan, a.n); err != nil {
			return err
		}
		was := a.plan
		a.plan = plan
		if err := t.act(ctx, "account.set_plan", a, a.id, fields{"plan": was}, fields{"plan": plan}); err != nil {
			return err
		}
		return t.endPeriods(a)
	})
	if err != nil {
		return v, fmt.Errorf("setting the plan of account %q: %w", id, err)
	}
	return v, nil
}

// SetState implements ledger.Store.
func (s *Store) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	v, err := s.changeAccount(ctx, "set_state", id, func(t *tx, a *account) error {
		switch state {
		case ledger.Active, ledger.Suspended, ledger.Inactive:
		default:
			return fmt.Errorf("%w: state %q; there are active, suspended and inactive", ledger.ErrInvalid, state)
		}
		if a.state == state {
			return nil
		}
		if err := t.exec(`UPDATE accounts SET state = ? WHERE n = ?`, string(state), a.n); err != nil {
			return err
		}
		was := a.state
		a.state = state
		return t.act(ctx, "account.set_state", a, a.id, fields{"state": was}, fields{"state": state})
	})
	if err != nil {
		return v, fmt.Errorf("setting the state of account %q: %w", id, err)
	}
	return v, nil
}

// changeAccount runs an operation on an account and returns the account as it is after it.
func (s *Store) changeAccount(ctx context.Context, operation, id string,
	fn func(*tx, *account) error) (v ledger.Account, err error) {
	err = s.write(ctx, operation, func(t *tx) error {
		a, err := t.account(id)
		if err != nil {
			return err
		}
		if err := fn(t, a); err != nil {
			return err
		}
		v = a.view()
		return nil
	})
	if err != nil {
		return ledger.Account{}, err
	}
	return v, nil
}

func (t *tx) checkAccountName(name string) error {
	if err := checkName("an account's name", name); err != nil {
		return err
	}
	if strings.HasPrefix(name, accountPrefix) {
		return fmt.Errorf("%w: a name that begins like an account id, %q", ledger.ErrInvalid, accountPrefix)
	}
	return t.absent(`SELECT 1 FROM accounts WHERE name = ?`, name)
}

// absent returns ErrExists when the query has a row.
func (t *tx) absent(query string, args ...any) error {
	found := false
	err := t.query(query, func(*sqlite.Stmt) error { found = true; return nil }, args...)
	if err == nil && found {
		return ledger.ErrExists
	}
	return err
}

func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%w: %s is empty", ledger.ErrInvalid, what)
	}
	return checkText(what, name)
}

// checkTexts checks what an entry says about itself.
func checkTexts(reference, reason string) error {
	if err := checkText("a reference", reference); err != nil {
		return err
	}
	return checkText("a reason", reason)
}

func checkText(what, text string) error {
	if len(text) > maxName || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %s has to be UTF-8 without control characters, of at most %d bytes", ledger.ErrInvalid, what,
			maxName)
	}
	return nil
}
