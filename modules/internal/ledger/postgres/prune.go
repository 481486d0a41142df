package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// pruneBatch is how many requests are looked for at once.
const pruneBatch = 256

// addMonths makes the partitions of this month and the two that follow, where they are missing. Ids of requests begin
// with the time in milliseconds (gateway.NewID); what has another id lies in the partitions of the rest. It is tried
// again with each EndPeriods; until then, and where it fails, rows lie in the rest.
func (s *Store) addMonths(ctx context.Context) {
	var clock int64
	err := queryRows(ctx, s.pool, to(&clock), selectClock)
	now := time.UnixMicro(clock).UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for i := range monthsAhead {
		from, until := first.AddDate(0, i, 0), first.AddDate(0, i+1, 0)
		for _, of := range [...]string{"requests", "attempts"} {
			// One that cannot be made, for the rest has rows of it, hinders no others; behind a lock all would wait.
			if clock > 0 && !isLocked(err) {
				err = errors.Join(err, s.addMonth(ctx, of, of+from.Format("_2006_01"), firstID(from), firstID(until)))
			}
		}
	}
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the partitions of the next months could not be made yet", "error", err)
	}
}

// monthsAhead are this month and those that follow.
const monthsAhead = 3

// addMonth makes a partition. That locks the whole table, so it waits for others no longer than they can wait for it.
func (s *Store) addMonth(ctx context.Context, of, name, from, until string) error {
	found := false
	err := queryRows(ctx, s.pool, to(&found), `SELECT to_regclass($1) IS NOT NULL`, name)
	if err != nil || found {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '500ms'`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
			name, of, from, until))
		return err
	})
	var e *pgconn.PgError
	if errors.As(err, &e) && slices.Contains([]string{"42P07", "23505", "42P17"}, e.Code) {
		return nil // another node has just made it
	}
	return wrap(err, "making the partition %s", name)
}

// firstID is before all ids of requests since a moment.
func firstID(t time.Time) string { return fmt.Sprintf("req_%012x", t.UnixMilli()) }

const selectClock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// Prune implements ledger.Store. What the requests of a key came to is kept, so that Verify can still recompute the
// counters.
func (s *Store) Prune(ctx context.Context, before time.Time) (requests int64, err error) {
	bound := ledger.Nanoseconds(before)
	some := false
	err = queryRows(ctx, s.pool, to(&some), `SELECT true FROM requests WHERE NOT pending AND settled < $1 LIMIT 1`, bound)
	if err == nil && some {
		err = s.perform(ctx, "prune", &operation{alone: true, run: func(u *unit) error {
			return u.movePrunedBefore(ctx,
				before)
		}})
	}
	for after := (requestID{}); err == nil; {
		var found []requestID
		err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
			var r requestID
			err := row.Scan(&r.account, &r.request)
			found = append(found, r)
			return err
		}, `SELECT account, request FROM requests WHERE (request, account) > ($1, $2) AND NOT pending AND settled < $3
			ORDER BY request, account LIMIT $4`, after.request, after.account, bound, pruneBatch)
		if err != nil || len(found) == 0 {
			err = unavailable(err)
			break
		}
		after = found[len(found)-1]
		slices.SortStableFunc(found, func(a, b requestID) int { return cmp.Compare(a.account, b.account) })
		for len(found) > 0 && err == nil {
			n := 1
			for n < len(found) && found[n].account == found[0].account {
				n++
			}
			var removed int64
			removed, err = s.pruneAccount(ctx, before, found[:n])
			requests, found = requests+removed, found[n:]
		}
	}
	if err == nil {
		s.dropMonths(ctx, before)
	}
	return requests, wrap(err, "removing the detail of old requests")
}

// dropMonths drops the partitions of months that are over before a moment, where nothing is left in them. It is tried
// again with each Prune.
func (s *Store) dropMonths(ctx context.Context, before time.Time) {
	var names []string
	err := queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent IN ('requests'::regclass, 'attempts'::regclass) ORDER BY c.relname`)
	for _, name := range names {
		of, month, _ := strings.Cut(name, "_")
		first, failed := time.Parse("2006_01", month)
		if failed == nil && !first.AddDate(0, 1, 0).After(before) && !isLocked(err) {
			err = errors.Join(err, s.dropMonth(ctx, of, name))
		}
	}
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the empty partitions of old months could not be dropped yet", "error", err)
	}
}

// dropMonth drops a partition in which nothing is. That locks the whole table, so it waits for others no longer than
// they can wait for it. (DETACH CONCURRENTLY does not exist beside a partition of the rest.)
func (s *Store) dropMonth(ctx context.Context, of, name string) error {
	used := `SELECT EXISTS (SELECT FROM ` + name + `)`
	// Behind the lock it has to see what was committed until then, whatever the database is set to.
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		filled := false
		if err := queryRows(ctx, tx, to(&filled), used); err != nil || filled {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '500ms'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `LOCK TABLE ONLY `+of+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := queryRows(ctx, tx, to(&filled), used); err != nil || filled {
			return err
		}
		// Who reads the partition by its own name, a dump for one, would hold up everybody behind the table's lock.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '50ms'`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+name)
		return err
	})
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "42P01" {
		return nil // another node has dropped it
	}
	return wrap(err, "dropping the partition %s", name)
}

