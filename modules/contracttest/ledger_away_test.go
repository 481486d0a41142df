package contracttest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// ledgerFaulter decides what becomes of what a gateway asks of its ledger.
type ledgerFaulter struct {
	plan atomic.Pointer[ledgertest.Plan]
}

// open opens a store with them.
func (f *ledgerFaulter) open(at config.Store, data string, o ledger.Options) (ledger.Store, error) {
	store, err := stores.Open(at, data, o)
	if err != nil {
		return nil, err
	}
	own, ok := store.(live.Store)
	if !ok {
		return store, nil
	}
	return ledgertest.WithTakingFaults(own, func(n int64, operation string) ledgertest.Fault {
		if plan := f.plan.Load(); plan != nil {
			return (*plan)(n, operation)
		}
		return ledgertest.Fault{}
	}), nil
}

// begin makes operations of these names fail, until end is called.
func (f *ledgerFaulter) begin(fault ledgertest.Fault, operations ...string) (end func()) {
	var plan ledgertest.Plan = func(_ int64, operation string) ledgertest.Fault {
		if slices.Contains(operations, operation) {
			return fault
		}
		return ledgertest.Fault{}
	}
	f.plan.Store(&plan)
	return func() { f.plan.Store(nil) }
}

// ledgerFaults are what takes a ledger away.
var ledgerFaults = []struct {
	name  string
	begin func(t testing.TB, s *service) (end func())
}{
	{"locked by another program", func(t testing.TB, s *service) (end func()) {
		db := s.tamper(t)
		execute(t, db, `BEGIN IMMEDIATE`)
		return func() { execute(t, db, `ROLLBACK`) }
	}},
	{"every write fails", func(_ testing.TB, s *service) (end func()) {
		return s.faults.begin(ledgertest.Away, "take_up", "ping")
	}},
}

// ledgerTimeout is how long these gateways wait for a ledger that is away, and no other test's does on a busy
// machine.
const ledgerTimeout = 2 * time.Second

// execute runs a statement on a file of the ledger.
func execute(t testing.TB, db *sqlite.Conn, statement string) {
	t.Helper()
	require.NoError(t, sqlitex.ExecuteTransient(db, statement, nil))
}

// imageOf copies the data folder of a gateway as it is at this moment, which is what a machine finds that has died:
// without what the system keeps for open files.
func (s *service) imageOf(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"fareway.db", "fareway.db-wal", "fareway.db.spool"} {
		content, err := os.ReadFile(filepath.Join(s.Engine.DataDir(), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

// says counts the lines of log that begin so.
func (s *service) says(t testing.TB, beginning string) int {
	t.Helper()
	return len(s.Log.Lines(t, func(line map[string]any) bool { return strings.HasPrefix(str(line["msg"]), beginning) }))
}

// awaitReady waits until the gateway is ready or is not, which it finds out once a second.
func (s *service) awaitReady(t testing.TB, ready bool) {
	t.Helper()
	require.Eventually(t, func() bool { return (s.Engine.Ready() == nil) == ready }, time.Minute, 10*time.Millisecond)
}

// findAway asks until the gateway has found that its ledger is away, which is when it has something to write, and
// returns how many replies of helloCost there were before (GAP-132).
func (c *caller) findAway(t testing.TB) (answered int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; answered++ {
		<-tick.C
		a := c.Ask(shapes[0])
		if a.StatusCode != 200 {
			requireAway(t, shapes[0], a)
			return answered
		}
		require.EqualValues(t, helloCost, outcomeOf(t, shapes[0], a).Billed(t))
		require.True(t, time.Now().Before(deadline))
	}
}

// requireAway checks the one refusal that says when to come back (GAP-45).
func requireAway(t testing.TB, sh shape, a answer) {
	t.Helper()
	requireError(t, sh, a, 503, "upstream_error")
	require.Equal(t, []string{"5"}, a.Header["Retry-After"])
	require.NotContains(t, a.Header, "X-Ratelimit-Reason")
}

// TestLedgerAway takes the ledger away while requests run: they end as if nothing had happened, no other begins, and
// when it is back every microcent is where it belongs, in this process or in the next.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	for _, fault := range ledgerFaults {
		t.Run("GAP-45 GAP-99 SSE-47 BILL-08 "+fault.name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Store: config.SQLite, LedgerTimeout: ledgerTimeout})
			type running struct {
				*caller
				shape
				stream *liveReply
				whole  <-chan answer
			}
			var all []running
			for _, sh := range shapes {
				streamed, whole := g.rich(t), g.rich(t)
				streamed.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(streamed.Mark),
					upstream.Text("lo")))
				l := streamed.Open(t, sh)
				l.Start(sh)
				require.Equal(t, "Hel", l.Text(sh))
				whole.Blocked(hello)
				all = append(all, running{caller: streamed, shape: sh, stream: l},
					running{caller: whole, shape: sh, whole: whole.Start(t, sh)})
			}
			other := g.rich(t)
			require.Equal(t, 200, other.Get("/v1/models").StatusCode)

			end := fault.begin(t, g.service)
			before := other.findAway(t)
			var asked []*sent
			for _, sh := range shapes {
				for _, mode := range modes {
					asked = append(asked, other.Send(t, within(t), sh, mode.Field))
				}
			}
			for i, s := range asked {
				requireAway(t, shapes[i/len(modes)], s.Answer())
			}
			require.EqualValues(t, before, len(other.Seen()))
			require.Equal(t, ledger.Balance{Credits: other.Credits, Accrued: before * helloCost}, other.Balance())
			for _, path := range []string{"/v1/models", "/v1/models/service/auto"} {
				require.Equal(t, 200, other.Get(path).StatusCode)
			}
			for _, r := range all {
				r.Upstream.Open(r.Mark)
			}
			for _, r := range all {
				var got outcome
				if r.stream != nil {
					r.stream.End()
					got = judge(t, r.shape, r.stream).Outcome
				} else {
					got = outcomeOf(t, r.shape, <-r.whole)
				}
				require.EqualValues(t, helloCost, got.Billed(t))
				require.Equal(t, false, got.Usage["billing_pending"], "it is durable")
			}
			require.InDelta(t, int64(len(all))+before, g.gauge(t, "fareway_spooled_settlements"), 0)
			require.Equal(t, 1, g.says(t, "the ledger is away"))
			g.awaitReady(t, false)
			image := g.imageOf(t)

			end()
			g.awaitSpool(t)
			for _, r := range all {
				require.Equal(t, ledger.Balance{Credits: r.Credits, Accrued: helloCost}, r.Balance())
			}
			g.Log.Await(t, func(line map[string]any) bool { return strings.HasPrefix(str(line["msg"]), "the ledger is back") })
			require.Equal(t, 1, g.says(t, "the ledger is back"))
			g.awaitReady(t, true)
			outcomeOf(t, shapes[0], other.Ask(shapes[0]))

			// A machine that died while the ledger was away: the next gateway applies what is in the spool first.
			next := start(t, setup{Data: image})
			for _, r := range all {
				a, err := next.Engine.Store().Account(within(t), r.Account.ID)
				require.NoError(t, err)
				require.Equal(t, ledger.Balance{Credits: r.Credits, Accrued: helloCost}, a.Balance)
			}
			require.Zero(t, next.gauge(t, "fareway_spooled_settlements"))
		})
	}
}

