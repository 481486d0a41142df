package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// sumBatch is how many entries of an account are added to its sums in one transaction.
	sumBatch = 5_000
	// sumEvery is how often accounts are looked for that have sumAt entries or more which are in no sum; every
	// sumAllEvery-th time those are that have any.
	sumEvery    = 15 * time.Second
	sumAllEvery = 40
	sumAt       = 1_000
	// dayLength is that of a day, in nanoseconds.
	dayLength = int64(24 * time.Hour)
)

// sumContinually adds to the sums of days, where no other node does, until the store closes.
func (s *Store) sumContinually() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(sumEvery)
	defer tick.Stop()
	go func() { <-s.closed; cancel() }()
	for n := 0; ; n++ {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		least := int64(sumAt)
		if n%sumAllEvery == 0 {
			least = 1
		}
		ours, err := s.ClaimChore(ctx, "sums of days", 4*sumEvery)
		if ours && err == nil {
			err = s.SumDays(ctx, least)
		}
		if err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "usage could not be summed by day yet; it is read from requests meanwhile",
				"error", err)
		}
	}
}

// SumDays adds requests to the sums of days, of the accounts that have so many entries or more that are in none. It
// may be done by several nodes at once, and end anywhere.
func (s *Store) SumDays(ctx context.Context, least int64) error {
	var accounts []string
	err := queryRows(ctx, s.pool, func(row pgx.Rows) error {
		account := ""
		err := row.Scan(&account)
		accounts = append(accounts, account)
		return err
	}, `SELECT b.account FROM balances AS b LEFT JOIN summed AS s ON s.account = b.account AND NOT s.broken
		WHERE b.entries - coalesce(s.entry, 0) >= $1 ORDER BY b.account`, least)
	for _, account := range accounts {
		err = errors.Join(err, s.sumAccount(ctx, account))
	}
	return wrap(unavailable(err), "summing usage by day")
}

// sumAccount adds all requests of an account to its sums.
func (s *Store) sumAccount(ctx context.Context, account string) error {
	for {
		more, err := s.sumSome(ctx, account, sumBatch)
		switch {
		case err != nil && isRetryable(err) && ctx.Err() == nil: // another one has done some of it
		case err != nil || !more:
			return err
		}
	}
}

// sumSome adds so many of an account's entries to its sums, and moves its mark behind them. It reports whether there
// may be more. Entries of an account are numbered in the order in which they are committed, for who makes one has
// locked its balance: what the mark has passed is all there.
func (s *Store) sumSome(ctx context.Context, account string, entries int64) (more bool, err error) {
	based := false
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		var mark int64
		err := queryRows(ctx, tx, to(&mark, &based),
			`SELECT entry, NOT broken FROM summed WHERE account = $1 FOR UPDATE`, account)
		if err != nil || !based {
			return err
		}
		var last *int64
		err = queryRows(ctx, tx, to(&last), `SELECT max(seq) FROM (SELECT seq FROM entries WHERE account = $1 AND seq > $2
			ORDER BY seq LIMIT $3) AS e`, account, mark, entries)
		if err != nil || last == nil {
			return err
		}
		more = true
		c := &unsummed{marks: map[string]int64{account: mark}, until: *last}
		if err := c.find(ctx, tx); err != nil {
			return err
		}
		cells := newCells()
		if err := s.eachDetail(ctx, tx, `WHERE r.account = $1 AND r.request = ANY($2)`, func(d *detail) error {
			return c.count(cells, d)
		}, account, c.requests); err != nil {
			return err
		}
		if err := addDays(ctx, tx, cells.groups); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE summed SET entry = $2 WHERE account = $1`, account, *last)
		return err
	})
	if err == nil && !based {
		return true, s.beginSums(ctx, account)
	}
	return more, err
}

// beginSums begins the sums of an account with what it has pruned. Nothing of it is pruned meanwhile, for its balance
// is locked.
func (s *Store) beginSums(ctx context.Context, account string) error {
	columns := `day, route, '', sum(parts), sum(settled), sum(requests), sum(pending), sum(whole_requests),
		sum(whole_pending), sum(attempts), sum(microcents), sum(waived), sum(over), sum(refunded), sum(cost), sum(input),
		sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(estimated), sum(requests), sum(whole_requests)
		FROM pruned WHERE account = $1 GROUP BY account, day, route`
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SELECT FROM balances WHERE account = $1 FOR UPDATE`,
			`DELETE FROM days WHERE account = $1`,
			`INSERT INTO days SELECT account, '', ` + columns,
			`INSERT INTO days SELECT account, key, ` + columns + `, key`,
			`INSERT INTO summed VALUES ($1, 0, false) ON CONFLICT (account) DO UPDATE SET entry = 0, broken = false`,
		} {
			if _, err := tx.Exec(ctx, sql, account); err != nil {
				return err
			}
		}
		return nil
	})
}

