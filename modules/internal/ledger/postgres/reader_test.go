package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// ownServer is a server of a test's own, with a database and a node on it.
func ownServer(t *testing.T) (*postgrestest.Server, string, *postgres.Store) {
	s, err := postgrestest.Start("wal_level = replica", "max_wal_senders = 10", "autovacuum = off")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	require.NoError(t, s.Exec(`CREATE DATABASE fareway`))
	return s, s.URL("fareway"), openStore(t, s.URL("fareway"), "node")
}

// payOnce has a customer pay for a request.
func payOnce(t *testing.T, c customer, n int) {
	ctx, request := context.Background(), fmt.Sprintf("req_%05d", n)
	_, err := c.store.Hold(ctx, c.hold(request, 10_000))
	require.NoError(t, err)
	_, err = c.store.Settle(ctx, settlement(request, int64(1+n)))
	require.NoError(t, err)
}

func openBooks(t *testing.T, url string) *postgres.Books {
	books, err := postgres.OpenBooks(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, books.Close()) })
	return books
}

// everything is what books answer, as text.
func everything(t *testing.T, b ledger.Books) (all []string) {
	ctx := context.Background()
	add := func(v any) error {
		text, err := json.Marshal(v)
		all = append(all, string(text))
		return err
	}
	require.NoError(t, b.Accounts(ctx, "", func(a ledger.Account) error {
		found, err := b.Account(ctx, a.Name)
		require.NoError(t, err)
		require.Equal(t, a, found)
		return add(a)
	}))
	require.NoError(t, b.Keys(ctx, ledger.KeyQuery{}, func(k ledger.Key) error { return add(k) }))
	require.NoError(t, b.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
		if e.Request != "" {
			r, err := b.Request(ctx, e.Request)
			require.NoError(t, err)
			require.NoError(t, add(r))
		}
		return add(e)
	}))
	require.NoError(t, b.Audit(ctx, ledger.Query{}, func(a ledger.Act) error { return add(a) }))
	require.NoError(t, b.Usage(ctx, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByKey, ledger.ByDay, ledger.ByRoute}},
		func(r ledger.UsageRow) error { return add(r) }))
	var kept []ledger.Checkpoint
	require.NoError(t, b.Checkpoints(ctx, func(c ledger.Checkpoint) error { kept = append(kept, c); return add(c) }))
	r, err := b.Verify(ctx, kept...)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.NoError(t, add(r))
	from, err := b.VerifyAs(ctx, ledger.Verification{From: &kept[0]})
	require.NoError(t, err)
	require.True(t, from.OK, "%s: %s", from.Entry, from.Problem)
	require.Less(t, from.Entries, r.Entries)
	require.NoError(t, add(from))
	plans, err := b.Plans(ctx)
	require.NoError(t, err)
	_, err = b.PrunedBefore(ctx)
	require.NoError(t, err)
	return append(all, plans...)
}

