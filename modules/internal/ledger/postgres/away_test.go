package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// patient is how long a test waits for what has to happen.
const patient = 30 * time.Second

// isSoon waits until something is so.
func isSoon(t *testing.T, is func() bool, what string) {
	t.Helper()
	require.Eventually(t, is, patient, 5*time.Millisecond, what)
}

// count is the number that a query says.
func count(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(ctx, sql, args...).Scan(&n))
	return n
}

func connect(ctx context.Context, t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(ctx)) })
	return conn
}

// TestHoldInDoubtWhileTheServerIsAway loses the answer to a hold's commit and the server with it, for longer than is
// tried: the caller is told that there is no hold, so there is none once the server is back.
func TestHoldInDoubtWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	conn := connect(ctx, t, direct)

	p.cut(1, true)
	_, err := store.Hold(ctx, c.hold("req_orphan", 1_000_000))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM holds`), "it was committed")
	p.back()
	isSoon(t, func() bool { return count(ctx, t, conn, `SELECT count(*) FROM holds`) == 0 }, "the orphan is released")
	b, err := store.Account(ctx, c.account)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Credits: 10}, b.Balance)
	_, err = store.Hold(ctx, c.hold("req_orphan", 1_000_000))
	require.Error(t, err, "it is over")
	require.NotErrorIs(t, err, ledger.ErrUnavailable)

	p.cut(1, true)
	_, err = store.Hold(ctx, c.hold("req_repeated", 1_000_000))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	repeated := make(chan error, 1)
	go func() { _, err := store.Hold(ctx, c.hold("req_repeated", 1_000_000)); repeated <- err }()
	tried := p.refused.Load()
	isSoon(t, func() bool { return p.refused.Load() > tried+6 }, "it is tried")
	p.back()
	if <-repeated == nil { // or it was released before it was asked for again
		require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM holds`))
		charge, err := store.Settle(ctx, settlement("req_repeated", 700))
		require.NoError(t, err)
		require.EqualValues(t, 700, charge.Microcents)
	}
	isSoon(t, func() bool { return count(ctx, t, conn, `SELECT count(*) FROM holds`) == 0 }, "no hold is left")

	p.leave()
	_, err = store.Hold(ctx, c.hold("req_never", 1_000_000))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	given, giveUp := context.WithCancel(ctx)
	giveUp()
	_, err = store.Hold(given, c.hold("req_given_up", 1_000_000))
	require.ErrorIs(t, err, context.Canceled)
	p.back()
	isSoon(t, func() bool { requests, _ := store.Remembered(); return requests == 0 }, "nothing is remembered")
	verifyOK(ctx, t, store)
}

