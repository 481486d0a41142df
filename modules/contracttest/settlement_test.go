package contracttest

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/spool"
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

// awaitHolds waits until the ledger's file has so many attempts that run.
func (s *service) awaitHolds(t testing.TB, db *sqlite.Conn, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, err := sqlitex.ResultInt(db.Prep(`SELECT count(*) FROM holds`))
		return err == nil && n == want
	}, time.Minute, time.Millisecond)
}

// TestSettlementRefused has a store that refuses, with an error that nobody can have foreseen, to put on record what
// was decided. Its client has the whole reply by then, and is right about its charge: the settlement is kept aside for
// the operator, the hold does not stay, and when the operator has decided it is charged, once.
func TestSettlementRefused(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Store: config.SQLite})
	db := g.tamper(t)
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-25 GAP-132 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				c := g.rich(t)
				c.Blocked(hello)
				s := c.Send(t, within(t), sh, mode.Field)
				require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, 1))
				g.awaitHolds(t, db, 1)
				end := g.faults.begin(ledgertest.Fault{Err: errors.New("refused by the test")}, "take_up")
				g.Upstream.Open(c.Mark)
				var got outcome
				if mode.Name == "json" {
					got = outcomeOf(t, sh, s.Answer())
				} else {
					l := s.Live()
					l.End()
					got = judge(t, sh, l).Outcome
				}
				require.EqualValues(t, helloCost, got.Billed(t))
				require.Equal(t, false, got.Usage["billing_pending"])
				kept := func() (kept []spool.Item) {
					for _, item := range g.Engine.Aside().Items() {
						if item.Record.Account == c.Account.ID {
							kept = append(kept, item)
						}
					}
					return kept
				}
				require.Eventually(t, func() bool { return len(kept()) > 0 }, time.Minute, time.Millisecond)
				g.awaitHolds(t, db, 0)
				end()
				require.Zero(t, c.Balance().Held)
				require.Eventually(t, func() bool { return c.Net() == c.Credits*1_000_000 }, time.Minute, time.Millisecond,
					"it is not on record")
				require.Len(t, kept(), 1)
				item := kept()[0]
				require.Equal(t, spool.Refused, item.Kind)
				require.EqualValues(t, helloCost, *item.Record.Charge)
				for range 2 {
					_, _ = g.Engine.Aside().Apply(within(t), item.ID, "the client had it") // the second one is refused
					require.Equal(t, c.Credits*1_000_000-helloCost, c.Net())
				}
			})
		}
	}
	require.Zero(t, g.gauge(t, "fareway_spool_undecided"))
}

// TestCallNotNoted has a ledger that fails, with an error that nobody can have foreseen, where a call is to be noted:
// no call is made that it does not know of, where it has to know of it (GAP-132).
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
	for _, first := range []struct {
		name, operation string
		start           func(testing.TB) *scripted
	}{
		{"the first call, whose account cannot be read", "read_payer", func(t testing.TB) *scripted {
			return startScripted(t, setup{Store: config.SQLite})
		}},
		{"the first call, whose hold is waited for", "take_up", func(t testing.TB) *scripted {
			return startLater(t, setup{Store: config.SQLite}).scripted
		}},
	} {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			g := first.start(t)
			end := g.faults.begin(refused, first.operation)
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
	}
	t.Run("the call to the next route", func(t *testing.T) {
		t.Parallel()
		g := startLater(t, setup{Store: config.SQLite, Routes: twoRoutes})
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run("BILL-25 ERR-24 "+sh.Name+" "+mode.Name, func(t *testing.T) {
					c := g.rich(t)
					c.AnswersBy(func(req *upstream.Request) upstream.Reply {
						if req.Model == "first" { // whose hold is on record
							g.faults.begin(refused, "take_up")
						}
						return upstream.Refuse(upstream.ServerError())
					})
					requireFailed(t, c, sh, c.Ask(sh, mode.Field))
					require.Len(t, c.Seen(), 1)
					require.Equal(t, "first", c.Seen()[0].Model)
					require.Zero(t, c.Balance().Held)
					require.Equal(t, c.Credits*1_000_000, c.Net(), "a failure of the service is free")
					g.faults.plan.Store(nil)
				})
			}
		}
		require.Empty(t, g.Engine.Aside().Items(), "what is free is nobody's to decide")
		c := g.rich(t)
		c.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), hello))
		outcomeOf(t, shapes[0], c.Ask(shapes[0]))
		require.Len(t, c.Seen(), 2)
	})
}
