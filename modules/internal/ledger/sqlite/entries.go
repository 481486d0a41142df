package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// entryColumns are those of entries AS e with their account AS a, in the order of scanEntry.
const entryColumns = `e.n, a.id, e.seq, e.kind, e.book, e.request, e.reference, e.reason, e.prices,
	e.microcents, e.credits, e.accrued, e.created, e.format, e.prev`

func scanEntry(row *sqlite.Stmt) ledger.Entry {
	return ledger.Entry{
		N:          row.ColumnInt64(0),
		Account:    row.ColumnText(1),
		Seq:        row.ColumnInt64(2),
		Kind:       ledger.EntryKind(row.ColumnText(3)),
		Book:       ledger.Book(row.ColumnText(4)),
		Request:    row.ColumnText(5),
		Reference:  row.ColumnText(6),
		Reason:     row.ColumnText(7),
		Prices:     row.ColumnText(8),
		Microcents: row.ColumnInt64(9),
		Credits:    row.ColumnInt64(10),
		Accrued:    row.ColumnInt64(11),
		Created:    columnTime(row, 12),
		Format:     row.ColumnInt64(13),
		Prev:       columnHash(row, 14),
	}
}

// The two ways to the entries of one account. Nothing but the links from each entry to the one before it finds
// them, for an index would cost every charge. Following links costs more for an entry than reading on, so an
// account that has many of them is found faster by reading the journal.
const (
	chainOfAccount = `WITH RECURSIVE chain(n, before) AS (
			SELECT e.n, e.before FROM balances AS b JOIN entries AS e ON e.n = b.last WHERE b.n = ?1
			UNION ALL SELECT e.n, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before WHERE c.before < c.n
		) SELECT ` + entryColumns + ` FROM chain AS c CROSS JOIN entries AS e ON e.n = c.n CROSS JOIN accounts AS a ON a.n = ?1
		WHERE e.created >= ?2 AND e.created < ?3 ORDER BY c.n`
	scanForAccount = `SELECT ` + entryColumns + ` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account
		WHERE e.account = ?1 AND e.created >= ?2 AND e.created < ?3 ORDER BY e.n`
	wholeJournal = `SELECT ` + entryColumns + ` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account
		WHERE e.created >= ?1 AND e.created < ?2 ORDER BY e.n`

	// linkCost is how many entries are read in the time in which one link is followed and sorted.
	linkCost = 8
)

// Entries implements ledger.Books.
func (b *books) Entries(ctx context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	err := b.list(ctx, "entries", func(conn *sqlite.Conn) error {
		since, until := between(q)
		row := func(row *sqlite.Stmt) error { return give(each, scanEntry(row)) }
		if q.Account == "" {
			return run(conn, wholeJournal, row, since, until)
		}
		n, err := accountNumber(conn, q.Account)
		if err != nil {
			return err
		}
		query, err := wayTo(conn, n)
		if err != nil {
			return err
		}
		return run(conn, query, row, n, since, until)
	})
	if err != nil {
		return fmt.Errorf("listing entries: %w", err)
	}
	return nil
}

// wayTo chooses how the entries of an account are found.
func wayTo(conn *sqlite.Conn, account int64) (query string, err error) {
	err = run(conn, `SELECT entries > (SELECT max(n) FROM entries) / ? FROM balances WHERE n = ?`, func(row *sqlite.Stmt) error {
		if query = chainOfAccount; row.ColumnBool(0) {
			query = scanForAccount
		}
		return nil
	}, linkCost, account)
	return query, err
}
