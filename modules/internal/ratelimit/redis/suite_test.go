package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

var prefixes atomic.Int64

// fresh are options with keys of their own.
func fresh(o redisconn.Options) redisconn.Options {
	o.Prefix = fmt.Sprintf("test%d:", prefixes.Add(1))
	o.Timeout = patient
	return o
}

// patient is the time-out of tests that are not about it: the machine may be busy.
const patient = 1 << 33 // 8 s

// open opens a limiter, and closes it with the test.
func open(t testing.TB, at redisconn.Options, o redis.Options) *redis.Limiter {
	o.Conn = redisconn.New(at)
	if os.Getenv("FAREWAY_TEST_LOG") != "" {
		o.Logger = slog.Default()
	}
	l := redis.New(o)
	t.Cleanup(func() { _ = l.Close() })
	require.True(t, l.Status().Up, l.Status().Reason)
	return l
}

// several are processes of which each operation takes any.
type several struct {
	all []*redis.Limiter

	mu sync.Mutex
	of map[ratelimit.Permit]taken
	n  ratelimit.Permit
}

type taken struct {
	by     *redis.Limiter
	permit ratelimit.Permit
}

// any is one of them, when all have done what they do every so often: the test's clock may have jumped.
func (s *several) any() *redis.Limiter {
	for _, l := range s.all {
		l.Renew()
	}
	return s.all[rand.IntN(len(s.all))]
}

func (s *several) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	l := s.any()
	p, r, err := l.Acquire(ctx, asks)
	if p == 0 {
		return 0, r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.of[s.n] = taken{l, p}
	return s.n, r, err
}

func (s *several) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	return s.any().Check(ctx, asks)
}

func (s *several) Release(p ratelimit.Permit) {
	s.mu.Lock()
	at := s.of[p]
	s.mu.Unlock()
	if at.by != nil {
		at.by.Release(at.permit)
		if len(s.all) > 1 {
			at.by.Tell() // the others hear of it soon
		}
	}
}

// suite runs ratelimittest over limiters on one server.
func suite(t *testing.T, server func() redisconn.Options) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d on the same data", n), func(t *testing.T) {
			t.Parallel()
			ratelimittest.Run(t, func(t testing.TB, c *ratelimittest.Clock) ratelimit.Limiter {
				at := fresh(server())
				s := &several{of: make(map[ratelimit.Permit]taken)}
				for range n {
					l := open(t, at, redis.Options{}.ByClock(c))
					l.Settle()
					s.all = append(s.all, l)
				}
				return s
			})
		})
	}
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		ratelimittest.RunShared(t, func(t testing.TB, c *ratelimittest.Clock) func() ratelimittest.Process {
			at := fresh(server())
			return func() ratelimittest.Process {
				l := open(t, at, redis.Options{}.ByClock(c))
				l.Settle()
				return telling{l}
			}
		})
	})
}

// telling is a process whose releases are heard at once. It knows that the test's clock has jumped.
type telling struct{ *redis.Limiter }

func (l telling) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	l.Pulse()
	return l.Limiter.Acquire(ctx, asks)
}

func (l telling) Release(p ratelimit.Permit) {
	l.Limiter.Release(p)
	l.Tell()
}

func TestSingle(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	suite(t, s.Options)
}
