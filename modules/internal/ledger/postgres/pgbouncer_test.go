package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// goThrough is the way of requests and operators through a store behind the url, from two nodes.
func goThrough(t *testing.T, url string) {
	ctx := context.Background()
	a, b := openStore(t, url, "a"), openStore(t, url, "b")
	c := newCustomer(t, a, 100)
	var running sync.WaitGroup
	for i := range 40 {
		node := a
		if i%2 == 0 {
			node = b
		}
		running.Go(func() {
			request := fmt.Sprint("req_", i)
			_, err := node.Hold(ctx, c.hold(request, 1_000_000))
			err = errors.Join(err, node.Begin(ctx, c.next(request, 1_100_000)))
			node.Refer(ledger.AttemptID(request, 1), "gen-1")
			s := settlement(request, 700)
			s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(request, 2), Outcome: ledger.Unproven})
			charge, failed := node.Settle(ctx, s)
			if err = errors.Join(err, failed); err != nil || charge.Microcents != 700 {
				t.Errorf("%+v %v", charge, err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i := range 30 { // more than there are connections: pgbouncer#1470
		h := c.hold(fmt.Sprint("req_refused_", i), 1_000)
		h.Endpoint = "\xff"
		_, err := a.Hold(ctx, h)
		require.ErrorContains(t, err, "22021", "its row cannot be copied in")
	}
	_, err := b.RenameAccount(ctx, c.account, "Acme & Söhne")
	require.NoError(t, err)
	_, err = b.SetLimit(ctx, c.account, ledger.LimitTokenBudget, new(int64(1_000_000)))
	require.NoError(t, err)
	_, _, err = b.RotateKey(ctx, c.key, [32]byte{2}, "wxyz", 0)
	require.NoError(t, err)
	require.NoError(t, b.RecordAct(ctx, "look", "", "it", map[string]any{"n": 1}))
	_, _, err = a.Correct(ctx, ledger.Correction{Request: "req_1", Microcents: 100, Reference: "r", Reason: "kindness"})
	require.NoError(t, err)
	_, err = a.MakeCheckpoint(ctx)
	require.NoError(t, err)
	rows := 0
	require.NoError(t, a.Entries(ctx, ledger.Query{Account: c.account}, func(ledger.Entry) error { rows++; return nil }))
	require.Equal(t, 42, rows)
	require.NoError(t, a.Usage(ctx, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByRoute, ledger.ByDay}},
		func(row ledger.UsageRow) error { require.EqualValues(t, 28_000, row.Microcents); return nil }))
	p, err := b.Lookup(ctx, [32]byte{2})
	require.NoError(t, err)
	require.Equal(t, c.account, p.Account.ID)
	require.NoError(t, a.Close())
	_, err = b.Recover(ctx)
	require.NoError(t, err)
	verifyOK(ctx, t, b)
	require.NoError(t, b.Close())
}

// TestWithoutPreparedStatements: PgBouncer before 1.21 knows none in transaction mode.
func TestWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	goThrough(t, databaseOf(t, t.Name())+"&default_query_exec_mode=exec")
}

// TestPgBouncer goes through a real one in transaction mode, with few connections. Where there is none, that it works
// without prepared statements is proven all the same.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("PgBouncer is not installed: apt-get install pgbouncer") //nolint:forbidigo // see above
	}
	direct := databaseOf(t, t.Name())
	dir, err := os.MkdirTemp("", "fareway-pb") //nolint:usetesting // sockets have short names
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	users := filepath.Join(dir, "users")
	require.NoError(t, os.WriteFile(users, []byte("\"fareway\" \"\"\n"), 0o644))
	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s user=fareway
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = %s
auth_type = any
auth_file = %s
pool_mode = transaction
default_pool_size = 12
`, server.Dir(), dir, users), 0o644))
	cmd := exec.Command(program, config)
	if os.Getuid() == 0 { // it refuses to run as root
		u, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.Atoi(u.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(u.Gid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was told to end
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s", said)
		}
		require.NoError(t, log.Close())
	})
	url := "postgres://fareway@/" + databaseName(direct) + "?host=" + dir + "&default_query_exec_mode=exec"
	isSoon(t, func() bool {
		conn, err := pgx.Connect(context.Background(), url)
		if err == nil {
			err = conn.Close(context.Background())
		}
		return err == nil
	}, "PgBouncer takes connections")
	goThrough(t, url)
}
