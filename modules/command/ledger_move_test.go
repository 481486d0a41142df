package command

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
)

// A ledger is moved with what is in its spool, served there, read from there, and brought back.
func TestCommandLedgerMove(t *testing.T) {
	t.Parallel()
	data, url, ctx := t.TempDir(), postgrestest.Database(t), t.Context()
	open := func(at config.Store) (*engine.Engine, error) {
		return engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
			&config.Config{Store: at})
	}
	e, err := open(config.DefaultStore())
	require.NoError(t, err)
	account, err := e.Store().CreateAccount(ctx, "ann", "")
	require.NoError(t, err)
	_, _, err = e.Store().AddCredit(ctx, ledger.Credit{Account: account.ID, Credits: 5})
	require.NoError(t, err)
	kept := filepath.Join(t.TempDir(), "checkpoint.json")
	_, err = e.Store().MakeCheckpoint(ctx)
	require.NoError(t, err)
	text, err := run(t, "ledger", "export", "--data", data, "-o", kept)
	require.NoError(t, err, text)

	_, err = run(t, "ledger", "move", "--to", url, "--data", data)
	require.ErrorIs(t, err, ledger.ErrLocked)
	require.ErrorContains(t, err, "nothing was moved")
	require.NoError(t, e.Close())
	o := people.Options{Log: slog.New(slog.DiscardHandler), Config: func() config.Portal { return config.Portal{} }}
	portal := stores.OpenPeople(config.DefaultStore(), data, o)
	invited, _, err := portal.Invite(ctx, people.Invitation{Email: "ann@example.com", Operator: people.Support})
	require.NoError(t, err)
	require.NoError(t, portal.Close())
	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"--data", data}, "--to is missing"},
		{[]string{"--data", t.TempDir(), "--to", url}, "there is no ledger to move"},
		{[]string{"--data", data, "--to", "postgres://fareway:swordfish@:nine/x"}, "its dsn cannot be read"},
		{[]string{"--data", data, "--to", "env:FAREWAY_NO_SUCH"}, "--to: the environment has no FAREWAY_NO_SUCH"},
		{[]string{"--data", data, "--to", "file:" + kept + ".none"}, "no such file"},
		{[]string{"--data", data, "--to", url, "--undo", "--target-is-gone"}, "--to and --target-is-gone do not go together"},
		{[]string{"--data", data, "--undo", "--yes"}, "if that is gone for good, say --target-is-gone"},
		{[]string{"--data", data, "--to", url, "--target-is-gone"}, "--target-is-gone is for --undo"},
		{[]string{"--data", data, "--to", url, "--undo", "--yes"}, "the ledger was not moved"},
	} {
		out, err := run(t, append([]string{"ledger", "move"}, wrong.args...)...)
		require.ErrorContains(t, err, wrong.want, "%v", wrong.args)
		require.NotContains(t, out+err.Error(), "swordfish")
	}

	backup := filepath.Join(t.TempDir(), "before.tar")
	text, err = run(t, "backup", backup, "--data", data)
	require.NoError(t, err, text)
	secret := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(secret, []byte(url+"\n"), 0o600))
	out, beside, err := runApart(t, "ledger", "move", "--to", "file:"+secret, "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^Moved to postgres:///\w+\?host=\S+, compared and verified: 1 account, 1 movement of money, `+
		`0 requests, 1 checkpoint \(\d+ rows\)\.\n`, out)
	require.Contains(t, out, "\nCommits of that database wait for no standby: ")
	require.Contains(t, out, "store \"postgres\" {\n  dsn = env(\"DATABASE_URL\")\n}\n")
	require.Contains(t, beside, "\ncounting requests\n")
	require.Contains(t, beside, "verifying the new ledger: ", "lines, where there is no terminal")
	require.NotContains(t, beside, "\r")
	portal = stores.OpenPeople(config.Store{Kind: config.Postgres, DSN: url}, data, o)
	_, err = portal.ReadInvitation(ctx, invited)
	require.NoError(t, err, "who may sign in to the portal was left behind")
	require.NoError(t, portal.Close())
	again := runJSON[admin.Moved](t, "ledger", "move", "--to", url, "--data", data)
	require.True(t, again.Already)
	another := postgrestest.Database(t)
	_, err = run(t, "ledger", "move", "--to", another, "--data", data)
	require.ErrorContains(t, err, "this database does not have it")
	_, err = run(t, "ledger", "move", "--undo", "--yes", "--to", another, "--data", data)
	require.ErrorContains(t, err, "this database does not have the ledger, which was moved to postgres:///")
	_, err = run(t, "usage", "--from", another)
	require.ErrorContains(t, err, "there is no ledger in this database", "nobody has made tables there")
	_, err = open(config.DefaultStore())
	require.ErrorContains(t, err, "the ledger was moved to postgres:///")
	_, err = run(t, "restore", backup, "--replace", "--reason", "x", "--data", data)
	require.ErrorContains(t, err, "which would be served once more: the ledger was moved to postgres:///")
	_, beside, err = runApart(t, "usage", "--data", data)
	require.NoError(t, err)
	require.Contains(t, beside, "when this ledger was moved to postgres:///")

	// Without a gateway, by the dsn of the configuration and by one that is named.
	hcl := fmt.Sprintf("store \"postgres\" {\n  dsn = %q\n}\n", url)
	require.NoError(t, os.WriteFile(filepath.Join(data, "gateway.hcl"), []byte(hcl), 0o600))
	for _, where := range [][]string{{"--data", data}, {"--from", url}, {"--from", "file:" + secret}} {
		for _, args := range [][]string{{"ledger", "verify", "--checkpoint", kept}, {"usage"}, {"ledger", "audit"}} {
			out, err := run(t, append(args, where...)...)
			require.NoError(t, err, out)
		}
		out, err := run(t, append([]string{"ledger", "export"}, where...)...)
		require.NoError(t, err)
		require.Contains(t, out, `"kind":"top_up"`)
	}
	_, err = run(t, "usage", "--from", url, "--data", data)
	require.ErrorContains(t, err, "--from is the server itself")
	_, err = run(t, "ledger", "move", "--to", url, "--data", data)
	require.ErrorContains(t, err, `has a store "postgres" already`)
	_, err = run(t, "ledger", "accept-loss", "--reason", "x", "--data", data)
	require.ErrorContains(t, err, "its ledger is in PostgreSQL, where a node decides alone")

	e, err = open(config.Store{Kind: config.Postgres, DSN: url})
	require.NoError(t, err)
	moved, err := e.Store().Account(ctx, "ann")
	require.NoError(t, err)
	require.EqualValues(t, 5, moved.Balance.Credits)

	require.NoError(t, os.Remove(filepath.Join(data, "gateway.hcl")))
	_, err = run(t, "ledger", "move", "--undo", "--json", "--to", url, "--data", data)
	require.ErrorContains(t, err, "say --yes")
	require.NoError(t, e.Close())
	out, err = run(t, "ledger", "move", "--undo", "--yes", "--to", url, "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "is served again, as it was at")
	require.Contains(t, out, " refuses gateways from now on, and can be dropped.")
	_, err = open(config.Store{Kind: config.Postgres, DSN: url})
	require.ErrorContains(t, err, "was moved into this database and brought back, and goes on there")
	_, err = run(t, "ledger", "move", "--to", url, "--data", data)
	require.ErrorContains(t, err, "was moved into this database and brought back: use another, empty database")
	e, err = open(config.DefaultStore())
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

// What waits for a decision beside a ledger is decided before it is moved.
func TestCommandLedgerMoveWithSpool(t *testing.T) {
	t.Parallel()
	data, url := t.TempDir(), postgrestest.Database(t)
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	s, err := spool.Open(filepath.Join(data, "fareway.db.spool"), 0)
	require.NoError(t, err)
	_, err = s.Append(&spool.Record{Settlement: ledger.Settlement{Request: "req_nobody", Status: 200, Reason: "ok"},
		Account: "acct_000000000000000000000000"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = run(t, "ledger", "move", "--to", url, "--data", data)
	require.ErrorContains(t, err, "1 items of the spool are kept aside and wait for a decision")
}
