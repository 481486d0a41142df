package sqlite

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	accountPrefix = "acct_"
	// maxName bounds names, references and reasons, in bytes.
	maxName = 256
)

const selectAccount = `SELECT id, name, plan, state, created, credits, held, accrued FROM accounts `

func scanAccount(row *sqlite.Stmt) ledger.Account {
	return ledger.Account{
		ID:      row.ColumnText(0),
		Name:    row.ColumnText(1),
		Plan:    row.ColumnText(2),
		State:   ledger.State(row.ColumnText(3)),
		Created: columnTime(row, 4),
		Balance: ledger.Balance{Credits: row.ColumnInt64(5), Held: row.ColumnInt64(6), Accrued: row.ColumnInt64(7)},
	}
}

// findAccount reads one account; where is a condition on a unique column, with one parameter.
func findAccount(conn *sqlite.Conn, where, value string) (a ledger.Account, err error) {
	found := false
	err = run(conn, selectAccount+where, func(row *sqlite.Stmt) error {
		a, found = scanAccount(row), true
		return nil
	}, value)
	if err == nil && !found {
		err = fmt.Errorf("%w: account %q", ledger.ErrNotFound, value)
	}
	return a, err
}

// CreateAccount implements ledger.Store.
func (s *Store) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	var a ledger.Account
	err := s.write(ctx, "create_account", func(t *tx) error {
		if err := checkName("an account's name", name); err != nil {
			return err
		}
		if strings.HasPrefix(name, accountPrefix) {
			return fmt.Errorf("%w: a name that begins like an account id, %q", ledger.ErrInvalid, accountPrefix)
		}
		if err := t.absent(`SELECT 1 FROM accounts WHERE name = ?`, name); err != nil {
			return err
		}
		id, err := s.newID(accountPrefix)
		if err != nil {
			return err
		}
		a = ledger.Account{ID: id, Name: name, Plan: plan, State: ledger.Active, Created: s.opts.Now().UTC()}
		return t.exec(`INSERT INTO accounts (id, name, plan, state, created, head) VALUES (?, ?, ?, ?, ?, ?)`,
			a.ID, a.Name, a.Plan, string(a.State), a.Created, [32]byte{})
	})
	if err != nil {
		return ledger.Account{}, fmt.Errorf("creating account %q: %w", name, err)
	}
	return a, nil
}

// Account implements ledger.Store.
func (s *Store) Account(ctx context.Context, idOrName string) (a ledger.Account, err error) {
	err = s.read(ctx, "account", func(conn *sqlite.Conn) error {
		where := `WHERE name = ?`
		if strings.HasPrefix(idOrName, accountPrefix) {
			where = `WHERE id = ?`
		}
		a, err = findAccount(conn, where, idOrName)
		return err
	})
	if err != nil {
		return ledger.Account{}, fmt.Errorf("finding an account: %w", err)
	}
	return a, nil
}

// Accounts implements ledger.Store; they are in the order of their creation.
func (s *Store) Accounts(ctx context.Context) ([]ledger.Account, error) {
	var all []ledger.Account
	err := s.read(ctx, "accounts", func(conn *sqlite.Conn) error {
		return run(conn, selectAccount+`ORDER BY created, id`, func(row *sqlite.Stmt) error {
			all = append(all, scanAccount(row))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	return all, nil
}

// SetState implements ledger.Store.
func (s *Store) SetState(ctx context.Context, account string, state ledger.State) (ledger.Account, error) {
	var a ledger.Account
	err := s.write(ctx, "set_state", func(t *tx) error {
		switch state {
		case ledger.Active, ledger.Suspended, ledger.Inactive:
		default:
			return fmt.Errorf("%w: state %q; there are active, suspended and inactive", ledger.ErrInvalid, state)
		}
		var err error
		if a, err = findAccount(t.conn, `WHERE id = ?`, account); err != nil {
			return err
		}
		a.State = state
		return t.exec(`UPDATE accounts SET state = ? WHERE id = ?`, string(state), a.ID)
	})
	if err != nil {
		return ledger.Account{}, fmt.Errorf("setting the state of account %q: %w", account, err)
	}
	return a, nil
}

// Balance implements ledger.Store.
func (s *Store) Balance(ctx context.Context, account string) (b ledger.Balance, err error) {
	err = s.read(ctx, "balance", func(conn *sqlite.Conn) error {
		p, err := findPurse(conn, account)
		b = p.Balance
		return err
	})
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("reading a balance: %w", err)
	}
	return b, nil
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

func checkText(what, text string) error {
	if len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %s has to be UTF-8 without control characters, of at most %d bytes", ledger.ErrInvalid, what, maxName)
	}
	return nil
}
