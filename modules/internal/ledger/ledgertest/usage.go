package ledgertest

import (
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testUsage(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{FairUse: 1_000})
	ctx := soon(t)
	first, laptop := f.account, f.key
	server := f.newKey("server", ledger.KeyChange{})
	f.clock.add(time.Second)
	f.newAccount(100)
	second, other := f.account, f.key
	var records []ledger.RequestRecord
	for day := range 4 {
		f.clock.set(time.Date(2026, 12, 1+day, 0, 0, 0, 0, time.UTC).Add(-time.Duration(day%2) * time.Nanosecond))
		for i, k := range []ledger.Key{laptop, server, other} {
			f.account, f.key = first, k
			if k.ID == other.ID {
				f.account = second
			}
			f.profile = []string{"balanced", "max"}[day%2]
			if store, is := f.store.(Summer); is {
				require.NoError(t, store.SumSome(ctx, f.account.ID, int64(1+day*5)))
			}
			tried := f.hold("fraction", 1_000_000)
			f.begin(tried, 2, "cached")
			f.begin(tried, 3, "fraction")
			f.begin(tried, 4, "cached")
			s := ok(tried, usage(10, 11))
			s.Results = append(s.Results,
				ledger.Result{Attempt: ledger.AttemptID(tried.Request, 2), Outcome: ledger.Failed, Usage: &llm.Usage{
					CacheRead: llm.Count(5), Output: llm.Count(3), Reasoning: llm.Count(2), Estimated: day == 0,
				}},
				ledger.Result{Attempt: ledger.AttemptID(tried.Request, 3), Outcome: ledger.Finished,
					Usage: usage(int64(i), int64(day))},
				ledger.Result{Attempt: ledger.AttemptID(tried.Request, 4), Outcome: ledger.Failed, Operator: true,
					Usage: usage(300, 400)})
			f.settle(s)
			free := ok(f.hold("unit", 1), usage(7, 7))
			free.Free = true
			f.settle(free)
			limited := f.atLimit(usage(0, 20))
			f.settle(limited)
			waiting := f.unproven("unit", func(s *ledger.Settlement) { s.Surcharge = 9 })
			proven := f.unproven("unit", nil)
			f.receipt(proven.Attempt.ID, usage(1, 2))
			_, _, err := f.store.Correct(ctx, ledger.Correction{Request: tried.Request, Microcents: 3, Reason: "r"})
			require.NoError(t, err)
			f.waiting++
			shadow := f.shadow()
			for _, id := range []string{tried.Request, free.Request, limited.Request, waiting.Request, proven.Request, shadow} {
				records = append(records, f.record(id))
			}
		}
	}
	f.hold("unit", 100) // what runs is no usage yet
	names := map[string]string{
		first.ID: first.Name, second.ID: second.Name, laptop.ID: "laptop", server.ID: "server", other.ID: "laptop",
	}

	a, k, r, d, p := ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay, ledger.ByProfile
	narrow := map[string]ledger.UsageQuery{
		"everything":    {},
		"an account":    {Query: ledger.Query{Account: first.ID}},
		"a key":         {Keys: []string{server.ID}},
		"two keys":      {Keys: []string{server.ID, other.ID}},
		"key twice":     {Keys: []string{server.ID, server.ID}},
		"a route":       {Route: "cached"},
		"a profile":     {Profile: "max"},
		"another's key": {Query: ledger.Query{Account: first.ID}, Keys: []string{other.ID}},
		"a time": {Query: ledger.Query{Since: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC),
			Until: time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)}},
		"all of these": {Query: ledger.Query{Account: first.ID, Since: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)},
			Keys: []string{server.ID, laptop.ID}, Route: "unit", Profile: "balanced"},
		"nothing": {Query: ledger.Query{Since: time.Date(2036, 12, 2, 0, 0, 0, 0, time.UTC)}},
	}
	for name, q := range narrow {
		for _, q.By = range [][]ledger.Dimension{nil, {a}, {k}, {r}, {d}, {p}, {a, d}, {d, a}, {r, d}, {k, r}, {p, r},
			{d, p}, {k, p}, {a, p, d}, {a, k, r, d, p}} {
			t.Run("usage of "+name, func(t *testing.T) {
				rows := f.usage(q)
				if len(q.By) == 0 && len(rows) == 1 && rows[0].Attempts == 0 {
					rows = nil // an empty sum may be a row of zeros
				}
				require.ElementsMatch(t, usageOf(records, names, q), rows, "by %v", q.By)
			})
		}
	}
	t.Run("rows are in the order of what they are grouped by", func(t *testing.T) {
		rows := f.usage(ledger.UsageQuery{By: []ledger.Dimension{d, r}})
		require.True(t, slices.IsSortedFunc(rows, func(x, y ledger.UsageRow) int {
			return slices.Compare([]string{x.Day, x.Route}, []string{y.Day, y.Route})
		}))
	})
	t.Run("usage, journal and balances say the same", func(t *testing.T) { f.reconciled() })
	t.Run("what makes no sense is refused", func(t *testing.T) {
		each := func(ledger.UsageRow) error { return nil }
		require.ErrorIs(t, f.store.Usage(ctx, ledger.UsageQuery{By: []ledger.Dimension{"moon"}}, each), ledger.ErrInvalid)
		require.ErrorIs(t, f.store.Usage(ctx, ledger.UsageQuery{Query: ledger.Query{Account: "acct_0"}}, each),
			ledger.ErrNotFound)
		require.ErrorIs(t, f.store.Usage(ctx, ledger.UsageQuery{Keys: []string{server.ID, "key_0"}}, each),
			ledger.ErrNotFound)
	})
}

