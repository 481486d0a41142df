package sqlite

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// group is what a row of usage is about; what is not grouped by is zero.
type group struct {
	account, key int64
	route        string
	day          int64 // since 1970
}

// sums are what the requests of a group come to. Those of routes are in requests and pending once for each route that
// they were tried on, and in wholes on one of them only.
type sums struct {
	parts, settled               int64 // like requests and wholes, with calls for comparison
	requests, pending            int64
	wholes, wholesPending        int64
	attempts                     int64
	charge, waived, over         int64
	refunded, cost               int64
	input, cacheRead, cacheWrite *int64
	output, reasoning            *int64
	estimated                    int64 // attempts
}

// usage groups settled requests.
type usage struct {
	conn   *sqlite.Conn
	query  ledger.UsageQuery
	by     map[ledger.Dimension]bool
	routed bool // grouped or narrowed by route
	prices *tariffs
	groups map[group]*sums
	most   int // groups in memory
	// shared is held while the table is written to, where others write to it, too.
	shared sync.Locker
	routes []string // of the request at hand, to count it once for each
	worth  []int64  // of the request at hand, see weigh
	payers int      // of the request at hand: how many attempts there are up to the last one that is the account's
}

// Usage implements ledger.Books. Without a dimension there is one row, of everything. Whole days are read from their
// sums, and only what was settled since those is read request by request. Where a day is cut, all requests are read:
// then those that were pruned are in it by whole days.
func (b *books) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	err := b.list(ctx, "usage", func(conn *sqlite.Conn) error {
		u, err := newUsage(conn, q)
		if err != nil {
			return err
		}
		where, args, err := u.narrow(conn)
		if err != nil {
			return err
		}
		whole, err := u.readDays()
		if err != nil {
			return err
		}
		if whole {
			where += andUnsummed
		}
		if err := eachDetail(conn, where, u.count, args...); err != nil {
			return err
		}
		if err := u.flush(); err != nil {
			return err
		}
		return u.list(each)
	})
	return wrap(err, "summing usage")
}

