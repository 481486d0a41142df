package sqlite

import (
	"context"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// entryColumns are those of entries AS e with their account AS a, in the order of scanEntry.
const entryColumns = `e.n, a.id, e.seq, e.kind, e.book, e.request, e.reference, e.reason, e.prices,
	e.microcents, e.credits, e.accrued, e.created, e.format, e.prev, e.waived, e.over, e.tokens, e.detail`

// entryWidth is how many columns entryColumns names.
const entryWidth = 19

// scanEntry gives as N where the row lies, see published.
func scanEntry(row *sqlite.Stmt) (e ledger.Entry) {
	readColumns(row, 0, &e.N, &e.Account, &e.Seq, (*string)(&e.Kind), (*string)(&e.Book), &e.Request, &e.Reference,
		&e.Reason, &e.Prices, &e.Microcents, &e.Credits, &e.Accrued, &e.Created, &e.Format, &e.Prev, &e.Waived, &e.Over,
		&e.Tokens, &e.Detail)
	return e
}

// published is an entry as others see it: since format 3 it has no number but its account's.
func published(e ledger.Entry) ledger.Entry {
	if e.Format >= 3 {
		e.N = 0
	}
	return e
}

// The two ways to the entries of one account. Nothing but the links from each entry to the one before it finds
// them, for an index would cost every charge. Following links costs more for an entry than reading on, so an
// account that has many of them is found faster by reading the journal.
const (
	chainOfAccount = `WITH RECURSIVE chain(n, before) AS (
			SELECT e.n, e.before FROM balances AS b JOIN entries AS e ON e.n = b.last WHERE b.n = ?1
			UNION ALL SELECT e.n, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before WHERE c.before < c.n
		) SELECT ` + entryColumns + ` FROM chain AS c CROSS JOIN entries AS e ON e.n = c.n CROSS JOIN accounts AS a ON a.n ` +
		`= ?1
		WHERE e.created >= ?2 AND e.created < ?3 AND e.n <= ?4 ORDER BY c.n`
	// recentOfAccount ends at the first entry that is too old.
	recentOfAccount = `WITH RECURSIVE chain(n, before, created) AS (
			SELECT e.n, e.before, e.created FROM balances AS b JOIN entries AS e ON e.n = b.last WHERE b.n = ?1
			UNION ALL SELECT e.n, e.before, e.created FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before
			WHERE c.before < c.n AND c.created >= ?2
		) SELECT ` + entryColumns + ` FROM chain AS c CROSS JOIN entries AS e ON e.n = c.n CROSS JOIN accounts AS a ON a.n ` +
		`= ?1
		WHERE e.created >= ?2 AND e.created < ?3 AND e.n <= ?4 ORDER BY c.n`
	scanForAccount = `SELECT ` + entryColumns + ` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account
		WHERE e.account = ?1 AND e.created >= ?2 AND e.created < ?3 AND e.n <= ?4 ORDER BY e.n`
	wholeJournal = `SELECT ` + entryColumns + ` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account
		WHERE e.created >= ?1 AND e.created < ?2 AND e.n <= ?3 ORDER BY e.n`

	// linkCost is how many entries are read in the time in which one link is followed and sorted.
	linkCost = 8
)

// Entries implements ledger.Books.
func (b *books) Entries(ctx context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	err := b.list(ctx, "entries", func(conn *sqlite.Conn) error {
		since, until := q.Bounds()
		covered, err := coveredBy(conn, q.Checkpoint)
		if err != nil {
			return err
		}
		row := func(row *sqlite.Stmt) error { return give(each, published(scanEntry(row))) }
		if q.Account == "" {
			return run(conn, wholeJournal, row, since, until, covered)
		}
		n, err := accountNumber(conn, q.Account)
		if err != nil {
			return err
		}
		query := recentOfAccount
		if !q.Recent {
			if query, err = wayTo(conn, n); err != nil {
				return err
			}
		}
		return run(conn, query, row, n, since, until, covered)
	})
	return wrap(err, "listing entries")
}

// coveredBy is how far in the journal a checkpoint reaches; to its end for 0.
func coveredBy(conn *sqlite.Conn, checkpoint int64) (n int64, err error) {
	if checkpoint == 0 {
		return math.MaxInt64, nil
	}
	n = -1
	err = run(conn, `SELECT entries FROM checkpoints WHERE n = ?`, to(&n), checkpoint)
	if err == nil && n < 0 {
		err = fmt.Errorf("%w: checkpoint %d", ledger.ErrNotFound, checkpoint)
	}
	return n, err
}

// wayTo chooses how the entries of an account are found.
func wayTo(conn *sqlite.Conn, account int64) (query string, err error) {
	err = run(conn, `SELECT entries > (SELECT max(n) FROM entries) / ? FROM balances WHERE n = ?`,
		func(row *sqlite.Stmt) error {
			if query = chainOfAccount; row.ColumnBool(0) {
				query = scanForAccount
			}
			return nil
		}, linkCost, account)
	return query, err
}