// shadow makes a call for comparison: it holds nothing, is charged nothing whatever it used, and is the operator's.
func (f *fixture) shadow() string {
	before := f.now()
	h := f.newHold("cached", 0)
	h.Endpoint = ledger.Shadow
	h.Attempt.Worst = 0
	f.admit(h)
	s := ok(h, usage(3_000, 4_000))
	s.Reason, s.Free, s.Results[0].Operator = ledger.Shadow, true, true
	c := f.settle(s)
	require.Zero(f.t, c.Microcents+c.Over+c.Waived)
	require.False(f.t, c.Pending)
	require.Equal(f.t, before, f.now(), "nothing of the account has changed")
	require.True(f.t, f.record(h.Request).Attempts[0].Operator)
	return h.Request
}

// reconciled checks that what usage says was charged and refunded is what the journal moved, for every account, by
// itself and as the sum of its routes, and that the journal makes the balances. Nothing may have been pruned.
func (f *fixture) reconciled() {
	accounts := f.accounts() // first, for it may end periods
	revenue, net := map[string]int64{}, map[string]int64{}
	for _, e := range f.entries(ledger.Query{}) {
		net[e.Account] += e.Microcents
		if e.Book == ledger.Revenue {
			revenue[e.Account] -= e.Microcents
		}
	}
	type amounts struct{ charged, waived, refunded, cost int64 }
	whole, routes := map[string]amounts{}, map[string]amounts{}
	for _, row := range f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount}}) {
		require.Equal(f.t, revenue[row.Account], row.Microcents-row.Refunded, "%s", row.AccountName)
		delete(revenue, row.Account)
		whole[row.Account] = amounts{row.Microcents, row.Waived, row.Refunded, row.Cost}
	}
	for _, row := range f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount, ledger.ByRoute}}) {
		sum := routes[row.Account]
		routes[row.Account] = amounts{sum.charged + row.Microcents, sum.waived + row.Waived, sum.refunded + row.Refunded,
			sum.cost + row.Cost}
	}
	require.Equal(f.t, whole, routes, "the routes come to the whole")
	for account, left := range revenue {
		require.Zero(f.t, left, "usage knows nothing of %s", account)
	}
	for _, a := range accounts {
		require.Equal(f.t, net[a.ID], a.Balance.Net(), "%s", a.Name)
	}
}

// exactly is what usage costs at a price, in microcents, as a fraction.
func exactly(u llm.Usage, p config.Price) *big.Rat {
	sum := new(big.Rat)
	for _, t := range p.Tiers {
		if llm.Tokens(u.Input)+llm.Tokens(u.CacheRead)+llm.Tokens(u.CacheWrite) >= t.Above {
			p.Input, p.CacheRead, p.CacheWrite, p.Output = t.Input, t.CacheRead, t.CacheWrite, t.Output
		}
	}
	for _, c := range []struct {
		tokens *int64
		price  int64
	}{{u.Input, p.Input}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}} {
		if c.tokens != nil {
			sum.Add(sum, new(big.Rat).Mul(big.NewRat(*c.tokens, 1_000_000), big.NewRat(c.price, 1)))
		}
	}
	return sum
}

// floor is the whole microcents in a fraction.
func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// usageOf groups settled requests. names are those of accounts and keys by their ids.
func usageOf(records []ledger.RequestRecord, names map[string]string, q ledger.UsageQuery) []ledger.UsageRow {
	u := usageRows{query: q, names: names, rows: map[ledger.UsageRow]*ledger.UsageRow{}}
	for i := range records {
		if r := &records[i]; u.wants(r) {
			u.add(r)
		}
	}
	var rows []ledger.UsageRow
	for row := range maps.Values(u.rows) {
		rows = append(rows, *row)
	}
	return rows
}

