package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// One door to the ledger: whatever a request asks of it, one time-out bounds the waiting.
func TestLedgerTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // what comes before the wait has to fit into it, on a busy machine, too
	ctx := context.Background()
	e := enginetest.Start(t, &config.Config{}, engine.Options{LedgerTimeout: timeout})
	p, _ := enginetest.Account(t, e, "acme")
	_, _, err := e.Store().AddCredit(ctx, ledger.Credit{Account: p.Account.ID, Credits: 10})
	require.NoError(t, err)
	price := config.Price{Output: 1_000_000}
	version, err := e.Store().PriceVersion(ctx, "route", price, config.Price{})
	require.NoError(t, err)
	attempt := func(id string) ledger.Attempt {
		return ledger.Attempt{ID: id, Route: "route", Provider: "echo", Model: "m", PriceVersion: version, Worst: 1_000_000}
	}
	hold := func(request string) error {
		return e.Ledger().Hold(ctx, ledger.Hold{Request: request, Account: p.Account.ID, Key: p.Key.ID, Endpoint: "chat",
			Profile: "balanced", Microcents: 1_000_000, Attempt: attempt(request + ".1")})
	}
	require.NoError(t, hold("running"))
	require.NoError(t, e.Ledger().Check(ctx, p.Account.ID, p.Key.ID, 9_000_000, 0))
	require.ErrorIs(t, e.Ledger().Check(ctx, p.Account.ID, p.Key.ID, 9_000_001, 0), ledger.ErrHeld)

	other, err := sqlite.OpenConn(filepath.Join(e.DataDir(), "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, sqlitex.ExecuteTransient(other, `BEGIN IMMEDIATE`, nil))
	for doing, ask := range map[string]func() error{
		"Hold": func() error { return hold("other") },
		"Begin": func() error {
			return e.Ledger().Begin(ctx, ledger.Next{Request: "running", Attempt: attempt("running.2"), Microcents: 2_000_000})
		},
	} {
		start := time.Now()
		require.ErrorIs(t, ask(), ledger.ErrUnavailable, doing)
		require.GreaterOrEqual(t, time.Since(start), timeout, doing)
	}
	a, err := e.Ledger().Account(ctx, p.Account.ID)
	require.NoError(t, err, "who only reads waits for no one who writes")
	require.EqualValues(t, 2_000_000, a.Balance.Held, "what Begin decided holds until the request ends")
	err = e.Ledger().Hold(ctx, ledger.Hold{Request: "behind", Account: p.Account.ID, Key: p.Key.ID, Endpoint: "chat",
		Profile: "balanced", Microcents: 1, WriteBehind: true})
	require.ErrorIs(t, err, ledger.ErrUnavailable, "GAP-132: while the store takes nothing up, none is admitted")

	c, err := e.Ledger().Settle(ctx, ledger.Settlement{
		Request: "running", Status: 200, Reason: "ok",
		Results: []ledger.Result{{Attempt: "running.1", Outcome: ledger.Finished,
			Usage: &llm.Usage{Input: llm.Count(1), Output: llm.Count(7)}}},
	})
	require.NoError(t, err, "GAP-99: it is in the spool")
	require.EqualValues(t, 7, c.Microcents)
	require.NoError(t, sqlitex.ExecuteTransient(other, `ROLLBACK`, nil))
	require.Eventually(t, func() bool {
		r, err := e.Store().Request(ctx, "running")
		return err == nil && !r.Running && r.Microcents == 7
	}, time.Minute, time.Millisecond, "and the ledger charges the same")
}
