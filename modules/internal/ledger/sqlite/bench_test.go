package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// BenchmarkHoldSettle is a request's way through the ledger: a durable hold and a durable settlement. Beside
// the time it reports the pairs a second and the CPU time (user and system) of a pair.
func BenchmarkHoldSettle(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openStore(b, nil)
			ctx := context.Background()
			v, err := s.PriceVersion(ctx, "route", prices(1))
			require.NoError(b, err)
			a, err := s.CreateAccount(ctx, "a", "")
			require.NoError(b, err)
			k, err := s.CreateKey(ctx, a.ID, "k", [32]byte{}, "")
			require.NoError(b, err)
			_, _, err = s.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: ledger.MaxTopUp})
			require.NoError(b, err)

			var next atomic.Int64
			var failed atomic.Value
			before := cpu(b)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := pair(ctx, s, a.ID, k.ID, v, n); err != nil {
							failed.Store(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			require.Nil(b, failed.Load())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/pair")
		})
	}
}

func pair(ctx context.Context, s *Store, account, key string, version, n int64) error {
	id := fmt.Sprintf("req_%024x", n)
	_, err := s.Hold(ctx, ledger.Hold{
		Request: id, Account: account, Key: key, Endpoint: "chat", Profile: "balanced", Microcents: 1_000_000,
		Attempt: ledger.Attempt{ID: id + "-1", Route: "route", Provider: "p", Model: "m", PriceVersion: version},
	})
	if err != nil {
		return err
	}
	_, err = s.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
		Attempt: id + "-1", Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(950), Output: llm.Count(700)},
	}}})
	return err
}

// cpu is the time that this process has used, in seconds.
func cpu(b *testing.B) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
