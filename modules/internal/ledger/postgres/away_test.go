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

// TestSeveralHosts names a replica and the primary in the url, as behind a failover, the replica first: everything of
// a node goes to the primary, its lease too, when the replica comes back and all connections are made anew. A replica
// alone is refused, and it is said why.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby, direct := startPair(t)
	_, err := postgres.Open(ctx, postgres.Options{URL: standby.URL("ledger"), BootID: "none",
		Options: ledger.Options{Logger: quiet}})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "the server is a replica; the dsn has to lead to the primary")

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

// TestRecoverBesideALateSettlement has both wait for the same lane: whichever way they travel, the settlement charges
// what it proves.
func TestRecoverBesideALateSettlement(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	dead := openStore(t, url, "dead")
	c := newCustomer(t, dead, 10)
	_, err := dead.Hold(ctx, c.hold("req_1", 1_000))
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	store := openOneLane(t, url, "node")
	c.store = store
	watcher := connect(ctx, t, url)
	tx := occupyLane(ctx, t, c, connect(ctx, t, url), watcher)
	recovered, late := make(chan int64, 1), make(chan ledger.Charge, 1)
	go func() {
		n, err := store.Recover(ctx)
		if err != nil {
			t.Error(err)
		}
		recovered <- n
	}()
	isSoon(t, func() bool { return store.Queued() == 1 }, "the recovery waits")
	go func() {
		charge, err := store.Settle(ctx, settlement("req_1", 700))
		if err != nil {
			t.Error(err)
		}
		late <- charge
	}()
	isSoon(t, func() bool { return store.Queued() == 2 }, "the settlement waits")
	require.NoError(t, tx.Commit(ctx))
	require.EqualValues(t, 1, <-recovered)
	require.EqualValues(t, 700, (<-late).Microcents)
	require.EqualValues(t, 700, count(ctx, t, watcher, `SELECT charge FROM requests WHERE request = 'req_1'`))
	require.Zero(t, count(ctx, t, watcher, `SELECT count(*) FROM waiting`))
	verifyOK(ctx, t, store)
}

