package sqlite

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// sumEvery is after how many settlements the writer adds them to the sums of their days: so many are read one by
	// one by who asks for usage.
	sumEvery = 1 << 13
	// andUnsummed narrows requests AS r to those that are in no sum yet.
	andUnsummed = ` AND r.id IN (SELECT e.request FROM entries AS e WHERE e.n > (SELECT summed FROM meta)
		AND e.kind = 'charge') AND r.entry > (SELECT summed FROM meta)`
	// andUnprofiled narrows them to those that are in the sums without their profile.
	andUnprofiled = ` AND r.id > (SELECT profiled FROM meta) AND coalesce(r.entry, 0) <= (SELECT unprofiled FROM meta)`
)

// unsummed are the settlements that are in no sum of a day yet: those behind meta.summed in the journal. The writer
// counts them as it makes them, so that the sums cost few rows and no reading. After a restart, or when the memory was
// lost with a transaction, they are read from the tables instead.
type unsummed struct {
	n     int64  // at most so many
	cells *usage // of all of them, where whole
	whole bool
	r     audit.Request // the one that is counted
}

// newCells counts requests by day, key, route and profile, as the sums of days have them. In memory there are no more
// groups than most; then spill is called, which has to clear them.
func newCells(conn *sqlite.Conn, most int) (*usage, error) {
	cells := &usage{
		conn: conn, by: map[ledger.Dimension]bool{ledger.ByKey: true, ledger.ByDay: true, ledger.ByRoute: true,
			ledger.ByProfile: true},
		routed: true, prices: newTariffs(conn), groups: map[group]*sums{}, most: most,
	}
	cells.spill = func() error { return addToDays(conn, cells, false, 1) }
	return cells, readUnprofiled(conn, &cells.unprofiled)
}

// readUnprofiled reads which requests are in the sums without their profile.
func readUnprofiled(conn *sqlite.Conn, u *audit.Unprofiled) error {
	return run(conn, `SELECT unprofiled, profiled FROM meta`, to(&u.Entry, &u.After))
}

// load begins with what the tables have, where the journal ends at lastEntry.
func (u *unsummed) load(conn *sqlite.Conn, lastEntry int64) error {
	cells, err := newCells(conn, math.MaxInt)
	if err != nil {
		return err
	}
	*u = unsummed{cells: cells, whole: true}
	return run(conn, `SELECT summed, EXISTS (SELECT 1 FROM entries WHERE n > summed AND kind = 'charge') FROM meta`,
		func(row *sqlite.Stmt) error {
			if row.ColumnBool(1) {
				u.n, u.whole = lastEntry-row.ColumnInt64(0), false
			}
			return nil
		})
}

// count adds a settlement.
func (u *unsummed) count(conn *sqlite.Conn, e *ended) error {
	u.n++
	if !u.whole {
		return nil
	}
	r := ledger.RequestRecord{Endpoint: e.Endpoint, Profile: e.Profile, Microcents: e.Charge, Waived: e.Waived,
		Over: e.Over, Pending: e.pending, Settled: e.settled, Attempts: u.r.Attempts[:0]}
	u.r = audit.Request{AccountNumber: e.key.account, KeyNumber: e.key.n, Entry: e.entry, RequestRecord: r}
	for i := range e.Attempts {
		u.r.Attempts = append(u.r.Attempts, e.Attempts[i].AttemptRecord)
	}
	u.cells.conn = conn // it may have been opened anew
	return u.cells.countPriced(&u.r)
}

// rollUp adds the settlements that are in no sum yet to those of their days. All of them are in the tables.
func (t *tx) rollUp() error {
	if t.unsummed.n == 0 {
		return nil
	}
	cells := t.unsummed.cells
	if !t.unsummed.whole {
		var err error
		if cells, err = newCells(t.conn, math.MaxInt); err != nil {
			return err
		}
		if err := eachDetail(t.conn, `WHERE true`+andUnsummed, cells.count); err != nil {
			return err
		}
	}
	if err := addToDays(t.conn, cells, false, 1); err != nil {
		return err
	}
	if err := run(t.conn, moveSummed, nil); err != nil {
		return err
	}
	t.unsummed.cells, t.unsummed.whole, t.unsummed.n = cells, true, 0
	return nil
}

const moveSummed = `UPDATE meta SET summed = coalesce((SELECT n FROM entries WHERE n > summed AND kind = 'charge'
	ORDER BY n DESC LIMIT 1), summed)`

// resum changes a settled request by change, and the sums of its day with it.
func (t *tx) resum(request string, change func() error) error {
	t.wrote = true
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.rollUp(); err != nil {
		return err
	}
	if err := t.addRequest(request, false, -1); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return t.addRequest(request, false, 1)
}

// addRequest adds a request to the sums of its day, or takes it away.
func (t *tx) addRequest(request string, pruned bool, sign int64) error {
	cells, err := newCells(t.conn, math.MaxInt)
	if err != nil {
		return err
	}
	if err := eachDetail(t.conn, `WHERE r.id = ?`, cells.count, request); err != nil {
		return err
	}
	return addToDays(t.conn, cells, pruned, sign)
}