// A replica answers everything that can be read as the node does, and says up to when it sees.
func TestBooksOfReplica(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server, url, node := ownServer(t)
	defer func() { require.NoError(t, node.Close()) }()
	_, err := postgres.OpenBooks(ctx, server.URL("postgres"))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.ErrorContains(t, err, "there is no ledger in this database")

	replica, err := server.Follow("max_standby_streaming_delay = 0", "hot_standby_feedback = off")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, replica.Stop()) })
	// Who waits for a commit waits until it can be read there.
	require.NoError(t, server.Exec(`ALTER SYSTEM SET synchronous_commit = 'remote_apply'`))
	require.NoError(t, server.Exec(`SELECT pg_reload_conf()`))
	require.NoError(t, node.Close())
	node = openStore(t, url, "node 2")
	c := newCustomer(t, node, 1_000_000)
	for i := range 3 {
		other := c.another(t, i, 1_000)
		for n := range 20 {
			payOnce(t, other, i*100+n)
		}
		_, err := node.MakeCheckpoint(ctx)
		require.NoError(t, err)
	}
	books := openBooks(t, replica.URL("fareway"))
	at, is, err := books.Seen(ctx)
	require.NoError(t, err)
	require.True(t, is)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	require.Equal(t, everything(t, node), everything(t, books))
	primary := openBooks(t, url)
	_, is, err = primary.Seen(ctx)
	require.NoError(t, err)
	require.False(t, is)
	require.Equal(t, everything(t, node), everything(t, primary))
	nodes := 0
	conn := connect(ctx, t, url)
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM nodes`).Scan(&nodes))
	require.Equal(t, 2, nodes, "who reads is no node")

	// Who may only read can read.
	for _, sql := range []string{`CREATE USER reader`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`} {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	r, err := openBooks(t, strings.Replace(url, "fareway@", "reader@", 1)).Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK)

	_, err = postgres.Open(ctx, postgres.Options{URL: replica.URL("fareway"), BootID: "x",
		Options: ledger.Options{Logger: quiet}})
	require.ErrorContains(t, err, "the server is a replica")
	_, err = postgres.OpenTarget(ctx, postgres.Options{URL: replica.URL("fareway")})
	require.ErrorContains(t, err, "the server is a replica")

	t.Run("a replica that ends what holds it up", func(t *testing.T) {
		// What the replica's snapshot can still see is removed, and the replica waits for nobody.
		interfere := func(times int) func(done, of int64) {
			return func(int64, int64) {
				if times--; times < 0 {
					return
				}
				change := `UPDATE nodes SET touched = touched + 1`
				for _, sql := range []string{change, `VACUUM nodes`, change} { // the last one waits for the replica
					_, err := conn.Exec(ctx, sql)
					require.NoError(t, err)
				}
			}
		}
		r, err := books.VerifyAs(ctx, ledger.Verification{Progress: interfere(1)})
		require.NoError(t, err, "it begins anew")
		require.True(t, r.OK)
		_, err = books.VerifyAs(ctx, ledger.Verification{Progress: interfere(1 << 20)})
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorContains(t, err, "the replica has ended the query, for it held up what the replica replays: set "+
			"hot_standby_feedback = on there, or max_standby_streaming_delay to longer than this takes")
	})
}

// A verification says what went wrong, and not what the server says to whoever asks on after that.
func TestVerificationThatFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := postgrestest.Database(t)
	require.NoError(t, openStore(t, url, "node").Close())
	_, err := connect(ctx, t, url).Exec(ctx, `ALTER TABLE ledger RENAME COLUMN pruned_before TO lost`)
	require.NoError(t, err)
	_, err = openBooks(t, url).Verify(ctx)
	require.ErrorContains(t, err, `column "pruned_before" does not exist`)
}

// What a replica has ended is asked anew, however it shows.
func TestEndedByReplica(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.ErrUnexpectedEOF, pgconn.ErrConnClosed, &pgconn.PgError{Code: "25P02"},
		&pgconn.PgError{Code: "40001", Message: "canceling statement due to conflict with recovery"}} {
		require.True(t, postgres.IsEnded(fmt.Errorf("verifying: %w", err)), "%v", err)
	}
	require.False(t, postgres.IsEnded(&pgconn.PgError{Code: "42703", Message: "column does not exist"}))
	require.False(t, postgres.IsEnded(nil))
}

// A backup that was restored lacks what came behind it, and checkpoints that were kept elsewhere say that.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server, _, node := ownServer(t)
	c := newCustomer(t, node, 1_000_000)
	for n := range 10 {
		payOnce(t, c, n)
	}
	before, err := node.MakeCheckpoint(ctx)
	require.NoError(t, err)
	restored, err := server.BackUp()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, restored.Stop()) })
	for n := range 7 {
		payOnce(t, c, 100+n)
	}
	after, err := node.MakeCheckpoint(ctx)
	require.NoError(t, err)
	require.NoError(t, node.Close())
	require.NoError(t, restored.Run())

	url := restored.URL("fareway")
	books := openBooks(t, url)
	r, err := books.Verify(ctx, before)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	r, err = books.Verify(ctx, before, after)
	require.NoError(t, err)
	require.Equal(t, "checkpoint/2", r.Entry)
	require.Equal(t, "it was kept elsewhere and the ledger does not have it: what came after checkpoint 1 was cut off; "+
		"it is over 18 movements of money, and the ledger has 11", r.Problem)

	// A gateway goes on with what is there; the node that the backup was made beside is gone.
	again := openStore(t, url, "again")
	defer func() { require.NoError(t, again.Close()) }()
	c.store = again
	payOnce(t, c, 500)
	r, err = again.Verify(ctx, before)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	made, err := again.MakeCheckpoint(ctx)
	require.NoError(t, err)
	require.NotEqual(t, after.Hash, made.Hash)
	r, err = again.Verify(ctx, after)
	require.NoError(t, err)
	require.Contains(t, r.Problem, "it is not the one that was kept")
}
