package postgres_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/plugins/llm"
)

// BenchmarkHoldSettle is a request's way through the ledger, a durable hold and a durable settlement, from one node
// and from three at once, over one hot account and over 1,000. The server syncs its commits. It reports pairs a
// second, the CPU time of a pair of this process, which is all nodes, and of the server's processes.
func BenchmarkHoldSettle(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, accounts := range []int{1, 1000} {
			for _, callers := range []int{16, 512, 4096} {
				b.Run(fmt.Sprintf("nodes=%d/accounts=%d/callers=%d", nodes, accounts, callers), func(b *testing.B) {
					holdAndSettle(b, nodes, accounts, callers)
				})
			}
		}
	}
}

func holdAndSettle(b *testing.B, nodes, accounts, callers int) {
	ctx := context.Background()
	durable, err := postgrestest.Start("fsync = on", "full_page_writes = on", "shared_buffers = 256MB",
		"max_wal_size = 4GB")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, durable.Stop()) })
	url := durable.CreateDatabase(b, "bench", "template1")
	stores := make([]*postgres.Store, nodes)
	for i := range stores {
		stores[i], err = postgres.Open(ctx, postgres.Options{
			Options: ledger.Options{Logger: slog.New(slog.DiscardHandler), WaitTimeout: time.Minute},
			URL:     url, BootID: fmt.Sprint("node-", i),
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, stores[i].Close()) })
	}
	price := config.Price{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}
	version, err := stores[0].PriceVersion(ctx, "route", price, price)
	require.NoError(b, err)
	type customer struct{ account, key string }
	customers := make([]customer, accounts)
	made := errgroup.Group{}
	made.SetLimit(32)
	for i := range customers {
		made.Go(func() error {
			a, err := stores[0].CreateAccount(ctx, fmt.Sprint("account ", i), "")
			if err != nil {
				return err
			}
			k, err := stores[0].CreateKey(ctx, a.ID, "k", [32]byte{byte(i), byte(i >> 8), 1}, "", ledger.KeyChange{})
			if err != nil {
				return err
			}
			_, _, err = stores[0].AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: ledger.MaxTopUp})
			customers[i] = customer{a.ID, k.ID}
			return err
		})
	}
	require.NoError(b, made.Wait())
	var next atomic.Int64
	before, server := cpu(b), durable.CPU()
	b.ReportAllocs()
	b.ResetTimer()
	var running sync.WaitGroup
	for i := range callers {
		l := stores[i%nodes]
		running.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id, c := benchID(n), customers[n*7919%int64(accounts)]
				attempt := ledger.AttemptID(id, 1)
				_, err := l.Hold(ctx, ledger.Hold{
					Request: id, Account: c.account, Key: c.key, Endpoint: "chat", Profile: "balanced", Microcents: 1_000_000,
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
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/pair")
	b.ReportMetric((durable.CPU()-server)*1e6/float64(b.N), "server-cpu-us/pair")
	r, err := stores[0].Verify(ctx)
	require.NoError(b, err)
	require.True(b, r.OK, r.Problem)
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
