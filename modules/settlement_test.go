package modules_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestSettlementRefused has a ledger that does not take the settlement of a whole reply. That is a failure of
// the service: it is free, and the hold does not stay.
func TestSettlementRefused(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	db, err := sqlite.OpenConn(filepath.Join(g.Engine.DataDir(), "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	require.NoError(t, sqlitex.ExecuteTransient(db, `CREATE TRIGGER refuse BEFORE UPDATE ON attempts
		WHEN NEW.outcome = 'finished' BEGIN SELECT RAISE(ABORT, 'refused by the test'); END`, nil))
	require.NoError(t, db.Close())

	for _, sh := range shapes {
		t.Run("BILL-25 ERR-24 "+sh.Name, func(t *testing.T) {
			before := g.Net()
			a := g.Post(sh.Path, sh.Body("hi"))
			require.Equal(t, 500, a.StatusCode, "%s", a.Raw)
			require.Equal(t, "internal_server_error", sh.Code(a, t))
			require.NotContains(t, string(a.Raw), "refused by the test")
			require.Zero(t, g.Balance().Held)
			require.Equal(t, before, g.Net())
		})
	}
}
