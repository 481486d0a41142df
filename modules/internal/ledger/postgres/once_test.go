package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// effect is what a database has of what operations do.
type effect struct{ accounts, keys, acts, entries, credits, holds, requests int64 }

func readEffect(ctx context.Context, t *testing.T, conn *pgx.Conn) (e effect) {
	t.Helper()
	require.NoError(t, conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM keys),
		(SELECT count(*) FROM acts), (SELECT count(*) FROM entries), (SELECT sum(credits)::bigint FROM balances),
		(SELECT count(*) FROM holds), (SELECT count(*) FROM requests)`).Scan(&e.accounts, &e.keys, &e.acts, &e.entries,
		&e.credits, &e.holds, &e.requests))
	return e
}

// once are operations, in their order, and what each does.
var once = []struct {
	name string
	do   func(ctx context.Context, c customer) error
	does effect
}{
	{"a top-up without a reference", func(ctx context.Context, c customer) error {
		_, _, err := c.store.AddCredit(ctx, ledger.Credit{Account: c.account, Credits: 5})
		return err
	}, effect{acts: 1, entries: 1, credits: 5}},
	{"a correction without a reference", func(ctx context.Context, c customer) error {
		_, _, err := c.store.Correct(ctx, ledger.Correction{Account: c.account, Microcents: 2_000_000, Reason: "kindness"})
		return err
	}, effect{acts: 1, entries: 1, credits: 2}},
	{"an account", func(ctx context.Context, c customer) error {
		_, err := c.store.CreateAccount(ctx, "other", "")
		return err
	}, effect{accounts: 1, acts: 1}},
	{"a key", func(ctx context.Context, c customer) error {
		_, err := c.store.CreateKey(ctx, c.account, "phone", [32]byte{2}, "efgh", ledger.KeyChange{})
		return err
	}, effect{keys: 1, acts: 1}},
	{"a rotated key", func(ctx context.Context, c customer) error {
		_, _, err := c.store.RotateKey(ctx, c.key, [32]byte{3}, "ijkl", time.Hour)
		return err
	}, effect{keys: 1, acts: 2}},
	{"an act of an account", func(ctx context.Context, c customer) error {
		return c.store.RecordAct(ctx, "look", c.account, "it", map[string]any{"n": 1})
	}, effect{acts: 1}},
	{"an act of none", func(ctx context.Context, c customer) error {
		return c.store.RecordAct(ctx, "look", "", "it", map[string]any{"n": 1})
	}, effect{acts: 1}},
	{"a hold", func(ctx context.Context, c customer) error {
		_, err := c.store.Hold(ctx, c.hold("req_once", 1_000_000))
		return err
	}, effect{holds: 1}},
	{"a settlement", func(ctx context.Context, c customer) error {
		_, err := c.store.Settle(ctx, settlement("req_once", 1_000_000))
		return err
	}, effect{holds: -1, requests: 1, entries: 1, credits: -1}},
}

func (e effect) plus(more effect) effect {
	return effect{e.accounts + more.accounts, e.keys + more.keys, e.acts + more.acts, e.entries + more.entries,
		e.credits + more.credits, e.holds + more.holds, e.requests + more.requests}
}

// TestOnceThoughTheAnswerIsLost loses the connection behind the server's commit: whoever repeats finds what he did,
// also what has no name of its own to be found by.
func TestOnceThoughTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	conn, err := pgx.Connect(ctx, direct)
	require.NoError(t, err)
	for _, op := range once {
		was := readEffect(ctx, t, conn)
		p.cut(1, false)
		require.NoError(t, op.do(ctx, c), op.name)
		require.Len(t, p.lost, 1, op.name)
		<-p.lost
		require.Equal(t, was.plus(op.does), readEffect(ctx, t, conn), op.name)
	}
	verifyOK(ctx, t, store)
	require.NoError(t, conn.Close(ctx))
}

// TestOnceThoughTheStandbyWasNotWaitedFor cancels the commit's wait for the standby, and that of the repetition: it is
// said to be done when the standby has it, and is done once.
func TestOnceThoughTheStandbyWasNotWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary, standby, url := startPair(t)
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	conn, err := pgx.Connect(ctx, primary.URL("ledger"))
	require.NoError(t, err)
	for _, op := range once {
		was := readEffect(ctx, t, conn)
		require.NoError(t, standby.Freeze())
		done := make(chan error, 1)
		go func() { done <- op.do(ctx, c) }()
		cancelWaiting(ctx, t, conn)
		cancelWaiting(ctx, t, conn)
		require.Empty(t, done, "%s was acknowledged, which a failover would lose", op.name)
		require.NoError(t, standby.Thaw())
		require.NoError(t, <-done, op.name)
		require.Equal(t, was.plus(op.does), readEffect(ctx, t, conn), op.name)
	}
	verifyOK(ctx, t, store)
	require.NoError(t, conn.Close(ctx))
}

// startPair starts a primary with a synchronous standby, and a database on them.
func startPair(t *testing.T) (primary, standby *postgrestest.Server, url string) {
	primary, err := postgrestest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	require.NoError(t, primary.Exec(`CREATE DATABASE ledger`)) // never dropped, for that would wait for the standby
	standby, err = primary.Follow()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	return primary, standby, primary.URL("ledger")
}

func databaseName(url string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "postgres://fareway@/"), "?")
	return name
}

func verifyOK(ctx context.Context, t *testing.T, store ledger.Store) {
	t.Helper()
	v, err := store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, v.OK, v.Problem)
}
