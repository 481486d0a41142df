package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
)

// spoolFolder is a data folder whose gateway has ended: its spool has four settlements of ann that came to 1.335
// credits each, whose requests the ledger does not know, and the second of them is damaged.
type spoolFolder struct {
	data string
	ann  ledger.Account
}

func spooledRequest(n int) string { return fmt.Sprintf("req_%032x", n) }

func leftSpool(t *testing.T) spoolFolder {
	t.Helper()
	data := t.TempDir()
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	ann, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	_, _, err = e.Store().AddCredit(t.Context(), ledger.Credit{Account: ann.ID, Credits: 1000})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	path := filepath.Join(data, "fareway.db.spool")
	s, err := spool.Open(path, 0)
	require.NoError(t, err)
	charge := int64(enginetest.ExampleCharge)
	for n := range 4 {
		id := spooledRequest(n)
		_, err := s.Append(&spool.Record{
			Settlement: ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{
				{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished, Usage: &enginetest.ExampleUsage}}},
			Account: ann.ID, Key: "key_1", Charge: &charge, Time: time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC),
		})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[bytes.Index(b, []byte(spooledRequest(1)))-1] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return spoolFolder{data, ann}
}

// owned is what ann owns to begin with, in microcents.
const owned = 1000 * ledger.MicrocentsPerCredit

// items are what `list` lists, by their requests.
func (l spoolFolder) items(t *testing.T, flags ...string) map[string]admin.Aside {
	t.Helper()
	out, _, err := runApart(t, append([]string{"ledger", "spool", "list", "--json", "--data", l.data}, flags...)...)
	require.NoError(t, err)
	all := make(map[string]admin.Aside)
	for line := range strings.Lines(out) {
		var v admin.Aside
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		all[requestOf(v)] = v
	}
	return all
}

func TestCommandSpool(t *testing.T) {
	t.Parallel()
	l := leftSpool(t)
	e := enginetest.On(t, l.data, nil)
	serve(t, e)
	file := filepath.Join(l.data, "fareway.db.spool.aside")
	flags := []string{"--data", l.data}
	spoolRun := func(args ...string) (string, error) {
		return run(t, append(append([]string{"ledger", "spool"}, args...), flags...)...)
	}

	out, err := run(t, "status", "--data", l.data)
	require.NoError(t, err)
	require.Contains(t, out, "4 items in "+file+", to be decided: `fareway gateway ledger spool list`")
	require.Equal(t, admin.Spool{Undecided: 4, Aside: file}, runJSON[admin.Status](t, "status", "--data", l.data).Spool)
	_, err = run(t, "ledger", "verify", "--data", l.data)
	require.ErrorContains(t, err, "4 items of "+file+" could not be applied or read; an operator has to decide")
	out, err = run(t, "ledger", "verify", "--data", l.data, "--json")
	require.Error(t, err)
	var verified verifyView
	require.NoError(t, json.Unmarshal([]byte(out), &verified))
	require.Equal(t, []any{false, "spool", admin.Spool{Undecided: 4, Aside: file}},
		[]any{verified.OK, verified.Entry, verified.Spool})

	out, err = spoolRun("list")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ID +STATE +KIND +REQUEST +ACCOUNT +CREDITS +WHY$`, out)
	require.Regexp(t, `(?m)^aside_[0-9a-f]{16} +undecided +damaged +`+spooledRequest(1)+
		` +- +- +it is damaged: 512 bytes at 4608 of .*fareway.db.spool, 1 settlement lost$`, out)
	require.Regexp(t, `(?m)^aside_[0-9a-f]{16} +undecided +unknown_request +`+spooledRequest(0)+
		` +ann +1.335000 +the ledger does not know the request`, out)

	items := l.items(t)
	require.Len(t, items, 4)
	first := items[spooledRequest(0)]
	require.Equal(t, []any{"undecided", "ann", l.ann.ID, "key_1", int64(enginetest.ExampleCharge), file},
		[]any{first.State, first.Account, first.AccountID, first.KeyID, *first.Microcents, first.File})
	require.Equal(t, enginetest.ExampleUsage, *first.Settlement.Settlement.Results[0].Usage)

	for _, wrong := range []struct {
		args string
		want string
	}{
		{"apply aside_0 --reason x", `nothing was kept aside under the id "aside_0"`},
		{"apply ../../accounts --reason x", "nothing was kept aside under the id"},
		{"apply --reason x", "ID is missing, as in `fareway gateway ledger spool apply ID... --reason TEXT"},
		{"apply " + first.ID, "--reason is missing"},
		{"apply --all " + first.ID + " --reason x", "--all is for all that wait"},
		{"discard " + first.ID + " --reason " + strings.Repeat("x", 300), "a reason are each one line"},
		{"apply " + items[spooledRequest(1)].ID + " --reason x", "what is damaged cannot be applied"},
		{"aply", "did you mean `fareway gateway ledger spool apply`?"},
	} {
		_, err = spoolRun(strings.Fields(wrong.args)...)
		require.ErrorContains(t, err, wrong.want)
	}
	_, err = spoolRun("discard", first.ID, "--reason", " ")
	require.ErrorContains(t, err, "the reason is missing")
	require.Len(t, l.items(t), 4, "nothing was decided")

	out, err = spoolRun("apply", first.ID, "--reason", "restored from Sunday")
	require.NoError(t, err)
	require.Equal(t, "Applied "+first.ID+": account ann was charged 1.335000 credits for request "+spooledRequest(0)+".\n",
		strings.ReplaceAll(out, "1,335,000 microcents (1.335000 credits)", "1.335000 credits"))
	_, err = spoolRun("discard", first.ID, "--reason", "x")
	require.ErrorContains(t, err, "decided already: "+first.ID+" was applied by ")
	require.ErrorContains(t, err, "nothing was changed")
	account, err := e.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	require.EqualValues(t, owned-enginetest.ExampleCharge, account.Balance.Net())

	done := runJSON[[]admin.Aside](t, "ledger", "spool", "discard", items[spooledRequest(2)].ID, "--reason", "goodwill",
		"--data", l.data)
	require.Len(t, done, 1)
	require.Equal(t, "discarded", done[0].State)
	require.Equal(t, "goodwill", done[0].Decision.Reason)
	out, err = spoolRun("apply", "--all", "--reason", "the rest")
	require.NoError(t, err)
	require.Contains(t, out, "for request "+spooledRequest(3))
	require.Contains(t, out, "1 item cannot be applied: see `fareway gateway ledger spool list`")
	_, err = spoolRun("apply", "--all", "--reason", "once more")
	require.ErrorContains(t, err, "nothing was applied: 1 item cannot be", "what was asked for did not happen")
	out, err = spoolRun("discard", "--all", "--reason", "put right")
	require.NoError(t, err)
	require.Equal(t, "Discarded "+items[spooledRequest(1)].ID+".\n", out)
	out, err = spoolRun("apply", "--all", "--reason", "nothing")
	require.NoError(t, err)
	require.Equal(t, "Nothing could be decided.\n", out)
	out, err = spoolRun("list")
	require.NoError(t, err)
	require.Equal(t, "Nothing waits for a decision.\n", out)
	all := l.items(t, "--all")
	require.Len(t, all, 4)
	require.Equal(t, "applied", all[spooledRequest(3)].State)
	require.EqualValues(t, enginetest.ExampleCharge, all[spooledRequest(3)].Decision.Microcents)

	out, err = run(t, "ledger", "verify", "--data", l.data)
	require.NoError(t, err)
	require.Contains(t, out, "The ledger is clean.")
	out, err = run(t, "ledger", "audit", "--data", l.data)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "spool.apply"))
	require.Equal(t, 2, strings.Count(out, "spool.discard"))
	require.Contains(t, out, "via socket")
	out, err = run(t, "status", "--data", l.data)
	require.NoError(t, err)
	require.NotContains(t, out, "spool")
}