// TestAttemptInDoubtWhileTheServerIsAway: an attempt whose caller was told that it is not on record was never made.
func TestAttemptInDoubtWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	conn := connect(ctx, t, direct)
	_, err := store.Hold(ctx, c.hold("req_1", 1_000))
	require.NoError(t, err)
	p.cut(1, true)
	err = store.Begin(ctx, c.next("req_1", 2_000))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.EqualValues(t, 2, count(ctx, t, conn, `SELECT count(*) FROM holds`), "it was committed")
	p.back()
	charge, err := store.Settle(ctx, settlement("req_1", 700))
	require.NoError(t, err)
	require.EqualValues(t, 700, charge.Microcents)
	require.False(t, charge.Pending, "nothing of it waits for a receipt")
	require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM attempts WHERE seq = 2 AND outcome = 'not_made'`))
	requests, unmade := store.Remembered()
	require.Zero(t, requests+unmade)
	verifyOK(ctx, t, store)
}

// openLeased opens a node whose lease is short.
func openLeased(t *testing.T, url, name string, lease time.Duration) *postgres.Store {
	store, err := postgres.Open(context.Background(), postgres.Options{
		Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute}, URL: url, BootID: name, Lease: lease,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// TestLivingNodesBehindAnOutage has the database away until all leases have lapsed: when it is back, all nodes live,
// and no node releases another's holds. One that does not renew its lease then is dead: its holds are released once.
func TestLivingNodesBehindAnOutage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	nodes := make([]*postgres.Store, 3)
	for i := range nodes {
		nodes[i] = openLeased(t, url, fmt.Sprint("node ", i), 2*time.Second)
	}
	c := newCustomer(t, nodes[0], 10)
	conn := connect(ctx, t, direct)
	for i, node := range nodes {
		_, err := node.Hold(ctx, c.hold(fmt.Sprint("req_", i), 1_000_000))
		require.NoError(t, err)
	}
	p.leave()
	for _, node := range nodes {
		isSoon(t, node.IsLapsed, "its lease lapses")
	}
	isSoon(t, func() bool {
		return count(ctx, t, conn, `SELECT count(*) FROM nodes WHERE ended IS NULL AND expires > clock_timestamp()`) == 0
	}, "leases have lapsed by the database's clock")
	_, err := nodes[0].Hold(ctx, c.hold("req_late", 1))
	require.ErrorIs(t, err, ledger.ErrLapsed)
	p.back()
	recover := func(by ...*postgres.Store) int64 { // at once
		var released atomic.Int64
		var running sync.WaitGroup
		for _, node := range by {
			running.Go(func() {
				n, err := node.Recover(ctx)
				if err != nil {
					t.Error(err)
				}
				released.Add(n)
			})
		}
		running.Wait()
		return released.Load()
	}
	isSoon(t, func() bool {
		require.Zero(t, recover(nodes...), "it lives")
		return !nodes[0].IsLapsed() && !nodes[1].IsLapsed() && !nodes[2].IsLapsed()
	}, "leases are renewed")
	require.Zero(t, recover(nodes...))
	require.EqualValues(t, 3, count(ctx, t, conn, `SELECT count(*) FROM holds`))

	nodes[0].EndRenewals()
	require.Zero(t, recover(nodes[1:]...), "its lease has not lapsed")
	released := int64(0)
	isSoon(t, func() bool { released += recover(nodes[1:]...); return released > 0 }, "it is dead")
	require.Zero(t, recover(nodes[1:]...))
	require.EqualValues(t, 1, released, "GAP-99: by one of them")
	require.True(t, nodes[0].IsLapsed(), "it does not admit when others take it for dead")
	for range 2 {
		charge, err := nodes[0].Settle(ctx, settlement("req_0", 700))
		require.NoError(t, err)
		require.EqualValues(t, 700, charge.Microcents, "what it knew of its request counts once")
		require.False(t, charge.Pending)
	}
	for i := range 2 {
		_, err := nodes[i+1].Settle(ctx, settlement(fmt.Sprint("req_", i+1), 1_000))
		require.NoError(t, err)
	}
	b, err := nodes[1].Account(ctx, c.account)
	require.NoError(t, err)
	require.EqualValues(t, 10_000_000-2_700, b.Balance.Net())
	require.Zero(t, b.Balance.Held)
	verifyOK(ctx, t, nodes[1])
}

// TestHoldBehindARestore deletes a node's row, as a restored copy of the database has none of it: nothing is admitted
// and nothing is settled by a clock that was not read, until the lease is renewed.
func TestHoldBehindARestore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openLeased(t, url, "node", time.Hour)
	c := newCustomer(t, store, 10)
	conn := connect(ctx, t, url)
	_, err := store.Hold(ctx, c.hold("req_1", 1_000))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `DELETE FROM nodes`)
	require.NoError(t, err)
	_, err = store.Hold(ctx, c.hold("req_2", 1_000))
	require.ErrorIs(t, err, ledger.ErrLapsed)
	if _, err = store.Settle(ctx, settlement("req_1", 700)); err != nil {
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	}
	_, _, err = store.AddCredit(ctx, ledger.Credit{Account: c.account, Credits: 1})
	if err != nil {
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	}
	require.NoError(t, store.Renew(ctx))
	charge, err := store.Settle(ctx, settlement("req_1", 700))
	require.NoError(t, err)
	require.EqualValues(t, 700, charge.Microcents)
	_, err = store.Hold(ctx, c.hold("req_2", 1_000))
	require.NoError(t, err)
	require.Zero(t, count(ctx, t, conn, `SELECT (SELECT count(*) FROM requests WHERE settled < $1)
		+ (SELECT count(*) FROM entries WHERE created < $1) + (SELECT count(*) FROM holds WHERE created < $1)`,
		time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()), "of 1970")
	verifyOK(ctx, t, store)
}

// TestSeveralHosts names a replica and the primary in the url, as behind a failover, the replica first: everything of a
// node goes to the primary, its lease too, when the replica comes back and all connections are made anew. A replica
// alone is refused, and it is said why.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby, direct := startPair(t)
	_, err := postgres.Open(ctx, postgres.Options{URL: standby.URL("ledger"), BootID: "none",
		Options: ledger.Options{Logger: quiet}})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "the server is a replica; the url has to lead to the primary")

	p, through := startProxy(t, standby, "ledger")
	first, err := pgx.ParseConfig(through)
	require.NoError(t, err)
	p.leave()
	store := openLeased(t, "postgres://fareway@/ledger?host="+first.Host+","+primary.Dir(), "node", 4*time.Second)
	c := newCustomer(t, store, 10)
	p.back()
	conn := connect(ctx, t, direct)
	expires := func() int64 {
		return count(ctx, t, conn, `SELECT (extract(epoch FROM expires) * 1000000)::bigint FROM nodes WHERE node = 'node'`)
	}
	ended := func() int64 {
		return count(ctx, t, conn, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = 'ledger' AND pid <> pg_backend_pid() AND backend_type = 'client backend') AS ended`)
	}
	was := expires()
	require.Positive(t, ended())
	isSoon(t, func() bool { return expires() > was }, "its lease is renewed")
	require.True(t, store.Server().Up)
	_, err = store.Hold(ctx, c.hold("req_1", 1_000))
	require.NoError(t, err)
	_, err = store.Settle(ctx, settlement("req_1", 700))
	require.NoError(t, err)
	require.NoError(t, store.Check(ctx, c.account, c.key, 1, 0))
	require.NoError(t, store.Ping(ctx))
	verifyOK(ctx, t, store)

	opened := openLeased(t, "postgres://fareway@/ledger?host="+standby.Dir()+","+primary.Dir(), "second", time.Minute)
	require.NoError(t, opened.Ping(ctx))
}
