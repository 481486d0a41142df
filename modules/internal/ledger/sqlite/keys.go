package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const keyColumns = `k.id, k.account, k.name, k.last4, k.revoked, k.created`

func scanKey(row *sqlite.Stmt) ledger.Key {
	return ledger.Key{
		ID:      row.ColumnText(0),
		Account: row.ColumnText(1),
		Name:    row.ColumnText(2),
		Last4:   row.ColumnText(3),
		Revoked: row.ColumnBool(4),
		Created: columnTime(row, 5),
	}
}

// CreateKey implements ledger.Store.
func (s *Store) CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string) (ledger.Key, error) {
	var k ledger.Key
	err := s.write(ctx, "create_key", func(t *tx) error {
		if err := checkName("a key's name", name); err != nil {
			return err
		}
		if len(last4) > 4 {
			return fmt.Errorf("%w: more than four characters of a key", ledger.ErrInvalid)
		}
		if _, err := findAccount(t.conn, `WHERE id = ?`, account); err != nil {
			return err
		}
		if err := t.absent(`SELECT 1 FROM keys WHERE (account = ? AND name = ?) OR hash = ?`, account, name, hash); err != nil {
			return err
		}
		id, err := s.newID("key_")
		if err != nil {
			return err
		}
		k = ledger.Key{ID: id, Account: account, Name: name, Last4: last4, Created: s.opts.Now().UTC()}
		return t.exec(`INSERT INTO keys (id, account, name, hash, last4, created) VALUES (?, ?, ?, ?, ?, ?)`,
			k.ID, k.Account, k.Name, hash, k.Last4, k.Created)
	})
	if err != nil {
		return ledger.Key{}, fmt.Errorf("creating key %q: %w", name, err)
	}
	return k, nil
}

// Keys implements ledger.Store; they are in the order of their creation.
func (s *Store) Keys(ctx context.Context, account string) ([]ledger.Key, error) {
	var all []ledger.Key
	err := s.read(ctx, "keys", func(conn *sqlite.Conn) error {
		if account != "" {
			if _, err := findAccount(conn, `WHERE id = ?`, account); err != nil {
				return err
			}
		}
		return run(conn, `SELECT `+keyColumns+` FROM keys AS k WHERE ?1 = '' OR k.account = ?1 ORDER BY k.created, k.id`,
			func(row *sqlite.Stmt) error {
				all = append(all, scanKey(row))
				return nil
			}, account)
	})
	if err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	return all, nil
}

// RevokeKey implements ledger.Store. A key that is revoked already stays so.
func (s *Store) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	var k ledger.Key
	err := s.write(ctx, "revoke_key", func(t *tx) error {
		found := false
		err := t.query(`SELECT `+keyColumns+` FROM keys AS k WHERE k.id = ?`, func(row *sqlite.Stmt) error {
			k, found = scanKey(row), true
			return nil
		}, id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: no such key; keys are revoked by their id, which begins with key_", ledger.ErrNotFound)
		}
		k.Revoked = true
		return t.exec(`UPDATE keys SET revoked = 1 WHERE id = ?`, id)
	})
	if err != nil {
		return ledger.Key{}, fmt.Errorf("revoking a key: %w", err)
	}
	return k, nil
}

// Lookup implements ledger.Store. The index compares hashes of 256-bit secrets, whose timing tells nothing
// that helps to find one (GAP-15).
func (s *Store) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	var p ledger.Principal
	err := s.read(ctx, "lookup", func(conn *sqlite.Conn) error {
		found := false
		err := run(conn, `SELECT `+keyColumns+`, a.id, a.name, a.plan, a.state, a.created
			FROM keys AS k JOIN accounts AS a ON a.id = k.account WHERE k.hash = ?`,
			func(row *sqlite.Stmt) error {
				found = true
				p.Key = scanKey(row)
				p.Account = ledger.Account{
					ID:      row.ColumnText(6),
					Name:    row.ColumnText(7),
					Plan:    row.ColumnText(8),
					State:   ledger.State(row.ColumnText(9)),
					Created: columnTime(row, 10),
				}
				return nil
			}, hash)
		if err == nil && !found {
			err = fmt.Errorf("%w: no key with this hash", ledger.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return ledger.Principal{}, fmt.Errorf("looking up a key: %w", err)
	}
	return p, nil
}
