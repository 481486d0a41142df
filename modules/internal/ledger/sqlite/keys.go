package sqlite

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// selectKey reads keys AS k with their account, which is a and b, and the first key of their line AS r.
const selectKey = `SELECT k.id, a.id, a.name, k.name, k.last4, k.revoked, k.created, k.expires, r.spend_cap,
	r.spent + iif(b.line = r.n, b.line_spent, 0) - r.spent_before
	FROM keys AS k JOIN accounts AS a ON a.n = k.account JOIN balances AS b ON b.n = k.account JOIN keys AS r ON r.n = ` +
	`k.root `

func scanKey(row *sqlite.Stmt) ledger.Key {
	return ledger.Key{
		ID:          row.ColumnText(0),
		Account:     row.ColumnText(1),
		AccountName: row.ColumnText(2),
		Name:        row.ColumnText(3),
		Last4:       row.ColumnText(4),
		Revoked:     row.ColumnBool(5),
		Created:     columnTime(row, 6),
		Expires:     columnOptionalTime(row, 7),
		SpendCap:    row.ColumnInt64(8),
		Spent:       row.ColumnInt64(9),
	}
}

// CreateKey implements ledger.Store.
func (s *Store) CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	k := ledger.Key{Account: account, Name: name, Last4: last4}
	apply(&k, ledger.KeyChange{Expires: change.Expires, SpendCap: change.SpendCap})
	err := s.write(ctx, "create_key", func(t *tx) error {
		a, err := t.account(account)
		if err != nil {
			return err
		}
		if err := t.insertKey(a, &k, hash, nil); err != nil {
			return err
		}
		return t.act(ctx, "key.create", a, k.ID, nil, madeFields(k, hash))
	})
	if err != nil {
		return ledger.Key{}, fmt.Errorf("creating key %q: %w", name, err)
	}
	return k, nil
}

// insertKey makes a key of a line, or the first of its own (nil). It fills in its id and when it was made.
func (t *tx) insertKey(a *account, k *ledger.Key, hash [32]byte, root *int64) error {
	if err := t.checkKeyName(a, k.Name); err != nil {
		return err
	}
	if len(k.Last4) > 4 {
		return fmt.Errorf("%w: more than four characters of a key", ledger.ErrInvalid)
	}
	if err := checkLimits(*k); err != nil {
		return err
	}
	if err := t.absent(`SELECT 1 FROM keys WHERE hash = ?`, hash); err != nil {
		return err
	}
	id, err := t.newID("key_")
	if err != nil {
		return err
	}
	var n int64
	err = t.query(`SELECT coalesce(max(n), 0) + 1 FROM keys`, func(row *sqlite.Stmt) error {
		n = row.ColumnInt64(0)
		return nil
	})
	if err != nil {
		return err
	}
	spendCap := k.SpendCap
	if root == nil {
		root = &n
	} else {
		spendCap = 0 // the first key of the line has it
	}
	k.ID, k.Created = id, t.now()
	return t.exec(
		`INSERT INTO keys (n, id, account, name, hash, last4, created, expires, root, spend_cap) VALUES (?, ?, ?, ?, ?, ?, `+
			`?, ?, ?, ?)`,
		n, k.ID, a.n, k.Name, hash, k.Last4, k.Created, optionalTime(k.Expires), *root, spendCap)
}

// ChangeKey implements ledger.Store.
func (s *Store) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	k, err := s.changeKey(ctx, "change_key", id, func(t *tx, a *account, k *ledger.Key) error {
		was := *k
		apply(k, change)
		before, after := keyChanges(was, *k)
		if len(after) == 0 {
			return nil
		}
		if k.Name != was.Name {
			if err := t.checkKeyName(a, k.Name); err != nil {
				return err
			}
		}
		if err := checkLimits(*k); err != nil {
			return err
		}
		if err := t.saveKey(a, k); err != nil {
			return err
		}
		return t.act(ctx, "key.change", a, k.ID, before, after)
	})
	if err != nil {
		return k, fmt.Errorf("changing a key: %w", err)
	}
	return k, nil
}

