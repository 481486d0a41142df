package redis_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// BenchmarkAcquire counts a request against three limits and takes and gives back a permit, as a charged request does:
// in memory and in a Redis on a unix socket, from one goroutine and from 64. It reports the processor time of this
// process, and of the server.
func BenchmarkAcquire(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run("memory "+strconv.Itoa(goroutines), func(b *testing.B) {
			measure(b, goroutines, ratelimit.NewMemory(ratelimit.Options{}), nil)
		})
		b.Run("redis "+strconv.Itoa(goroutines), func(b *testing.B) {
			s := redistest.Start(b)
			o := s.Options()
			o.Timeout = 5 * time.Second
			l := redis.New(redis.Options{Conn: redisconn.New(o)})
			defer l.Close()
			require.True(b, l.Status().Up)
			measure(b, goroutines, l, s)
			require.Zero(b, l.Status().Shares)
		})
	}
}

func measure(b *testing.B, goroutines int, l ratelimit.Limiter, s *redistest.Server) {
	used := func() int64 {
		var u unix.Rusage
		require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	const limit = 1 << 40
	own, served := used(), serverTime(b, s)
	work := make(chan int, goroutines)
	b.ReportAllocs()
	b.ResetTimer()
	for g := range goroutines {
		go func() {
			n := b.N / goroutines
			if g == 0 {
				n += b.N % goroutines
			}
			account, key := "acct_"+strconv.Itoa(g), KeyOf("key_"+strconv.Itoa(g))
			key.Account = account
			asks := []ratelimit.Ask{{Subject: key, Limit: limit}, {Subject: AccountOf(account), Limit: limit},
				{Subject: AddressOf("192.0.2." + strconv.Itoa(g)), Limit: limit}, {Subject: RunningOf(account), Limit: limit}}
			for range n {
				p, _, _ := l.Acquire(context.Background(), asks)
				l.Release(p)
			}
			work <- n
		}()
	}
	for range goroutines {
		<-work
	}
	b.StopTimer()
	b.ReportMetric(float64(used()-own)/1000/float64(b.N), "cpu-us/op")
	if s != nil {
		b.ReportMetric((serverTime(b, s)-served)*1e6/float64(b.N), "server-us/op")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// serverTime is the processor time of a server so far, in seconds.
func serverTime(b *testing.B, s *redistest.Server) (seconds float64) {
	if s == nil {
		return 0
	}
	for line := range strings.Lines(s.Do("INFO", "cpu").(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			seconds += v
		}
	}
	return seconds
}
