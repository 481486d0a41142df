// Package ratelimittest is the suite that every ratelimit.Limiter passes. The tests of a limiter call Run.
package ratelimittest

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// Clock is a clock that tests turn. It goes forward only.
type Clock struct{ elapsed atomic.Int64 }

// Elapsed is the time since the clock was made.
func (c *Clock) Elapsed() time.Duration { return time.Duration(c.elapsed.Load()) }

// Advance turns the clock.
func (c *Clock) Advance(d time.Duration) { c.elapsed.Add(int64(d)) }

// Open makes an empty limiter that goes by the clock.
type Open func(t testing.TB, c *Clock) ratelimit.Limiter

// KeyOf is the subject of a key's requests.
func KeyOf(id string) ratelimit.Subject { return ratelimit.Subject{Kind: ratelimit.Key, Name: id} }

// AccountOf is the subject of an account's requests.
func AccountOf(id string) ratelimit.Subject {
	return ratelimit.Subject{Kind: ratelimit.Account, Name: id}
}

// AddressOf is the subject of requests from an address.
func AddressOf(ip string) ratelimit.Subject {
	return ratelimit.Subject{Kind: ratelimit.Address, Network: ratelimit.NetworkOf(netip.MustParseAddr(ip))}
}

// FailuresOf is the subject of an address's failed authentications.
func FailuresOf(ip string) ratelimit.Subject {
	s := AddressOf(ip)
	s.Kind = ratelimit.Failures
	return s
}

// RunningOf is the semaphore of an account's requests in progress.
func RunningOf(id string) ratelimit.Subject {
	return ratelimit.Subject{Kind: ratelimit.Running, Name: id}
}

// AttemptsOn is the semaphore of a route.
func AttemptsOn(route string) ratelimit.Subject {
	return ratelimit.Subject{Kind: ratelimit.Attempts, Name: route}
}

// bench is a limiter under test, with its clock.
type bench struct {
	*Clock
	t       testing.TB
	limiter ratelimit.Limiter
}

func newBench(t testing.TB, open Open) *bench {
	b := &bench{Clock: new(Clock), t: t}
	b.limiter = open(t, b.Clock)
	return b
}

// acquire takes a permit that there must be.
func (b *bench) acquire(asks ...ratelimit.Ask) ratelimit.Permit {
	b.t.Helper()
	p, r, err := b.limiter.Acquire(b.t.Context(), asks)
	require.NoError(b.t, err)
	require.Nil(b.t, r)
	require.NotZero(b.t, p)
	return p
}

// take counts a request; nil when it was counted.
func (b *bench) take(asks ...ratelimit.Ask) *ratelimit.Refusal {
	b.t.Helper()
	p, r, err := b.limiter.Acquire(b.t.Context(), asks)
	require.NoError(b.t, err)
	if r != nil {
		require.Zero(b.t, p, "what is refused gets no permit")
	}
	return r
}

// takes counts n requests that all have room.
func (b *bench) takes(n int, asks ...ratelimit.Ask) {
	b.t.Helper()
	for i := range n {
		require.Nil(b.t, b.take(asks...), "request %d", i+1)
	}
}