// RevokeKey implements ledger.Store. A key that is revoked already stays so.
func (s *Store) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	k, err := s.changeKey(ctx, "revoke_key", id, func(t *tx, a *account, k *ledger.Key) error {
		if k.Revoked {
			return nil
		}
		k.Revoked = true
		if err := t.saveKey(a, k); err != nil {
			return err
		}
		return t.act(ctx, "key.revoke", a, k.ID, fields{"revoked": false}, fields{"revoked": true})
	})
	if err != nil {
		return k, fmt.Errorf("revoking a key: %w", err)
	}
	return k, nil
}

// RotateKey implements ledger.Store.
func (s *Store) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	old, err = s.changeKey(ctx, "rotate_key", id, func(t *tx, a *account, k *ledger.Key) error {
		now := t.now()
		switch {
		case overlap < 0:
			return fmt.Errorf("%w: an overlap of %s", ledger.ErrInvalid, overlap)
		case !k.Usable(now):
			return fmt.Errorf("%w: the key has ended; create another", ledger.ErrInvalid)
		}
		was := *k
		name, err := t.retiredName(a, k.Name)
		if err != nil {
			return err
		}
		fresh = ledger.Key{
			Account: k.Account, AccountName: k.AccountName, Name: k.Name, Last4: last4,
			Expires: k.Expires, SpendCap: k.SpendCap, Spent: k.Spent,
		}
		k.Name = name
		if end := now.Add(overlap); k.Expires.IsZero() || end.Before(k.Expires) {
			k.Expires = end
		}
		if err := checkLimits(*k); err != nil {
			return err
		}
		ref, err := t.key(t.conn, a, k.ID)
		if err != nil {
			return err
		}
		if err := t.absent(`SELECT 1 FROM keys WHERE hash = ?`, hash); err != nil {
			return err
		}
		if err := t.saveKey(a, k); err != nil {
			return err
		}
		if err := t.insertKey(a, &fresh, hash, &ref.root); err != nil {
			return err
		}
		before, after := keyChanges(was, *k)
		after["replaced_by"] = fresh.ID
		if err := t.act(ctx, "key.rotate", a, k.ID, before, after); err != nil {
			return err
		}
		return t.act(ctx, "key.create", a, fresh.ID, nil, madeFields(fresh, hash))
	})
	if err != nil {
		return ledger.Key{}, ledger.Key{}, fmt.Errorf("rotating a key: %w", err)
	}
	return fresh, old, nil
}

// retiredName is the first free one of name~1, name~2, ...
func (t *tx) retiredName(a *account, name string) (string, error) {
	for i := 1; ; i++ {
		retired := name + "~" + strconv.Itoa(i)
		taken := false
		err := t.query(`SELECT 1 FROM keys WHERE account = ? AND name = ?`,
			func(*sqlite.Stmt) error { taken = true; return nil }, a.n, retired)
		if err != nil || !taken {
			return retired, err
		}
	}
}

// changeKey runs an operation on a key and returns the key as the operation left it.
func (s *Store) changeKey(
	ctx context.Context, operation, id string, fn func(*tx, *account, *ledger.Key) error,
) (k ledger.Key, err error) {
	err = s.write(ctx, operation, func(t *tx) error {
		var owner string
		err := t.query(selectKey+`WHERE k.id = ?`, func(row *sqlite.Stmt) error {
			owner = row.ColumnText(1)
			return nil
		}, id)
		if err != nil {
			return err
		}
		if owner == "" {
			return fmt.Errorf("%w: no such key; keys are named by their id, which begins with key_", ledger.ErrNotFound)
		}
		a, err := t.account(owner)
		if err != nil {
			return err
		}
		// Once more, for what the key spent begins anew with the account's period.
		err = t.query(selectKey+`WHERE k.id = ?`, func(row *sqlite.Stmt) error {
			k = scanKey(row)
			return nil
		}, id)
		if err != nil {
			return err
		}
		return fn(t, a, &k)
	})
	if err != nil {
		return ledger.Key{}, err
	}
	return k, nil
}

// saveKey writes what can be changed of a key, and the cap of its line.
func (t *tx) saveKey(a *account, k *ledger.Key) error {
	ref, l, err := t.line(a, k.ID)
	if err != nil {
		return err
	}
	err = t.exec(`UPDATE keys SET name = ?, revoked = ?, expires = ? WHERE n = ?`,
		k.Name, k.Revoked, optionalTime(k.Expires), ref.n)
	if err != nil || l.cap == k.SpendCap {
		return err
	}
	l.cap = k.SpendCap
	return t.exec(`UPDATE keys SET spend_cap = ? WHERE n = ?`, l.cap, l.root)
}

