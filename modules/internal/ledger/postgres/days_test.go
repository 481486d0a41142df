package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// usageOf is usage by everything.
func usageOf(t *testing.T, s ledger.Store) (rows []ledger.UsageRow) {
	require.NoError(t, s.Usage(context.Background(), ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount,
		ledger.ByKey, ledger.ByDay, ledger.ByRoute, ledger.ByProfile}}, func(r ledger.UsageRow) error {
		rows = append(rows, r)
		return nil
	}))
	return rows
}

// checkSums compares usage with what it is where no sums are used, and the sums of accounts with those of their keys.
func checkSums(ctx context.Context, t *testing.T, s ledger.Store, conn *pgx.Conn) []ledger.UsageRow {
	rows := usageOf(t, s)
	_, err := conn.Exec(ctx, `UPDATE summed SET entry = -1 - entry - 1000000`) // so far behind that they are not used
	require.NoError(t, err)
	require.Equal(t, usageOf(t, s), rows)
	_, err = conn.Exec(ctx, `UPDATE summed SET entry = -1 - entry - 1000000`)
	require.NoError(t, err)
	var different int64
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT account, day, route, profile FROM days
		GROUP BY account, day, route, profile HAVING sum(microcents) FILTER (WHERE key = '')
			IS DISTINCT FROM sum(microcents) FILTER (WHERE key > '')) AS d`).Scan(&different))
	require.Zero(t, different)
	return rows
}

// settleSome settles requests of a customer.
func settleSome(ctx context.Context, t *testing.T, c customer, name string, n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("req_%s_%d", name, i)
		_, err := c.store.Hold(ctx, c.hold(id, 1_000))
		require.NoError(t, err)
		_, err = c.store.Settle(ctx, settlement(id, 700))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// TestSumsLoseNothingThatCommitsLate: what is settled while the account's sums are made, by a transaction that commits
// behind them, has a higher number than all that they have seen.
func TestSumsLoseNothingThatCommitsLate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	s := openStore(t, url, "one")
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	c := newCustomer(t, s, 1_000)
	other := c.another(t, 1, 1_000)
	settleSome(ctx, t, c, "early", 3)
	_, err := s.Hold(ctx, c.hold("req_late", 1_000))
	require.NoError(t, err)
	conn := connect(ctx, t, url)

	// It has its number, and its row cannot be written yet: the transaction is open.
	blocker := connect(ctx, t, url)
	open, err := blocker.Begin(ctx)
	require.NoError(t, err)
	_, err = open.Exec(ctx, `LOCK TABLE requests IN SHARE MODE`)
	require.NoError(t, err)
	settled := make(chan error, 1)
	go func() { _, err := s.Settle(ctx, settlement("req_late", 700)); settled <- err }()
	require.Eventually(t, func() bool {
		waits := false
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	}, time.Minute, time.Millisecond)
	for range 2 { // the first begins the sums of an account, which waits for its balance
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		_ = s.SumSome(soon, c.account, 100)
		cancel()
		require.NoError(t, s.SumSome(ctx, other.account, 100))
	}
	require.NoError(t, open.Rollback(ctx))
	require.NoError(t, <-settled)
	for range 3 {
		require.NoError(t, s.SumSome(ctx, c.account, 1))
		checkSums(ctx, t, s, conn)
	}
	require.NoError(t, s.SumDays(ctx, 1))
	require.EqualValues(t, 4, checkSums(ctx, t, s, conn)[0].Requests)
	var summed int64
	require.NoError(t, conn.QueryRow(ctx, `SELECT sum(settled)::bigint FROM days WHERE key = ''`).Scan(&summed))
	require.EqualValues(t, 4, summed)
}

// TestSumsAreMadeAtOnceOrNotAtAll: who is stopped between the sums and their mark has done nothing.
func TestSumsAreMadeAtOnceOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	s := openStore(t, url, "one")
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	c := newCustomer(t, s, 1_000)
	settleSome(ctx, t, c, "r", 5)
	conn := connect(ctx, t, url)
	require.NoError(t, s.SumSome(ctx, c.account, 100)) // begins
	_, err := conn.Exec(ctx, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
		CREATE TRIGGER die BEFORE UPDATE ON summed FOR EACH ROW EXECUTE FUNCTION die()`)
	require.NoError(t, err)
	require.Error(t, s.SumSome(ctx, c.account, 100))
	var rows int64
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM days`).Scan(&rows))
	require.Zero(t, rows)
	require.EqualValues(t, 5, usageOf(t, s)[0].Requests)
	_, err = conn.Exec(ctx, `DROP TRIGGER die ON summed`)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.SumDays(ctx, 1))
		require.EqualValues(t, 5, checkSums(ctx, t, s, conn)[0].Requests)
	}
}

// TestSumsBesideAnOlderNode: one that knows no sums refunds and prunes; what it prunes that is in no sum yet has them
// made anew.
func TestSumsBesideAnOlderNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	s := openStore(t, url, "one")
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	c := newCustomer(t, s, 1_000)
	ids := settleSome(ctx, t, c, "r", 6)
	conn := connect(ctx, t, url)
	require.NoError(t, s.SumSome(ctx, c.account, 100)) // begins
	require.NoError(t, s.SumSome(ctx, c.account, 4))   // the top-up, and three requests
	total := func() (microcents, refunded, requests int64) {
		for _, r := range usageOf(t, s) {
			microcents, refunded, requests = microcents+r.Microcents, refunded+r.Refunded, requests+r.Requests
		}
		return microcents, refunded, requests
	}
	prune := func(id string) (broken bool) {
		_, err := conn.Exec(ctx, `INSERT INTO pruned SELECT account, key, settled / 86400000000000, 'unit', 1, 1, 1, 0, 1,
				0, 1, charge, waived, over, refunded, 0, NULL, NULL, NULL, NULL, NULL, 0, tokens FROM requests WHERE request = $1
			ON CONFLICT (account, key, day, route) DO UPDATE SET parts = pruned.parts + 1, settled = pruned.settled + 1,
				requests = pruned.requests + 1, whole_requests = pruned.whole_requests + 1, attempts = pruned.attempts + 1,
				microcents = pruned.microcents + excluded.microcents, refunded = pruned.refunded + excluded.refunded`, id)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, `DELETE FROM requests WHERE request = $1`, id)
		require.NoError(t, err)
		require.NoError(t, conn.QueryRow(ctx, `SELECT broken FROM summed`).Scan(&broken))
		return broken
	}
	paid, _, n := total()
	require.EqualValues(t, 6, n)
	for _, id := range ids[1:3] {
		_, _, err := s.Correct(ctx, ledger.Correction{Request: id, Microcents: 5, Reason: "r"})
		require.NoError(t, err)
	}
	check := func() {
		t.Helper()
		m, refunded, n := total()
		require.Equal(t, []int64{paid, 10, 6}, []int64{m, refunded, n})
	}
	check()
	require.False(t, prune(ids[0]), "it is in the sums, and stays there")
	check()
	require.True(t, prune(ids[1]), "its refund is in no sum")
	check()
	require.NoError(t, s.SumDays(ctx, 1))
	check()
	require.False(t, prune(ids[5]))
	check()
}
