package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm"
)

// handing is an engine on a data folder, with a payer of ten credits.
type handing struct {
	*engine.Engine
	t    *testing.T
	gen  *engine.Generation
	cfg  *config.Config
	who  ledger.Principal
	rate int64
}

func openHanding(t *testing.T, dir string) *handing {
	t.Helper()
	h := &handing{t: t, cfg: &config.Config{Store: config.DefaultStore()}}
	h.cfg.Gateway.DrainTimeout = time.Hour
	var err error
	h.Engine, err = engine.Open(engine.Options{DataDir: dir, OpenStore: stores.Open,
		Logger: slog.New(slog.DiscardHandler)}, h.cfg)
	require.NoError(t, err)
	h.gen, err = h.Prepare(t.Context(), h.cfg)
	require.NoError(t, err)
	h.Activate(h.gen)
	return h
}

func (h *handing) close() {
	h.t.Helper()
	h.Retire(h.gen)
	require.NoError(h.t, h.Close())
}

func (h *handing) attempt(request string, seq, credits int64) ledger.Attempt {
	return ledger.Attempt{ID: ledger.AttemptID(request, seq), Route: "route", Provider: "echo", Model: "m",
		PriceVersion: h.rate, Worst: credits * 1_000_000}
}

func (h *handing) hold(request string, credits int64) error {
	return h.Ledger().Hold(context.Background(), ledger.Hold{Request: request, Account: h.who.Account.ID,
		Key: h.who.Key.ID, Endpoint: "chat", Profile: "balanced", Microcents: credits * 1_000_000,
		Attempt: h.attempt(request, 1, credits)})
}

func (h *handing) settle(request string, seq, output int64) ledger.Charge {
	h.t.Helper()
	results := []ledger.Result{{Attempt: ledger.AttemptID(request, seq), Outcome: ledger.Finished,
		Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(output)}}}
	for before := range seq - 1 {
		results = append(results, ledger.Result{Attempt: ledger.AttemptID(request, before+1), Outcome: ledger.Failed})
	}
	c, err := h.Ledger().Settle(context.Background(), ledger.Settlement{Request: request, Status: 200, Reason: "ok",
		Results: results})
	require.NoError(h.t, err)
	return c
}

func (h *handing) balance() ledger.Balance {
	h.t.Helper()
	a, err := h.Store().Account(context.Background(), h.who.Account.ID)
	require.NoError(h.t, err)
	return a.Balance
}