func apply(k *ledger.Key, change ledger.KeyChange) {
	if change.Name != nil {
		k.Name = *change.Name
	}
	if change.Expires != nil {
		k.Expires = *change.Expires
	}
	if change.SpendCap != nil {
		k.SpendCap = *change.SpendCap
	}
}

func (t *tx) checkKeyName(a *account, name string) error {
	if err := checkName("a key's name", name); err != nil {
		return err
	}
	return t.absent(`SELECT 1 FROM keys WHERE account = ? AND name = ?`, a.n, name)
}

func checkLimits(k ledger.Key) error {
	switch {
	case k.SpendCap < 0:
		return fmt.Errorf("%w: a spend cap of %d microcents", ledger.ErrInvalid, k.SpendCap)
	case !k.Expires.IsZero() && (k.Expires.Before(time.Unix(0, 0)) || !k.Expires.Before(ledger.MaxExpiry)):
		return fmt.Errorf("%w: a key that expires %s", ledger.ErrInvalid, expiry(k))
	}
	return nil
}

// keyFields are a key for the audit trail.
func keyFields(k ledger.Key) fields {
	return fields{"name": k.Name, "last4": k.Last4, "expires": expiry(k), "spend_cap_microcents": k.SpendCap}
}

// madeFields are a new key for the audit trail. The beginning of its hash shows later whether another key was put in
// its place, and tells nothing of the key.
func madeFields(k ledger.Key, hash [32]byte) fields {
	f := keyFields(k)
	f["fingerprint"] = hex.EncodeToString(hash[:8])
	f["created"] = k.Created.Format(time.RFC3339Nano)
	return f
}

// keyChanges are what differs between two states of a key.
func keyChanges(was, is ledger.Key) (before, after fields) {
	before, after = keyFields(was), keyFields(is)
	for name, value := range before {
		if after[name] == value {
			delete(before, name)
			delete(after, name)
		}
	}
	return before, after
}

func expiry(k ledger.Key) string {
	if k.Expires.IsZero() {
		return "never"
	}
	return k.Expires.UTC().Format(time.RFC3339Nano)
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
				p.Account = ledger.Account{
					ID:      row.ColumnText(7),
					Name:    row.ColumnText(8),
					Plan:    row.ColumnText(9),
					State:   ledger.State(row.ColumnText(10)),
					Created: columnTime(row, 11),
				}
				own := scanSettings(row, 12)
				p.Account.Limits, p.Account.Profile, p.Account.Requires = own.limits, own.profile, own.requires
				p.Key = ledger.Key{
					ID:       row.ColumnText(0),
					Account:  p.Account.ID,
					Name:     row.ColumnText(1),
					Last4:    row.ColumnText(2),
					Revoked:  row.ColumnBool(3),
					Created:  columnTime(row, 4),
					Expires:  columnOptionalTime(row, 5),
					SpendCap: row.ColumnInt64(6),
				}
				return nil
			}, n)
		if err == nil && !known {
			err = fmt.Errorf("%w: no key with this hash", ledger.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return ledger.Principal{}, fmt.Errorf("looking up a key: %w", err)
	}
	return p, nil
}

const principalQuery = `SELECT k.id, k.name, k.last4, k.revoked, k.created, k.expires, r.spend_cap, a.id, a.name,
	a.plan, a.state, a.created, ` + settingColumns + `
	FROM keys AS k JOIN accounts AS a ON a.n = k.account JOIN keys AS r ON r.n = k.root WHERE k.n = ?`

// findKey is the number of the key with a hash, and of the newest one where there is none: that is read in its place,
// so that a key that nobody has takes the work of one that was revoked, or has expired.
func findKey(conn *sqlite.Conn, hash [32]byte) (n int64, known bool, err error) {
	err = run(conn, `SELECT k.n IS NOT NULL, coalesce(k.n, newest.n, 0)
		FROM (SELECT max(n) AS n FROM keys) AS newest LEFT JOIN keys AS k ON k.hash = ?`, func(row *sqlite.Stmt) error {
		known, n = row.ColumnBool(0), row.ColumnInt64(1)
		return nil
	}, hash)
	return n, known, err
}