// newCells counts requests as days has them.
func newCells() *usage {
	return &usage{routed: true, groups: map[group]*sums{}, by: map[ledger.Dimension]bool{ledger.ByAccount: true,
		ledger.ByKey: true, ledger.ByDay: true, ledger.ByRoute: true, ledger.ByProfile: true}}
}

// withTotals adds to what keys came to what that is by account.
func withTotals(ofKeys map[group]*sums) map[group]*sums {
	all := maps.Clone(ofKeys)
	for g, s := range ofKeys {
		g.key = ""
		if all[g] == nil {
			all[g] = &sums{}
		}
		all[g].Add(&s.Usage)
	}
	return all
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.key, b.key), cmp.Compare(a.day, b.day),
		cmp.Compare(a.route, b.route), cmp.Compare(a.profile, b.profile))
}

// addDays adds to the sums of days, those of accounts included, in one order for all who do.
func addDays(ctx context.Context, tx pgx.Tx, ofKeys map[group]*sums) error {
	all, batch := withTotals(ofKeys), &pgx.Batch{}
	for _, g := range slices.SortedFunc(maps.Keys(all), compareGroups) {
		u := &all[g].Usage
		args := []any{g.account, g.key, g.day, g.route, g.profile}
		n := u.Columns()
		for _, v := range n[:12] {
			args = append(args, v)
		}
		batch.Queue(addDay, append(args, u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, n[17])...)
	}
	return tx.SendBatch(ctx, batch).Close()
}

const addDay = `INSERT INTO days AS d (account, key, day, route, profile, parts, settled, requests, pending,
	whole_requests, whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write,
	output, reasoning, estimated) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
		$18, $19, $20, $21, $22, $23)
	ON CONFLICT (account, key, day, route, profile) DO UPDATE SET parts = d.parts + excluded.parts,
	settled = d.settled + excluded.settled, requests = d.requests + excluded.requests,
	pending = d.pending + excluded.pending, whole_requests = d.whole_requests + excluded.whole_requests,
	whole_pending = d.whole_pending + excluded.whole_pending, attempts = d.attempts + excluded.attempts,
	microcents = d.microcents + excluded.microcents, waived = d.waived + excluded.waived, over = d.over + excluded.over,
	refunded = d.refunded + excluded.refunded, cost = d.cost + excluded.cost,
	estimated = d.estimated + excluded.estimated,
	input = coalesce(d.input + excluded.input, d.input, excluded.input),
	cache_read = coalesce(d.cache_read + excluded.cache_read, d.cache_read, excluded.cache_read),
	cache_write = coalesce(d.cache_write + excluded.cache_write, d.cache_write, excluded.cache_write),
	output = coalesce(d.output + excluded.output, d.output, excluded.output),
	reasoning = coalesce(d.reasoning + excluded.reasoning, d.reasoning, excluded.reasoning)`

// unsummed is what the journal says has changed behind the marks of accounts.
type unsummed struct {
	marks    map[string]int64
	until    int64 // the last entry that is looked at; math.MaxInt64 for whoever wants everything
	accounts []string
	requests []string // of the accounts, in the same order
	later    map[requestID][]laterEntry
}

// laterEntry changed a request that was settled before.
type laterEntry struct {
	seq        int64
	refund     bool
	microcents int64
}

