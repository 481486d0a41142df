package ratelimittest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// semaphores is the part of the suite about permits.
func semaphores(t *testing.T, open Open) {
	t.Run("LIM-11 a permit is out until it is released", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		for _, s := range []ratelimit.Subject{RunningOf("one"), RunningOf("two"), AttemptsOn("one")} {
			ask := ratelimit.Ask{Subject: s, Limit: 2}
			first := b.acquire(ask)
			second := b.acquire(ask)
			require.NotEqual(t, first, second)
			require.Equal(t, refused(0, time.Second), b.take(ask), s)
			b.Advance(time.Hour)
			require.Equal(t, refused(0, time.Second), b.take(ask), "it is no question of time")
			b.limiter.Release(first)
			third := b.acquire(ask)
			require.NotNil(t, b.take(ask))
			b.limiter.Release(first)
			b.limiter.Release(0)
			require.NotNil(t, b.take(ask), "what is not out gives nothing back")
			b.limiter.Release(second)
			b.limiter.Release(third)
			b.acquire(ask)
			b.acquire(ask)
			require.NotNil(t, b.take(ask))
		}
	})
	t.Run("GAP-16 LIM-11 rates and semaphores are taken together or not at all", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		key := ratelimit.Ask{Subject: KeyOf("k"), Limit: 3}
		running := ratelimit.Ask{Subject: RunningOf("a"), Limit: 1}
		first := b.acquire(key, running)
		for range 10 {
			require.Equal(t, refused(1, time.Second), b.take(key, running))
		}
		b.limiter.Release(first)
		b.takes(2, key) // those that were refused have not counted
		b.Advance(10 * time.Second)
		for range 10 {
			require.Equal(t, refused(0, 50*time.Second), b.take(key, running))
		}
		second := b.acquire(running) // and hold no permit
		require.Equal(t, refused(0, 50*time.Second), b.take(key, running), "GAP-89 the first, and the longest wait")
		require.Equal(t, refused(0, 50*time.Second), b.take(running, key))
		b.Advance(50 * time.Second)
		require.Equal(t, refused(1, time.Second), b.take(key, running))
		b.limiter.Release(second)
		b.acquire(key, running)
	})
	t.Run("LIM-04 a semaphore's limit that changes applies at once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		with := func(limit int64) ratelimit.Ask { return ratelimit.Ask{Subject: AttemptsOn("small"), Limit: limit} }
		var permits []ratelimit.Permit
		for range 3 {
			permits = append(permits, b.acquire(with(0)))
		}
		require.NotNil(t, b.take(with(3)), "without a limit they are counted, too")
		b.acquire(with(4))
		b.acquire(with(-1))
		require.NotNil(t, b.take(with(3)))
		for _, p := range permits {
			require.NotNil(t, b.take(with(2)))
			b.limiter.Release(p)
		}
		require.NotNil(t, b.take(with(2)))
		b.acquire(with(3))
	})
	t.Run("a check takes no permit", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		ask := ratelimit.Ask{Subject: RunningOf("a"), Limit: 1}
		check := func() *ratelimit.Refusal {
			r, err := b.limiter.Check(t.Context(), []ratelimit.Ask{ask})
			require.NoError(t, err)
			return r
		}
		require.Nil(t, check())
		require.Nil(t, check())
		b.acquire(ask)
		require.Equal(t, refused(0, time.Second), check())
	})
	t.Run("LIM-11 no more permits are out than there are, whoever asks at the same time", func(t *testing.T) {
		t.Parallel()
		const limit = 3
		b := newBench(t, open)
		key := ratelimit.Ask{Subject: KeyOf("k"), Limit: 1000}
		ask := ratelimit.Ask{Subject: RunningOf("a"), Limit: limit}
		var running, admitted atomic.Int64
		var workers sync.WaitGroup
		for range 16 {
			workers.Go(func() {
				for range 50 {
					p, r, err := b.limiter.Acquire(t.Context(), []ratelimit.Ask{key, ask})
					if err != nil {
						t.Errorf("acquiring a permit: %v", err)
						return
					}
					if r != nil {
						continue
					}
					admitted.Add(1)
					if n := running.Add(1); n > limit {
						t.Errorf("%d permits are out", n)
					}
					running.Add(-1)
					b.limiter.Release(p)
				}
			})
		}
		workers.Wait()
		b.takes(1000-int(admitted.Load()), key) // a refused request counts nowhere
		require.NotNil(t, b.take(key))
		for range limit {
			b.acquire(ask)
		}
		require.NotNil(t, b.take(ask))
	})
}
