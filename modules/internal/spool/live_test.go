package spool_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// TestPowerLossUnderLive ends a run before each operation of its log in turn, with every part of what was not sure on
// its disk, while the store takes up what it is given or does not: what Settle has answered is on record after the
// restart, once, at what was answered (GAP-132). What it has failed for is charged once at most, and free where the
// store was told so. A part of the log that comes back changes nothing.
func TestPowerLossUnderLive(t *testing.T) {
	t.Parallel()
	losePower(t, 12)
}

// losePower enumerates the operations of a run of so many requests. At each the power of the machine goes, or that of
// the log alone, which leaves the store to itself.
func losePower(t *testing.T, requests int) {
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	template := newLosses(t)
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprintf("the store stops %t", whole), func(t *testing.T) {
			t.Parallel()
			operations, restarts := 0, 0
			for isOver := false; !isOver; operations++ {
				r := template.run(t, t.TempDir(), requests, seed, operations, whole)
				for _, log := range r.restart(t) {
					r.check(t, log, fmt.Sprintf("operation %d, restart %d", operations, restarts))
					restarts++
				}
				isOver = !r.computer.Gone()
			}
			t.Logf("%d operations, %d restarts", operations, restarts)
			require.Greater(t, operations, 2*requests)
			require.Greater(t, restarts, 2*operations)
		})
	}
}

// losses is a ledger's file before its first request.
type losses struct {
	file         []byte
	account, key string
	version      int64
}

// beginStore opens a ledger's file. It is on the disk when the test needs it.
func beginStore(t *testing.T, path, boot string) *sqlite.Store {
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(sqlite.Options{Path: path, BootID: boot, Logger: quiet, Behind: true})
	require.NoError(t, err)
	return store
}

func newLosses(t *testing.T) *losses {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "ledger.db")
	store := beginStore(t, path, "made")
	price := config.Price{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}
	version, err := store.PriceVersion(ctx, "small", price, price)
	require.NoError(t, err)
	a, err := store.CreateAccount(ctx, "payer", "")
	require.NoError(t, err)
	k, err := store.CreateKey(ctx, a.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = store.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 100})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	return &losses{file, a.ID, k.ID, version}
}

// lost is a run that has ended, with what it has answered.
type lost struct {
	*losses
	dir      string
	computer *spool.Computer
	answered map[string]int64 // microcents, by request
	failed   map[string]int64 // what those would have come to whose settlement was not answered
}

// run makes requests until its power is gone, or they are over.
func (l *losses) run(t *testing.T, dir string, requests int, seed uint64, operations int, whole bool) *lost {
	ctx, path := t.Context(), filepath.Join(dir, "ledger.db")
	require.NoError(t, os.WriteFile(path, l.file, 0o600))
	random := rand.New(rand.NewPCG(seed, 0))
	computer, log, err := spool.NewComputer(spool.Small, operations)
	require.NoError(t, err)
	r := &lost{losses: l, dir: dir, computer: computer, answered: map[string]int64{}, failed: map[string]int64{}}
	var away atomic.Bool
	store := ledgertest.WithTakingFaults(beginStore(t, path, "first"), func(int64, string) (f ledgertest.Fault) {
		if away.Load() || whole && computer.Gone() {
			return ledgertest.Away
		}
		return f
	})
	quiet := ledger.Options{Logger: slog.New(slog.DiscardHandler)}
	never := func(time.Duration) <-chan time.Time { return nil } // so that each run is the same up to its end
	ledgers, err := live.Open(ctx, store, live.SpoolLog{Spool: log}, live.Options{Options: quiet, After: never})
	require.NoError(t, err)
	for made := 0; made < requests; {
		var running []string
		for range 1 + random.IntN(3) {
			made++
			id := fmt.Sprintf("req_%032x", made)
			_, err := ledgers.Hold(ctx, ledger.Hold{Request: id, Account: l.account, Key: l.key, Endpoint: "chat",
				Profile: "max", Microcents: 1_000, WriteBehind: true, Attempt: ledger.Attempt{ID: ledger.AttemptID(id, 1),
					Route: "small", Provider: "echo", Model: "m", PriceVersion: l.version, Worst: 1_000}})
			if err == nil {
				running = append(running, id)
			} else {
				require.ErrorIs(t, err, ledger.ErrUnavailable)
			}
		}
		if random.IntN(3) == 0 { // their holds are on record before
			_, _ = ledgers.CountWaiting(ctx)
		}
		away.Store(random.IntN(3) == 0)
		for i, id := range running {
			comesTo := int64(made - i)
			c, err := ledgers.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
				Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished,
				Usage: &llm.Usage{Input: llm.Count(comesTo), Output: llm.Count(0)}}}})
			if err == nil {
				require.Equal(t, comesTo, c.Microcents)
				r.answered[id] = comesTo
			} else {
				require.ErrorIs(t, err, ledger.ErrUnavailable)
				r.failed[id] = comesTo
			}
		}
		away.Store(false)
		if random.IntN(3) > 0 { // what was decided is taken up, and released
			_, _ = ledgers.CountWaiting(ctx)
		}
	}
	away.Store(true) // what closing would take up is not
	require.NoError(t, ledgers.Close())
	return r
}

// restart are the logs that a start may find.
func (r *lost) restart(t *testing.T) []*spool.Spool {
	logs, err := r.computer.Restarts(spool.Small)
	require.NoError(t, err)
	return logs
}

// check starts on a copy of the store and one of the logs.
func (r *lost) check(t *testing.T, log *spool.Spool, about string) {
	ctx, path := t.Context(), filepath.Join(r.dir, "again.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(filepath.Join(r.dir, "ledger.db"+suffix))
		if !os.IsNotExist(err) {
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
		}
	}
	store := beginStore(t, path, "second")
	for log.Len() > 0 {
		batch := log.Oldest(8)
		var courses []book.Course
		for i := range batch.Records {
			c, ok, err := live.CourseOf(&batch.Records[i])
			require.NoError(t, err)
			require.True(t, ok)
			courses = append(courses, c)
		}
		taken, err := live.TakeUp(ctx, store, courses)
		require.NoError(t, err, about)
		for i, c := range courses {
			require.NoError(t, taken[i].Err, about)
			if _, isFailed := r.failed[c.ID]; !isFailed || !taken[i].Before {
				require.Equal(t, c.End.Charge, taken[i].Charge.Microcents, about)
			}
		}
		require.NoError(t, log.ReleaseBatch(batch))
	}
	_, err := store.Recover(ctx)
	require.NoError(t, err)
	charged, entries := map[string]int64{}, map[string]int{}
	require.NoError(t, store.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
		if e.Request != "" {
			charged[e.Request] -= e.Microcents
			entries[e.Request]++
		}
		return nil
	}))
	sum := int64(0)
	for id, microcents := range r.answered {
		require.Equal(t, 1, entries[id], "%s: %s was answered", about, id)
		require.Equal(t, microcents, charged[id], about)
		sum += microcents
	}
	for id, microcents := range r.failed {
		require.LessOrEqual(t, entries[id], 1, about)
		require.Contains(t, []int64{0, microcents}, charged[id], about)
		sum += charged[id]
	}
	account, err := store.Account(ctx, r.account)
	require.NoError(t, err)
	require.Equal(t, 100*ledger.MicrocentsPerCredit-sum, account.Balance.Net(), about)
	report, err := store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s: %s", about, report.Entry, report.Problem)
	require.Zero(t, report.Holds, about)
	require.NoError(t, store.Close())
	left, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	for _, file := range left {
		require.NoError(t, os.Remove(file))
	}
}