// TestFallbackWhileTheLedgerIsAway: no call is made that the ledger does not know of.
func TestFallbackWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	for _, fault := range ledgerFaults {
		t.Run("GAP-45 BILL-25 "+fault.name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Store: config.SQLite, Routes: twoRoutes, LedgerTimeout: ledgerTimeout})
			type asked struct {
				*caller
				shape
				mode string
				sent *sent
			}
			var all []asked
			probe := g.rich(t)
			for _, sh := range shapes {
				for _, mode := range modes {
					c := g.rich(t)
					wait := worked(used(100, 0))
					wait.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait(c.Mark)}, wait.Steps[1:]...)
					c.AnswersBy(byRoute(wait, hello))
					s := c.Send(t, within(t), sh, mode.Field, askForCalls(sh))
					require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, 1))
					all = append(all, asked{c, sh, mode.Name, s})
				}
			}
			end := fault.begin(t, g.service)
			answered := probe.findAway(t)
			for _, a := range all {
				g.Upstream.Open(a.Mark)
			}
			for _, a := range all {
				if a.mode == "json" {
					requireAway(t, a.shape, a.sent.Answer())
				} else {
					l := a.sent.Live()
					l.End()
					require.Equal(t, "upstream_error", judge(t, a.shape, l).Error.Code)
				}
				require.Len(t, a.Seen(), 1)
			}
			end()
			g.awaitSpool(t)
			for _, a := range all {
				require.Equal(t, ledger.Balance{Credits: a.Credits}, a.Balance(), "a failure of the service is free")
			}
			require.Equal(t, ledger.Balance{Credits: probe.Credits, Accrued: answered * helloCost}, probe.Balance())
		})
	}
}

// TestDrainWhileTheLedgerIsAway ends the gateway with settlements in its spool.
func TestDrainWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	dir, key := leftBehind(t, 1000)
	const requests = 20
	db, err := sqlite.OpenConn(filepath.Join(dir, "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	t.Run("GAP-98 GAP-99 the gateway ends", func(t *testing.T) {
		g := startScripted(t, setup{Data: dir, Key: key, LedgerTimeout: ledgerTimeout})
		c := &caller{service: g.service, gateway: g, Mark: "caller-0-", Credits: 1000}
		c.Blocked(hello)
		var all []<-chan answer
		for range requests {
			done := make(chan answer, 1)
			go func() { done <- c.Ask(shapes[0], allowance(shapes[0], 10)) }()
			all = append(all, done)
		}
		require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, requests))
		execute(t, db, `BEGIN IMMEDIATE`)
		c.Upstream.Open(c.Mark)
		for _, done := range all {
			require.EqualValues(t, helloCost, outcomeOf(t, shapes[0], <-done).Billed(t))
		}
		g.Unfinished = true
		require.Eventually(t, func() bool { return g.gauge(t, "fareway_spooled_settlements") == requests }, time.Minute,
			time.Millisecond, "the ledger is found to be away")
	})
	require.NoError(t, db.Close())
	t.Run("GAP-98 GAP-99 the next one begins", func(t *testing.T) {
		next := start(t, setup{Data: dir, Key: key})
		require.Equal(t, ledger.Balance{Credits: 1000, Accrued: requests * helloCost}, next.Balance())
	})
}
