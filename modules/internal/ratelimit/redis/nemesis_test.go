package redis_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// pause lets time pass in which others do something to a server: there is no event to wait for.
func pause(d time.Duration) { <-time.After(d) }

// faults are what is done to a server.
var faults = map[string]func(*redistest.Server){
	"killed": func(s *redistest.Server) {
		s.Kill()
		pause(time.Duration(rand.IntN(300)) * time.Millisecond)
		s.Begin()
	},
	"stopped": func(s *redistest.Server) {
		s.Signal(syscall.SIGSTOP)
		pause(time.Duration(rand.IntN(600)) * time.Millisecond)
		s.Signal(syscall.SIGCONT)
	},
	"busy":        func(s *redistest.Server) { s.Do("DEBUG", "SLEEP", "0.2") },
	"flushed":     func(s *redistest.Server) { s.Do("FLUSHALL") },
	"scriptless":  func(s *redistest.Server) { s.Do("SCRIPT", "FLUSH") },
	"cut off":     func(s *redistest.Server) { s.Do("CLIENT", "KILL", "TYPE", "normal") },
	"unwritable":  func(s *redistest.Server) { full(s, "1") },
	"other users": func(s *redistest.Server) { locked(s) },
	"older copy": func(s *redistest.Server) {
		s.Do("SAVE")
		pause(300 * time.Millisecond)
		s.Kill()
		s.Begin()
		_ = os.Remove(filepath.Join(s.Dir, "dump.rdb"))
	},
}

func full(s *redistest.Server, most string) {
	s.Do("CONFIG", "SET", "maxmemory", most)
	pause(300 * time.Millisecond)
	s.Do("CONFIG", "SET", "maxmemory", "0")
}

// locked takes the users' rights for a while.
func locked(s *redistest.Server) {
	s.Do("ACL", "SETUSER", "default", "-@scripting")
	pause(300 * time.Millisecond)
	s.Do("ACL", "SETUSER", "default", "+@scripting")
}

// TestNemesis: whatever is done to the server under load, no more is let in than is documented, and nobody waits for
// long. No sequence is like another.
func TestNemesis(t *testing.T) {
	t.Parallel()
	nemesis(t, 2)
}

func nemesis(t *testing.T, rounds int) {
	const nodes, limit, running = 3, 3000, 6
	s := redistest.Start(t, "--enable-debug-command", "yes")
	at := fresh(s.Options())
	at.Timeout = 50 * time.Millisecond
	var all []*redis.Limiter
	for range nodes {
		l := open(t, at, redis.Options{LeastNodes: nodes})
		all = append(all, l)
	}
	asks := []ratelimit.Ask{{Subject: AccountOf("a"), Limit: limit}, {Subject: RunningOf("a"), Limit: running}}
	var admitted, now, most, longest, calls atomic.Int64
	top := func(at *atomic.Int64, n int64) {
		for old := at.Load(); n > old && !at.CompareAndSwap(old, n); old = at.Load() {
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for i := range 4 * nodes {
		l := all[i%nodes]
		load.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				p, r, err := l.Acquire(ctx, asks)
				if ctx.Err() != nil {
					l.Release(p)
					return
				}
				calls.Add(1)
				top(&longest, int64(time.Since(began)))
				if err != nil {
					t.Errorf("asking: %v", err)
				}
				if r == nil {
					admitted.Add(1)
					top(&most, now.Add(1))
					pause(time.Duration(rand.IntN(5)) * time.Millisecond)
					now.Add(-1)
					l.Release(p)
				} else {
					pause(time.Millisecond)
				}
			}
		})
	}
	began := time.Now()
	for range rounds {
		for name, fault := range faults { // in any order
			if time.Since(began) > 50*time.Second {
				break // what the first have let in is over in the end
			}
			t.Log(name)
			fault(s)
			pause(time.Duration(rand.IntN(700)) * time.Millisecond)
		}
	}
	for _, l := range all {
		await(t, l, true)
	}
	stop()
	load.Wait()
	t.Logf("%d calls, %d of %d let in, %d of %d at a time, the longest took %v, in %v", calls.Load(), admitted.Load(),
		limit, most.Load(), running, time.Duration(longest.Load()), time.Since(began))
	require.LessOrEqual(t, admitted.Load(), int64(limit+limit/nodes))
	require.LessOrEqual(t, most.Load(), int64(2*running))
	require.Less(t, time.Duration(longest.Load()), at.Timeout+2*time.Second, "on a busy machine")
	for _, l := range all {
		require.NoError(t, l.Close())
	}
	require.EqualValues(t, 0, s.Do("ZCARD", at.Prefix+"{a}r:a"), "no permit is left")
	for _, key := range s.Do("KEYS", "*").([]any) {
		require.Positive(t, s.Do("TTL", key), key)
	}
}
