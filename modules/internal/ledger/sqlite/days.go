package sqlite

import (
	"math"
	"slices"

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

// newCells counts requests by day, key and route, in memory.
func newCells(conn *sqlite.Conn) *usage {
	return &usage{
		conn: conn, by: map[ledger.Dimension]bool{ledger.ByKey: true, ledger.ByDay: true, ledger.ByRoute: true},
		routed: true, prices: newTariffs(conn), groups: map[group]*book.Usage{}, most: math.MaxInt,
	}
}

// load begins with what the tables have, where the journal ends at lastEntry.
func (u *unsummed) load(conn *sqlite.Conn, lastEntry int64) error {
	*u = unsummed{cells: newCells(conn), whole: true}
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
	u.r = audit.Request{AccountNumber: e.key.account, KeyNumber: e.key.n, RequestRecord: ledger.RequestRecord{
		Endpoint: e.Endpoint, Microcents: e.Charge, Waived: e.Waived, Over: e.Over, Pending: e.pending, Settled: e.settled,
		Attempts: u.r.Attempts[:0],
	}}
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
		cells = newCells(t.conn)
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
	clear(cells.groups)
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
	cells := newCells(t.conn)
	if err := eachDetail(t.conn, `WHERE r.id = ?`, cells.count, request); err != nil {
		return err
	}
	return addToDays(t.conn, cells, pruned, sign)
}

const addDay = `INSERT INTO days (day, key, route, pruned, parts, settled, requests, pending, whole_requests,
		whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write, output,
		reasoning, estimated)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
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

// addToDays adds cells to the sums, or takes them away: sign is 1 or -1.
func addToDays(conn *sqlite.Conn, cells *usage, pruned bool, sign int64) error {
	for g, s := range cells.groups {
		row := append([]any{g.day, g.key, g.route, pruned}, usageValues(s)...)
		for i := range row[4:] {
			switch v := row[4+i].(type) {
			case int64:
				row[4+i] = sign * v
			case *int64:
				if v != nil {
					row[4+i] = sign * *v
				}
			}
		}
		if err := run(conn, addDay, nil, row...); err != nil {
			return err
		}
		if sign > 0 {
			continue
		}
		if err := run(conn, removeDay, nil, g.day, g.key, g.route, pruned); err != nil {
			return err
		}
	}
	return nil
}

const removeDay = `DELETE FROM days WHERE day = ? AND key = ? AND route = ? AND pruned = ? AND parts = 0`

// sumAll fills in the sums of days of a ledger that has none.
func sumAll(conn *sqlite.Conn) error {
	summed := false
	err := run(conn, `SELECT summed <> 0 FROM meta`, to(&summed))
	if err != nil || summed {
		return err
	}
	u, err := newUsage(conn, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByKey, ledger.ByDay, ledger.ByRoute}})
	if err == nil {
		err = eachDetail(conn, ``, u.count)
	}
	if err == nil {
		err = u.flush()
	}
	for _, query := range []string{
		`DELETE FROM days WHERE NOT pruned`,
		`INSERT INTO days SELECT day, key, route, 0, ` + summedUsage + ` FROM temp.usage_rows GROUP BY day, key, route`,
		`DROP TABLE temp.usage_rows`, moveSummed,
	} {
		if err == nil {
			err = run(conn, query, nil)
		}
	}
	return err
}

// The sums of whole days from the first on and before the second, in the groups that are asked for: ?3 to ?6 are
// whether by account or key, by key, by route, and by day; ?7 whether a request counts on each of its routes; ?8 to
// ?10 narrow to an account, a key (by their numbers; 0: all) and a route (”), ?11 to what was pruned. What has no day
// was pruned before the last pruning's bound.
const (
	usageOfDays = usageRows + `days AS d JOIN keys AS k ON k.n = d.key ` + usageNarrowed +
		`) GROUP BY account, key, route, day`
	usageRows = `INSERT INTO temp.usage_rows SELECT account, key, route, day, '', ` + summedUsage + `, sum(gone) FROM (
	SELECT iif(?3, k.account, 0) AS account, iif(?4, d.key, 0) AS key, iif(?5, d.route, '') AS route,
		iif(?6, d.day, 0) AS day, parts, settled, iif(?7, requests, whole_requests) AS requests,
		iif(?7, pending, whole_pending) AS pending,
		whole_requests, whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write,
		output, reasoning, estimated, iif(pruned, iif(?7, requests, whole_requests), 0) AS gone
	FROM `
	usageNarrowed = `WHERE d.day >= ?1 AND d.day < ?2 AND (?8 = 0 OR k.account = ?8) AND (?9 = 0 OR d.key = ?9)
		AND (?10 = '' OR d.route = ?10) AND (pruned OR NOT ?11)
		AND (d.day <> -200000 OR ?12 >= (SELECT pruned_before FROM meta))`
	// ofOne, where a whole statement is about one group, needs no sort.
	ofOne = `) HAVING count(*) > 0`
	// ofOneDay and ofOneKey look an account's keys up, among those of all accounts, on a day and on temp.usage_days.
	ofOneDay = `keys AS k CROSS JOIN days AS d ON d.day = ?1 AND d.key = k.n `
	ofOneKey = `keys AS k CROSS JOIN temp.usage_days AS t CROSS JOIN days AS d ON d.day = t.day AND d.key = k.n `
	// createUsageDays are the days that have sums, from the first on and before the second: of each only a row is read.
	createUsageDays = `CREATE TEMP TABLE usage_days AS WITH RECURSIVE t(day) AS (
		SELECT min(day) FROM days WHERE day >= ?1
		UNION ALL SELECT (SELECT min(day) FROM days WHERE day > t.day) FROM t WHERE t.day < ?2
	) SELECT day FROM t WHERE day < ?2`
)

// readOfAccount is usageOfDays for one account, with its arguments: day by day or, where keys are asked for and no
// days, key by key. What is read is what the account has, and what is sorted at once is little.
func (u *usage) readOfAccount(account int64, args []any) error {
	if err := run(u.conn, createUsageDays, nil, args[0], args[1]); err != nil {
		return err
	}
	end := ofOne
	if u.by[ledger.ByRoute] {
		end = `) GROUP BY route`
	}
	var each []int64
	read := func(query, list string, set func(n int64), listArgs ...any) error {
		err := run(u.conn, list, appendTo(&each, func(row *sqlite.Stmt) int64 { return row.ColumnInt64(0) }), listArgs...)
		for _, n := range each {
			if err != nil {
				break
			}
			set(n)
			err = run(u.conn, query, nil, args...)
		}
		return err
	}
	var err error
	if u.by[ledger.ByKey] && !u.by[ledger.ByDay] {
		key := args[8]
		err = read(usageRows+ofOneKey+usageNarrowed+` AND k.n = ?9`+end, `SELECT n FROM keys WHERE account = ?1 AND
			(?2 = 0 OR n = ?2)`, func(n int64) { args[8] = n }, account, key)
	} else {
		if u.by[ledger.ByKey] {
			end = `) GROUP BY key, route`
		}
		err = read(usageRows+ofOneDay+usageNarrowed+` AND k.account = ?8`+end, `SELECT day FROM temp.usage_days`,
			func(n int64) { args[0], args[1] = n, n+1 })
	}
	if err != nil {
		return err
	}
	return run(u.conn, `DROP TABLE temp.usage_days`, nil)
}

// readDays reads the sums of whole days. It reports whether that is all that was settled up to meta.summed: where the
// query's times cut a day, only what was pruned is read.
func (u *usage) readDays() (whole bool, err error) {
	const day = 24 * 60 * 60 * 1_000_000_000
	since, until := u.query.Bounds()
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	// The sums know no profile yet.
	if whole = !u.by[ledger.ByProfile] && u.query.Profile == ""; u.query.Profile != "" {
		return false, nil
	}
	if since != math.MinInt64 {
		if first = floorDiv(since, day); first*day != since {
			first, whole = first+1, false
		}
	}
	if until != math.MaxInt64 {
		if last = floorDiv(until, day); last*day != until {
			whole = false
		}
	}
	var account int64
	if u.query.Account != "" {
		if account, err = accountNumber(u.conn, u.query.Account); err != nil {
			return false, err
		}
	}
	args := []any{first, last, u.by[ledger.ByAccount] || u.by[ledger.ByKey], u.by[ledger.ByKey], u.by[ledger.ByRoute],
		u.by[ledger.ByDay], u.routed, account, int64(0), u.query.Route, !whole, until}
	for _, key := range append(u.keys, make([]int64, max(0, 1-len(u.keys)))...) { // 0 for all
		switch args[8] = key; {
		case err != nil:
		case account != 0:
			err = u.readOfAccount(account, slices.Clone(args))
		default:
			err = run(u.conn, usageOfDays, nil, args...)
		}
	}
	return whole, err
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
