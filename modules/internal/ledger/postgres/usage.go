package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// group is what a row of usage is about; what is not grouped by is zero.
type group struct {
	account, key, route, profile string
	day                          int64
}

// usage groups settled requests.
type usage struct {
	query  ledger.UsageQuery
	by     map[ledger.Dimension]bool
	routed bool // grouped or narrowed by route
	groups map[group]*sums
	over   book.Divider

	prunedBefore int64
}

type sums struct {
	book.Usage
	pruned int64
}

// Usage implements ledger.Books.
func (s *Store) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	u := &usage{query: q, by: map[ledger.Dimension]bool{}, groups: map[group]*sums{}}
	for _, d := range q.By {
		if !slices.Contains([]ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay,
			ledger.ByProfile}, d) {
			return fmt.Errorf("summing usage: %w: grouping by %q; there are account, key, route, day and profile",
				ledger.ErrInvalid, d)
		}
		u.by[d] = true
	}
	u.routed = u.by[ledger.ByRoute] || q.Route != ""
	if len(q.By) == 0 {
		u.groups[group{}] = &sums{}
	}
	err := s.list(ctx, "usage", func(ctx context.Context, tx pgx.Tx) error {
		since, until := q.Bounds()
		where, args := `WHERE r.settled >= $1 AND r.settled < $2`, []any{since, until}
		if q.Account != "" {
			if err := checkAccount(ctx, tx, q.Account); err != nil {
				return err
			}
			args = append(args, q.Account)
			where += fmt.Sprintf(` AND r.account = $%d`, len(args))
		}
		if len(q.Keys) > 0 {
			missing := ""
			err := queryRows(ctx, tx, to(&missing), `SELECT asked FROM unnest($1::text[]) AS asked
				WHERE NOT EXISTS (SELECT 1 FROM keys WHERE key = asked) LIMIT 1`, q.Keys)
			if err == nil && missing != "" {
				err = fmt.Errorf("%w: key %q; keys are named by their id, which begins with key_", ledger.ErrNotFound, missing)
			}
			if err != nil {
				return err
			}
			args = append(args, q.Keys)
			where += fmt.Sprintf(` AND r.key = ANY($%d)`, len(args))
		}
		if q.Profile != "" {
			args = append(args, q.Profile)
			where += fmt.Sprintf(` AND r.profile = $%d`, len(args))
		}
		if err := s.sumUsage(ctx, tx, u, where, args); err != nil {
			return err
		}
		return u.list(ctx, tx, each)
	})
	return wrap(listed(err), "summing usage")
}

func (u *usage) sumsOf(g group) *sums {
	row := u.groups[g]
	if row == nil {
		row = &sums{}
		u.groups[g] = row
	}
	return row
}

// groupOf is the group of what a key did on a day.
func (u *usage) groupOf(account, key string, day int64) (g group) {
	if u.by[ledger.ByAccount] || u.by[ledger.ByKey] {
		g.account = account
	}
	if u.by[ledger.ByKey] {
		g.key = key
	}
	if u.by[ledger.ByDay] {
		g.day = day
	}
	return g
}

// count adds a request to its group, or to those of its routes.
func (u *usage) count(d *detail) error {
	g := u.groupOf(d.Account, d.Key, book.DayOf(d.Settled))
	if u.by[ledger.ByProfile] {
		g.profile = d.Profile
	}
	if !u.routed {
		u.sumsOf(g).Count(&d.RequestRecord)
		return nil
	}
	return u.over.Count(&d.RequestRecord, func(route string) (*book.Usage, error) {
		if u.query.Route != "" && route != u.query.Route {
			return nil, nil
		}
		if u.by[ledger.ByRoute] {
			g.route = route
		}
		return &u.sumsOf(g).Usage, nil
	})
}

