package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// group is what a row of usage is about; what is not grouped by is zero.
type group struct {
	account, key int64
	route        string
	day          int64 // since 1970
	profile      string
}

// usage groups settled requests.
type usage struct {
	conn   *sqlite.Conn
	query  ledger.UsageQuery
	by     map[ledger.Dimension]bool
	routed bool // grouped or narrowed by route
	prices *tariffs
	groups map[group]*sums
	most   int          // groups in memory
	spill  func() error // takes them elsewhere
	over   book.Divider

	account int64 // of the query, 0 for all
	keys    []int64
	// unprofiled: of the sums of days, where it is these that are counted.
	unprofiled audit.Unprofiled
}

// sums are what requests of a group come to, and how many of them were pruned.
type sums struct {
	book.Usage
	pruned int64
}

// profiled reports whether it is about profiles.
func (u *usage) profiled() bool { return u.by[ledger.ByProfile] || u.query.Profile != "" }

// Usage implements ledger.Books. Without a dimension there is one row, of everything. Whole days are read from their
// sums, and only what was settled since those is read request by request. Where a day is cut, all requests are read:
// then those that were pruned are in it by whole days.
func (b *books) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	err := b.list(ctx, "usage", func(conn *sqlite.Conn) error {
		u, err := newUsage(conn, q)
		if err != nil {
			return err
		}
		if err := u.sum(); err != nil {
			return err
		}
		return u.list(each)
	})
	return wrap(err, "summing usage")
}

// sum adds up what is asked for, of one moment.
func (u *usage) sum() error {
	where, args, err := u.narrow(u.conn)
	if err != nil {
		return err
	}
	whole, err := u.readDays()
	if err != nil {
		return err
	}
	rest := []string{``}
	if whole {
		if rest[0] = andUnsummed; u.profiled() {
			rest = append(rest, andUnprofiled)
		}
	}
	for _, and := range rest {
		if err := eachDetail(u.conn, where+and, u.count, args...); err != nil {
			return err
		}
	}
	return u.flush()
}

func newUsage(conn *sqlite.Conn, q ledger.UsageQuery) (*usage, error) {
	u := &usage{
		conn: conn, query: q, by: map[ledger.Dimension]bool{}, prices: newTariffs(conn), groups: map[group]*sums{},
		most: maxGroups,
	}
	u.spill = u.flush
	for _, d := range q.By {
		if !slices.Contains([]ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay,
			ledger.ByProfile}, d) {
			return nil, fmt.Errorf("%w: grouping by %q; there are account, key, route, day and profile", ledger.ErrInvalid, d)
		}
		u.by[d] = true
	}
	u.routed = u.by[ledger.ByRoute] || q.Route != ""
	if err := run(conn, createUsageRows, nil); err != nil {
		return nil, err
	}
	if len(q.By) == 0 {
		u.groups[group{}] = &sums{}
	}
	return u, nil
}

// narrow is a condition on requests AS r. The route is left to count, which sees the attempts.
func (u *usage) narrow(conn *sqlite.Conn) (where string, args []any, err error) {
	since, until := u.query.Bounds()
	where, args = `WHERE r.settled >= ? AND r.settled < ?`, []any{since, until}
	if u.query.Account != "" {
		if u.account, err = accountNumber(conn, u.query.Account); err != nil {
			return "", nil, err
		}
		where, args = where+` AND r.account = ?`, append(args, u.account)
	}
	for _, id := range u.query.Keys {
		n, err := keyNumber(conn, id)
		if err != nil {
			return "", nil, err
		}
		if !slices.Contains(u.keys, n) {
			u.keys, args = append(u.keys, n), append(args, n)
		}
	}
	if len(u.keys) > 0 {
		where += ` AND r.key IN (?` + strings.Repeat(`, ?`, len(u.keys)-1) + `)`
	}
	if u.query.Profile != "" {
		where, args = where+` AND r.profile = ?`, append(args, u.query.Profile)
	}
	return where, args, nil
}

// keyNumber is how the tables name the key with this id.
func keyNumber(conn *sqlite.Conn, id string) (n int64, err error) {
	err = run(conn, `SELECT n FROM keys WHERE id = ?`, to(&n), id)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: key %q; keys are named by their id, which begins with key_", ledger.ErrNotFound, id)
	}
	return n, err
}

// count adds a request to its group, or to those of its routes.
func (u *usage) count(r *audit.Request) error {
	if err := u.prices.fill(r.Attempts); err != nil {
		return err
	}
	return u.countPriced(r)
}

// countPriced is count for a request whose prices are filled in.
func (u *usage) countPriced(r *audit.Request) error {
	of := group{r.AccountNumber, r.KeyNumber, "", book.DayOf(r.Settled), u.unprofiled.ProfileOf(r)}
	if !u.routed {
		row, err := u.sumsOf(u.groupOf(of))
		if err == nil {
			row.Count(&r.RequestRecord)
		}
		return err
	}
	return u.over.Count(&r.RequestRecord, func(route string) (*book.Usage, error) {
		if u.query.Route != "" && route != u.query.Route {
			return nil, nil
		}
		of.route = route
		row, err := u.sumsOf(u.groupOf(of))
		if err != nil {
			return nil, err
		}
		return &row.Usage, nil
	})
}

