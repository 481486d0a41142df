package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// lockedBuffer is what several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestStandbyIsNeeded: where a standby is required, nothing is acknowledged while the server waits for none, which
// Patroni has it do by itself when the last one goes; and it is said.
func TestStandbyIsNeeded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, _, url := startPair(t)
	var logged lockedBuffer
	store, err := postgres.Open(ctx, postgres.Options{URL: url, BootID: "strict", NeedsStandby: true,
		Options: ledger.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)), WaitTimeout: time.Minute}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	loose := openStore(t, url, "loose")
	t.Cleanup(func() { require.NoError(t, loose.Close()) })
	c := newCustomer(t, store, 10)
	_, err = store.Hold(ctx, c.hold("req_1", 1_000_000))
	require.NoError(t, err)
	require.Equal(t, "standby", store.Server().Standbys)
	require.NoError(t, store.Ping(ctx))

	waitFor := func(names string) {
		require.NoError(t, primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"))
		require.NoError(t, primary.Exec("SELECT pg_reload_conf()"))
		require.Eventually(t, func() bool {
			_ = store.Ping(ctx)
			return store.Server().Standbys == names
		}, 10*time.Second, 5*time.Millisecond)
	}
	waitFor("")
	_, err = store.Hold(ctx, c.hold("req_2", 1))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "wait for no standby")
	_, err = store.Settle(ctx, settlement("req_1", 700))
	require.ErrorIs(t, err, ledger.ErrUnavailable, "it belongs in the spool now")
	require.ErrorIs(t, store.Ping(ctx), ledger.ErrUnavailable, "it is not ready")
	require.Contains(t, logged.String(), "level=ERROR msg=\"commits of the ledger's database wait for no standby")
	_, err = loose.Hold(ctx, c.hold("req_3", 1))
	require.NoError(t, err, "who requires none goes on")
	require.NoError(t, loose.Ping(ctx))

	waitFor("standby")
	require.NoError(t, store.Ping(ctx))
	charge, err := store.Settle(ctx, settlement("req_1", 700))
	require.NoError(t, err)
	require.EqualValues(t, 700, charge.Microcents)
	require.Contains(t, logged.String(), "level=INFO msg=\"commits of the ledger's database wait for a standby\"")
}

// TestStandbyGoesWhileACommitWaits empties the setting while a commit waits for the standby, which lets it go as if
// the standby had it. Where one is required, that is not acknowledged. Nor is, without a repetition, what was
// committed while the server's configuration was read anew, for the setting may have been empty meanwhile.
func TestStandbyGoesWhileACommitWaits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby, url := startPair(t)
	store, err := postgres.Open(ctx, postgres.Options{URL: url, BootID: "strict", NeedsStandby: true,
		Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	for _, request := range []string{"req_1", "req_2"} {
		_, err = store.Hold(ctx, c.hold(request, 1_000_000))
		require.NoError(t, err)
	}
	watcher := connect(ctx, t, url)
	set := func(names string) {
		require.NoError(t, primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"))
		require.NoError(t, primary.Exec("SELECT pg_reload_conf()"))
	}
	waits := func(is bool) {
		t.Helper()
		isSoon(t, func() bool {
			return is == (count(ctx, t, watcher, `SELECT count(*) FROM pg_stat_activity
				WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`) > 0)
		}, "a commit waits for its standby, or is let go")
	}
	settled := make(chan error, 1)
	settle := func(request string) {
		go func() { _, err := store.Settle(ctx, settlement(request, 700)); settled <- err }()
		waits(true)
	}

	require.NoError(t, standby.Freeze())
	settle("req_1")
	set("")
	require.ErrorIs(t, <-settled, ledger.ErrUnavailable, "a failover would lose it")
	require.NoError(t, standby.Thaw())
	set("standby")
	isSoon(t, func() bool { return store.Ping(ctx) == nil }, "it is ready again")

	touched := func() int64 { return count(ctx, t, watcher, `SELECT touched FROM nodes WHERE node = 'strict'`) }
	was := touched()
	require.NoError(t, standby.Freeze())
	settle("req_2")
	set("standby")
	waits(true)
	require.NoError(t, standby.Thaw())
	require.NoError(t, <-settled)
	require.Greater(t, touched(), was, "it was repeated, which writes and waits")
	for _, request := range []string{"req_1", "req_2"} {
		charge, err := store.Settle(ctx, settlement(request, 700))
		require.NoError(t, err)
		require.EqualValues(t, 700, charge.Microcents)
	}
	require.EqualValues(t, 1_400, count(ctx, t, watcher, `SELECT spent FROM balances`), "each is charged once")
	verifyOK(ctx, t, store)
}

// TestNodesSayWhatTheyAre: a node is known to the others by what it said last, and by its id when it is gone.
func TestNodesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	one := openStore(t, url, "one")
	t.Cleanup(func() { require.NoError(t, one.Close()) })
	two := openStore(t, url, "two")
	about := ledger.About{Version: "1.2", Data: "/var/lib/fareway", Config: "c0ffee", Prices: map[string]int64{"r": 3},
		Spooled: 7}
	two.Describe(about)
	var seen ledger.Node
	require.Eventually(t, func() bool {
		nodes, err := one.Nodes(ctx)
		require.NoError(t, err)
		require.Len(t, nodes, 2)
		require.True(t, nodes[0].Self)
		seen = nodes[1]
		return seen.Version != ""
	}, 10*time.Second, 5*time.Millisecond, "a description does not wait for the next renewal")
	require.Equal(t, about, seen.About)
	require.True(t, seen.Lives())
	require.NoError(t, two.Close())
	nodes, err := one.Nodes(ctx)
	require.NoError(t, err)
	require.Len(t, nodes, 1, "nothing is held for it")
	gone, err := one.Node(ctx, "two")
	require.NoError(t, err)
	require.True(t, gone.Left)
	require.Equal(t, about, gone.About)
	_, err = one.Node(ctx, "three")
	require.ErrorIs(t, err, ledger.ErrNotFound)
}