// pruneAccount removes the detail of requests of one account.
func (s *Store) pruneAccount(ctx context.Context, before time.Time, requests []requestID) (int64, error) {
	var removed int64
	account := requests[0].account
	if err := s.sumAccount(ctx, account); err != nil { // what is pruned has to be in the sums
		return 0, unavailable(err)
	}
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = r.request
	}
	op := &operation{account: account, alone: true}
	op.run = func(u *unit) error {
		removed = 0
		cells, tokens, summed := map[cell]*book.Usage{}, map[cell]int64{}, newCells()
		var divider book.Divider
		err := s.eachDetail(u.ctx, u.conn, `WHERE r.account = $1 AND r.request = ANY($2) AND NOT r.pending
			AND r.settled < $3`,
			func(d *detail) error {
				removed++
				last := cell{}
				err := divider.Count(&d.RequestRecord, func(route string) (*book.Usage, error) {
					last = cell{d.Key, book.DayOf(d.Settled), route}
					if cells[last] == nil {
						cells[last] = &book.Usage{}
					}
					return cells[last], nil
				})
				tokens[last] += d.tokens
				err = errors.Join(err, summed.count(d))
				u.write(`DELETE FROM attempts WHERE account = $1 AND request = $2`, account, d.ID)
				u.write(`DELETE FROM requests WHERE account = $1 AND request = $2`, account, d.ID)
				return err
			}, account, ids, ledger.Nanoseconds(before))
		if err != nil {
			return &queryError{err}
		}
		for c, sum := range cells {
			args := []any{account, c.key, c.day, c.route, tokens[c]}
			for i, n := range sum.Columns() {
				args = append(args, [...]any{n, n, n, n, n, n, n, n, n, n, n, n, sum.Input, sum.CacheRead, sum.CacheWrite,
					sum.Output,
					sum.Reasoning, n}[i])
			}
			u.write(addPruned, args...)
		}
		all := withTotals(summed.groups)
		for _, g := range slices.SortedFunc(maps.Keys(all), compareGroups) { // which stay in the sums of days
			u.write(`UPDATE days SET gone = gone + $6, gone_wholes = gone_wholes + $7 WHERE account = $1 AND key = $2
				AND day = $3 AND route = $4 AND profile = $5`, account, g.key, g.day, g.route, g.profile, all[g].Requests,
				all[g].Wholes)
		}
		return nil
	}
	if err := s.perform(ctx, "prune", op); err != nil {
		return 0, err
	}
	return removed, nil
}

// cell is a row of pruned.
type cell struct {
	key   string
	day   int64
	route string
}

const addPruned = `INSERT INTO pruned AS p (account, key, day, route, tokens, parts, settled, requests, pending,
	whole_requests,
	whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write, output, reasoning,
	estimated) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
		$22, $23)
	ON CONFLICT (account, key, day, route) DO UPDATE SET tokens = p.tokens + excluded.tokens,
		parts = p.parts + excluded.parts,
	settled = p.settled + excluded.settled, requests = p.requests + excluded.requests,
		pending = p.pending + excluded.pending,
	whole_requests = p.whole_requests + excluded.whole_requests, whole_pending = p.whole_pending + excluded.whole_pending,
	attempts = p.attempts + excluded.attempts, microcents = p.microcents + excluded.microcents,
	waived = p.waived + excluded.waived, over = p.over + excluded.over, refunded = p.refunded + excluded.refunded,
	cost = p.cost + excluded.cost, estimated = p.estimated + excluded.estimated,
	input = CASE WHEN p.input IS NULL AND excluded.input IS NULL THEN NULL
		ELSE coalesce(p.input, 0) + coalesce(excluded.input, 0) END,
	cache_read = CASE WHEN p.cache_read IS NULL AND excluded.cache_read IS NULL THEN NULL
		ELSE coalesce(p.cache_read, 0) + coalesce(excluded.cache_read, 0) END,
	cache_write = CASE WHEN p.cache_write IS NULL AND excluded.cache_write IS NULL THEN NULL
		ELSE coalesce(p.cache_write, 0) + coalesce(excluded.cache_write, 0) END,
	output = CASE WHEN p.output IS NULL AND excluded.output IS NULL THEN NULL
		ELSE coalesce(p.output, 0) + coalesce(excluded.output, 0) END,
	reasoning = CASE WHEN p.reasoning IS NULL AND excluded.reasoning IS NULL THEN NULL
		ELSE coalesce(p.reasoning, 0) + coalesce(excluded.reasoning, 0) END`

// movePrunedBefore records since when every request has to be there.
func (u *unit) movePrunedBefore(ctx context.Context, before time.Time) error {
	var bound int64
	if err := u.query(to(&bound), `SELECT pruned_before FROM ledger FOR UPDATE`); err != nil {
		return err
	}
	var was time.Time
	if bound != 0 {
		was = moment(bound)
	}
	return u.recordAct(func(t book.Trail) (book.Act, error) {
		act, err := book.RecordPruning(t, was, moment(ledger.Nanoseconds(before)), u.by(ctx))
		if act.Seq > 0 {
			u.write(`UPDATE ledger SET pruned_before = $1`, ledger.Nanoseconds(before))
		}
		return act, err
	})
}
