package redis_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// admit asks n times, and returns how often it was admitted.
func admit(t testing.TB, l ratelimit.Limiter, n int, asks ...ratelimit.Ask) (admitted int) {
	t.Helper()
	for range n {
		_, r, err := l.Acquire(t.Context(), asks)
		require.NoError(t, err)
		if r == nil {
			admitted++
		}
	}
	return admitted
}

// await waits until a limiter's server is there, or is not.
func await(t testing.TB, l *redis.Limiter, up bool) {
	t.Helper()
	for range 4000 {
		if l.Status().Up == up {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	require.Equal(t, up, l.Status().Up, l.Status().Reason)
}

// awaitPair waits until two know of each other.
func awaitPair(t testing.TB, all ...*redis.Limiter) {
	t.Helper()
	for _, l := range all {
		l.Pulse()
		require.Equal(t, len(all), l.Nodes())
	}
}

func pairOn(t testing.TB, at redisconn.Options) (one, two *redis.Limiter) {
	one, two = open(t, at, redis.Options{}), open(t, at, redis.Options{})
	awaitPair(t, one, two)
	return one, two
}

var (
	hundred = ratelimit.Ask{Subject: AccountOf("a"), Limit: 100}
	ten     = ratelimit.Ask{Subject: RunningOf("a"), Limit: 10}
)

// TestAway: while the server is away each node admits its share of each limit, and what it has admitted before counts.
func TestAway(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redistest.Server){
		"killed":  (*redistest.Server).Kill,
		"stopped": func(s *redistest.Server) { s.Signal(syscall.SIGSTOP) },
	} {
		t.Run("LIM-05 "+name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			at := fresh(s.Options())
			at.Timeout = 100 * time.Millisecond
			one, two := pairOn(t, at)
			require.Equal(t, 30, admit(t, one, 30, hundred))
			require.Equal(t, 10, admit(t, two, 10, hundred))
			end(s)
			require.Equal(t, 20, admit(t, one, 100, hundred), "30 of its 50 were admitted before")
			require.Equal(t, 40, admit(t, two, 100, hundred))
			require.Equal(t, 5, admit(t, one, 10, ten))
			require.False(t, one.Status().Up)
			require.Greater(t, one.Status().Shares, int64(100))
			require.Equal(t, 1, admit(t, two, 10, ratelimit.Ask{Subject: AccountOf("b"), Limit: 1}), "1 at least")
		})
	}
}

// TestNoneWaits: whoever asks a server that does not answer waits for the time-out, and soon nobody does.
func TestNoneWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	at := fresh(s.Options())
	at.Timeout = 50 * time.Millisecond
	l := open(t, at, redis.Options{})
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	var longest, waited atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				began := time.Now()
				_, _, err := l.Acquire(t.Context(), []ratelimit.Ask{hundred, ten})
				took := int64(time.Since(began))
				if err != nil {
					t.Errorf("asking: %v", err)
				}
				if took > int64(at.Timeout)/2 {
					waited.Add(1)
				}
				for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
				}
			}
		})
	}
	all.Wait()
	require.False(t, l.Status().Up)
	require.LessOrEqual(t, waited.Load(), int64(16*3+16), "of 800")
	require.Less(t, time.Duration(longest.Load()), at.Timeout+2*time.Second, "on a busy machine")
}

// TestBack: a server that is back counts within a second, and knows what was admitted before and meanwhile.
func TestBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, begin func(*redistest.Server) }{
		"killed, and begins with nothing": {(*redistest.Server).Kill, (*redistest.Server).Begin},
		"stopped": {func(s *redistest.Server) { s.Signal(syscall.SIGSTOP) },
			func(s *redistest.Server) { s.Signal(syscall.SIGCONT) }},
	} {
		t.Run("GAP-16 "+name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			at := fresh(s.Options())
			at.Timeout = time.Second
			one, two := pairOn(t, at)
			require.Equal(t, 30, admit(t, one, 30, hundred))
			require.Equal(t, 20, admit(t, two, 20, hundred))
			held, r, err := one.Acquire(t.Context(), []ratelimit.Ask{{Subject: RunningOf("b"), Limit: 1}})
			require.NoError(t, err)
			require.Nil(t, r)
			c.end(s)
			require.Equal(t, 20, admit(t, one, 30, hundred))
			require.False(t, one.Status().Up)
			c.begin(s)
			began := time.Now()
			await(t, one, true)
			require.Less(t, time.Since(began), 4*time.Second, "a second, and a busy machine")
			two.Pulse()
			await(t, two, true)
			settle(t, one, two)
			if name != "stopped" {
				require.EqualValues(t, 1, one.Status().Losses)
			}
			left := admit(t, two, 100, hundred)
			require.LessOrEqual(t, left, 30, "70 were admitted")
			if name != "stopped" { // what was asked then, the server may have counted, too
				require.Equal(t, 30, left)
			}
			require.Zero(t, admit(t, one, 1, hundred))
			require.Zero(t, admit(t, two, 1, ratelimit.Ask{Subject: RunningOf("b"), Limit: 1}), "it is still out")
			one.Release(held)
			one.Tell()
			require.Equal(t, 1, admit(t, two, 1, ratelimit.Ask{Subject: RunningOf("b"), Limit: 1}))
		})
	}
}

// settle ends the time in which shares count, too, when all have given the server what they know.
func settle(t testing.TB, all ...*redis.Limiter) {
	t.Helper()
	for _, l := range all {
		l.Pulse()
		await(t, l, true)
	}
	for _, l := range all {
		l.Settle()
	}
}

