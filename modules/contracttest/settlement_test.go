package contracttest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
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
	end := g.faults.begin(ledgertest.Fault{Err: errors.New("refused by the test")}, "settle")
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
	end()
}

// TestCallNotNoted has a ledger that fails, with an error that nobody can have foreseen, where a call is to be noted:
// no call is made that it does not know of.
func TestCallNotNoted(t *testing.T) {
	t.Parallel()
	refused := ledgertest.Fault{Err: errors.New("refused by the test")}
	// requireFailed checks the whole error, and what the operator's record of the request says.
	requireFailed := func(t *testing.T, c *caller, sh shape, a answer) {
		t.Helper()
		requireError(t, sh, a, 500, "internal_server_error")
		require.NotContains(t, string(a.Raw), "refused by the test")
		require.NotContains(t, a.Header, "X-Should-Retry")
		require.InDelta(t, 500, c.Access(a.Header.Get("X-Request-Id"))["status"], 0)
	}
	t.Run("the first call", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{})
		end := g.faults.begin(refused, "hold")
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run("BILL-25 ERR-24 "+sh.Name+" "+mode.Name, func(t *testing.T) {
					c := g.rich(t)
					requireFailed(t, c, sh, c.Ask(sh, mode.Field))
					require.Empty(t, c.Seen())
					c.RequireUntouched(t)
				})
			}
		}
		end()
		outcomeOf(t, shapes[0], g.rich(t).Ask(shapes[0]))
	})
	t.Run("the call to the next route", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Routes: twoRoutes})
		end := g.faults.begin(refused, "begin")
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run("BILL-25 ERR-24 "+sh.Name+" "+mode.Name, func(t *testing.T) {
					c := g.rich(t)
					c.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), hello))
					requireFailed(t, c, sh, c.Ask(sh, mode.Field))
					require.Len(t, c.Seen(), 1)
					require.Equal(t, "first", c.Seen()[0].Model)
					require.Zero(t, c.Balance().Held)
					require.Equal(t, c.Credits*1_000_000, c.Net(), "a failure of the service is free")
				})
			}
		}
		end()
		c := g.rich(t)
		c.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), hello))
		outcomeOf(t, shapes[0], c.Ask(shapes[0]))
		require.Len(t, c.Seen(), 2)
	})
}
