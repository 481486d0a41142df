package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// selectKey reads keys AS k with their account, which is a and b, and the first key of their line AS r.
const selectKey = `SELECT k.id, a.id, a.name, k.name, k.last4, k.revoked, k.created, k.expires, r.spend_cap,
	r.spent + iif(b.line = r.n, b.line_spent, 0) - r.spent_before
	FROM keys AS k JOIN accounts AS a ON a.n = k.account JOIN balances AS b ON b.n = k.account JOIN keys AS r ON r.n = ` +
	`k.root `

func scanKey(row *sqlite.Stmt) (k ledger.Key) {
	readColumns(row, 0, &k.ID, &k.Account, &k.AccountName, &k.Name, &k.Last4, &k.Revoked, &k.Created, &k.Expires, &k.SpendCap,
		&k.Spent)
	return k
}

// CreateKey implements ledger.Store.
func (s *Store) CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	var c book.KeyChanged
	err := s.write(ctx, "create_key", func(t *tx) error {
		a, err := t.account(account)
		if err != nil {
			return err
		}
		taken, err := t.keyTaken(a, name, hash)
		if err != nil {
			return err
		}
		id, err := t.newID("key_")
		if err != nil {
			return err
		}
		k := book.ApplyChange(ledger.Key{ID: id, Account: account, Last4: last4}, change)
		k.Name = name
		if c, err = book.CreateKey(a.Account, k, hash, taken, t.by(ctx)); err != nil {
			return err
		}
		if err := t.insertKey(a, &c.Key, hash, nil); err != nil {
			return err
		}
		a.Account = c.Account
		return t.record(a, c.Act)
	})
	return result(c.Key, err, "creating key %q", name)
}

func (t *tx) keyTaken(a *account, name string, hash [32]byte) (taken book.Taken, err error) {
	if taken.Name, err = t.keyNamed(a, name); err == nil {
		taken.Hash, err = t.exists(`SELECT 1 FROM keys WHERE hash = ?`, hash)
	}
	return taken, err
}

func (t *tx) keyNamed(a *account, name string) (bool, error) {
	return t.exists(`SELECT 1 FROM keys WHERE account = ? AND name = ?`, a.n, name)
}

// insertKey writes a new key of a line, or the first of its own (nil), which has the cap.
func (t *tx) insertKey(a *account, k *ledger.Key, hash [32]byte, root *int64) error {
	var n int64
	err := t.query(`SELECT coalesce(max(n), 0) + 1 FROM keys`, to(&n))
	if err != nil {
		return err
	}
	spendCap := int64(0)
	if root == nil {
		root, spendCap = &n, k.SpendCap
	}
	return t.exec(
		`INSERT INTO keys (n, id, account, name, hash, last4, created, expires, root, spend_cap) VALUES (?, ?, ?, ?, ?, ?, `+
			`?, ?, ?, ?)`,
		n, k.ID, a.n, k.Name, hash, k.Last4, k.Created, optionalTime(k.Expires), *root, spendCap)
}

// ChangeKey implements ledger.Store.
func (s *Store) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (k ledger.Key, err error) {
	err = s.changeKey(ctx, "change_key", id, func(t *tx, a *account, was ledger.Key) error {
		taken, err := t.keyNamed(a, book.ApplyChange(was, change).Name)
		if err != nil {
			return err
		}
		c, err := book.ChangeKey(a.Account, was, change, taken, t.by(ctx))
		if err != nil {
			return err
		}
		k = c.Key
		return t.saveKey(a, &c)
	})
	return result(k, err, "changing a key")
}

// RevokeKey implements ledger.Store. A key that is revoked already stays so.
func (s *Store) RevokeKey(ctx context.Context, id string) (k ledger.Key, err error) {
	err = s.changeKey(ctx, "revoke_key", id, func(t *tx, a *account, was ledger.Key) error {
		c, err := book.RevokeKey(a.Account, was, t.by(ctx))
		if err != nil {
			return err
		}
		k = c.Key
		return t.saveKey(a, &c)
	})
	return result(k, err, "revoking a key")
}