// TestLoss: a server that has lost what was counted, or is given an older copy of it, lets nobody in that had been
// counted (BerriAI/litellm pull request 30684), and nodes that all give it what they know do not count anything twice
// (BerriAI/litellm issues 27639 and 30460).
func TestLoss(t *testing.T) {
	t.Parallel()
	older := func(t *testing.T, s *redistest.Server) {
		s.Do("SAVE")
		copied, err := os.ReadFile(filepath.Join(s.Dir, "dump.rdb"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "older"), copied, 0o600))
	}
	for name, c := range map[string]struct {
		before, lose func(*testing.T, *redistest.Server)
	}{
		"FLUSHALL": {nil, func(_ *testing.T, s *redistest.Server) { s.Do("FLUSHALL") }},
		"older copy": {older, func(t *testing.T, s *redistest.Server) {
			s.Kill()
			copied, err := os.ReadFile(filepath.Join(s.Dir, "older"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "dump.rdb"), copied, 0o600))
			s.Begin()
		}},
		"keys evicted": {nil, func(_ *testing.T, s *redistest.Server) {
			for _, key := range s.Do("KEYS", "*").([]any) {
				s.Do("DEL", key)
			}
		}},
	} {
		t.Run("LIM-05 "+name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			at := fresh(s.Options())
			var nodes []*redis.Limiter
			for range 4 {
				nodes = append(nodes, open(t, at, redis.Options{}))
			}
			awaitPair(t, nodes...)
			settle(t, nodes...)
			for i, l := range nodes {
				require.Equal(t, 5+i, admit(t, l, 5+i, hundred)) // 26
			}
			if c.before != nil {
				c.before(t, s)
			}
			for _, l := range nodes {
				l.Pulse()
				require.Equal(t, 10, admit(t, l, 10, hundred)) // 66
			}
			c.lose(t, s)
			var meanwhile int
			for _, l := range nodes { // the first that asks is told; the share of each is 25
				meanwhile += admit(t, l, 1, hundred)
			}
			settle(t, nodes...)
			var left int
			for range 40 {
				for _, l := range nodes {
					left += admit(t, l, 1, hundred)
				}
			}
			require.Equal(t, 34, meanwhile+left, "66 of 100 were admitted before")
			for _, l := range nodes {
				require.EqualValues(t, 1, l.Status().Losses)
			}
			require.EqualValues(t, 100, s.Do("LLEN", at.Prefix+"{a}a:a"), "each once")
			for _, l := range nodes { // nor when each does so again
				l.SeedAgain()
			}
			require.EqualValues(t, 100, s.Do("LLEN", at.Prefix+"{a}a:a"))
		})
	}
}

// TestClocks: the clock of a node that is off by an hour changes nothing (spring-cloud-gateway issue 2412), in what it
// counts while the server is away and gives it later, either.
func TestClocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	at := fresh(s.Options())
	at.Timeout = time.Second
	var nodes []*redis.Limiter
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		nodes = append(nodes, open(t, at, redis.Options{}.WithWall(func() time.Time { return time.Now().Add(off) })))
	}
	awaitPair(t, nodes...)
	settle(t, nodes...)
	require.Equal(t, 40, admit(t, nodes[0], 40, hundred))
	require.Equal(t, 20, admit(t, nodes[1], 20, hundred))
	s.Kill()
	require.Equal(t, 10, admit(t, nodes[0], 60, hundred))
	require.Equal(t, 30, admit(t, nodes[1], 60, hundred))
	s.Begin()
	settle(t, nodes...)
	require.Zero(t, admit(t, nodes[0], 1, hundred))
	r, err := nodes[1].Check(t.Context(), []ratelimit.Ask{hundred})
	require.NoError(t, err)
	require.NotNil(t, r)
	require.InDelta(t, time.Minute, r.Wait, float64(30*time.Second))
}

// TestKeysExpire: nothing stays in the server when nobody comes any more, and a limiter that is closed leaves no
// permit there (BerriAI/litellm issue 28283), also one that was given back at the last moment.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	at := fresh(s.Options())
	one, two := pairOn(t, at)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			asks := []ratelimit.Ask{{Subject: KeyOf(fmt.Sprint("k", i)), Limit: 10}, hundred,
				{Subject: AddressOf("2001:db8::1"), Limit: 100}, {Subject: RunningOf("a"), Limit: 100}}
			for n := range 4 {
				p, r, err := one.Acquire(context.Background(), asks)
				if err != nil || r != nil {
					t.Errorf("asking: %v %v", r, err)
				}
				if n%2 == 0 {
					one.Release(p)
				}
			}
		})
	}
	all.Wait()
	keys := s.Do("KEYS", "*").([]any)
	require.GreaterOrEqual(t, len(keys), 25)
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key.(string), at.Prefix), key)
		require.Positive(t, s.Do("TTL", key), key)
	}
	require.GreaterOrEqual(t, s.Do("ZCARD", at.Prefix+"{a}r:a"), int64(40))
	require.NoError(t, one.Close())
	require.EqualValues(t, 0, s.Do("ZCARD", at.Prefix+"{a}r:a"))
	two.Pulse()
	require.Equal(t, 1, two.Nodes())
}

// TestScriptsAreSentAgain: a server that has forgotten the scripts is sent them, and nobody is refused or let in for
// it.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := open(t, fresh(s.Options()), redis.Options{})
	require.Equal(t, 50, admit(t, l, 50, hundred))
	s.Do("SCRIPT", "FLUSH")
	require.Equal(t, 50, admit(t, l, 60, hundred))
	p, _, err := l.Acquire(t.Context(), []ratelimit.Ask{ten})
	require.NoError(t, err)
	s.Do("SCRIPT", "FLUSH")
	l.Renew()
	await(t, l, true)
	l.Release(p)
	require.Equal(t, 10, admit(t, l, 11, ten))
}
