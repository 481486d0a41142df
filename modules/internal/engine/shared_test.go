package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/stores"
)

// haste is by how much the clocks of these nodes are faster than the wall's.
const haste = 100

// openNode opens an engine as a node on a database.
func openNode(t *testing.T, url, dir string) *handing {
	t.Helper()
	h, err := tryNode(t, url, dir)
	require.NoError(t, err)
	h.gen, err = h.Prepare(t.Context(), h.cfg)
	require.NoError(t, err)
	h.Activate(h.gen)
	return h
}

func tryNode(t *testing.T, url, dir string) (h *handing, err error) {
	h = &handing{t: t, cfg: &config.Config{Store: config.Store{Kind: config.Postgres, DSN: url}}}
	begun := time.Now()
	h.Engine, err = engine.Open(engine.Options{DataDir: dir, OpenStore: stores.Open, Logger: slog.New(slog.DiscardHandler),
		LedgerTimeout: 2 * time.Second, SpoolSize: 256 << 10,
		Now:   func() time.Time { return begun.Add(haste * time.Since(begun)) },
		After: func(d time.Duration) <-chan time.Time { return time.After(d / haste) }}, h.cfg)
	return h, err
}

// payer makes an account with credits, and the price that holds are at.
func (h *handing) payer(credits int64) {
	h.t.Helper()
	h.who, _ = enginetest.Account(h.t, h.Engine, "payer")
	_, _, err := h.Store().AddCredit(h.t.Context(), ledger.Credit{Account: h.who.Account.ID, Credits: credits})
	require.NoError(h.t, err)
	h.rate, err = h.Store().PriceVersion(h.t.Context(), "route", enginetest.ExamplePrice, enginetest.ExampleCost)
	require.NoError(h.t, err)
}

// like gives a node the payer of another one.
func (h *handing) like(other *handing) *handing {
	h.who, h.rate = other.who, other.rate
	return h
}

func (h *handing) end(request string) (ledger.Charge, error) {
	return h.Ledger().Settle(context.Background(), ledger.Settlement{Request: request, Status: 200, Reason: "ok",
		Results: []ledger.Result{{Attempt: ledger.AttemptID(request, 1), Outcome: ledger.Finished,
			Usage: new(enginetest.ExampleUsage)}}})
}

func (h *handing) requireClean() {
	h.t.Helper()
	report, err := h.Store().Verify(context.Background())
	require.NoError(h.t, err)
	require.True(h.t, report.OK, report.Problem)
	require.Zero(h.t, report.Holds)
}

// requestID is an id as requests have them, which begins with this moment.
func requestID(n int) string {
	return fmt.Sprintf("req_%016x%016x", time.Now().UnixMilli()<<16, n)
}

// execute runs a statement on a database.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
}

// TestLastCreditOfTwoNodes: what two nodes admit at once is what the balance covers.
func TestLastCreditOfTwoNodes(t *testing.T) {
	t.Parallel()
	const credits, requests = 10, 1000
	url := postgrestest.Database(t)
	a := openNode(t, url, t.TempDir())
	a.payer(credits)
	b := openNode(t, url, t.TempDir()).like(a)
	nodes := []*handing{a, b}
	var asking sync.WaitGroup
	var admitted sync.Map
	var refused atomic.Int64
	for n := range requests {
		asking.Go(func() {
			h, id := nodes[n%2], requestID(n)
			for {
				err := h.hold(id, 1)
				switch {
				case err == nil:
					admitted.Store(id, h)
				case errors.Is(err, ledger.ErrInsufficient):
					refused.Add(1)
				case errors.Is(err, ledger.ErrUnavailable): // too slow a machine: the same again
					continue
				default:
					t.Error(err)
				}
				return
			}
		})
	}
	asking.Wait()
	require.EqualValues(t, requests-credits, refused.Load())
	require.Equal(t, int64(credits), a.balance().Reserved())
	admitted.Range(func(id, h any) bool {
		_, err := h.(*handing).end(id.(string))
		require.NoError(t, err)
		return true
	})
	require.Zero(t, b.balance().Net(), "each comes to more than was held for it, which is all that it is charged")
	b.requireClean()
	a.close()
	b.close()
}

