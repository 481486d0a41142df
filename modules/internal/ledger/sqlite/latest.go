package sqlite

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

const (
	// latestBatch is how many entries are read before they are given.
	latestBatch = 100
	// latestWindow is how many entries of all accounts are looked through for one of an account, where its newest ones
	// are not wanted. An account that has none among so many has few, and its links are soon followed.
	latestWindow = 20_000

	// latestOfAccount follows the links from the account's entry with number ?2 on, ?3 of them.
	latestOfAccount = `WITH RECURSIVE chain(n, before) AS (
			SELECT e.n, e.before FROM entries AS e WHERE e.n = ?2 AND e.account = ?1
			UNION ALL SELECT e.n, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before WHERE c.before < c.n
			LIMIT ?3
		) SELECT ` + entryColumns + `, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.n
		CROSS JOIN accounts AS a ON a.n = ?1`
	// movedOfAccount are those that no use made, by an index of their own.
	movedOfAccount = `SELECT ` + entryColumns + `, e.n - 1 FROM entries AS e CROSS JOIN accounts AS a ON a.n = ?1
		WHERE e.account = ?1 AND e.n <= ?2 AND e.kind <> 'charge' AND e.kind <> 'receipt' AND e.kind <> 'closing'
		ORDER BY e.n DESC LIMIT ?3`
	// firstUpTo is the account's newest entry up to number ?2.
	firstUpTo = `WITH RECURSIVE chain(n, before) AS (
			SELECT e.n, e.before FROM balances AS b JOIN entries AS e ON e.n = b.last WHERE b.n = ?1
			UNION ALL SELECT e.n, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before
			WHERE c.before < c.n AND c.n > ?2
		) SELECT n FROM chain WHERE n <= ?2`
)

// Latest implements ledger.Books: it follows the links from entry to entry, as no index has the entries of an account.
func (b *books) Latest(ctx context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	err := b.list(ctx, "latest", func(conn *sqlite.Conn) error {
		account, err := accountNumber(conn, q.Account)
		if err != nil {
			return err
		}
		next, err := latestStart(conn, account, &q)
		tariffs := newTariffs(conn)
		for err == nil && next != 0 {
			next, err = eachLatest(conn, tariffs, account, next, &q, each)
		}
		return err
	})
	return wrap(err, "listing the latest entries")
}

// latestStart is the number of an entry of the account from which all that are wanted are reached, 0 for none.
func latestStart(conn *sqlite.Conn, account int64, q *ledger.LatestQuery) (n int64, err error) {
	if !q.Until.IsZero() {
		if n, err = findBefore(conn, account, ledger.Nanoseconds(q.Until)); err != nil || q.Before == 0 {
			return n, err
		}
		reached := false
		if err := run(conn, `SELECT seq >= ? FROM entries WHERE n = ?`, to(&reached), q.Before-1, n); err != nil || reached {
			return n, err
		}
		// A clock was set back in between.
	}
	return n, run(conn, `SELECT coalesce(last, 0) FROM balances WHERE n = ?`, to(&n), account)
}

// findBefore is the number of the account's newest entry from before a time, as far as the journal is in the order of
// time; 0 for none.
func findBefore(conn *sqlite.Conn, account, until int64) (n int64, err error) {
	var low, high int64 // the entry is after low, and up to high
	if err := run(conn, `SELECT coalesce(max(n), 0) FROM entries`, to(&high)); err != nil {
		return 0, err
	}
	for low < high {
		middle, created := low+(high-low+1)/2, int64(0)
		if err := run(conn, `SELECT created FROM entries WHERE n = ?`, to(&created), middle); err != nil {
			return 0, err
		}
		if created < until {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if err := run(conn, `SELECT n FROM entries WHERE n <= ?2 AND n > ?2 - ?3 AND account = ?1 ORDER BY n DESC LIMIT 1`,
		to(&n), account, low, latestWindow); err != nil || n != 0 {
		return n, err
	}
	return n, run(conn, firstUpTo, to(&n), account, low)
}

// errOlder ends a list at an entry that is too old.
var errOlder = errors.New("older")

// eachLatest gives a batch of entries from number n on, and returns where the next one begins, 0 for nowhere.
func eachLatest(conn *sqlite.Conn, t *tariffs, account, n int64, q *ledger.LatestQuery,
	each func(ledger.Movement) error) (next int64, err error) {
	since, until := ledger.Query{Since: q.Since, Until: q.Until}.Bounds()
	var batch []ledger.Movement
	var places []int64 // of what is in it
	query := latestOfAccount
	if q.Moved {
		query = movedOfAccount
	}
	err = run(conn, query, func(row *sqlite.Stmt) error {
		e := scanEntry(row)
		place := e.N
		e, next = published(e), row.ColumnInt64(entryWidth)
		created := ledger.Nanoseconds(e.Created)
		switch {
		case created < since && (q.Before == 0 || e.Seq < q.Before):
			return errOlder
		case q.Before == 0 && created < until, e.Seq < q.Before:
			batch, places = append(batch, ledger.Movement{Entry: e}), append(places, place)
		}
		return nil
	}, account, n, latestBatch)
	if errors.Is(err, errOlder) {
		next, err = 0, nil
	}
	for i := range batch {
		if err != nil {
			return 0, err
		}
		if m := &batch[i]; m.Kind == ledger.Charged {
			m.Settled, err = settledDetail(conn, t, m.Request, m.Account)
		}
		if err == nil && q.Covered {
			batch[i].Checkpoint, err = coveringCheckpoint(conn, places[i])
		}
		if err == nil {
			err = give(each, batch[i])
		}
	}
	return next, err
}

// settledDetail is the record of a settled request of an account, without its entries; nil where it was pruned.
func settledDetail(conn *sqlite.Conn, t *tariffs, id, account string) (r *ledger.RequestRecord, err error) {
	err = eachDetail(conn, `WHERE r.id = ?`, func(is *audit.Request) error {
		if err := t.fill(is.Attempts); err != nil {
			return err
		}
		r = new(is.RequestRecord)
		r.Account = account
		return run(conn, `SELECT id FROM keys WHERE n = ?`, to(&r.Key), is.KeyNumber)
	}, id)
	return r, err
}

// coveringCheckpoint is the first checkpoint that covers the entry with a number, nil for none.
func coveringCheckpoint(conn *sqlite.Conn, n int64) (c *ledger.Checkpoint, err error) {
	err = run(conn, selectCheckpoint+`WHERE entries >= ? ORDER BY n LIMIT 1`, func(row *sqlite.Stmt) error {
		c = new(scanCheckpoint(row))
		return nil
	}, n)
	return c, err
}
