//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// TestDamagedSpool kills a gateway with the settlements of six replies in its spool, turns one bit there, and starts
// it again: five are charged, the sixth is told of until somebody decides. Then the database of before those replies
// is put back under that spool, and an operator charges all of them, once.
func TestDamagedSpool(t *testing.T) {
	t.Parallel()
	f := startFaulty(t, ledgerFaults(t)[0])
	before := f.due
	f.stop(t)
	database, spool := filepath.Join(f.Dir, "fareway.db"), filepath.Join(f.Dir, "fareway.db.spool")
	older := filepath.Join(t.TempDir(), "older.db")
	copyFile(t, database, older)
	f.gateway = runGateway(t, f.Dir)

	requests := f.open(t, 0)
	f.awaitHolds(t, len(requests))
	empty, err := os.ReadFile(spool)
	require.NoError(t, err)
	lock := lockLedger(t, f.Dir)
	f.up.Open("round0")
	for _, r := range requests {
		got := <-r.reply
		require.Equal(t, http.StatusOK, got.status)
		bill, ok := billIn(got.body)
		require.True(t, ok)
		require.Equal(t, billing{Microcents: price(4, 2)}, bill)
	}
	f.kill()
	lock.release(t)
	content, err := os.ReadFile(spool)
	require.NoError(t, err)
	flip := sectorBetween(t, empty, content) + 100
	content[flip] ^= 0x08
	require.NoError(t, os.WriteFile(spool, content, 0o600))

	all := int64(len(requests))
	f.requireUndecided(t, "before it starts")
	f.gateway = runGateway(t, f.Dir)
	require.Equal(t, faultyCredits*1_000_000-before-(all-1)*price(4, 2), worth(t, f.gateway, f.key))
	require.InDelta(t, 1, f.metrics(t)["fareway_spool_undecided"], 0)
	require.Contains(t, string(f.cli(t, "status")), "fareway.db.spool.aside")
	f.requireUndecided(t, "with a gateway")
	require.Contains(t, string(f.cli(t, "ledger", "spool", "list")), "damaged")
	f.cli(t, "ledger", "spool", "discard", "--all", "--reason", "put right by hand")
	require.Contains(t, string(f.cli(t, "ledger", "verify")), "The ledger is clean.")
	f.end(t)
	require.True(t, verifyOffline(t, f.Dir).OK)

	for _, beside := range []string{"-wal", "-shm", ".spool.aside"} {
		require.NoError(t, os.RemoveAll(database+beside))
	}
	copyFile(t, older, database)
	content[flip] ^= 0x08
	require.NoError(t, os.WriteFile(spool, content, 0o600))
	f.cli(t, "ledger", "accept-loss", "--reason", "the newer one is gone") // which the witness has seen (GAP-133)
	f.gateway = runGateway(t, f.Dir)
	require.Equal(t, faultyCredits*1_000_000-before, worth(t, f.gateway, f.key))
	require.InDelta(t, all, f.metrics(t)["fareway_spool_undecided"], 0)
	f.end(t)
	f.requireUndecided(t, "offline")
	f.cli(t, "ledger", "spool", "apply", "--all", "--reason", "the database was restored")
	require.True(t, verifyOffline(t, f.Dir).OK)
	f.gateway = runGateway(t, f.Dir)
	require.Equal(t, faultyCredits*1_000_000-before-all*price(4, 2), worth(t, f.gateway, f.key))
	f.end(t)
}

// awaitHolds waits until so many attempts that run are on record.
func (f *faulty) awaitHolds(t *testing.T, want int) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(f.Dir, "fareway.db"), sqlite.OpenReadOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	eventually(t, func() (bool, string) {
		n := 0
		rows(t, conn, `SELECT count(*) FROM holds`, func(row *sqlite.Stmt) { n = row.ColumnInt(0) })
		return n == want, fmt.Sprint(n, " are")
	})
}

// sectorBetween is where a sector begins that is in the middle of those that were written since.
func sectorBetween(t *testing.T, before, after []byte) int {
	t.Helper()
	const sector = 512
	require.Len(t, after, len(before))
	var written []int
	for at := 0; at < len(after); at += sector {
		if !bytes.Equal(before[at:at+sector], after[at:at+sector]) {
			written = append(written, at)
		}
	}
	require.GreaterOrEqual(t, len(written), 6)
	return written[len(written)/2]
}

// end ends a gateway that may have said on stderr what is to be decided.
func (f *faulty) end(t *testing.T) {
	t.Helper()
	f.terminate(t)
	<-f.ended
	require.NoError(t, f.err)
}

// requireUndecided checks that the verification fails for the spool, with the status of a failure.
func (f *faulty) requireUndecided(t *testing.T, about string) {
	t.Helper()
	var stdout bytes.Buffer
	cmd := fareway(f.Dir, "gateway", "ledger", "verify", "--json", "--data", f.Dir)
	cmd.Stdout = &stdout
	require.Error(t, cmd.Run(), about)
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), about)
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), about)
	require.False(t, r.OK, about)
	require.Equal(t, "spool", r.Entry, about)
	require.Contains(t, r.Problem, "`fareway gateway ledger spool list`", about)
}
