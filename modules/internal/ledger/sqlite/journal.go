package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// purse is the part of an account's row that money moves in: what it owns, and the head of its chain.
type purse struct {
	ledger.Balance
	account string
	head    [32]byte
	entries int64
}

func findPurse(conn *sqlite.Conn, account string) (purse, error) {
	p, found := purse{account: account}, false
	err := run(conn, `SELECT credits, held, accrued, head, entries FROM accounts WHERE id = ?`,
		func(row *sqlite.Stmt) error {
			p.Balance = ledger.Balance{Credits: row.ColumnInt64(0), Held: row.ColumnInt64(1), Accrued: row.ColumnInt64(2)}
			p.head, p.entries, found = columnHash(row, 3), row.ColumnInt64(4), true
			return nil
		}, account)
	if err == nil && !found {
		err = fmt.Errorf("%w: account %q", ledger.ErrNotFound, account)
	}
	return p, err
}

func (p *purse) save(t *tx) error {
	return t.exec(`UPDATE accounts SET credits = ?, held = ?, accrued = ?, head = ?, entries = ? WHERE id = ?`,
		p.Credits, p.Held, p.Accrued, p.head, p.entries, p.account)
}

// post moves money: the caller says what and why, post what follows from it. The purse is to be saved after.
func (p *purse) post(t *tx, e ledger.Entry) error {
	after, err := p.Add(e.Microcents)
	if err != nil {
		return err
	}
	p.Balance = after
	p.entries++
	e.Account, e.Seq, e.Prev = p.account, p.entries, p.head
	e.Credits, e.Accrued = after.Credits, after.Accrued
	p.head = e.Hash()
	return t.exec(`INSERT INTO entries (account, seq, kind, request, reference, reason, microcents, credits, accrued, created, prev, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Account, e.Seq, string(e.Kind), optional(e.Request), optional(e.Reference), e.Reason,
		e.Microcents, e.Credits, e.Accrued, e.Created, e.Prev, p.head)
}

// AddCredit implements ledger.Store.
func (s *Store) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	err = s.write(ctx, "add_credit", func(t *tx) error {
		applied = false
		if c.Credits < 1 || c.Credits > ledger.MaxTopUp {
			return fmt.Errorf("%w: a top-up has 1 to %d credits", ledger.ErrInvalid, int64(ledger.MaxTopUp))
		}
		if err := checkText("a reference", c.Reference); err != nil {
			return err
		}
		if err := checkText("a reason", c.Reason); err != nil {
			return err
		}
		p, err := findPurse(t.conn, c.Account)
		if err != nil {
			return err
		}
		b = p.Balance
		if c.Reference != "" {
			seen := false
			err := t.query(`SELECT 1 FROM entries WHERE account = ? AND reference = ?`,
				func(*sqlite.Stmt) error { seen = true; return nil }, c.Account, c.Reference)
			if err != nil || seen {
				return err
			}
		}
		err = p.post(t, ledger.Entry{
			Kind:       ledger.TopUp,
			Reference:  c.Reference,
			Reason:     c.Reason,
			Microcents: c.Credits * ledger.MicrocentsPerCredit,
			Created:    s.opts.Now(),
		})
		if err != nil {
			return err
		}
		b, applied = p.Balance, true
		return p.save(t)
	})
	if err != nil {
		return ledger.Balance{}, false, fmt.Errorf("adding credits: %w", err)
	}
	return b, applied, nil
}

// PriceVersion implements ledger.Store.
func (s *Store) PriceVersion(ctx context.Context, route string, price config.Price) (version int64, err error) {
	err = s.write(ctx, "price_version", func(t *tx) error {
		if min(price.Input, price.CacheRead, price.CacheWrite, price.Output) < 0 {
			return fmt.Errorf("%w: a negative price", ledger.ErrInvalid)
		}
		version = 0
		var last config.Price
		err := t.query(`SELECT version, input, cache_read, cache_write, output FROM prices
			WHERE route = ? ORDER BY version DESC LIMIT 1`, func(row *sqlite.Stmt) error {
			version, last = row.ColumnInt64(0), scanPrice(row, 1)
			return nil
		}, route)
		if err != nil || version > 0 && last == price {
			return err
		}
		version++
		return t.exec(`INSERT INTO prices (route, version, input, cache_read, cache_write, output, since) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			route, version, price.Input, price.CacheRead, price.CacheWrite, price.Output, s.opts.Now())
	})
	if err != nil {
		return 0, fmt.Errorf("recording the price of route %q: %w", route, err)
	}
	return version, nil
}

// scanPrice reads four columns from col on.
func scanPrice(row *sqlite.Stmt, col int) config.Price {
	return config.Price{
		Input:      row.ColumnInt64(col),
		CacheRead:  row.ColumnInt64(col + 1),
		CacheWrite: row.ColumnInt64(col + 2),
		Output:     row.ColumnInt64(col + 3),
	}
}
