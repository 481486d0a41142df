package sqlite

import (
	"crypto/sha256"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// refusal makes one statement of a connection fail, as a damaged page or a broken disk may: SQLite's authorizer is
// asked about every one when it is prepared.
type refusal struct {
	left   atomic.Int64 // until the one that fails; nothing fails at 0
	failed atomic.Bool
}

func (r *refusal) arm(n int64) {
	r.failed.Store(false)
	r.left.Store(n)
}

func (r *refusal) Authorize(a sqlite.Action) sqlite.AuthResult {
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete, sqlite.OpPragma:
		if r.left.Load() > 0 && r.left.Add(-1) == 0 {
			r.failed.Store(true)
			return sqlite.AuthResultDeny
		}
	}
	return sqlite.AuthResultOK
}

// Verification says that a ledger is right only when it has read everything.
func TestVerifyThatCannotRead(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	kept := s.everything()
	require.NoError(t, s.store.Close())
	var r refusal
	for n := int64(1); ; n++ {
		conn, err := openReader(s.store.opts.Path, time.Second)
		require.NoError(t, err)
		require.NoError(t, conn.SetAuthorizer(&r))
		r.arm(n)
		report, err := verify(conn, nil, kept)
		require.NoError(t, conn.Close())
		if !r.failed.Load() {
			require.NoError(t, err)
			require.True(t, report.OK, report.Problem)
			require.Greater(t, n, int64(35), "so many statements there are")
			break
		}
		require.Error(t, err, "statement %d", n)
	}
}

// An operation one of whose statements fails, whichever, says so, leaves everything as it was, and can be repeated.
func TestStatementThatFails(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	var r refusal
	ctx := s.tick()
	price, err := s.store.PriceVersion(ctx, "small", scenePrices["small"], half(scenePrices["small"]))
	require.NoError(t, err)
	other, err := openReader(s.store.opts.Path, time.Second)
	require.NoError(t, err)
	defer other.Close()
	version := func() (n int64) { // grows with what is committed
		read := func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil }
		require.NoError(t, run(other, `PRAGMA data_version`, read))
		return n
	}
	next := func(id string, seq, microcents int64) ledger.Next {
		return ledger.Next{Request: id, Microcents: microcents, Attempt: ledger.Attempt{
			ID: ledger.AttemptID(id, seq), Route: "small", Provider: "p", Model: "m", PriceVersion: price, Worst: 1 << 40,
		}}
	}
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"price", func() error {
			_, err := s.store.PriceVersion(ctx, "small", scenePrices["large"], scenePrices["small"])
			return err
		}},
		{"account", func() error { _, err := s.store.CreateAccount(ctx, "late", "pro"); return err }},
		{"key", func() error {
			_, err := s.store.CreateKey(ctx, s.owner, "late", sha256.Sum256([]byte("late")), "late", ledger.KeyChange{})
			return err
		}},
		{"top-up", func() error {
			_, _, err := s.store.AddCredit(ctx, ledger.Credit{Account: s.owner, Credits: 1, Reference: "case 1"})
			return err
		}},
		{"hold", func() error { // whose id is before those of others, so that it may have been settled
			first := next("r00-late", 1, 10_000)
			_, err := s.store.Hold(ctx, ledger.Hold{
				Request: first.Request, Account: s.owner, Key: s.key,
				Microcents: first.Microcents, Tokens: 1, Attempt: first.Attempt,
			})
			return err
		}},
		{"receipt", func() error {
			_, _, err := s.store.AddReceipt(ctx, ledger.AttemptID("r14-waiting", 2), *used(3, 4))
			return err
		}},
		{"begin", func() error { return s.store.Begin(ctx, next("r24-estimated-runs", 2, 20_000)) }},
		{"settle", func() error {
			_, err := s.store.Settle(ctx, ledger.Settlement{Request: "r24-estimated-runs", Reason: "ok",
				Results: []ledger.Result{
					{Attempt: ledger.AttemptID("r24-estimated-runs", 1), Outcome: ledger.Unproven, Estimate: used(1, 2)},
					{Attempt: ledger.AttemptID("r24-estimated-runs", 2), Outcome: ledger.Finished, Usage: used(3, 4)},
				}})
			return err
		}},
		{"close", func() error { _, err := s.store.CloseUnproven(ctx, s.now.Add(time.Hour)); return err }},
		{"correct", func() error {
			_, _, err := s.store.Correct(ctx, ledger.Correction{Request: "r24-estimated-runs", Microcents: 1,
				Reference: "case 2", Reason: "sorry"})
			return err
		}},
		{"rotate", func() error {
			_, _, err := s.store.RotateKey(ctx, s.key, sha256.Sum256([]byte("again")), "abcd", time.Hour)
			return err
		}},
		{"limit", func() error {
			_, err := s.store.SetLimit(ctx, s.owner, ledger.LimitTokenBudget, new(int64(7)))
			return err
		}},
		{"checkpoint", func() error { _, err := s.store.MakeCheckpoint(ctx); return err }},
		{"prune", func() error { _, err := s.store.Prune(ctx, s.now.Add(-time.Hour)); return err }},
		{"periods", func() error {
			s.credits = 5
			_, err := s.store.EndPeriods(ctx)
			return err
		}},
	} {
		// Each number twice: SQLite prepares some statements once more when it first runs them, which counts, and the next
		// time it does not; so the one behind them has two numbers.
		for n := int64(2); ; n++ {
			// Set anew, so that all statements are prepared anew.
			require.NoError(t, s.store.write(ctx, "test", func(t *tx) error { return t.conn.SetAuthorizer(&r) }))
			before := version()
			r.arm(n / 2)
			err := op.do()
			r.left.Store(0)
			if !r.failed.Load() {
				require.NoError(t, err, op.name)
				require.Greater(t, n, int64(2), op.name)
				break
			}
			require.ErrorIs(t, err, ledger.ErrUnavailable, "%s, statement %d", op.name, n/2)
			require.Equal(t, before, version(), "%s, statement %d", op.name, n/2)
			require.NoError(t, s.store.write(ctx, "test", func(t *tx) error { return t.compare() }), op.name)
		}
		require.NoError(t, s.store.write(ctx, "test", func(t *tx) error { return t.compare() }), op.name)
		report, err := s.store.Verify(ctx)
		require.NoError(t, err)
		require.True(t, report.OK, "%s: %s: %s", op.name, report.Entry, report.Problem)
	}
}
