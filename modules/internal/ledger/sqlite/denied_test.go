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

// refusal makes one statement of a connection fail, as a damaged page or a broken disk may: SQLite's authorizer is asked
// about every one when it is prepared.
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
		report, err := verify(conn, kept)
		require.NoError(t, conn.Close())
		if !r.failed.Load() {
			require.NoError(t, err)
			require.True(t, report.OK, report.Problem)
			require.Greater(t, n, int64(50))
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
	version, err := s.store.PriceVersion(ctx, "small", scenePrices["small"], half(scenePrices["small"]))
	require.NoError(t, err)
	next := func(id string, seq, microcents int64) ledger.Next {
		return ledger.Next{Request: id, Microcents: microcents, Attempt: ledger.Attempt{
			ID: ledger.AttemptID(id, seq), Route: "small", Provider: "p", Model: "m", PriceVersion: version, Worst: 1 << 40,
		}}
	}
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"receipt", func() error {
			_, _, err := s.store.AddReceipt(ctx, ledger.AttemptID("r14-waiting", 2), *used(3, 4))
			return err
		}},
		{"begin", func() error { return s.store.Begin(ctx, next("r24-estimated-runs", 2, 20_000)) }},
		{"settle", func() error {
			_, err := s.store.Settle(ctx, ledger.Settlement{Request: "r24-estimated-runs", Reason: "ok", Results: []ledger.Result{
				{Attempt: ledger.AttemptID("r24-estimated-runs", 1), Outcome: ledger.Unproven, Estimate: used(1, 2)},
				{Attempt: ledger.AttemptID("r24-estimated-runs", 2), Outcome: ledger.Finished, Usage: used(3, 4)},
			}})
			return err
		}},
		{"close", func() error { _, err := s.store.CloseUnproven(ctx, s.now.Add(time.Hour)); return err }},
		{"correct", func() error {
			_, _, err := s.store.Correct(ctx, ledger.Correction{Request: "r24-estimated-runs", Microcents: 1, Reference: "case 2", Reason: "sorry"})
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
		for n := int64(1); ; n++ {
			// Set anew, so that all statements are prepared anew.
			require.NoError(t, s.store.write(ctx, "test", func(t *tx) error { return t.conn.SetAuthorizer(&r) }))
			r.arm(n)
			err := op.do()
			r.left.Store(0)
			if !r.failed.Load() {
				require.NoError(t, err, op.name)
				require.Greater(t, n, int64(1), op.name)
				break
			}
			require.Error(t, err, "%s, statement %d", op.name, n)
		}
		require.NoError(t, s.store.write(ctx, "test", func(t *tx) error { return t.compare() }), op.name)
		report, err := s.store.Verify(ctx)
		require.NoError(t, err)
		require.True(t, report.OK, "%s: %s: %s", op.name, report.Entry, report.Problem)
	}
}
