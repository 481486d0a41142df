package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// The Store shows accounts and keys in their current period, which the file alone cannot: it knows no plans.

// Account implements ledger.Store: an account whose period is over is shown in the next one.
func (s *Store) Account(ctx context.Context, idOrName string) (a ledger.Account, err error) {
	overdue := false
	err = s.read(ctx, "account", func(conn *sqlite.Conn) error {
		row, err := findRow(conn, idOrName)
		if err == nil {
			a, overdue = row.Show(), s.opts.overdue(row)
		}
		return err
	})
	if err == nil && overdue {
		a, _, err = s.changeAccount(ctx, "account", byID(a.ID), func(_ *tx, a *account, _ book.By) (book.Change, error) {
			return book.Change{}, nil
		})
	}
	return wrapResult(a, err, "finding an account")
}

// Accounts implements ledger.Store, in the same way.
func (s *Store) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	if _, err := s.EndPeriods(ctx); err != nil {
		return fmt.Errorf("listing accounts: %w", err)
	}
	return s.books.Accounts(ctx, after, each)
}

// Keys implements ledger.Store, in the same way: what a key spent is counted by its account's period.
func (s *Store) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	if _, err := s.EndPeriods(ctx); err != nil {
		return fmt.Errorf("listing keys: %w", err)
	}
	return s.books.Keys(ctx, q, each)
}
