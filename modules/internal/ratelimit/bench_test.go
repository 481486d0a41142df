package ratelimit_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

// requests are what a gateway asks for each request of an account with a few keys, from one address each. No
// limit is reached.
func requests(account int) [][]ratelimit.Ask {
	const limit = 1 << 40
	var all [][]ratelimit.Ask
	for n := range 4 {
		address := numbered(uint32(account*4 + n))
		address.Limit = limit
		all = append(all, []ratelimit.Ask{
			{Subject: ratelimittest.KeyOf("key_" + strconv.Itoa(account*4+n)), Limit: limit},
			{Subject: ratelimittest.AccountOf("acct_" + strconv.Itoa(account)), Limit: limit},
			address,
		})
	}
	return all
}

// cpu reports the processor time of an operation beside the wall clock's, which others on the machine share.
func cpu(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u unix.Rusage
		require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkAcquire counts a request against three limits, with about 2,000 requests of each account in a window: one
// after the other, and from 64 goroutines, of one account and of as many.
func BenchmarkAcquire(b *testing.B) {
	b.Run("1 goroutine", func(b *testing.B) {
		var clock ratelimittest.Clock
		m := ratelimit.NewMemory(ratelimit.Options{Elapsed: clock.Elapsed})
		all := requests(0)
		b.ReportAllocs()
		defer cpu(b)()
		for i := range b.N {
			clock.Advance(ratelimit.Window / 2000)
			_, _, _ = m.Acquire(context.Background(), all[i%len(all)])
		}
	})
	b.Run("refused", func(b *testing.B) {
		m, all := ratelimit.NewMemory(ratelimit.Options{}), requests(0)
		for i := range all {
			for j := range all[i] {
				all[i][j].Limit = 1000
			}
		}
		b.ReportAllocs()
		defer cpu(b)()
		for i := range b.N {
			_, _, _ = m.Acquire(context.Background(), all[i%len(all)])
		}
	})
	for _, accounts := range []int{1, 64} {
		b.Run("64 goroutines "+strconv.Itoa(accounts)+" accounts", func(b *testing.B) {
			var clock ratelimittest.Clock
			m := ratelimit.NewMemory(ratelimit.Options{Elapsed: clock.Elapsed})
			goroutines := make(chan int, 1000)
			for n := range cap(goroutines) {
				goroutines <- n
			}
			b.ReportAllocs()
			defer cpu(b)()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				all := requests(<-goroutines % accounts)
				for i := 0; pb.Next(); i++ {
					clock.Advance(ratelimit.Window / 2000 / time.Duration(accounts))
					_, _, _ = m.Acquire(context.Background(), all[i%len(all)])
				}
			})
		})
	}
}

// BenchmarkAddresses counts one request of each of a million addresses, and of more than there is room for, and says
// what an address takes, and all.
func BenchmarkAddresses(b *testing.B) {
	for _, millions := range []uint32{1, 4} {
		b.Run(strconv.Itoa(int(millions))+" million", func(b *testing.B) { addresses(b, millions*1_000_000) })
	}
}

func addresses(b *testing.B, count uint32) {
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := ratelimit.NewMemory(ratelimit.Options{})
		for n := range count {
			_, _, _ = m.Acquire(context.Background(), []ratelimit.Ask{numbered(n)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		u := m.Usage()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(u.Addresses), "B/address")
		b.ReportMetric(float64(u.Bytes)/float64(u.Addresses), "reckoned-B/address")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(u.Evicted), "evicted")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/address")
		runtime.KeepAlive(m)
	}
}
