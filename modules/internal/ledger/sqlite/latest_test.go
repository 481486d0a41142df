package sqlite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// TestMovementsHaveTheirIndex: what moved an account's money is found without a look at its charges.
func TestMovementsHaveTheirIndex(t *testing.T) {
	t.Parallel()
	store, err := Open(Options{Path: t.TempDir() + "/ledger.db"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	var plan []string
	require.NoError(t, store.read(t.Context(), "plan", func(conn *sqlite.Conn) error {
		return run(conn, `EXPLAIN QUERY PLAN `+movedOfAccount, func(row *sqlite.Stmt) error {
			plan = append(plan, row.ColumnText(3))
			return nil
		}, 1, 1, 1)
	}))
	require.Contains(t, strings.Join(plan, "\n"), "SEARCH e USING INDEX movements (account=? AND rowid<?)")
	require.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE")
}
