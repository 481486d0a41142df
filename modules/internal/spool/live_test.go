package spool_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// TestPowerLossUnderLive takes the power away before each operation of a run's log, with any part of what was not sure
// on its disk, while the store takes up what it is given or does not: what Settle has answered is on record after the
// restart, once, at what was answered (GAP-132). A part of the log that comes back changes nothing.
func TestPowerLossUnderLive(t *testing.T) {
	t.Parallel()
	const size = 1 << 16
	rapid.Check(t, func(rt *rapid.T) {
		ctx, path := context.Background(), filepath.Join(t.TempDir(), "ledger.db")
		var away atomic.Bool
		begin := func(boot string) *sqlite.Store {
			store, err := sqlite.Open(sqlite.Options{Path: path, BootID: boot, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(rt, err)
			return store
		}
		first := begin("first")
		computer, log, err := spool.NewComputer(size, rapid.IntRange(0, 40).Draw(rt, "operations"))
		require.NoError(rt, err)
		l, err := live.Open(ctx, ledgertest.WithTakingFaults(first, func(_ int64, operation string) (f ledgertest.Fault) {
			if operation == "take_up" && away.Load() {
				return ledgertest.Away
			}
			return f
		}), live.SpoolLog{Spool: log}, live.Options{Options: ledger.Options{Logger: slog.New(slog.DiscardHandler)}})
		require.NoError(rt, err)
		price := config.Price{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}
		version, err := l.PriceVersion(ctx, "small", price, price)
		require.NoError(rt, err)
		a, err := l.CreateAccount(ctx, "payer", "")
		require.NoError(rt, err)
		k, err := l.CreateKey(ctx, a.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
		require.NoError(rt, err)
		_, _, err = l.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 100})
		require.NoError(rt, err)
		answered := map[string]int64{}
		for n := range rapid.IntRange(1, 20).Draw(rt, "requests") {
			id := fmt.Sprintf("req_%032x", n+1)
			attempt := ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "small", Provider: "echo", Model: "m",
				PriceVersion: version, Worst: 1_000}
			_, err := l.Hold(ctx, ledger.Hold{Request: id, Account: a.ID, Key: k.ID, Endpoint: "chat", Profile: "max",
				Microcents: 1_000, WriteBehind: true, Attempt: attempt})
			if err == nil {
				var c ledger.Charge
				c, err = l.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
					Attempt: attempt.ID, Outcome: ledger.Finished,
					Usage: &llm.Usage{Input: llm.Count(int64(n)), Output: llm.Count(7)}}}})
				if err == nil {
					require.EqualValues(rt, n+7, c.Microcents)
					answered[id] = c.Microcents
				}
			}
			if err != nil {
				require.ErrorIs(rt, err, ledger.ErrUnavailable)
			}
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				away.Store(!away.Load())
			case 1: // what was decided is taken up, and released
				_, _ = l.CountWaiting(ctx)
			}
		}
		away.Store(true)
		require.NoError(rt, l.Close())

		after, err := computer.Restart(rt, size)
		require.NoError(rt, err)
		store := begin("second")
		for after.Len() > 0 {
			batch := after.Oldest(8)
			var courses []book.Course
			for i := range batch.Records {
				c, ok, err := live.CourseOf(&batch.Records[i])
				require.NoError(rt, err)
				require.True(rt, ok)
				courses = append(courses, c)
			}
			taken, err := live.TakeUp(ctx, store, courses)
			require.NoError(rt, err)
			for i := range taken {
				require.NoError(rt, taken[i].Err)
				if _, ok := answered[courses[i].ID]; ok || taken[i].Charge.Microcents > 0 {
					require.Equal(rt, courses[i].End.Charge, taken[i].Charge.Microcents)
				} // else its client was told of a failure, and the log had it all the same
			}
			require.NoError(rt, after.ReleaseBatch(batch))
		}
		_, err = store.Recover(ctx)
		require.NoError(rt, err)
		for id, microcents := range answered {
			r, err := store.Request(ctx, id)
			require.NoError(rt, err, "it was answered")
			require.Equal(rt, microcents, r.Microcents)
			require.Len(rt, r.Entries, 1)
		}
		report, err := store.Verify(ctx)
		require.NoError(rt, err)
		require.True(rt, report.OK, "%s: %s", report.Entry, report.Problem)
		require.Zero(rt, report.Holds)
		require.NoError(rt, store.Close())
	})
}