// TestCommandSpoolOffline decides without a gateway, on the files: what waits is left to the next start.
func TestCommandSpoolOffline(t *testing.T) {
	t.Parallel()
	l := leftSpool(t)
	out, err := run(t, "ledger", "verify", "--data", l.data)
	require.ErrorContains(t, err, "1 item of ")
	require.Contains(t, out, "3 settlements wait in the spool until the ledger takes them.")
	require.Contains(t, out, "Seen up to 2026-01-01 00:00:00 UTC. Later settlements are in the spool, until the gateway "+
		"starts: 3.\n", "GAP-132")
	items := l.items(t)
	require.Len(t, items, 1, "what is damaged is listed, also before a gateway has kept it aside")
	damaged := items[spooledRequest(1)]
	_, err = run(t, "ledger", "spool", "apply", damaged.ID, "--reason", "x", "--data", l.data)
	require.ErrorContains(t, err, "what is damaged cannot be applied")
	out, err = run(t, "ledger", "spool", "discard", damaged.ID, "--reason", "put right", "--data", l.data)
	require.NoError(t, err)
	require.Equal(t, "Discarded "+damaged.ID+".\n", out)
	_, err = run(t, "ledger", "verify", "--data", l.data)
	require.NoError(t, err)

	// A gateway starts and ends: it cannot apply the rest.
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: l.data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	_, err = run(t, "ledger", "spool", "apply", "--all", "--reason", "x", "--data", l.data)
	require.ErrorContains(t, err, "ledger in use", "beside a gateway without a socket nobody decides")
	require.NoError(t, e.Close())

	items = l.items(t)
	require.Len(t, items, 3)
	_, err = run(t, "ledger", "spool", "apply", "aside_0", "--reason", "x", "--data", l.data)
	require.ErrorContains(t, err, "nothing was kept aside")
	done := runJSON[[]admin.Aside](t, "ledger", "spool", "apply", items[spooledRequest(0)].ID, items[spooledRequest(2)].ID,
		"--reason", "restored", "--data", l.data)
	require.Len(t, done, 2)
	require.Equal(t, "ann", done[0].Account)
	require.Contains(t, done[0].Decision.Actor, " via file")
	_, err = run(t, "ledger", "spool", "apply", items[spooledRequest(3)].ID, "aside_0", "--reason", "restored", "--data",
		l.data)
	require.ErrorContains(t, err, "nothing was kept aside", "what came before it is done")
	out, err = run(t, "ledger", "verify", "--data", l.data)
	require.NoError(t, err, out)
	e, err = engine.Open(engine.Options{OpenStore: stores.Open, DataDir: l.data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	account, err := e.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	require.EqualValues(t, owned-3*enginetest.ExampleCharge, account.Balance.Net())
	require.NoError(t, e.Close())

	require.NoError(t, os.WriteFile(filepath.Join(l.data, "fareway.db.spool"), []byte("something else"), 0o600))
	_, err = run(t, "ledger", "verify", "--data", l.data)
	require.ErrorContains(t, err, "unusable spool")
	_, err = run(t, "ledger", "spool", "discard", "--all", "--reason", "x", "--data", l.data)
	require.ErrorContains(t, err, "unusable spool")
	_, err = run(t, "ledger", "spool", "apply", "--all", "--reason", "x", "--data", t.TempDir())
	require.ErrorContains(t, err, "there is no ledger to read")
	_, err = run(t, "ledger", "spool", "apply", "--all", "--reason", "x", "--data", l.data, "--admin", "127.0.0.1:1")
	require.ErrorIs(t, err, admin.ErrNoGateway, "who names a gateway means it")
}
