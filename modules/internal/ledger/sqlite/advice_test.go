package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestAdvice: whoever cannot have the ledger is told the next step.
func TestAdvice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	s, err := Open(Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	require.NoError(t, err)
	require.NoError(t, sqlitex.ExecuteTransient(conn, `BEGIN IMMEDIATE`, nil))
	_, err = Open(Options{Path: path, WaitTimeout: time.Millisecond})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "another program has the file locked: end it")
	require.NoError(t, conn.Close())

	for code, step := range map[sqlite.ResultCode]string{
		sqlite.ResultReadOnly: "have to be writable",
		sqlite.ResultFull:     "make room",
		sqlite.ResultCorrupt:  "restore the backup",
	} {
		require.Contains(t, advice(fmt.Errorf("setting up: %w", failure(code.ToError()))), step)
	}
	require.Empty(t, advice(ErrVersion))
	require.Empty(t, advice(errors.New("another error")))
}