// RotateKey implements ledger.Store.
func (s *Store) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	err = s.changeKey(ctx, "rotate_key", id, func(t *tx, a *account, was ledger.Key) error {
		retired, err := book.RetiredName(was.Name, func(name string) (bool, error) { return t.keyNamed(a, name) })
		if err != nil {
			return err
		}
		ref, err := t.key(t.conn, a, was.ID)
		if err != nil {
			return err
		}
		taken, err := t.keyTaken(a, "", hash) // its name is the old one's, which is free then
		if err != nil {
			return err
		}
		freshID, err := t.newID("key_")
		if err != nil {
			return err
		}
		c, err := book.RotateKey(a.Account, was, freshID, hash, last4, overlap, retired, taken, t.by(ctx))
		if err != nil {
			return err
		}
		fresh, old = c.Fresh, c.Old
		if err := t.writeKey(a, &c.Old); err != nil {
			return err
		}
		if err := t.insertKey(a, &c.Fresh, hash, &ref.root); err != nil {
			return err
		}
		a.Account = c.Account
		return t.record(a, c.Acts[:]...)
	})
	if err != nil {
		return ledger.Key{}, ledger.Key{}, fmt.Errorf("rotating a key: %w", err)
	}
	return fresh, old, nil
}

// changeKey runs an operation on a key of an account.
func (s *Store) changeKey(ctx context.Context, operation, id string, fn func(*tx, *account, ledger.Key) error) error {
	return s.write(ctx, operation, func(t *tx) error {
		var k ledger.Key
		read := func(row *sqlite.Stmt) error {
			k = scanKey(row)
			return nil
		}
		if err := t.query(selectKey+`WHERE k.id = ?`, read, id); err != nil {
			return err
		}
		if k.Account == "" {
			return fmt.Errorf("%w: no such key; keys are named by their id, which begins with key_", ledger.ErrNotFound)
		}
		a, err := t.account(k.Account)
		if err != nil {
			return err
		}
		// Once more, for what the key spent begins anew with the account's period.
		if err := t.query(selectKey+`WHERE k.id = ?`, read, id); err != nil {
			return err
		}
		return fn(t, a, k)
	})
}

// saveKey writes a change of a key that was decided.
func (t *tx) saveKey(a *account, c *book.KeyChanged) error {
	if c.Act.Seq == 0 {
		return nil
	}
	if err := t.writeKey(a, &c.Key); err != nil {
		return err
	}
	a.Account = c.Account
	return t.record(a, c.Act)
}

// writeKey writes what can be changed of a key, and the cap of its line.
func (t *tx) writeKey(a *account, k *ledger.Key) error {
	ref, l, err := t.line(a, k.ID)
	if err != nil {
		return err
	}
	err = t.exec(`UPDATE keys SET name = ?, revoked = ?, expires = ? WHERE n = ?`,
		k.Name, k.Revoked, optionalTime(k.Expires), ref.n)
	if err != nil || l.Cap == k.SpendCap {
		return err
	}
	l.Cap = k.SpendCap
	return t.exec(`UPDATE keys SET spend_cap = ? WHERE n = ?`, l.Cap, l.root)
}

// Lookup implements ledger.Store. The index compares hashes of 256-bit secrets, whose timing tells nothing
// that helps to find one (GAP-15).
func (s *Store) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	var p ledger.Principal
	err := s.read(ctx, "lookup", func(conn *sqlite.Conn) error {
		n, known, err := findKey(conn, hash)
		if err != nil {
			return err
		}
		err = run(conn, principalQuery,
			func(row *sqlite.Stmt) error {
				a, k := &p.Account, &p.Key
				readColumns(row, 0, &k.ID, &k.Name, &k.Last4, &k.Revoked, &k.Created, &k.Expires, &k.SpendCap, &a.ID, &a.Name, &a.Plan,
					(*string)(&a.State), &a.Created)
				own := scanSettings(row, 12)
				k.Account, a.Limits, a.Profile, a.Requires = a.ID, own.Limits, own.Profile, own.Requires
				return nil
			}, n)
		if err == nil && !known {
			err = fmt.Errorf("%w: no key with this hash", ledger.ErrNotFound)
		}
		return err
	})
	return result(p, err, "looking up a key")
}

const principalQuery = `SELECT k.id, k.name, k.last4, k.revoked, k.created, k.expires, r.spend_cap, a.id, a.name,
	a.plan, a.state, a.created, ` + settingColumns + `
	FROM keys AS k JOIN accounts AS a ON a.n = k.account JOIN keys AS r ON r.n = k.root WHERE k.n = ?`

// findKey is the number of the key with a hash, and of the newest one where there is none: that is read in its place,
// so that a key that nobody has takes the work of one that was revoked, or has expired.
func findKey(conn *sqlite.Conn, hash [32]byte) (n int64, known bool, err error) {
	err = run(conn, `SELECT k.n IS NOT NULL, coalesce(k.n, newest.n, 0)
		FROM (SELECT max(n) AS n FROM keys) AS newest LEFT JOIN keys AS k ON k.hash = ?`, to(&known, &n), hash)
	return n, known, err
}