func refused(ask int, wait time.Duration) *ratelimit.Refusal {
	return &ratelimit.Refusal{Ask: ask, Wait: wait}
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Run("LIM-01 LIM-02 LIM-03 LIM-10 each subject is counted alone", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		subjects := []ratelimit.Subject{KeyOf("one"), KeyOf("two"), AccountOf("one"), AddressOf("192.0.2.1"),
			AddressOf("192.0.2.2"),
			AddressOf("2001:db8::1"), AddressOf("2001:db8:0:1::1"), FailuresOf("192.0.2.1"), FailuresOf("2001:db8::1")}
		for _, s := range subjects {
			b.takes(5, ratelimit.Ask{Subject: s, Limit: 5})
			require.Equal(t, refused(0, time.Minute), b.take(ratelimit.Ask{Subject: s, Limit: 5}), s)
		}
	})
	t.Run("LIM-06 the wait is exact", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		ask := ratelimit.Ask{Subject: KeyOf("k"), Limit: 2}
		b.takes(1, ask)
		b.Advance(20*time.Second + 300*time.Millisecond)
		b.takes(1, ask)
		b.Advance(10 * time.Second)
		require.Equal(t, refused(0, 30*time.Second), b.take(ask), "29.7 s, rounded up")
		b.Advance(29*time.Second + 699*time.Millisecond)
		require.Equal(t, refused(0, time.Second), b.take(ask))
		b.Advance(time.Millisecond)
		b.takes(1, ask)
		require.Equal(t, refused(0, 21*time.Second), b.take(ask), "until the second one is over")
		b.Advance(20 * time.Second)
		require.Equal(t, refused(0, time.Second), b.take(ask))
		b.Advance(time.Second)
		b.takes(1, ask)
	})
	t.Run("GAP-16 a refused request counts nowhere", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		key := ratelimit.Ask{Subject: KeyOf("k"), Limit: 10}
		account := ratelimit.Ask{Subject: AccountOf("a"), Limit: 3}
		address := ratelimit.Ask{Subject: AddressOf("192.0.2.1"), Limit: 10}
		b.takes(3, key, account, address)
		for range 100 {
			require.Equal(t, refused(1, time.Minute), b.take(key, account, address))
		}
		b.takes(7, key, address)
		require.Equal(t, refused(0, time.Minute), b.take(key))
		require.Equal(t, refused(0, time.Minute), b.take(address))
		b.Advance(time.Minute)
		b.takes(3, key, account, address)
	})
	t.Run("GAP-89 the first limit is named and the longest wait is said", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		key := ratelimit.Ask{Subject: KeyOf("k"), Limit: 1}
		account := ratelimit.Ask{Subject: AccountOf("a"), Limit: 1}
		b.takes(1, key)
		b.Advance(10 * time.Second)
		b.takes(1, account)
		require.Equal(t, refused(0, time.Minute), b.take(key, account), "after 50 s the account would refuse it")
		require.Equal(t, refused(0, 50*time.Second), b.take(key))
		b.Advance(time.Minute)
		b.takes(1, key, account)
	})
	t.Run("LIM-04 a limit that changes applies at once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		with := func(limit int64) ratelimit.Ask { return ratelimit.Ask{Subject: KeyOf("k"), Limit: limit} }
		for range 10 {
			b.takes(1, with(10))
			b.Advance(time.Second)
		}
		require.Equal(t, refused(0, 50*time.Second), b.take(with(10)))
		b.takes(1, with(11))
		require.Equal(t, refused(0, 59*time.Second), b.take(with(2)), "ten of eleven have to be over")
		b.Advance(58 * time.Second)
		require.NotNil(t, b.take(with(2)))
		b.Advance(time.Second)
		b.takes(1, with(2))
	})
	t.Run("no limit counts nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		b.takes(100, ratelimit.Ask{Subject: KeyOf("k")}, ratelimit.Ask{Subject: AccountOf("a"), Limit: -1})
		b.takes(1, ratelimit.Ask{Subject: KeyOf("k"), Limit: 1})
		require.Equal(t, refused(1, time.Minute), b.take(ratelimit.Ask{Subject: AccountOf("a")},
			ratelimit.Ask{Subject: KeyOf("k"), Limit: 1}))
		require.Nil(t, b.take())
	})
	t.Run("a check counts nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, open)
		ask := ratelimit.Ask{Subject: FailuresOf("192.0.2.1"), Limit: 1}
		for range 3 {
			r, err := b.limiter.Check(t.Context(), []ratelimit.Ask{ask})
			require.NoError(t, err)
			require.Nil(t, r)
		}
		b.takes(1, ask)
		b.Advance(time.Second)
		r, err := b.limiter.Check(t.Context(), []ratelimit.Ask{ask})
		require.NoError(t, err)
		require.Equal(t, refused(0, 59*time.Second), r)
	})
	semaphores(t, open)
	t.Run("LIM-05 the limit holds whoever asks at the same time", func(t *testing.T) { race(t, open) })
	t.Run("agrees with a list of times", func(t *testing.T) { model(t, open) })
}

// race lets many ask at once: of each subject exactly its limit is counted, and all or nothing of each request.
func race(t *testing.T, open Open) {
	t.Parallel()
	b := newBench(t, open)
	account := ratelimit.Ask{Subject: AccountOf("a"), Limit: 300}
	keys := []ratelimit.Ask{{Subject: KeyOf("k0"), Limit: 100}, {Subject: KeyOf("k1"), Limit: 150},
		{Subject: KeyOf("k2"), Limit: 400}}
	addresses := []ratelimit.Ask{{Subject: AddressOf("192.0.2.1"), Limit: 120},
		{Subject: AddressOf("2001:db8::1"), Limit: 1000}}
	counted := make([]atomic.Int64, len(keys)+len(addresses)+1)
	var workers sync.WaitGroup
	for w := range 32 {
		workers.Go(func() {
			for i := range 60 {
				k, a := (w+i)%len(keys), (w+i/3)%len(addresses)
				asks := []ratelimit.Ask{keys[k], account, addresses[a]}
				if i%2 == 0 { // whatever the order, nobody waits for another
					asks = []ratelimit.Ask{addresses[a], account, keys[k]}
				}
				_, r, err := b.limiter.Acquire(t.Context(), asks)
				if err != nil {
					t.Errorf("counting a request: %v", err)
					return
				}
				if r == nil {
					counted[k].Add(1)
					counted[len(keys)+a].Add(1)
					counted[len(keys)+len(addresses)].Add(1)
				}
			}
		})
	}
	workers.Wait()
	for i, ask := range append(append(keys, addresses...), account) {
		n := counted[i].Load()
		require.LessOrEqual(t, n, ask.Limit, ask.Subject)
		b.takes(int(ask.Limit-n), ask) // what was refused took nothing
		require.NotNil(t, b.take(ask), ask.Subject)
	}
}