const (
	addDayInto = `INSERT INTO days (day, account, key, route, profile, pruned, parts, settled, requests, pending,
		whole_requests, whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write,
		output, reasoning, estimated) VALUES `
	dayValues  = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	addDayOver = ` ON CONFLICT DO UPDATE SET
	parts = parts + excluded.parts, settled = settled + excluded.settled,
	requests = requests + excluded.requests, pending = pending + excluded.pending,
	whole_requests = whole_requests + excluded.whole_requests, whole_pending = whole_pending + excluded.whole_pending,
	attempts = attempts + excluded.attempts, microcents = microcents + excluded.microcents,
	waived = waived + excluded.waived, over = over + excluded.over, refunded = refunded + excluded.refunded,
	cost = cost + excluded.cost, estimated = estimated + excluded.estimated,
	input = coalesce(input + excluded.input, input, excluded.input),
	cache_read = coalesce(cache_read + excluded.cache_read, cache_read, excluded.cache_read),
	cache_write = coalesce(cache_write + excluded.cache_write, cache_write, excluded.cache_write),
	output = coalesce(output + excluded.output, output, excluded.output),
	reasoning = coalesce(reasoning + excluded.reasoning, reasoning, excluded.reasoning)`
)

// cell is what is added to a row of days.
type cell struct {
	group
	*book.Usage
	pruned bool
	sign   int64 // -1: it is taken away
}

func bindCell(row *rows, c *cell) {
	row.number(c.day, c.account, c.key)
	row.usual(c.route, c.profile)
	row.truth(c.pruned)
	n := c.Columns()
	for i := range n {
		n[i] *= c.sign
	}
	row.number(n[:12]...)
	for i, of := range [...]*int64{c.Input, c.CacheRead, c.CacheWrite, c.Output, c.Reasoning} {
		if of == nil {
			row.null()
		} else {
			row.number(n[12+i])
		}
	}
	row.number(n[17])
}

// insertCells is insert for cells.
func insertCells(conn *sqlite.Conn, cells []cell) (err error) {
	var in inserter
	if in.one, err = newRows(conn, addDayInto+dayValues+addDayOver); err != nil {
		return err
	}
	if len(cells) >= rowsAtOnce {
		many := addDayInto + dayValues + strings.Repeat(`, `+dayValues, rowsAtOnce-1) + addDayOver
		if in.many, err = newRows(conn, many); err != nil {
			return err
		}
	}
	return insert(&in, cells, bindCell)
}

// withTotals adds to what keys came to what that is by account, and in the whole ledger.
func withTotals(ofKeys map[group]*sums) map[group]*sums {
	all := maps.Clone(ofKeys)
	for g, s := range ofKeys {
		for _, account := range [...]int64{g.account, 0} {
			g.account, g.key = account, 0
			if all[g] == nil {
				all[g] = &sums{}
			}
			all[g].Add(&s.Usage)
		}
	}
	return all
}

// addToDays adds cells to the sums, or takes them away: sign is 1 or -1. Nothing else writes sums. The cells are gone
// then.
func addToDays(conn *sqlite.Conn, cells *usage, pruned bool, sign int64) error {
	all := withTotals(cells.groups)
	clear(cells.groups)
	added := make([]cell, 0, len(all))
	for _, g := range slices.SortedFunc(maps.Keys(all), compareGroups) { // which lie in that order
		added = append(added, cell{g, &all[g].Usage, pruned, sign})
	}
	if err := insertCells(conn, added); err != nil || sign > 0 {
		return err
	}
	for i := range added {
		g := &added[i].group
		if err := run(conn, removeDay, nil, g.day, g.account, g.key, g.route, g.profile, pruned); err != nil {
			return err
		}
	}
	return nil
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.account, b.account), cmp.Compare(a.key, b.key),
		cmp.Compare(a.route, b.route), cmp.Compare(a.profile, b.profile))
}

const removeDay = `DELETE FROM days WHERE day = ? AND account = ? AND key = ? AND route = ? AND profile = ?
	AND pruned = ? AND parts = 0`

// sumAll fills in the sums of days of a ledger that has none.
func sumAll(conn *sqlite.Conn) error {
	summed := false
	err := run(conn, `SELECT summed <> 0 FROM meta`, to(&summed))
	if err != nil || summed {
		return err
	}
	for _, query := range []string{
		`DELETE FROM days WHERE NOT pruned`, `UPDATE meta SET unprofiled = 0, profiled = NULL`, moveSummed,
	} {
		if err := run(conn, query, nil); err != nil {
			return err
		}
	}
	cells, err := newCells(conn, maxGroups)
	if err == nil {
		err = eachDetail(conn, ``, cells.count)
	}
	if err == nil {
		err = cells.spill()
	}
	return err
}

