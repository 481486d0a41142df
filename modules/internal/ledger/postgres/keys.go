package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// selectKeys reads keys AS k with their account and their line.
const selectKeys = `SELECT k.key, k.account, a.name, k.name, k.last4, k.revoked, k.created, k.expires, l.spend_cap,
	l.spent - l.spent_before FROM keys AS k JOIN accounts AS a ON a.account = k.account
	JOIN key_lines AS l ON l.account = k.account AND l.root = k.root `

func scanKey(row pgx.Rows) (k ledger.Key, err error) {
	var created int64
	var expires *int64
	err = row.Scan(&k.ID, &k.Account, &k.AccountName, &k.Name, &k.Last4, &k.Revoked, &created, &expires, &k.SpendCap,
		&k.Spent)
	k.Created, k.Expires = moment(created), optionalMoment(expires)
	return k, err
}

// takenKey is what other keys have: a name, of the account, and a hash.
func (u *unit) takenKey(account, name string, hash [32]byte) (taken book.Taken, err error) {
	if taken.Name, err = u.exists(`SELECT 1 FROM keys WHERE account = $1 AND name = $2`, account, name); err == nil {
		taken.Hash, err = u.exists(`SELECT 1 FROM hashes WHERE hash = $1`, hash[:])
	}
	return taken, err
}

// CreateKey implements ledger.Store.
func (s *Store) CreateKey(ctx context.Context, of, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	id := newID("key_")
	_, c, err := s.change(ctx, "create_key", of, "", func(u *unit, a *account, by book.By) (book.Change, error) {
		taken, err := u.takenKey(a.ID, name, hash)
		if err != nil {
			return book.Change{}, err
		}
		k := book.ApplyChange(ledger.Key{ID: id, Account: a.ID, Last4: last4}, change)
		k.Name = name
		return book.CreateKey(a.Account, book.FreshKey{Key: k, Hash: hash}, taken, by)
	})
	return c.Fresh.Key, wrap(err, "creating key %q", name)
}

// changeKey changes a key as is decided.
func (s *Store) changeKey(ctx context.Context, name, id string,
	decide func(*unit, *account, ledger.Key, book.By) (book.Change, error)) (c book.Change, err error) {
	of := ""
	err = queryRows(ctx, s.pool, to(&of), `SELECT account FROM keys WHERE key = $1`, id)
	switch {
	case err != nil:
		return c, unavailable(err)
	case of == "":
		return c, book.NoKey(id, "")
	}
	_, c, err = s.change(ctx, name, of, "", func(u *unit, a *account, by book.By) (c book.Change, err error) {
		var k ledger.Key
		err = u.query(func(row pgx.Rows) (err error) {
			k, err = scanKey(row)
			return err
		}, selectKeys+`WHERE k.account = $1 AND k.key = $2`, of, id)
		if err != nil {
			return c, err
		}
		l, err := u.line(of, id) // a period may have begun
		if err != nil {
			return c, err
		}
		k.Spent = l.Spent - l.Before
		return decide(u, a, k, by)
	})
	return c, err
}

// ChangeKey implements ledger.Store.
func (s *Store) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	c, err := s.changeKey(ctx, "change_key", id,
		func(u *unit, a *account, k ledger.Key, by book.By) (book.Change, error) {
			taken, err := u.takenKey(a.ID, book.ApplyChange(k, change).Name, [32]byte{})
			if err != nil {
				return book.Change{}, err
			}
			return book.ChangeKey(a.Account, k, change, taken.Name, by)
		})
	return c.Key, wrap(err, "changing key %q", id)
}

// RevokeKey implements ledger.Store.
func (s *Store) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	c, err := s.changeKey(ctx, "revoke_key", id,
		func(_ *unit, a *account, k ledger.Key, by book.By) (book.Change, error) {
			return book.RevokeKey(a.Account, k, by)
		})
	return c.Key, wrap(err, "revoking key %q", id)
}

// RotateKey implements ledger.Store.
func (s *Store) RotateKey(ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration) (
	fresh, old ledger.Key, err error,
) {
	replacement := newID("key_")
	c, err := s.changeKey(ctx, "rotate_key", id,
		func(u *unit, a *account, k ledger.Key, by book.By) (book.Change, error) {
			retired, err := book.RetiredName(k.Name, func(name string) (bool, error) {
				taken, err := u.takenKey(a.ID, name, hash)
				return taken.Name, err
			})
			if err != nil {
				return book.Change{}, err
			}
			taken, err := u.takenKey(a.ID, "", hash)
			if err != nil {
				return book.Change{}, err
			}
			next := book.FreshKey{Key: ledger.Key{ID: replacement, Last4: last4}, Hash: hash}
			return book.RotateKey(a.Account, k, next, overlap, retired, taken.Hash, by)
		})
	return c.Fresh.Key, c.Key, wrap(err, "rotating key %q", id)
}

// Lookup implements ledger.Store.
func (s *Store) Lookup(ctx context.Context, hash [32]byte) (p ledger.Principal, err error) {
	var account, key string
	if err = queryRows(ctx, s.pool, to(&account, &key), `SELECT account, key FROM hashes WHERE hash = $1`,
		hash[:]); err == nil {
		err = ledger.ErrNotFound
		if account != "" {
			p, err = s.principal(ctx, account, key)
		}
	}
	return p, wrap(unavailable(err), "looking a key up")
}

func (s *Store) principal(ctx context.Context, account, key string) (p ledger.Principal, err error) {
	err = queryRows(ctx, s.pool, func(row pgx.Rows) (err error) {
		p.Key, err = scanKey(row)
		return err
	}, selectKeys+`WHERE k.account = $1 AND k.key = $2`, account, key)
	if err != nil {
		return p, err
	}
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		a, err := scanAccount(row)
		p.Account = a.Show()
		return err
	}, selectAccount+`WHERE a.account = $1`, account)
	p.Account.Balance, p.Account.Period, p.Account.Mail = ledger.Balance{}, ledger.Period{}, nil
	p.Key.Spent, p.Key.AccountName = 0, ""
	return p, err
}
