//go:build linux

package main_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// ledgerLock is the lock that only one writer of the ledger's file has, in the hands of another process than the
// gateway: this one. While it is held, this process must not open and close the file by other means than SQLite, for
// that drops its locks.
type ledgerLock struct{ conn *sqlite.Conn }

// lockLedger takes the lock as soon as the gateway leaves it for a moment.
func lockLedger(t testing.TB, dir string) ledgerLock {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(dir, "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	l := ledgerLock{conn}
	conn.SetBusyTimeout(patience)
	l.take(t)
	return l
}

// take takes a lock again that was left.
func (l ledgerLock) take(t testing.TB) {
	t.Helper()
	require.NoError(t, sqlitex.ExecuteTransient(l.conn, "BEGIN IMMEDIATE", nil))
}

// leave leaves the lock to others until it is taken again.
func (l ledgerLock) leave(t testing.TB) {
	t.Helper()
	require.NoError(t, sqlitex.ExecuteTransient(l.conn, "ROLLBACK", nil))
}

// release gives the lock back for good.
func (l ledgerLock) release(t testing.TB) {
	t.Helper()
	l.leave(t)
	require.NoError(t, l.conn.Close())
}