// countPruned adds what was pruned of accounts, by whole days.
func (u *usage) countPruned(ctx context.Context, tx pgx.Tx, accounts []string) error {
	return queryRows(ctx, tx, func(row pgx.Rows) error {
		var account, key, route string
		var day int64
		var p book.Usage
		if err := row.Scan(&account, &key, &day, &route, &p.Parts, &p.Settled, &p.Requests, &p.Pending, &p.Wholes,
			&p.WholesPending, &p.Attempts, &p.Charge, &p.Waived, &p.Over, &p.Refunded, &p.Cost, &p.Input, &p.CacheRead,
			&p.CacheWrite, &p.Output, &p.Reasoning, &p.Estimated); err != nil {
			return err
		}
		if !u.covers(day) ||
			len(u.query.Keys) > 0 && !slices.Contains(u.query.Keys, key) || u.query.Profile != "" ||
			u.query.Route != "" && route != u.query.Route {
			return nil
		}
		g := u.groupOf(account, key, day)
		if u.by[ledger.ByRoute] {
			g.route = route
		}
		s := u.sumsOf(g)
		s.Add(&p)
		if u.routed {
			s.pruned += p.Requests
		} else {
			s.pruned += p.Wholes
		}
		return nil
	}, `SELECT account, key, day, route, parts, settled, requests, pending, whole_requests, whole_pending, attempts,
		microcents,
		waived, over, refunded, cost, input, cache_read, cache_write, output, reasoning, estimated FROM pruned
		WHERE account = ANY($1)`, accounts)
}

// covers reports whether the query asks for the whole of a day. What has none was pruned before the last pruning's
// bound.
func (u *usage) covers(day int64) bool {
	since, until := u.query.Bounds()
	if day == book.Undated {
		return since == math.MinInt64 && until >= u.prunedBefore
	}
	return day*dayLength >= since && (day+1)*dayLength <= until
}

// list gives the groups in the order of what they are grouped by: accounts by name, keys by account and name.
func (u *usage) list(ctx context.Context, tx pgx.Tx, each func(ledger.UsageRow) error) error {
	names := map[string]string{}
	if u.by[ledger.ByAccount] || u.by[ledger.ByKey] {
		accounts, keys := map[string]bool{}, map[string]bool{}
		for g := range u.groups {
			accounts[g.account], keys[g.key] = true, true
		}
		err := queryRows(ctx, tx, func(row pgx.Rows) error {
			var id, name string
			err := row.Scan(&id, &name)
			names[id] = name
			return err
		}, `SELECT account, name FROM accounts WHERE account = ANY($1)
			UNION ALL SELECT key, name FROM keys WHERE account = ANY($1) AND key = ANY($2)`,
			slices.Collect(maps.Keys(accounts)), slices.Collect(maps.Keys(keys)))
		if err != nil {
			return err
		}
	}
	rows := make([]ledger.UsageRow, 0, len(u.groups))
	for g, s := range u.groups {
		r := ledger.UsageRow{
			Account: g.account, AccountName: names[g.account], Key: g.key, KeyName: names[g.key], Route: g.route,
			Profile: g.profile, Requests: s.Requests, Attempts: s.Attempts, Microcents: s.Charge, Waived: s.Waived,
			Over:     s.Over,
			Refunded: s.Refunded, Cost: s.Cost, Pending: s.Pending, Pruned: s.pruned,
		}
		t := &r.Tokens
		t.Input, t.CacheRead, t.CacheWrite, t.Output, t.Reasoning = s.Input, s.CacheRead, s.CacheWrite, s.Output, s.Reasoning
		t.Estimated = s.Usage.Estimated > 0
		if !u.routed {
			r.Requests, r.Pending = s.Wholes, s.WholesPending
		}
		if u.by[ledger.ByDay] {
			r.Day = book.DateOf(g.day)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, u.compare)
	for i := range rows {
		if err := each(rows[i]); err != nil {
			return givenError{err}
		}
	}
	return nil
}

func (u *usage) compare(a, b ledger.UsageRow) int {
	for _, d := range u.query.By {
		order := 0
		switch d {
		case ledger.ByAccount:
			order = cmp.Compare(a.AccountName, b.AccountName)
		case ledger.ByKey:
			order = cmp.Or(cmp.Compare(a.AccountName, b.AccountName), cmp.Compare(a.KeyName, b.KeyName))
		case ledger.ByRoute:
			order = cmp.Compare(a.Route, b.Route)
		case ledger.ByDay:
			order = cmp.Compare(a.Day, b.Day)
		case ledger.ByProfile:
			order = cmp.Compare(a.Profile, b.Profile)
		}
		if order != 0 {
			return order
		}
	}
	return 0
}
