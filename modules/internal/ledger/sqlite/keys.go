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
	readColumns(row, 0, &k.ID, &k.Account, &k.AccountName, &k.Name, &k.Last4, &k.Revoked, &k.Created, &k.Expires,
		&k.SpendCap, &k.Spent)
	return k
}

// CreateKey implements ledger.Store.
func (s *Store) CreateKey(ctx context.Context, of, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	_, c, err := s.changeAccount(ctx, "create_key", byID(of), func(t *tx, a *account, by book.By) (book.Change, error) {
		named, err := t.keyNamed(a, name)
		if err != nil {
			return book.Change{}, err
		}
		k, taken, err := t.freshKey(hash)
		if err != nil {
			return book.Change{}, err
		}
		k.Account, k.Last4 = a.ID, last4
		k.Key = book.ApplyChange(k.Key, change)
		k.Name = name
		return book.CreateKey(a.Account, k, book.Taken{Name: named, Hash: taken}, by)
	})
	return wrapResult(c.Fresh.Key, err, "creating key %q", name)
}

// freshKey is a new key with an id; taken: another one has its hash.
func (t *tx) freshKey(hash [32]byte) (k book.FreshKey, taken bool, err error) {
	k.Hash = hash
	if k.ID, err = t.newID("key_"); err == nil {
		taken, err = t.exists(`SELECT 1 FROM keys WHERE hash = ?`, hash)
	}
	return k, taken, err
}

func (t *tx) keyNamed(a *account, name string) (bool, error) {
	return t.exists(`SELECT 1 FROM keys WHERE account = ? AND name = ?`, a.n, name)
}

// insertKey writes a new key of the line of another (its id), or the first of its own (""), which has the cap.
func (t *tx) insertKey(a *account, k *book.FreshKey, of string) error {
	var n int64
	if err := t.query(`SELECT coalesce(max(n), 0) + 1 FROM keys`, to(&n)); err != nil {
		return err
	}
	root, spendCap := n, k.SpendCap
	if of != "" {
		ref, err := t.key(t.conn, a, of)
		if err != nil {
			return err
		}
		root, spendCap = ref.root, 0
	}
	return t.exec(
		`INSERT INTO keys (n, id, account, name, hash, last4, created, expires, root, spend_cap) VALUES (?, ?, ?, ?, ?, ?, `+
			`?, ?, ?, ?)`,
		n, k.ID, a.n, k.Name, k.Hash, k.Last4, k.Created, optionalTime(k.Expires), root, spendCap)
}

// saveKey writes what can be changed of a key, and the cap of its line.
func (t *tx) saveKey(a *account, k *ledger.Key) error {
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

// ChangeKey implements ledger.Store.
func (s *Store) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	c, err := s.changeKey(ctx, "change_key", id, func(t *tx, a *account, k ledger.Key, by book.By) (book.Change, error) {
		taken, err := t.keyNamed(a, book.ApplyChange(k, change).Name)
		if err != nil {
			return book.Change{}, err
		}
		return book.ChangeKey(a.Account, k, change, taken, by)
	})
	return wrapResult(c.Key, err, "changing a key")
}

// RevokeKey implements ledger.Store. A key that is revoked already stays so.
func (s *Store) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	c, err := s.changeKey(ctx, "revoke_key", id, func(_ *tx, a *account, k ledger.Key, by book.By) (book.Change, error) {
		return book.RevokeKey(a.Account, k, by)
	})
	return wrapResult(c.Key, err, "revoking a key")
}

// RotateKey implements ledger.Store.
func (s *Store) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	c, err := s.changeKey(ctx, "rotate_key", id, func(t *tx, a *account, k ledger.Key, by book.By) (book.Change, error) {
		retired, err := book.RetiredName(k.Name, func(name string) (bool, error) { return t.keyNamed(a, name) })
		if err != nil {
			return book.Change{}, err
		}
		fresh, taken, err := t.freshKey(hash)
		if err != nil {
			return book.Change{}, err
		}
		fresh.Last4 = last4
		return book.RotateKey(a.Account, k, fresh, overlap, retired, taken, by)
	})
	return c.Fresh.Key, c.Key, wrap(err, "rotating a key")
}

// changeKey changes a key of an account as is decided.
func (s *Store) changeKey(ctx context.Context, operation, id string,
	decide func(*tx, *account, ledger.Key, book.By) (book.Change, error)) (book.Change, error) {
	var k ledger.Key
	read := func(row *sqlite.Stmt) error {
		k = scanKey(row)
		return nil
	}
	_, c, err := s.changeAccount(ctx, operation, func(t *tx) (*account, error) {
		k = ledger.Key{}
		if err := t.query(selectKey+`WHERE k.id = ?`, read, id); err != nil {
			return nil, err
		}
		if k.Account == "" {
			return nil, fmt.Errorf("%w: no such key; keys are named by their id, which begins with key_", ledger.ErrNotFound)
		}
		return t.account(k.Account)
	}, func(t *tx, a *account, by book.By) (book.Change, error) {
		// Once more, for what the key spent begins anew with the account's period.
		if err := t.query(selectKey+`WHERE k.id = ?`, read, id); err != nil {
			return book.Change{}, err
		}
		return decide(t, a, k, by)
	})
	return c, err
}

// Lookup implements ledger.Store. The index compares hashes of 256-bit secrets, whose timing tells nothing
// that helps to find one (GAP-15).
func (s *Store) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	var p ledger.Principal
	known := false
	err := s.read(ctx, "lookup", func(conn *sqlite.Conn) error {
		err := run(conn, lookupQuery, func(row *sqlite.Stmt) error {
			a, k := &p.Account, &p.Key
			readColumns(row, 0, &known, &k.ID, &k.Name, &k.Last4, &k.Revoked, &k.Created, &k.Expires, &k.SpendCap,
				&a.ID, &a.Name, &a.Plan, (*string)(&a.State), &a.Created)
			own := scanSettings(row, 13)
			k.Account, a.Limits, a.Profile, a.Requires = a.ID, own.Limits, own.Profile, own.Requires
			return nil
		}, hash)
		if err == nil && !known {
			err = fmt.Errorf("%w: no key with this hash", ledger.ErrNotFound)
		}
		return err
	})
	return wrapResult(p, err, "looking up a key")
}

// lookupQuery finds the key with a hash, and says whether there is one. Where there is none it reads the newest key in
// its place, so that a key that nobody has takes the work of one that was revoked, or has expired.
const lookupQuery = `SELECT found.n IS NOT NULL, k.id, k.name, k.last4, k.revoked, k.created, k.expires, r.spend_cap,
	a.id, a.name, a.plan, a.state, a.created, ` + settingColumns + `
	FROM (SELECT max(n) AS n FROM keys) AS newest LEFT JOIN keys AS found ON found.hash = ?
	JOIN keys AS k ON k.n = coalesce(found.n, newest.n)
	JOIN accounts AS a ON a.n = k.account JOIN keys AS r ON r.n = k.root`