func newUsage(conn *sqlite.Conn, q ledger.UsageQuery) (*usage, error) {
	u := &usage{
		conn: conn, query: q, by: map[ledger.Dimension]bool{}, prices: newTariffs(conn), groups: map[group]*sums{},
		most: maxGroups,
	}
	for _, d := range q.By {
		if !slices.Contains([]ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay}, d) {
			return nil, fmt.Errorf("%w: grouping by %q; there are account, key, route and day", ledger.ErrInvalid, d)
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
	since, until := between(u.query.Query)
	where, args = `WHERE r.settled >= ? AND r.settled < ?`, []any{since, until}
	if u.query.Account != "" {
		n, err := accountNumber(conn, u.query.Account)
		if err != nil {
			return "", nil, err
		}
		where, args = where+` AND r.account = ?`, append(args, n)
	}
	if u.query.Key != "" {
		n, err := keyNumber(conn, u.query.Key)
		if err != nil {
			return "", nil, err
		}
		where, args = where+` AND r.key = ?`, append(args, n)
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
func (u *usage) count(d *detail) error {
	g := group{}
	if u.by[ledger.ByAccount] || u.by[ledger.ByKey] {
		g.account = d.account
	}
	if u.by[ledger.ByKey] {
		g.key = d.key
	}
	if u.by[ledger.ByDay] {
		g.day = dayOf(d.settled)
	}
	if u.routed {
		return u.countRoutes(d, g)
	}
	return u.countWhole(d, g)
}

// dateOf writes a day.
func dateOf(day int64) string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(day)).Format(time.DateOnly)
}

// dayOf is the day of a time, since 1970 in UTC.
func dayOf(ns int64) int64 { return floorDiv(ns, int64(24*time.Hour)) }

// countWhole adds a request to one group.
func (u *usage) countWhole(d *detail, g group) error {
	row, err := u.at(g)
	if err != nil {
		return err
	}
	row.tried(d)
	row.whole(d)
	row.charge += d.charge
	row.waived += d.waived
	row.over += d.over
	row.refunded += d.refunded
	for i := range d.attempts {
		if err := u.countAttempt(row, &d.attempts[i]); err != nil {
			return err
		}
	}
	return nil
}

// tried counts a request on a route, or where there are none.
func (s *sums) tried(d *detail) {
	s.parts++
	s.requests += d.asked()
	if d.pending {
		s.pending++
	}
}

// whole counts a request once.
func (s *sums) whole(d *detail) {
	s.settled++
	s.wholes += d.asked()
	if d.pending {
		s.wholesPending++
	}
}

// asked is how many requests of a client it is: a call for comparison is none.
func (d *detail) asked() int64 {
	if d.endpoint == ledger.Shadow {
		return 0
	}
	return 1
}

// countRoutes adds the attempts of a request to the groups of their routes, each with its share of what the request
// came to, and the request once to each.
func (u *usage) countRoutes(d *detail, g group) error {
	if err := u.weigh(d); err != nil {
		return err
	}
	if len(d.attempts) == 0 && u.query.Route == "" {
		return u.countWhole(d, g) // of no route
	}
	u.routes = u.routes[:0]
	for i := range d.attempts {
		t := &d.attempts[i]
		if u.query.Route != "" && t.route != u.query.Route {
			continue
		}
		if u.by[ledger.ByRoute] {
			g.route = t.route
		}
		row, err := u.at(g)
		if err != nil {
			return err
		}
		if !slices.Contains(u.routes, t.route) {
			u.routes = append(u.routes, t.route)
			row.tried(d)
		}
		if i == u.payers-1 {
			row.whole(d)
		}
		if err := u.countAttempt(row, t); err != nil {
			return err
		}
		row.charge += u.share(d.charge, i)
		row.waived += u.share(d.waived, i)
		row.over += u.share(d.over, i)
		row.refunded += u.share(d.refunded, i)
	}
	return nil
}

// weigh notes what the first attempts of a request come to by themselves: worth[n] is that of the first n. Those that
// are the operator's come to nothing.
func (u *usage) weigh(d *detail) error {
	u.worth, u.payers = append(u.worth[:0], 0), len(d.attempts)
	for u.payers > 1 && d.attempts[u.payers-1].operator {
		u.payers--
	}
	for i := range d.attempts {
		p, err := u.prices.of(d.attempts[i].route, d.attempts[i].version)
		if err != nil {
			return err
		}
		m, _ := ledger.Cost(d.attempts[i].usage, p.price) // usage that cannot be priced was charged nothing
		if d.attempts[i].operator {
			m = 0
		}
		u.worth = append(u.worth, u.worth[i]+m)
	}
	return nil
}

// share is what falls to an attempt, the first is 0, of an amount of the request that was weighed: in proportion to
// what the attempts come to by themselves. All shares together are the amount, for each is the difference of two sums.
func (u *usage) share(amount int64, attempt int) int64 {
	return u.upTo(amount, attempt+1) - u.upTo(amount, attempt)
}

// upTo is the share of the first n attempts, rounded down. What no attempt accounts for falls to the last one that is
// the account's, which is the one that answered.
func (u *usage) upTo(amount int64, n int) int64 {
	all := u.worth[len(u.worth)-1]
	switch {
	case n >= u.payers:
		return amount
	case all == 0:
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(u.worth[n]))
	q, _ := bits.Div64(hi, lo, uint64(all)) // at most the amount
	return int64(q)
}

// countAttempt adds what an attempt used and what it cost the operator.
func (u *usage) countAttempt(row *sums, t *tried) error {
	p, err := u.prices.of(t.route, t.version)
	if err != nil {
		return err
	}
	cost, _ := ledger.Cost(t.usage, p.cost) // the same for what it cost
	row.attempts++
	row.cost += cost
	addTokens(&row.input, t.usage.Input)
	addTokens(&row.cacheRead, t.usage.CacheRead)
	addTokens(&row.cacheWrite, t.usage.CacheWrite)
	addTokens(&row.output, t.usage.Output)
	addTokens(&row.reasoning, t.usage.Reasoning)
	row.estimated += one(t.usage.Estimated)
	return nil
}

// addTokens keeps a sum nil for as long as nothing was reported.
func addTokens(sum **int64, n *int64) {
	if n != nil {
		if *sum == nil {
			*sum = new(int64)
		}
		**sum += *n
	}
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

// at is the row of a group, to be added to at once.
func (u *usage) at(g group) (*sums, error) {
	if row, ok := u.groups[g]; ok {
		return row, nil
	}
	if len(u.groups) >= u.most {
		if err := u.flush(); err != nil {
			return nil, err
		}
	}
	row := &sums{}
	u.groups[g] = row
	return row, nil
}

const (
	createUsageRows = `CREATE TEMP TABLE usage_rows (
		account INTEGER NOT NULL, key INTEGER NOT NULL, route TEXT NOT NULL, day INTEGER NOT NULL,
		parts INTEGER NOT NULL, settled INTEGER NOT NULL, requests INTEGER NOT NULL, pending INTEGER NOT NULL,
		whole_requests INTEGER NOT NULL, whole_pending INTEGER NOT NULL,
		attempts INTEGER NOT NULL, microcents INTEGER NOT NULL, waived INTEGER NOT NULL, over INTEGER NOT NULL,
		refunded INTEGER NOT NULL, cost INTEGER NOT NULL, input INTEGER, cache_read INTEGER, cache_write INTEGER,
		output INTEGER, reasoning INTEGER, estimated INTEGER NOT NULL, pruned INTEGER NOT NULL
	) STRICT`
	insertUsageRow = `INSERT INTO temp.usage_rows
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`
	// summedUsage are the sums of groups. sum() of nothing but NULL is NULL: what was never reported stays so.
	summedUsage = `sum(parts) AS parts, sum(settled) AS settled, sum(requests) AS requests,
		sum(pending) AS pending, sum(whole_requests) AS whole_requests,
		sum(whole_pending) AS whole_pending, sum(attempts) AS attempts, sum(microcents) AS microcents,
		sum(waived) AS waived, sum(over) AS over, sum(refunded) AS refunded, sum(cost) AS cost, sum(input) AS input,
		sum(cache_read) AS cache_read, sum(cache_write) AS cache_write, sum(output) AS output,
		sum(reasoning) AS reasoning, sum(estimated) AS estimated`
	sumUsageRows = `SELECT a.id, a.name, k.id, k.name, u.route, u.day, u.requests, u.attempts, u.microcents, u.waived, ` +
		`u.refunded, u.cost, u.pending, u.input, u.cache_read, u.cache_write, u.output, u.reasoning, u.estimated, u.over,
		u.pruned, u.whole_requests, u.whole_pending
		FROM (SELECT account, key, route, day, ` + summedUsage + `, sum(pruned) AS pruned
			FROM temp.usage_rows GROUP BY account, key, route, day) AS u
		LEFT JOIN accounts AS a ON a.n = u.account LEFT JOIN keys AS k ON k.n = u.key ORDER BY `
)

// flush moves all groups to the table.
func (u *usage) flush() error {
	if u.shared != nil {
		u.shared.Lock()
		defer u.shared.Unlock()
	}
	for g, s := range u.groups {
		row := append([]any{g.account, g.key, g.route, g.day}, s.values()...)
		if err := run(u.conn, insertUsageRow, nil, row...); err != nil {
			return err
		}
	}
	clear(u.groups)
	return nil
}

// values are the columns of sums, from parts to estimated.
func (s *sums) values() []any {
	return []any{s.parts, s.settled, s.requests, s.pending, s.wholes, s.wholesPending, s.attempts, s.charge,
		s.waived, s.over, s.refunded, s.cost, s.input, s.cacheRead, s.cacheWrite, s.output, s.reasoning, s.estimated}
}

// list gives the groups in the order of what they are grouped by: accounts by name, keys by account and name.
func (u *usage) list(each func(ledger.UsageRow) error) error {
	order := make([]string, 0, len(u.query.By)+1)
	for _, d := range u.query.By {
		order = append(order, map[ledger.Dimension]string{
			ledger.ByAccount: "a.name", ledger.ByKey: "a.name, k.name", ledger.ByRoute: "u.route", ledger.ByDay: "u.day",
		}[d])
	}
	order = append(order, "u.account") // one row at most when there is no dimension
	return run(u.conn, sumUsageRows+strings.Join(order, ", "), func(row *sqlite.Stmt) error {
		var r ledger.UsageRow
		var day, requests, pending int64
		t := &r.Tokens
		readColumns(row, 0, &r.Account, &r.AccountName, &r.Key, &r.KeyName, &r.Route, &day, &r.Requests, &r.Attempts,
			&r.Microcents, &r.Waived, &r.Refunded, &r.Cost, &r.Pending, &t.Input, &t.CacheRead, &t.CacheWrite, &t.Output,
			&t.Reasoning, &t.Estimated, &r.Over, &r.Pruned, &requests, &pending)
		if !u.routed {
			r.Requests, r.Pending = requests, pending
		}
		if u.by[ledger.ByDay] && day != undated {
			r.Day = dateOf(day)
		}
		return give(each, r)
	})
}