// find reads which requests have changed. Those that wait for a receipt are in no sum.
func (c *unsummed) find(ctx context.Context, tx pgx.Tx) error {
	// The planner does not know how little is behind the marks, and would read all entries.
	if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = off`); err != nil {
		return err
	}
	accounts := slices.Sorted(maps.Keys(c.marks))
	marks := make([]int64, len(accounts))
	for i, a := range accounts {
		marks[i] = c.marks[a]
	}
	sql, args := `SELECT DISTINCT e.account, e.request FROM unnest($1::text[], $2::int8[]) AS q (account, mark)
		JOIN LATERAL (SELECT account, request FROM entries WHERE account = q.account AND seq > q.mark AND seq <= $3
			AND request IS NOT NULL) AS e ON true`, []any{accounts, marks, c.until}
	if c.until == math.MaxInt64 {
		sql += ` UNION SELECT account, request FROM waiting WHERE account = ANY($1)`
	}
	if err := queryRows(ctx, tx, func(row pgx.Rows) error {
		var account, request string
		err := row.Scan(&account, &request)
		c.accounts, c.requests = append(c.accounts, account), append(c.requests, request)
		return err
	}, sql, args...); err != nil {
		return err
	}
	c.later = map[requestID][]laterEntry{}
	return queryRows(ctx, tx, func(row pgx.Rows) error {
		var r requestID
		var e laterEntry
		err := row.Scan(&r.account, &r.request, &e.seq, &e.refund, &e.microcents)
		c.later[r] = append(c.later[r], e)
		return err
	}, `SELECT e.account, e.request, e.seq, e.kind = 'refund', e.microcents
		FROM unnest($1::text[], $2::text[]) AS q (account, request) JOIN entries AS e
			ON e.account = q.account AND e.request = q.request AND e.kind IN ('receipt', 'closing', 'refund')`,
		c.accounts, c.requests)
}

// count adds to u what a request has changed between its account's mark and until: all of it, where it was not in the
// sums, or else what was refunded. As it is now it may have changed behind until, too.
func (c *unsummed) count(u *usage, d *detail) error {
	mark := c.marks[d.Account]
	var refunded, after int64
	proven, pending := false, d.Pending // since the mark, and at until
	for _, e := range c.later[requestID{d.Account, d.ID}] {
		switch {
		case e.seq > c.until && e.refund:
			after += e.microcents
		case e.seq > c.until:
			pending = true
		case e.seq > mark && e.refund:
			refunded += e.microcents
		case e.seq > mark:
			proven = true
		}
	}
	d.Refunded -= after
	switch {
	case d.entry <= mark && !pending && !proven:
		if refunded == 0 {
			return nil
		}
		return u.countRefund(d, refunded)
	case d.entry <= c.until && (!pending || c.until == math.MaxInt64):
		return u.count(d)
	}
	return nil
}

// countRefund adds what was refunded of a request that is counted already, and nothing else of it.
func (u *usage) countRefund(d *detail, refunded int64) error {
	with := &usage{query: u.query, by: u.by, routed: u.routed, groups: map[group]*sums{}}
	without := &usage{query: u.query, by: u.by, routed: u.routed, groups: map[group]*sums{}}
	if err := with.count(d); err != nil {
		return err
	}
	d.Refunded -= refunded
	if err := without.count(d); err != nil {
		return err
	}
	for g, s := range with.groups {
		u.sumsOf(g).Refunded += s.Refunded - without.groups[g].Refunded
	}
	return nil
}

// maxUnsummed is how many entries of an account, which are in no sum, are looked at one by one. Where there are more
// its requests are read instead.
const maxUnsummed = 100_000

// sumUsage reads usage: from the sums of days, and of what is in none of them from requests. where and args narrow
// requests AS r.
func (s *Store) sumUsage(ctx context.Context, tx pgx.Tx, u *usage, where string, args []any) error {
	if err := queryRows(ctx, tx, to(&u.prunedBefore), `SELECT pruned_before FROM ledger`); err != nil {
		return err
	}
	// Compiling twenty sums takes longer than making them.
	if _, err := tx.Exec(ctx, `SET LOCAL jit = off`); err != nil {
		return err
	}
	c := &unsummed{marks: map[string]int64{}, until: math.MaxInt64}
	var others []string // have no sums that are of use
	if err := queryRows(ctx, tx, func(row pgx.Rows) error {
		var account string
		var mark *int64
		err := row.Scan(&account, &mark)
		if mark == nil || !u.hasWholeDays() {
			others = append(others, account)
		} else {
			c.marks[account] = *mark
		}
		return err
	}, `SELECT b.account, s.entry FROM balances AS b
		LEFT JOIN summed AS s ON s.account = b.account AND NOT s.broken AND b.entries - s.entry <= $2
		WHERE $1 = '' OR b.account = $1`, u.query.Account, maxUnsummed); err != nil {
		return err
	}
	if len(others) > 0 {
		narrowed, and := args, ``
		if len(c.marks) > 0 {
			and, narrowed = fmt.Sprintf(` AND r.account = ANY($%d)`, len(args)+1), append(slices.Clone(args), others)
		}
		if err := s.eachDetail(ctx, tx, where+and, u.count, narrowed...); err != nil {
			return err
		}
		if err := u.countPruned(ctx, tx, others); err != nil {
			return err
		}
	}
	if len(c.marks) == 0 {
		return nil
	}
	if err := u.readDays(ctx, tx, slices.Collect(maps.Keys(c.marks))); err != nil {
		return err
	}
	if err := c.find(ctx, tx); err != nil || len(c.requests) == 0 {
		return err
	}
	where += fmt.Sprintf(` AND r.account = ANY($%d) AND r.request = ANY($%d)`, len(args)+1, len(args)+2)
	accounts := slices.Compact(slices.Sorted(slices.Values(c.accounts)))
	return s.eachDetail(ctx, tx, where, func(d *detail) error { return c.count(u, d) },
		append(slices.Clone(args), accounts, c.requests)...)
}

// hasWholeDays reports whether the query's times cut no day.
func (u *usage) hasWholeDays() bool {
	since, until := u.query.Bounds()
	return (since == math.MinInt64 || since%dayLength == 0) && (until == math.MaxInt64 || until%dayLength == 0)
}

// readDays reads the sums of accounts: those of keys only where it is about keys, for an account may have thousands.
func (u *usage) readDays(ctx context.Context, tx pgx.Tx, accounts []string) error {
	since, until := u.query.Bounds()
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if since != math.MinInt64 {
		first = since / dayLength
	}
	if until != math.MaxInt64 {
		last = until / dayLength
	}
	if !u.covers(book.Undated) {
		first = max(first, book.Undated+1)
	}
	columns := map[ledger.Dimension]string{ledger.ByAccount: `''::text`, ledger.ByKey: `''::text`,
		ledger.ByRoute: `''::text`, ledger.ByDay: `0::bigint`, ledger.ByProfile: `''::text`}
	for d := range u.by {
		columns[d] = string(d)
	}
	if u.by[ledger.ByKey] {
		columns[ledger.ByAccount] = `account`
	}
	where, args := ` WHERE account = ANY($1) AND day >= $2 AND day < $3`, []any{accounts, first, last}
	is := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(condition, len(args))
	}
	switch {
	case len(u.query.Keys) > 0:
		is(` AND key = ANY($%d)`, u.query.Keys)
	case u.by[ledger.ByKey]:
		where += ` AND key > ''`
	default:
		where += ` AND key = ''`
	}
	if u.query.Route != "" {
		is(` AND route = $%d`, u.query.Route)
	}
	if u.query.Profile != "" {
		is(` AND profile = $%d`, u.query.Profile)
	}
	sql := `SELECT ` + columns[ledger.ByAccount] + `, ` + columns[ledger.ByKey] + `, ` + columns[ledger.ByRoute] + `, ` +
		columns[ledger.ByDay] + `, ` + columns[ledger.ByProfile] + `, sum(parts)::bigint, sum(settled)::bigint,
		sum(requests)::bigint, sum(pending)::bigint, sum(whole_requests)::bigint, sum(whole_pending)::bigint,
		sum(attempts)::bigint, sum(microcents)::bigint, sum(waived)::bigint, sum(over)::bigint, sum(refunded)::bigint,
		sum(cost)::bigint, sum(input)::bigint, sum(cache_read)::bigint, sum(cache_write)::bigint, sum(output)::bigint,
		sum(reasoning)::bigint, sum(estimated)::bigint, sum(gone)::bigint, sum(gone_wholes)::bigint
		FROM days` + where + ` GROUP BY 1, 2, 3, 4, 5`
	return queryRows(ctx, tx, func(row pgx.Rows) error {
		var g group
		var p sums
		var wholes int64
		if err := row.Scan(&g.account, &g.key, &g.route, &g.day, &g.profile, &p.Parts, &p.Settled, &p.Requests, &p.Pending,
			&p.Wholes, &p.WholesPending, &p.Attempts, &p.Charge, &p.Waived, &p.Over, &p.Refunded, &p.Cost, &p.Input,
			&p.CacheRead, &p.CacheWrite, &p.Output, &p.Reasoning, &p.Estimated, &p.pruned, &wholes); err != nil {
			return err
		}
		if !u.routed {
			p.pruned = wholes
		}
		to := u.sumsOf(g)
		to.Add(&p.Usage)
		to.pruned += p.pruned
		return nil
	}, sql, args...)
}