// TestHandOver: a process that drains hands its ledger over, with what it holds; what it runs settles into a log that
// the next process takes up when it has ended (GAP-99). Nothing is oversold in between.
func TestHandOver(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	request := func(n int) string { return fmt.Sprintf("req_%032x", n) }
	left := func() []string {
		all, err := filepath.Glob(filepath.Join(dir, "fareway.db.spool.of-*"))
		require.NoError(t, err)
		return all
	}
	old := openHanding(t, dir)
	old.who, _ = enginetest.Account(t, old.Engine, "acme")
	_, _, err := old.Store().AddCredit(ctx, ledger.Credit{Account: old.who.Account.ID, Credits: 10})
	require.NoError(t, err)
	old.rate, err = old.Store().PriceVersion(ctx, "route", config.Price{Output: 1_000_000}, config.Price{})
	require.NoError(t, err)
	work := old.Begin()
	require.NotNil(t, work)
	require.NoError(t, old.hold(request(1), 4))
	require.NoError(t, old.hold(request(2), 3))
	require.NoError(t, old.hold(request(3), 1))
	require.Equal(t, int64(1_000_000), old.settle(request(3), 1, 1_000_000).Microcents)

	old.BeginDrain(0)
	next := openHanding(t, dir)
	next.who, next.rate = old.who, old.rate
	require.Equal(t, int64(7_000_000), next.balance().Held, "the next process counts what the old one holds")
	require.ErrorIs(t, next.hold(request(4), 3), ledger.ErrHeld, "2 of 9 credits are free")
	require.NoError(t, next.hold(request(4), 2))

	require.ErrorIs(t, old.hold(request(5), 1), ledger.ErrUnavailable, "the old one admits nothing")
	again := ledger.Next{Request: request(1), Attempt: old.attempt(request(1), 2, 4), Microcents: 4_000_001,
		WriteBehind: true}
	require.ErrorIs(t, old.Ledger().Begin(ctx, again), ledger.ErrUnavailable, "nor more for what runs")
	again.Microcents = 4_000_000
	again.WriteBehind = false
	require.ErrorIs(t, old.Ledger().Begin(ctx, again), ledger.ErrUnavailable, "nor what has to be on record before")
	again.WriteBehind = true
	require.NoError(t, old.Ledger().Begin(ctx, again), "but another attempt that the hold covers")
	_, _, err = old.Store().AddCredit(ctx, ledger.Credit{Account: old.who.Account.ID, Credits: 1})
	require.ErrorIs(t, err, ledger.ErrUnavailable)

	require.Equal(t, int64(250_000), old.settle(request(1), 2, 250_000).Microcents)
	require.Equal(t, int64(9_000_000), next.balance().Held, "the log is the old one's until that has ended")
	require.Len(t, left(), 1)
	work.Done()
	old.close()
	require.Eventually(t, func() bool { return next.balance().Held == 2_000_000 }, time.Minute, time.Millisecond,
		"what it left is taken up: a settlement, and a hold without one")
	require.Equal(t, ledger.Balance{Credits: 9, Accrued: 250_000, Held: 2_000_000}, next.balance())
	require.Empty(t, left())
	record, err := next.Store().Request(ctx, request(1))
	require.NoError(t, err)
	require.Len(t, record.Attempts, 2)
	require.Equal(t, int64(250_000), record.Microcents)
	record, err = next.Store().Request(ctx, request(2))
	require.NoError(t, err)
	require.Equal(t, "crashed", record.Reason)
	next.settle(request(4), 1, 1)
	report, err := next.Store().Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, report.Problem)
	next.close()
}

// TestHandOverLater: where the next process has ended before the old one, the one after it finds what that left
// (GAP-99).
func TestHandOverLater(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "[a-z]*") // no pattern
	old := openHanding(t, dir)
	old.who, _ = enginetest.Account(t, old.Engine, "acme")
	_, _, err := old.Store().AddCredit(ctx, ledger.Credit{Account: old.who.Account.ID, Credits: 10})
	require.NoError(t, err)
	old.rate, err = old.Store().PriceVersion(ctx, "route", config.Price{Output: 1_000_000}, config.Price{})
	require.NoError(t, err)
	work := old.Begin()
	require.NoError(t, old.hold("req_1", 4))
	old.BeginDrain(0)
	next := openHanding(t, dir)
	next.who = old.who
	require.Equal(t, int64(4_000_000), next.balance().Held)
	next.close()
	again := openHanding(t, dir)
	again.who = old.who
	require.Equal(t, int64(4_000_000), again.balance().Held, "its owner lives")
	again.close()
	old.settle("req_1", 1, 7)
	work.Done()
	old.close()
	last := openHanding(t, dir)
	last.who = old.who
	require.Equal(t, ledger.Balance{Credits: 10, Accrued: 7}, last.balance())
	last.close()
}

// TestNotOffered: a ledger whose process does not drain is not waited for (GAP-99).
func TestNotOffered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHanding(t, dir)
	_, err := engine.Open(engine.Options{DataDir: dir, OpenStore: stores.Open, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.ErrorIs(t, err, ledger.ErrLocked)
	require.NoFileExists(t, filepath.Join(dir, "fareway.db.lock.next"))
	h.close()
	_, err = os.Stat(filepath.Join(dir, "fareway.db.spool"))
	require.NoError(t, err)
}