const (
	// dayLength is that of a day, in nanoseconds.
	dayLength = 24 * 60 * 60 * 1_000_000_000
	// selectDay reads the rows of day ?1, of which ?2 is a route or '', ?3 a profile or '', and ?4 whether those of
	// pruned requests alone are wanted, and ?5 whether those without a profile are not.
	selectDay = `SELECT d.account, d.key, d.route, d.profile, d.pruned, d.parts, d.settled, d.requests, d.pending,
		d.whole_requests, d.whole_pending, d.attempts, d.microcents, d.waived, d.over, d.refunded, d.cost, d.input,
		d.cache_read, d.cache_write, d.output, d.reasoning, d.estimated FROM `
	dayNarrowed = ` AND (?2 = '' OR d.route = ?2) AND (?3 = '' OR d.profile = ?3) AND (d.pruned OR NOT ?4)
		AND NOT (?5 AND d.profile = '` + audit.UnknownProfile + `')`
	// nextDay is the first day from ?1 on and before ?2 that has sums, or NULL.
	nextDay = `SELECT min(day) FROM days WHERE day >= ?1 AND day < ?2`
)

// daySource says which rows of a day have what is asked for, ?6 is the account: those of keys only where it is about
// keys, for an account may have thousands.
func (u *usage) daySource() string {
	switch {
	case len(u.keys) > 0:
		return `temp.usage_keys AS u CROSS JOIN days AS d ON d.account = u.account AND d.key = u.key
			WHERE d.day = ?1 AND (?6 = 0 OR d.account = ?6)`
	case u.by[ledger.ByKey] && u.account != 0:
		return `days AS d WHERE d.day = ?1 AND d.account = ?6 AND d.key > 0`
	case u.by[ledger.ByKey]:
		return `days AS d WHERE d.day = ?1 AND d.account > ?6 AND d.key > 0`
	case u.by[ledger.ByAccount] && u.account == 0:
		return `days AS d WHERE d.day = ?1 AND d.account > ?6 AND d.key = 0`
	default:
		return `days AS d WHERE d.day = ?1 AND d.account = ?6 AND d.key = 0`
	}
}

// readDays reads the sums of whole days. It reports whether that is all that was settled up to meta.summed, and has a
// profile where it is about profiles: where the query's times cut a day, only what was pruned is read.
func (u *usage) readDays() (whole bool, err error) {
	since, until := u.query.Bounds()
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	whole = true
	if since != math.MinInt64 {
		if first = floorDiv(since, dayLength); first*dayLength != since {
			first, whole = first+1, false
		}
	}
	if until != math.MaxInt64 {
		if last = floorDiv(until, dayLength); last*dayLength != until {
			whole = false
		}
	}
	if len(u.keys) > 0 {
		if err := u.listKeys(); err != nil {
			return false, err
		}
	}
	prunedBefore := int64(0)
	if err := run(u.conn, `SELECT pruned_before FROM meta`, to(&prunedBefore)); err != nil {
		return false, err
	}
	query := selectDay + u.daySource() + dayNarrowed
	for {
		next := int64(math.MaxInt64)
		if err := run(u.conn, nextDay, func(row *sqlite.Stmt) error {
			if !row.ColumnIsNull(0) {
				next = row.ColumnInt64(0)
			}
			return nil
		}, first, last); err != nil || next == math.MaxInt64 {
			return whole, err
		}
		first = next + 1
		if next == book.Undated && until < prunedBefore {
			continue // it was pruned before the last pruning's bound, and nobody knows when it was settled
		}
		if err := run(u.conn, query, func(row *sqlite.Stmt) error { return u.addDay(next, row) }, next, u.query.Route,
			u.query.Profile, !whole, u.profiled(), u.account); err != nil {
			return false, err
		}
	}
}

// addDay adds a row of a day to its group.
func (u *usage) addDay(day int64, row *sqlite.Stmt) error {
	var s sums
	var account, key int64
	var route, profile string
	var pruned bool
	readColumns(row, 0, &account, &key, &route, &profile, &pruned, &s.Parts, &s.Settled, &s.Requests, &s.Pending,
		&s.Wholes, &s.WholesPending, &s.Attempts, &s.Charge, &s.Waived, &s.Over, &s.Refunded, &s.Cost, &s.Input,
		&s.CacheRead, &s.CacheWrite, &s.Output, &s.Reasoning, &s.Estimated)
	to, err := u.sumsOf(u.groupOf(group{account, key, route, day, profile}))
	if err != nil {
		return err
	}
	to.Add(&s.Usage)
	switch {
	case pruned && u.routed:
		to.pruned += s.Requests
	case pruned:
		to.pruned += s.Wholes
	}
	return nil
}

// listKeys writes down the keys that are asked for, in the order in which their sums lie.
func (u *usage) listKeys() error {
	if err := run(u.conn, `CREATE TEMP TABLE usage_keys (account INTEGER, key INTEGER, PRIMARY KEY (account, key))
		WITHOUT ROWID`, nil); err != nil {
		return err
	}
	for _, n := range u.keys {
		if err := run(u.conn, `INSERT INTO temp.usage_keys SELECT account, n FROM keys WHERE n = ?`, nil, n); err != nil {
			return err
		}
	}
	return nil
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
