package live_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// BenchmarkHoldSettle is a request's way through the ledger: a hold that need not be waited for and a durable
// settlement, through this package (also without a witness, and with durability "process") and through the store
// alone. Beside the time it reports the CPU time (user and system) of a pair.
func BenchmarkHoldSettle(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 512} {
		for _, way := range []string{"live", "unwitnessed", "process", "store"} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, way), func(b *testing.B) { holdAndSettle(b, way, callers) })
		}
	}
}

func holdAndSettle(b *testing.B, way string, callers int) {
	ctx, dir, isLive := context.Background(), b.TempDir(), way != "store"
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, "ledger.db"), Logger: slog.New(slog.DiscardHandler),
		Behind: way == "process"})
	require.NoError(b, err)
	var l ledger.Store = store
	if isLive {
		s, err := spool.Open(filepath.Join(dir, "ledger.db.spool"), 0)
		require.NoError(b, err)
		if way == "process" {
			s.SyncBehind()
		}
		l, err = live.Open(ctx, store, live.SpoolLog{s}, live.Options{})
		require.NoError(b, err)
		if way != "unwitnessed" {
			s.SetWitness(store.WitnessLog)
		}
		b.Cleanup(func() { require.NoError(b, s.Close()) })
	}
	b.Cleanup(func() { require.NoError(b, l.Close()) })
	price := config.Price{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}
	version, err := l.PriceVersion(ctx, "route", price, price)
	require.NoError(b, err)
	type customer struct{ account, key string }
	customers := make([]customer, 100)
	for i := range customers {
		a, err := l.CreateAccount(ctx, fmt.Sprint("account ", i), "")
		require.NoError(b, err)
		k, err := l.CreateKey(ctx, a.ID, "k", [32]byte{byte(i), 1}, "", ledger.KeyChange{})
		require.NoError(b, err)
		_, _, err = l.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: ledger.MaxTopUp})
		require.NoError(b, err)
		customers[i] = customer{a.ID, k.ID}
	}
	var next atomic.Int64
	before := cpu(b)
	b.ReportAllocs()
	b.ResetTimer()
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id, c := benchID(n), customers[n*7919%int64(len(customers))]
				attempt := ledger.AttemptID(id, 1)
				_, err := l.Hold(ctx, ledger.Hold{
					Request: id, Account: c.account, Key: c.key, Endpoint: "chat", Profile: "balanced", Microcents: 1_000_000,
					WriteBehind: true,
					Attempt: ledger.Attempt{ID: attempt, Route: "route", Provider: "provider", Model: "model", PriceVersion: version,
						Worst: 1_000_000},
				})
				if err == nil {
					_, err = l.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
						Attempt: attempt, Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(950), Output: llm.Count(700)}}}})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	if isLive {
		require.NoError(b, l.(*live.Ledger).Flush(ctx))
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/pair")
}

// benchID is an id as the gateway makes them, with a number instead of random bits.
func benchID(n int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixMilli())<<16)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	return "req_" + hex.EncodeToString(b[:])
}

// cpu is the time that this process has used, in seconds.
func cpu(b testing.TB) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
