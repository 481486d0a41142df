//go:build soak

package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// TestSoakUsage: usage of an account with 2,000 keys, a year and ten routes is read in under 200 ms, as far as it is
// not about many keys, however many requests there are: FAREWAY_SOAK_REQUESTS, ten million if that is not set.
func TestSoakUsage(t *testing.T) {
	t.Parallel()
	requests, _ := strconv.ParseInt(cmp.Or(os.Getenv("FAREWAY_SOAK_REQUESTS"), "10000000"), 10, 64)
	ctx := context.Background()
	s := openNode(t, ledgertest.Options{Dir: t.Name(), BootID: "soak"}, "").(interface {
		ledger.Store
		SumDays(ctx context.Context, least int64) error
	})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	a, err := s.CreateAccount(ctx, "large", "")
	require.NoError(t, err)
	conn := connect(ctx, t, databaseOf(t, t.Name()))
	exec := func(sql string, args ...any) {
		began := time.Now()
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(t, err, sql)
		t.Logf("%v: %.40s", time.Since(began).Round(time.Millisecond), sql)
	}
	exec(`SET synchronous_commit = off`)
	const year, day = 365, int64(24 * time.Hour)
	first := time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)
	exec(`INSERT INTO keys (account, key, name, hash, last4, revoked, created, root) SELECT $1::text, 'key_' || k,
		'k' || k,
		sha256(k::text::bytea), 'abcd', false, 1, 'key_' || k FROM generate_series(0, 1999) AS k`, a.ID)
	exec(`INSERT INTO lines SELECT account, key, 0, 0, 0, 0 FROM keys`)
	exec(`INSERT INTO prices (route, version, input, cache_read, cache_write, output, tiers, cost_input, cost_cache_read,
		cost_cache_write, cost_output, cost_tiers, since) SELECT 'route ' || r, 1, 1000000, 0, 0, 1000000, '', 500000, 0, 0,
		500000, '', 1 FROM generate_series(0, 9) AS r`)
	const batch = 250_000
	for from := int64(0); from < requests; from += batch {
		until := min(from+batch, requests)
		ids := fmt.Sprintf(`(SELECT i, 'req_' || lpad(to_hex(i), 16, '0') AS request, %d + i * %d AS at
			FROM generate_series(%d::bigint, %d) AS i)`, first.UnixNano(), year*day/requests, from, until-1)
		exec(`INSERT INTO requests SELECT $1, request, 'key_' || i % 2000, 'node', 'chat',
			(ARRAY['budget', 'balanced', 'max'])[i % 3 + 1], 1000000, 200, 'ok', false,
			false, 0, 1650, 0, 0, 0, 0, false, at, at, i + 1 FROM `+ids+` AS _`, a.ID)
		exec(`INSERT INTO attempts SELECT $1, request, 1, 'route ' || (i / 7) % 10, 'provider', 'model', 1, 'finished', 950,
			NULL, NULL, 700, NULL, false, at, NULL, 1000000, NULL, NULL, '', false FROM `+ids+` AS _`, a.ID)
		exec(`INSERT INTO entries SELECT $1, i + 1, 'charge', 'revenue', request, NULL, '', '', -1650, 0, 0, 0,
			sha256(request::bytea), 1000, 0, at, 4, sha256(request::bytea), sha256(request::bytea) FROM `+ids+` AS _`, a.ID)
	}
	exec(`UPDATE balances SET entries = $2 WHERE account = $1`, a.ID, requests)
	exec(`VACUUM (ANALYZE)`)
	began := time.Now()
	require.NoError(t, s.SumDays(ctx, 1))
	t.Logf("%v: all sums", time.Since(began).Round(time.Millisecond))
	exec(`VACUUM (ANALYZE)`)

	all := ledger.Query{Account: a.ID}
	var hundred []string
	for i := range 100 {
		hundred = append(hundred, fmt.Sprint("key_", i*20))
	}
	month := ledger.Query{Account: a.ID, Since: first.AddDate(0, 6, 0), Until: first.AddDate(0, 6, 30)}
	everybody := month
	everybody.Account = ""
	for name, q := range map[string]ledger.UsageQuery{
		"a year by day":                  {Query: all, By: []ledger.Dimension{ledger.ByDay}},
		"a year by route and profile":    {Query: all, By: []ledger.Dimension{ledger.ByRoute, ledger.ByProfile}},
		"30 days of a key by day":        {Query: month, Keys: hundred[:1], By: []ledger.Dimension{ledger.ByDay}},
		"a year of 100 keys by key":      {Query: all, Keys: hundred, By: []ledger.Dimension{ledger.ByKey}},
		"30 days of the ledger by day":   {Query: everybody, By: []ledger.Dimension{ledger.ByDay}},
		"30 days by key of all the keys": {Query: month, By: []ledger.Dimension{ledger.ByKey}},
	} {
		var took []time.Duration
		var n int64
		for range 7 {
			began, n = time.Now(), 0
			require.NoError(t, s.Usage(ctx, q, func(r ledger.UsageRow) error { n += r.Requests; return nil }))
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("%v at the median, %v at most: %s, %d requests", took[3], took[6], name, n)
		if name == "a year by day" {
			require.Equal(t, requests, n)
		}
		require.Positive(t, n, name)
		if len(q.Keys) < 2 && !slices.Contains(q.By, ledger.ByKey) {
			require.Less(t, took[3], 200*time.Millisecond, name)
		}
	}
}