// TestNodeThatLeft: what a node held that is gone another one releases, and what it settles late is charged once.
func TestNodeThatLeft(t *testing.T) {
	t.Parallel()
	url, dir := postgrestest.Database(t), t.TempDir()
	a := openNode(t, url, dir)
	a.payer(10)
	b := openNode(t, url, t.TempDir()).like(a)
	id := requestID(1)
	require.NoError(t, a.hold(id, 5))
	require.EqualValues(t, 5, b.balance().Reserved())
	_, err := tryNode(t, url, dir)
	require.ErrorIs(t, err, ledger.ErrLocked, "a data folder has one process")
	a.close()
	require.Eventually(t, func() bool { return b.balance().Reserved() == 0 }, time.Minute, 10*time.Millisecond)
	r, err := b.Store().Request(t.Context(), id)
	require.NoError(t, err)
	require.True(t, r.Pending, "it waits for proof")

	for range 2 {
		c, err := b.end(id)
		require.NoError(t, err)
		require.EqualValues(t, enginetest.ExampleCharge, c.Microcents)
	}
	require.Equal(t, ledger.Balance{Credits: 10}.Net()-enginetest.ExampleCharge, b.balance().Net())
	b.requireClean()
	b.close()
}

// TestDatabaseAway stops the database while requests run: nothing is admitted, those that end are charged once, from
// the spool, in the same process or in the next on that data folder, after another node has released them, too.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"GAP-45 GAP-99 it is back": false, "GAP-99 the process has ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := postgrestest.Start()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Stop()) })
			url, dir := server.URL("postgres"), t.TempDir()
			a := openNode(t, url, dir)
			a.payer(100)
			const requests = 8
			var ids []string
			for n := range requests {
				ids = append(ids, requestID(n))
				require.NoError(t, a.hold(ids[n], 5))
			}
			require.NoError(t, server.Signal(syscall.SIGINT))
			var ending sync.WaitGroup
			for n := range requests {
				ending.Go(func() {
					c, err := a.end(ids[n])
					if err != nil || c.Microcents != enginetest.ExampleCharge {
						t.Errorf("%v: %+v", cmp.Or(err, errors.New("another charge")), c)
					}
				})
			}
			ending.Wait()
			require.ErrorIs(t, a.hold(requestID(99), 1), ledger.ErrUnavailable)
			require.Error(t, a.Ready())
			if restarts {
				a.Retire(a.gen)
				require.Error(t, a.Close(), "its lease stays")
			}
			require.NoError(t, server.Run())
			if restarts {
				execute(t, url, `UPDATE nodes SET ended = clock_timestamp()`)
				b := openNode(t, url, t.TempDir()).like(a)
				require.Eventually(t, func() bool { return b.balance().Reserved() == 0 }, time.Minute, 10*time.Millisecond)
				require.EqualValues(t, 100, b.balance().Credits)
				a = openNode(t, url, dir).like(a)
				b.close()
			}
			last := requestID(requests)
			left := ledger.Balance{Credits: 100}.Net() - requests*enginetest.ExampleCharge
			require.Eventually(t, func() bool {
				acc, err := a.Store().Account(t.Context(), a.who.Account.ID)
				return err == nil && acc.Balance.Net() == left
			}, time.Minute, 10*time.Millisecond)
			require.Eventually(t, func() bool { return a.hold(last, 5) == nil }, time.Minute, 10*time.Millisecond)
			_, err = a.end(last)
			require.NoError(t, err)
			left -= enginetest.ExampleCharge
			require.Equal(t, left, a.balance().Net())
			a.requireClean()
			require.Empty(t, a.Aside().Items())
			a.close()
		})
	}
}

