package sqlite

import (
	"context"
	"math"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Account implements ledger.Books.
func (b *books) Account(ctx context.Context, idOrName string) (a ledger.Account, err error) {
	err = b.brief(ctx, "account", func(conn *sqlite.Conn) error {
		row, err := findRow(conn, idOrName)
		if err == nil {
			a = row.Show()
		}
		return err
	})
	return wrapResult(a, err, "finding an account")
}

// findRow reads an account by its id or by its name, which never begins like an id.
func findRow(conn *sqlite.Conn, idOrName string) (a *account, err error) {
	where := `WHERE a.name = ?`
	if strings.HasPrefix(idOrName, book.AccountPrefix) {
		where = `WHERE a.id = ?`
	}
	err = run(conn, `SELECT `+accountColumns+`, `+accountHeld+` FROM accounts AS a JOIN balances AS b ON b.n = a.n `+where,
		func(row *sqlite.Stmt) error {
			a = scanRow(row)
			a.Held = row.ColumnInt64(accountWidth)
			return nil
		}, idOrName)
	if err == nil && a == nil {
		err = book.NoAccount(idOrName)
	}
	return a, err
}

const allAccounts = `SELECT ` + accountColumns + ` FROM accounts AS a JOIN balances AS b ON b.n = a.n WHERE a.n > ?
	ORDER BY a.n`

// Accounts implements ledger.Books.
func (b *books) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	err := b.list(ctx, "accounts", func(conn *sqlite.Conn) (err error) {
		first := int64(0)
		if after != "" {
			if first, err = accountNumber(conn, after); err != nil {
				return err
			}
		}
		held := make(map[int64]int64) // by those that hold something
		err = run(conn, `SELECT account, sum(hold) FROM holds GROUP BY account`, func(row *sqlite.Stmt) error {
			held[row.ColumnInt64(0)] = row.ColumnInt64(1)
			return nil
		})
		if err != nil {
			return err
		}
		return run(conn, allAccounts, func(row *sqlite.Stmt) error {
			a := scanRow(row)
			a.Held = held[a.n]
			return give(each, a.Show())
		}, first)
	})
	return wrap(err, "listing accounts")
}

// Keys implements ledger.Books.
func (b *books) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	err := b.list(ctx, "keys", func(conn *sqlite.Conn) (err error) {
		where, order, args := `WHERE k.n > ?`, ` ORDER BY k.n`, []any{int64(0)}
		if q.Newest {
			where, order, args = `WHERE k.n < ?`, ` ORDER BY k.n DESC`, []any{int64(math.MaxInt64)}
		}
		if q.After != "" {
			n := int64(0)
			if err = run(conn, `SELECT n FROM keys WHERE id = ?`, to(&n), q.After); err == nil && n == 0 {
				err = book.NoKey(q.After, "")
			}
			args[0] = n
		}
		if err == nil && q.Account != "" {
			var n int64
			n, err = accountNumber(conn, q.Account)
			where, args = where+` AND k.account = ?`, append(args, n)
		}
		if err != nil {
			return err
		}
		switch {
		case q.Named != "" && q.Account != "":
			where, args = where+` AND (k.id = ? OR k.name = ?)`, append(args, q.Named, q.Named)
		case q.Named != "":
			where, args = where+` AND k.id = ?`, append(args, q.Named)
		}
		return run(conn, selectKey+where+order, func(row *sqlite.Stmt) error { return give(each, scanKey(row)) }, args...)
	})
	return wrap(err, "listing keys")
}

// Plans implements ledger.Books, in alphabetical order.
func (b *books) Plans(ctx context.Context) (plans []string, err error) {
	err = b.brief(ctx, "plans", func(conn *sqlite.Conn) error {
		// Of the index on plans only the first of each is read: there are a million accounts and a few plans.
		return run(conn, `WITH RECURSIVE used(plan) AS (
			SELECT min(plan) FROM accounts WHERE plan > ''
			UNION ALL SELECT (SELECT min(plan) FROM accounts WHERE plan > used.plan) FROM used WHERE plan IS NOT NULL
		) SELECT plan FROM used WHERE plan IS NOT NULL`, appendTo(&plans, firstText))
	})
	return wrapResult(plans, err, "listing plans")
}

// accountNumber is how the tables name the account with this id.
func accountNumber(conn *sqlite.Conn, id string) (n int64, err error) {
	err = run(conn, `SELECT n FROM accounts WHERE id = ?`, to(&n), id)
	if err == nil && n == 0 {
		err = book.NoAccount(id)
	}
	return n, err
}
