package contracttest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/verify/wire"
)

// tamper opens the ledger's file beside the gateway, as another program does.
func (s *service) tamper(t testing.TB) *sqlite.Conn {
	t.Helper()
	db, err := sqlite.OpenConn(filepath.Join(s.Engine.DataDir(), "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// TestSettlementRefused has a ledger that does not take the settlement of a whole reply. That is a failure of
// the service: it is free, and the hold does not stay.
func TestSettlementRefused(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	db := g.tamper(t)
	require.NoError(t, sqlitex.ExecuteTransient(db, `CREATE TRIGGER refuse BEFORE INSERT ON requests
		WHEN NOT NEW.free BEGIN SELECT RAISE(ABORT, 'refused by the test'); END`, nil))
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-25 ERR-24 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				c := g.rich(t)
				a := c.Ask(sh, mode.Field)
				var e wire.Failure
				if mode.Name == "json" {
					requireError(t, sh, a, 500, "internal_server_error")
					e = errorOf(t, sh, a)
				} else {
					e = *c.Stream(t, sh).Error
				}
				require.Equal(t, "internal_server_error", e.Code)
				require.NotContains(t, e.Message, "refused by the test")
				require.Zero(t, c.Balance().Held)
				require.Equal(t, c.Credits*1_000_000, c.Net())
			})
		}
	}
	require.NoError(t, sqlitex.ExecuteTransient(db, `DROP TRIGGER refuse`, nil))
}