// TestNodesKnowOfEachOther: which there are, by what they serve, and which of them a request ran on.
func TestNodesKnowOfEachOther(t *testing.T) {
	t.Parallel()
	url, dir := postgrestest.Database(t), t.TempDir()
	a := openNode(t, url, dir)
	a.payer(10)
	b := openNode(t, url, t.TempDir()).like(a)
	require.NoError(t, a.hold(requestID(1), 5))
	var known []ledger.Node
	require.Eventually(t, func() bool {
		_, _, err := a.Nodes(t.Context())
		require.NoError(t, err)
		var drift []string
		known, drift, err = b.Nodes(t.Context())
		require.NoError(t, err)
		require.Empty(t, drift)
		return len(known) == 2 && known[0].Config != "" && known[1].Config != ""
	}, 20*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, known[0].Holds)
	require.Equal(t, dir, known[0].Data)
	require.True(t, known[1].Self)
	require.Equal(t, known[0].Config, known[1].Config)
	there := b.NodeOf(t.Context(), known[0].ID)
	require.NotNil(t, there)
	require.Equal(t, known[0].ID, there.ID)
	require.Nil(t, a.NodeOf(t.Context(), known[0].ID), "it is this one")
	require.Nil(t, a.NodeOf(t.Context(), "nobody"))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO nodes (node, name, expires, ended)
		VALUES ('7HFEHA2E', 'moved', clock_timestamp(), clock_timestamp())`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.Nil(t, a.NodeOf(t.Context(), "7HFEHA2E"), "it ran before the ledger was moved here, and nobody has its folder")
	require.True(t, a.LedgerServer().Up || a.LedgerServer().Since.IsZero())
	a.close()
	again := openNode(t, url, dir).like(a)
	require.Eventually(t, func() bool {
		_, _, err := again.Nodes(t.Context())
		require.NoError(t, err)
		return again.NodeOf(t.Context(), known[0].ID) == nil
	}, 20*time.Second, 10*time.Millisecond, "it was this one before a restart, whose data folder is here")
	again.close()
	b.close()
}

// TestDecisionsHoldOnEveryNode: what an operator decides on one node holds on the others within a second of theirs.
func TestDecisionsHoldOnEveryNode(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a := openNode(t, url, t.TempDir())
	who, text := enginetest.Account(t, a.Engine, "payer")
	hash, _ := ledger.ParseKey(text)
	a.who = who
	b := openNode(t, url, t.TempDir()).like(a)
	var err error
	b.rate, err = b.Store().PriceVersion(t.Context(), "route", enginetest.ExamplePrice, enginetest.ExampleCost)
	require.NoError(t, err)
	t.Run("a top-up admits", func(t *testing.T) {
		require.ErrorIs(t, b.hold(requestID(1), 1), ledger.ErrInsufficient)
		_, _, err := a.Store().AddCredit(t.Context(), ledger.Credit{Account: who.Account.ID, Credits: 10})
		require.NoError(t, err)
		require.NoError(t, b.hold(requestID(1), 1))
	})
	t.Run("a suspension refuses, and its end admits", func(t *testing.T) {
		_, err := a.Store().SetState(t.Context(), who.Account.ID, ledger.Suspended)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			p, err := b.Lookup(t.Context(), hash)
			require.NoError(t, err)
			return p.Account.State == ledger.Suspended
		}, 10*time.Second, time.Millisecond)
		_, err = a.Store().SetState(t.Context(), who.Account.ID, ledger.Active)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			p, err := b.Lookup(t.Context(), hash)
			require.NoError(t, err)
			return p.Account.State == ledger.Active
		}, 10*time.Second, time.Millisecond)
	})
	t.Run("a revoked key opens nothing", func(t *testing.T) {
		_, err := b.Lookup(t.Context(), hash)
		require.NoError(t, err)
		_, err = a.Store().RevokeKey(t.Context(), who.Key.ID)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := b.Lookup(t.Context(), hash)
			return errors.Is(err, engine.ErrKeyEnded)
		}, 10*time.Second, time.Millisecond)
	})
	a.close()
	b.close()
}

// TestAloneOnALedger: who has a ledger to himself has no other nodes.
func TestAloneOnALedger(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, time.Now)
	_, _, err := e.Nodes(t.Context())
	require.ErrorIs(t, err, engine.ErrOneNode)
	require.Nil(t, e.LedgerServer())
	require.Nil(t, e.NodeOf(t.Context(), "anybody"))
}