// groupOf is the group of what has all of these.
func (u *usage) groupOf(all group) (g group) {
	if u.by[ledger.ByAccount] || u.by[ledger.ByKey] {
		g.account = all.account
	}
	if u.by[ledger.ByKey] {
		g.key = all.key
	}
	if u.by[ledger.ByRoute] {
		g.route = all.route
	}
	if u.by[ledger.ByDay] {
		g.day = all.day
	}
	if u.by[ledger.ByProfile] {
		g.profile = all.profile
	}
	return g
}

// floorDiv divides, rounding down also below zero.
func floorDiv(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// maxGroups is how many groups memory keeps, about 400 bytes each. When there are more, what they have come to so far
// goes to a temporary table, and SQLite sums it.
const maxGroups = 1 << 13

// sumsOf is the row of a group, to be added to at once.
func (u *usage) sumsOf(g group) (*sums, error) {
	if row, ok := u.groups[g]; ok {
		return row, nil
	}
	if len(u.groups) >= u.most {
		if err := u.spill(); err != nil {
			return nil, err
		}
	}
	row := &sums{}
	u.groups[g] = row
	return row, nil
}

const (
	createUsageRows = `CREATE TEMP TABLE usage_rows (
		account INTEGER NOT NULL, key INTEGER NOT NULL, route TEXT NOT NULL, day INTEGER NOT NULL, profile TEXT NOT NULL,
		parts INTEGER NOT NULL, settled INTEGER NOT NULL, requests INTEGER NOT NULL, pending INTEGER NOT NULL,
		whole_requests INTEGER NOT NULL, whole_pending INTEGER NOT NULL,
		attempts INTEGER NOT NULL, microcents INTEGER NOT NULL, waived INTEGER NOT NULL, over INTEGER NOT NULL,
		refunded INTEGER NOT NULL, cost INTEGER NOT NULL, input INTEGER, cache_read INTEGER, cache_write INTEGER,
		output INTEGER, reasoning INTEGER, estimated INTEGER NOT NULL, pruned INTEGER NOT NULL
	) STRICT`
	insertUsageRow = `INSERT INTO temp.usage_rows
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// summedUsage are the sums of groups. sum() of nothing but NULL is NULL: what was never reported stays so.
	summedUsage = `sum(parts) AS parts, sum(settled) AS settled, sum(requests) AS requests,
		sum(pending) AS pending, sum(whole_requests) AS whole_requests,
		sum(whole_pending) AS whole_pending, sum(attempts) AS attempts, sum(microcents) AS microcents,
		sum(waived) AS waived, sum(over) AS over, sum(refunded) AS refunded, sum(cost) AS cost, sum(input) AS input,
		sum(cache_read) AS cache_read, sum(cache_write) AS cache_write, sum(output) AS output,
		sum(reasoning) AS reasoning, sum(estimated) AS estimated`
	sumUsageRows = `SELECT a.id, a.name, k.id, k.name, u.route, u.day, u.profile, u.requests, u.attempts, u.microcents,
		u.waived, u.refunded, u.cost, u.pending, u.input, u.cache_read, u.cache_write, u.output, u.reasoning, u.estimated,
		u.over, u.pruned, u.whole_requests, u.whole_pending
		FROM (SELECT account, key, route, day, profile, ` + summedUsage + `, sum(pruned) AS pruned
			FROM temp.usage_rows GROUP BY account, key, route, day, profile) AS u
		LEFT JOIN accounts AS a ON a.n = u.account LEFT JOIN keys AS k ON k.n = u.key ORDER BY `
)

// flush moves all groups to the table.
func (u *usage) flush() error {
	for g, s := range u.groups {
		row := append([]any{g.account, g.key, g.route, g.day, g.profile}, usageValues(&s.Usage)...)
		if err := run(u.conn, insertUsageRow, nil, append(row, s.pruned)...); err != nil {
			return err
		}
	}
	clear(u.groups)
	return nil
}

// usageValues are the columns of sums, from parts to estimated; NULL for what was never reported.
func usageValues(s *book.Usage) []any {
	var all [18]any
	for i, n := range s.Columns() {
		all[i] = n
	}
	copy(all[12:], []any{s.Input, s.CacheRead, s.CacheWrite, s.Output, s.Reasoning})
	return all[:]
}

// list gives the groups in the order of what they are grouped by: accounts by name, keys by account and name.
func (u *usage) list(each func(ledger.UsageRow) error) error {
	order := make([]string, 0, len(u.query.By)+1)
	for _, d := range u.query.By {
		order = append(order, map[ledger.Dimension]string{
			ledger.ByAccount: "a.name", ledger.ByKey: "a.name, k.name", ledger.ByRoute: "u.route", ledger.ByDay: "u.day",
			ledger.ByProfile: "u.profile",
		}[d])
	}
	order = append(order, "u.account") // one row at most when there is no dimension
	return run(u.conn, sumUsageRows+strings.Join(order, ", "), func(row *sqlite.Stmt) error {
		var r ledger.UsageRow
		var day, requests, pending int64
		t := &r.Tokens
		readColumns(row, 0, &r.Account, &r.AccountName, &r.Key, &r.KeyName, &r.Route, &day, &r.Profile, &r.Requests,
			&r.Attempts, &r.Microcents, &r.Waived, &r.Refunded, &r.Cost, &r.Pending, &t.Input, &t.CacheRead, &t.CacheWrite,
			&t.Output, &t.Reasoning, &t.Estimated, &r.Over, &r.Pruned, &requests, &pending)
		if !u.routed {
			r.Requests, r.Pending = requests, pending
		}
		if u.by[ledger.ByDay] {
			r.Day = book.DateOf(day)
		}
		return give(each, r)
	})
}
