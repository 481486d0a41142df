package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestOnPostgres: requests in all shapes are charged to an account in PostgreSQL, as in a file.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Store: config.Postgres})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-08 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Blocked(hello)
				s := c.Send(t, within(t), sh, mode.Field)
				require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, 1))
				held, err := g.Engine.Store().Account(within(t), c.Account.ID)
				require.NoError(t, err)
				require.Positive(t, held.Balance.Held)
				c.Upstream.Open(c.Mark)
				if mode.Name == "json" {
					require.Equal(t, 200, s.Answer().StatusCode)
				} else {
					s.Live().End()
				}
				require.Equal(t, ledger.Balance{Credits: c.Credits, Accrued: helloCost}, c.Balance())
			})
		}
	}
}
