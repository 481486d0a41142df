package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// customer pays for a request of the benchmark.
type customer struct{ account, key string }

// BenchmarkHoldSettle is a request's way through the ledger: a durable hold and a durable settlement. Beside
// the time it reports the pairs a second and the CPU time (user and system) of a pair.
func BenchmarkHoldSettle(b *testing.B) {
	for _, accounts := range []int{1, 1_000} {
		for _, callers := range []int{1, 16, 64, 512} {
			b.Run(fmt.Sprintf("accounts=%d/callers=%d", accounts, callers), func(b *testing.B) {
				s := openStore(b, nil)
				customers := make([]customer, accounts)
				for i := range customers {
					customers[i] = newCustomer(b, s, i)
				}
				holdAndSettle(b, s, customers, callers)
			})
		}
	}
}

func newCustomer(b *testing.B, s *Store, i int) customer {
	ctx := context.Background()
	a, err := s.CreateAccount(ctx, fmt.Sprintf("account %d", i), "")
	require.NoError(b, err)
	k, err := s.CreateKey(ctx, a.ID, "k", [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, "", ledger.KeyChange{})
	require.NoError(b, err)
	_, _, err = s.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: ledger.MaxTopUp})
	require.NoError(b, err)
	return customer{a.ID, k.ID}
}

// holdAndSettle returns the microseconds of CPU time of a pair.
func holdAndSettle(b *testing.B, s *Store, customers []customer, callers int) float64 {
	ctx := context.Background()
	v, err := s.PriceVersion(ctx, "route", prices(1), prices(1))
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
				if err := pair(ctx, s, customers[n*7919%int64(len(customers))], v, n); err != nil {
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
	each := (cpu(b) - before) * 1e6 / float64(b.N)
	b.ReportMetric(each, "cpu-us/pair")
	return each
}

// benchID is an id as the gateway makes them, with a number instead of random bits. Benchmarks make one for each pair,
// so it is cheap.
func benchID(now time.Time, n int64) string {
	var b [14]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16)
	binary.BigEndian.PutUint64(b[6:], uint64(n)) // its first two bytes are zero
	return "req_" + hex.EncodeToString(append(b[:6], b[8:]...))
}

func pair(ctx context.Context, s *Store, p customer, version, n int64) error {
	id := benchID(time.Now(), n)
	attempt := ledger.AttemptID(id, 1)
	_, err := s.Hold(ctx, ledger.Hold{
		Request: id, Account: p.account, Key: p.key, Endpoint: "chat", Profile: "balanced", Microcents: 1_000_000,
		Attempt: ledger.Attempt{ID: attempt, Route: "route", Provider: "provider", Model: "model", PriceVersion: version,
			Worst: 1_000_000},
	})
	if err != nil {
		return err
	}
	_, err = s.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
		Attempt: attempt, Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(950), Output: llm.Count(700)},
	}}})
	return err
}

// With -fill.accounts 1000000 -fill.charges 10000000 filling takes some minutes and 5 GB.
var (
	fillAccounts = flag.Int64("fill.accounts", 100_000, "accounts of BenchmarkFilled")
	fillCharges  = flag.Int64("fill.charges", 1_000_000, "charges of BenchmarkFilled")
)

// BenchmarkFilled is BenchmarkHoldSettle on a ledger that has seen much: with one of its accounts, with 1,000, and
// with all. Beside it stands a ledger of 1,000 accounts that has seen nothing, and how much dearer a pair is than
// there.
func BenchmarkFilled(b *testing.B) {
	var empty float64
	for _, scale := range []struct {
		name              string
		accounts, charges int64
		taking            []int64
	}{
		{"empty", 1_000, 0, []int64{1_000}},
		{"filled", *fillAccounts, *fillCharges, []int64{1, 1_000, *fillAccounts}},
	} {
		path := filepath.Join(b.TempDir(), scale.name+".db")
		prefill(b, path, scale.accounts, scale.charges)
		for _, n := range scale.taking {
			b.Run(fmt.Sprintf("%s/accounts=%d", scale.name, n), func(b *testing.B) {
				customers := make([]customer, n)
				for i := range customers {
					customers[i] = customer{fmt.Sprintf("acct_%024x", i+1), fmt.Sprintf("key_%024x", i+1)}
				}
				start := time.Now()
				s := openStore(b, func(o *Options) { o.Path = path })
				open := time.Since(start)
				each := holdAndSettle(b, s, customers, 512)
				if scale.charges == 0 {
					empty = each
				}
				b.ReportMetric(open.Seconds(), "s/open")
				b.ReportMetric(each/empty, "x-of-empty")
			})
		}
	}
}

// cpu is the time that this process has used, in seconds.
func cpu(b testing.TB) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
