package sqlite

import (
	"context"
	"errors"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

const (
	// latestBatch is how many entries are read before they are given, and narrowedBatch how many are looked at for what
	// is asked for.
	latestBatch   = 100
	narrowedBatch = 2_000
	// latestWindow is how many entries of all accounts are looked through for one of an account, where its newest ones
	// are not wanted.
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
	// narrowedOfAccount says of the entries that latestOfAccount has where they lie, and whether they are charges of what
	// the condition behind it asks for: ?4 a key's number, ?5 a profile, ?6 a route.
	narrowedOfAccount = `WITH RECURSIVE chain(n, before, request) AS (
			SELECT e.n, e.before, iif(e.kind = 'charge', e.request, NULL) FROM entries AS e WHERE e.n = ?2 AND e.account = ?1
			UNION ALL SELECT e.n, e.before, iif(e.kind = 'charge', e.request, NULL)
				FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before WHERE c.before < c.n
			LIMIT ?3
		) SELECT c.n, c.before, `
	ofRequest = `EXISTS (SELECT 1 FROM requests AS r WHERE r.id = c.request AND (?4 = 0 OR r.key = ?4)
		AND (?5 = '' OR r.profile = ?5))`
	ofRoute = `EXISTS (SELECT 1 FROM attempts AS t WHERE t.request = c.request AND t.route = ?6)`
	// chainUpTo is the account's newest entry up to number ?2, of those that the one with number ?3 leads to.
	chainUpTo = `WITH RECURSIVE chain(n, before) AS (
			SELECT e.n, e.before FROM entries AS e WHERE e.n = ?3 AND e.account = ?1
			UNION ALL SELECT e.n, e.before FROM chain AS c CROSS JOIN entries AS e ON e.n = c.before
			WHERE c.before < c.n AND c.n > ?2
		) SELECT n FROM chain WHERE n <= ?2`
)

// latest lists entries of an account from the newest end.
type latest struct {
	conn    *sqlite.Conn
	tariffs *tariffs
	query   *ledger.LatestQuery
	each    func(ledger.Movement) error
	account int64
	key     int64 // of the query, 0 for all
	passed  int
	batch   int   // narrowedBatch
	window  int64 // latestWindow
	// isOrdered reports whether the entries up to a number are known to be in the order of their days.
	isOrdered func(n int64) bool
}

// Latest implements ledger.Books: it follows the links from entry to entry, as no index has the entries of an account.
// Where it looks for requests of a key, a route or a profile, it passes over the days whose sums have none.
func (b *books) Latest(ctx context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	err := b.list(ctx, "latest", func(conn *sqlite.Conn) error {
		l := latest{conn: conn, tariffs: newTariffs(conn), query: &q, each: each, batch: narrowedBatch, window: latestWindow,
			isOrdered: b.isOrdered}
		return l.list()
	})
	return wrap(err, "listing the latest entries")
}

func (l *latest) list() (err error) {
	q := l.query
	if l.account, err = accountNumber(l.conn, q.Account); err != nil {
		return err
	}
	if q.Key != "" {
		err := run(l.conn, `SELECT n FROM keys WHERE id = ? AND account = ?`, to(&l.key), q.Key, l.account)
		if err != nil || l.key == 0 { // it has no request
			return err
		}
	}
	narrowed := q.Key+q.Route+q.Profile != "" && !q.Moved
	next, err := l.start()
	for err == nil && next != 0 {
		if !narrowed {
			next, err = l.give(next, latestBatch)
			continue
		}
		// A batch first: a quiet account's entries are soon read, and to find where a day of its begins takes longer.
		if next, err = l.giveNarrowed(next); err == nil && next != 0 {
			next, err = l.passDays(next)
		}
	}
	return err
}

// start is the number of an entry of the account from which all that are wanted are reached, 0 for none.
func (l *latest) start() (n int64, err error) {
	if q := l.query; !q.Until.IsZero() {
		if n, err = l.findBefore(ledger.Nanoseconds(q.Until)); err != nil || q.Before == 0 {
			return n, err
		}
		reached := false
		err := run(l.conn, `SELECT seq >= ? FROM entries WHERE n = ?`, to(&reached), q.Before-1, n)
		if err != nil || reached {
			return n, err
		}
		// A clock was set back in between.
	}
	return n, run(l.conn, `SELECT coalesce(last, 0) FROM balances WHERE n = ?`, to(&n), l.account)
}

// lastBefore is the number of the newest entry of all from before a time, as far as the journal is in the order of
// time; 0 for none.
func lastBefore(conn *sqlite.Conn, until int64) (n int64, err error) {
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
	return low, nil
}

// findBefore is the number of the account's newest entry from before a time, as lastBefore; 0 for none. It looks for
// it among some entries before that time. Where there is none it follows the links from a newer entry: not from the
// newest, which a busy account has millions of links behind, but from one of the first day that has sums of it.
func (l *latest) findBefore(until int64) (n int64, err error) {
	low, err := lastBefore(l.conn, until)
	if err != nil {
		return 0, err
	}
	if err := run(l.conn, `SELECT n FROM entries WHERE n <= ?2 AND n > ?2 - ?3 AND account = ?1 ORDER BY n DESC LIMIT 1`,
		to(&n), l.account, low, l.window); err != nil || n != 0 {
		return n, err
	}
	from, err := firstOfNextDay(l.conn, l.account, low, until)
	if err == nil && from == 0 {
		err = run(l.conn, `SELECT coalesce(last, 0) FROM balances WHERE n = ?`, to(&from), l.account)
	}
	if err != nil {
		return 0, err
	}
	return n, run(l.conn, chainUpTo, to(&n), l.account, low, from)
}

// firstOfNextDay is the number of an entry of the account behind number low, of the first day from a time on that has
// sums of it, 0 where it has none: then there are few. No more entries are looked through than those of a day.
func firstOfNextDay(conn *sqlite.Conn, account, low, since int64) (n int64, err error) {
	day, found := floorDiv(since, dayLength), false
	for {
		next := false
		if err := run(conn, nextDay, func(row *sqlite.Stmt) error {
			day, next = row.ColumnInt64(0), !row.ColumnIsNull(0)
			return nil
		}, day, int64(math.MaxInt64)); err != nil || !next {
			return 0, err
		}
		if err := run(conn, `SELECT EXISTS (SELECT 1 FROM days WHERE day = ? AND account = ? AND key = 0)`, to(&found), day,
			account); err != nil {
			return 0, err
		}
		if found {
			break
		}
		day++
	}
	begin, err := lastBefore(conn, day*dayLength)
	if err != nil {
		return 0, err
	}
	end, err := lastBefore(conn, (day+1)*dayLength)
	if err != nil {
		return 0, err
	}
	return n, run(conn, `SELECT n FROM entries WHERE n > ?2 AND n <= ?3 AND account = ?1 ORDER BY n LIMIT 1`, to(&n),
		account, max(begin, low), end)
}

// passDays is the entry with number n, or where its day's sums have nothing of what is looked for, the account's newest
// of the days before that have; 0 where none has. Where entries are not in the order of their days it passes over none.
func (l *latest) passDays(n int64) (int64, error) {
	if !l.isOrdered(n) {
		return n, nil
	}
	var created int64
	var summed bool
	if err := run(l.conn, `SELECT e.created, e.n <= m.summed FROM entries AS e, meta AS m WHERE e.n = ?`,
		to(&created, &summed), n); err != nil || !summed {
		return n, err
	}
	today := floorDiv(created, dayLength)
	for day := today + 1; ; {
		before := false
		if err := run(l.conn, `SELECT max(day) FROM days WHERE day < ?`, func(row *sqlite.Stmt) error {
			day, before = row.ColumnInt64(0), !row.ColumnIsNull(0)
			return nil
		}, day); err != nil || !before {
			return 0, err
		}
		has := false
		if err := run(l.conn, `SELECT EXISTS (SELECT 1 FROM days WHERE day = ? AND account = ? AND key = ?
			AND (?4 = '' OR route = ?4) AND (?5 = '' OR profile = ?5 OR profile = '`+audit.UnknownProfile+`') AND NOT pruned)`,
			to(&has), day, l.account, l.key, l.query.Route, l.query.Profile); err != nil {
			return 0, err
		}
		switch {
		case has && day >= today:
			return n, nil
		case has:
			earlier, err := l.findBefore((day + 1) * dayLength)
			return min(earlier, n), err
		}
	}
}

// giveNarrowed gives what is looked for among a batch of entries from number n on, and the last of them, and returns
// where the next one begins, 0 for nowhere.
func (l *latest) giveNarrowed(n int64) (next int64, err error) {
	query, args := narrowedOfAccount, []any{l.account, n, l.batch, l.key, l.query.Profile}
	switch ofRequests := l.key != 0 || l.query.Profile != ""; {
	case l.query.Route == "":
		query += ofRequest
	case ofRequests:
		query, args = query+ofRequest+` AND `+ofRoute, append(args, l.query.Route)
	default:
		query, args = query+ofRoute, append(args, l.query.Route)
	}
	var found []int64
	last := n
	passed := map[int64]int{} // before each that was found
	before := 0
	err = run(l.conn, query+` FROM chain AS c`, func(row *sqlite.Stmt) error {
		last, next = row.ColumnInt64(0), row.ColumnInt64(1)
		if row.ColumnBool(2) {
			found = append(found, last)
			passed[last], before = before, 0
		} else {
			before++
		}
		return nil
	}, args...)
	if err != nil {
		return 0, err
	}
	if before > 0 { // the last one is none of them
		found, passed[last] = append(found, last), before-1
	}
	for _, n := range found {
		l.passed = passed[n]
		if before, err := l.give(n, 1); err != nil || before == 0 {
			return 0, err // it was too old, or the first
		}
	}
	return next, nil
}

// errOlder ends a list at an entry that is too old.
var errOlder = errors.New("older")

// give gives a batch of entries from number n on, and returns where the next one begins, 0 for nowhere.
func (l *latest) give(n int64, most int) (next int64, err error) {
	q := l.query
	since, until := ledger.Query{Since: q.Since, Until: q.Until}.Bounds()
	var batch []ledger.Movement
	var places []int64 // of what is in it
	query := latestOfAccount
	if q.Moved {
		query = movedOfAccount
	}
	err = run(l.conn, query, func(row *sqlite.Stmt) error {
		e := scanEntry(row)
		place := e.N
		e, next = published(e), row.ColumnInt64(entryWidth)
		created := ledger.Nanoseconds(e.Created)
		switch {
		case created < since && (q.Before == 0 || e.Seq < q.Before):
			return errOlder
		case q.Before == 0 && created < until, e.Seq < q.Before:
			batch, places = append(batch, ledger.Movement{Entry: e, Passed: l.passed}), append(places, place)
		}
		return nil
	}, l.account, n, most)
	if errors.Is(err, errOlder) {
		next, err = 0, nil
	}
	for i := range batch {
		if err != nil {
			return 0, err
		}
		if m := &batch[i]; m.Kind == ledger.Charged {
			m.Settled, err = settledDetail(l.conn, l.tariffs, m.Request, m.Account)
		}
		if err == nil && q.Covered {
			batch[i].Checkpoint, err = coveringCheckpoint(l.conn, places[i])
		}
		if err == nil {
			err = give(l.each, batch[i])
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