// TestOrphanBehindALock has holds in doubt of two accounts, one of which somebody keeps locked: the other's is
// released.
func TestOrphanBehindALock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openOneLane(t, url, "node")
	one := newCustomer(t, store, 10)
	other := one.another(t, 1, 10)
	locker, watcher := connect(ctx, t, direct), connect(ctx, t, direct)
	tx := occupyLane(ctx, t, one, locker, watcher)
	answers := make(chan error, 2)
	for request, c := range map[string]customer{"req_1": one, "req_2": other} {
		go func() { _, err := store.Hold(ctx, c.hold(request, 1_000)); answers <- err }()
	}
	isSoon(t, func() bool { return store.Queued() == 2 }, "both wait")
	p.cut(1, true)
	require.NoError(t, tx.Commit(ctx))
	for range 2 {
		require.ErrorIs(t, <-answers, ledger.ErrUnavailable)
	}
	tx, err := locker.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT 1 FROM balances WHERE account = $1 FOR UPDATE`, one.account)
	require.NoError(t, err)
	p.back()
	holds := func(c customer) int64 {
		return count(ctx, t, watcher, `SELECT count(*) FROM holds WHERE account = $1`, c.account)
	}
	isSoon(t, func() bool { return holds(other) == 0 }, "it is released")
	require.EqualValues(t, 1, holds(one))
	_, err = store.Hold(ctx, other.hold("req_3", 1_000))
	require.NoError(t, err, "the lane goes on")
	_, err = store.Settle(ctx, settlement("req_3", 700))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	isSoon(t, func() bool { return holds(one) == 0 }, "it is released, too")
	verifyOK(ctx, t, store)
}

// TestLookThatFails: a node whose lease stands unrenewed is dead only if the database was there to renew it in all the
// time.
func TestLookThatFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	one, other := openLeased(t, url, "one", 2*time.Second), openLeased(t, direct, "other", 2*time.Second)
	c := newCustomer(t, other, 10)
	_, err := other.Hold(ctx, c.hold("req_1", 1_000))
	require.NoError(t, err)
	other.EndRenewals()
	conn := connect(ctx, t, direct)
	isSoon(t, func() bool {
		return count(ctx, t, conn, `SELECT count(*) FROM nodes WHERE node = 'other' AND expires <= clock_timestamp()`) == 1
	}, "its lease has lapsed")
	released, err := one.Recover(ctx)
	require.NoError(t, err)
	require.Zero(t, released, "it is seen for the first time")
	seen := time.Now()
	p.leave()
	_, err = one.Recover(ctx)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	isSoon(t, func() bool { return time.Since(seen) > 2*time.Second }, "a lease has passed")
	p.back()
	isSoon(t, func() bool { released, err = one.Recover(ctx); return err == nil }, "it is back")
	require.Zero(t, released, "it may live")
	require.NoError(t, other.Renew(ctx))
	_, err = other.Settle(ctx, settlement("req_1", 700))
	require.NoError(t, err)
	verifyOK(ctx, t, one)
}

// TestLostRows deletes what a node remembers, as a copy of the database has it that was taken before: the node says
// that there is no such thing, and goes on.
func TestLostRows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openLeased(t, url, "node", time.Hour)
	c := newCustomer(t, store, 10)
	second, err := store.CreateKey(ctx, c.account, "second", [32]byte{2}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	lost := c
	lost.key = second.ID
	for i, of := range []customer{lost, c} {
		_, err = store.Hold(ctx, of.hold(fmt.Sprint("req_", i), 1_000))
		require.NoError(t, err)
		_, err = store.Settle(ctx, settlement(fmt.Sprint("req_", i), 700))
		require.NoError(t, err)
	}
	conn := connect(ctx, t, url)
	for _, sql := range []string{`DELETE FROM lines WHERE root = $1`, `DELETE FROM keys WHERE key = $1`} {
		_, err = conn.Exec(ctx, sql, second.ID)
		require.NoError(t, err)
	}
	_, err = store.Hold(ctx, lost.hold("req_2", 1_000))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = store.Hold(ctx, c.hold("req_3", 1_000))
	require.NoError(t, err)

	for _, sql := range []string{`DELETE FROM nodes`, `ALTER TABLE prices DISABLE TRIGGER ALL`,
		`UPDATE prices SET output = 2 * output`} { // another one has that version there
		_, err = conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	require.NoError(t, store.Renew(ctx))
	charge, err := store.Settle(ctx, settlement("req_3", 100))
	require.NoError(t, err)
	require.EqualValues(t, 200, charge.Microcents, "by the price that the database has")
}

// TestBrokenAccountAlone: an account whose rows are damaged refuses its own operations, and not those that travel with
// them.
func TestBrokenAccountAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openOneLane(t, url, "node")
	broken := newCustomer(t, store, 10)
	second, err := store.CreateKey(ctx, broken.account, "second", [32]byte{2}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	sound := broken.another(t, 1, 10)
	_, err = store.Hold(ctx, broken.hold("req_0", 1_000)) // its key's line lies in the account's row now
	require.NoError(t, err)
	watcher := connect(ctx, t, url)
	_, err = watcher.Exec(ctx, `DELETE FROM lines WHERE root = $1`, broken.key) // where it would go back to
	require.NoError(t, err)
	broken.key = second.ID
	tx := occupyLane(ctx, t, sound, connect(ctx, t, url), watcher)
	refused, admitted := make(chan error, 1), make(chan error, 1)
	go func() { _, err := store.Hold(ctx, broken.hold("req_1", 1_000)); refused <- err }()
	go func() { _, err := store.Hold(ctx, sound.hold("req_2", 1_000)); admitted <- err }()
	isSoon(t, func() bool { return store.Queued() == 2 }, "both wait")
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-admitted)
	err = <-refused
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "rows are missing")
}