// usageRows are the sums of a query's groups, by rows that say nothing but the group.
type usageRows struct {
	query ledger.UsageQuery
	names map[string]string
	rows  map[ledger.UsageRow]*ledger.UsageRow
}

func (u *usageRows) by(d ledger.Dimension) bool { return slices.Contains(u.query.By, d) }

// routed: amounts are the shares of attempts.
func (u *usageRows) routed() bool { return u.by(ledger.ByRoute) || u.query.Route != "" }

func (u *usageRows) wants(r *ledger.RequestRecord) bool {
	q := &u.query
	return !r.Running && within(q.Query, r.Account, r.Settled) && (len(q.Keys) == 0 || slices.Contains(q.Keys, r.Key)) &&
		(q.Profile == "" || r.Profile == q.Profile)
}

// add counts a request in the groups of its attempts; one without an attempt is of no route, and not lost.
func (u *usageRows) add(r *ledger.RequestRecord) {
	if len(r.Attempts) == 0 {
		if u.query.Route == "" {
			row := u.row(r, "")
			countRequest(row, r)
			addAmounts(row, r, func(amount int64) int64 { return amount })
		}
		return
	}
	seen := map[*ledger.UsageRow]bool{}
	shares := sharesOf(r.Attempts)
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if u.query.Route != "" && a.Route != u.query.Route {
			continue
		}
		row := u.row(r, a.Route)
		if !seen[row] {
			countRequest(row, r)
			if !u.routed() {
				addAmounts(row, r, func(amount int64) int64 { return amount })
			}
		}
		seen[row] = true
		if u.routed() {
			addAmounts(row, r, shares[i])
		}
		row.Attempts++
		row.Cost += floor(exactly(a.Usage, a.Cost))
		addTokens(&row.Tokens, &a.Usage)
	}
}

// row is the row of a request's group on a route.
func (u *usageRows) row(r *ledger.RequestRecord, route string) *ledger.UsageRow {
	var group ledger.UsageRow
	if u.by(ledger.ByAccount) || u.by(ledger.ByKey) {
		group.Account, group.AccountName = r.Account, u.names[r.Account]
	}
	if u.by(ledger.ByKey) {
		group.Key, group.KeyName = r.Key, u.names[r.Key]
	}
	if u.by(ledger.ByRoute) {
		group.Route = route
	}
	if u.by(ledger.ByDay) {
		group.Day = r.Settled.UTC().Format(time.DateOnly)
	}
	if u.by(ledger.ByProfile) {
		group.Profile = r.Profile
	}
	if u.rows[group] == nil {
		u.rows[group] = new(group)
	}
	return u.rows[group]
}

func countRequest(row *ledger.UsageRow, r *ledger.RequestRecord) {
	if r.Endpoint != ledger.Shadow {
		row.Requests++
	}
	if r.Pending {
		row.Pending++
	}
}

func addAmounts(row *ledger.UsageRow, r *ledger.RequestRecord, share func(amount int64) int64) {
	row.Microcents += share(r.Microcents)
	row.Waived += share(r.Waived)
	row.Over += share(r.Over)
	row.Refunded += share(r.Refunded)
}

// sharesOf divides amounts over attempts in proportion to what they come to by themselves, without a rest: each
// attempt has what all up to it have less what those before it have, and the last that is the account's has what is
// left.
func sharesOf(attempts []ledger.AttemptRecord) (shares []func(amount int64) int64) {
	upTo, payer := make([]int64, len(attempts)+1), 0 // of each, what all before it come to
	for i, a := range attempts {
		upTo[i+1] = upTo[i]
		if !a.Operator {
			upTo[i+1] += floor(exactly(a.Usage, a.Price))
			payer = i
		}
	}
	before := func(i int, amount int64) int64 { // what of an amount falls to the attempts before the i-th
		switch worth := upTo[len(attempts)]; {
		case i > payer:
			return amount
		case worth == 0:
			return 0
		default:
			return floor(new(big.Rat).Mul(big.NewRat(amount, 1), big.NewRat(upTo[i], worth)))
		}
	}
	for i := range attempts {
		shares = append(shares, func(amount int64) int64 { return before(i+1, amount) - before(i, amount) })
	}
	return shares
}

func addTokens(sum, u *llm.Usage) {
	for _, c := range []struct{ sum, n **int64 }{
		{&sum.Input, &u.Input}, {&sum.CacheRead, &u.CacheRead}, {&sum.CacheWrite, &u.CacheWrite}, {&sum.Output, &u.Output},
		{&sum.Reasoning, &u.Reasoning},
	} {
		if *c.n != nil {
			*c.sum = new(llm.Tokens(*c.sum) + **c.n)
		}
	}
	sum.Estimated = sum.Estimated || u.Estimated
}
