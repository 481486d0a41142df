package ratelimittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// Process is a limiter that shares what it counts with those of other processes.
type Process interface {
	ratelimit.Limiter
	// Renew renews the leases of this process's permits now, as it does by itself every so often.
	Renew()
}

// OpenShared returns what starts a process. All that it starts share what they count, from nothing on, by the clock.
// One that is not renewed any more has died.
type OpenShared func(t testing.TB, c *Clock) (start func() Process)

// RunShared runs the part of the suite about several processes. Run is the rest.
func RunShared(t *testing.T, open OpenShared) {
	with := func(t *testing.T) (*Clock, *bench, *bench) {
		c := new(Clock)
		start := open(t, c)
		return c, &bench{Clock: c, t: t, limiter: start()}, &bench{Clock: c, t: t, limiter: start()}
	}
	renew := func(b *bench) { b.limiter.(Process).Renew() }
	t.Run("LIM-05 GAP-16 processes count together", func(t *testing.T) {
		t.Parallel()
		_, one, two := with(t)
		key := ratelimit.Ask{Subject: KeyOf("k"), Limit: 3}
		one.takes(2, key)
		two.takes(1, key)
		require.Equal(t, refused(0, time.Minute), one.take(key))
		require.Equal(t, refused(0, time.Minute), two.take(key))
	})
	t.Run("LIM-11 a permit that one process has is out for all, as long as it is renewed", func(t *testing.T) {
		t.Parallel()
		c, one, two := with(t)
		running := ratelimit.Ask{Subject: RunningOf("a"), Limit: 1}
		p := one.acquire(running)
		for range 10 {
			require.NotNil(t, two.take(running))
			c.Advance(ratelimit.LeaseTime / 2)
			renew(one)
		}
		two.limiter.Release(p) // permits are one limiter's own
		require.NotNil(t, two.take(running))
		one.limiter.Release(p)
		two.acquire(running)
	})
	t.Run("the permits of a process that has died are free after the lease, and no others", func(t *testing.T) {
		t.Parallel()
		c, dead, alive := with(t)
		running := ratelimit.Ask{Subject: RunningOf("a"), Limit: 2}
		dead.acquire(running)
		alive.acquire(running)
		c.Advance(ratelimit.LeaseTime - time.Second)
		renew(alive)
		require.NotNil(t, alive.take(running))
		c.Advance(time.Second)
		alive.acquire(running)
		require.NotNil(t, alive.take(running))
	})
	t.Run("who comes back late has its permits again, also above the limit", func(t *testing.T) {
		t.Parallel()
		c, late, other := with(t)
		running := ratelimit.Ask{Subject: RunningOf("a"), Limit: 1}
		first := late.acquire(running)
		gone := late.acquire(ratelimit.Ask{Subject: RunningOf("b"), Limit: 1})
		late.limiter.Release(gone)
		c.Advance(ratelimit.LeaseTime)
		second := other.acquire(running)
		renew(late)
		other.limiter.Release(second)
		require.NotNil(t, other.take(running), "what came back runs")
		late.limiter.Release(first)
		other.acquire(running)
		other.acquire(ratelimit.Ask{Subject: RunningOf("b"), Limit: 1})
	})
}
