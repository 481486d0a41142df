package ratelimit_test

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(_ testing.TB, c *ratelimittest.Clock) ratelimit.Limiter {
		return ratelimit.NewMemory(ratelimit.Options{Elapsed: c.Elapsed})
	})
}

func TestNetworkOf(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"192.0.2.7":                "192.0.2.7/32",
		"::ffff:192.0.2.7":         "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6":     "2001:db8:1:2::/64",
		"2001:db8:1:2::":           "2001:db8:1:2::/64",
		"fe80::1%eth0":             "fe80::/64",
		"::1":                      "::/64",
		"64:ff9b::192.0.2.7":       "64:ff9b::/64",
		"2001:db8:1:3:ffff:ffff::": "2001:db8:1:3::/64",
	} {
		t.Run("GAP-88 "+given, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, ratelimit.NetworkOf(netip.MustParseAddr(given)).String())
		})
	}
	require.Equal(t, netip.Prefix{}, ratelimit.NetworkOf(netip.Addr{}), "no address")
}

// numbered is the n-th of many addresses.
func numbered(n uint32) ratelimit.Ask {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	network := ratelimit.NetworkOf(netip.AddrFrom4(b))
	return ratelimit.Ask{Subject: ratelimit.Subject{Kind: ratelimit.Address, Network: network}, Limit: 3}
}

func take(t testing.TB, m *ratelimit.Memory, asks ...ratelimit.Ask) *ratelimit.Refusal {
	t.Helper()
	_, r, err := m.Acquire(t.Context(), asks)
	require.NoError(t, err)
	return r
}

// TestMemoryIsBounded floods a limiter from more addresses than it has room for.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const bytes = 1 << 20
	var clock ratelimittest.Clock
	m := ratelimit.NewMemory(ratelimit.Options{Bytes: bytes, Elapsed: clock.Elapsed})
	key := ratelimit.Ask{Subject: ratelimittest.KeyOf("k"), Limit: 1}
	account := ratelimit.Ask{Subject: ratelimittest.AccountOf("a"), Limit: 1}
	held := ratelimit.Ask{Subject: ratelimittest.FailuresOf("192.0.2.1"), Limit: 1}
	require.Nil(t, take(t, m, key, account))
	require.Nil(t, take(t, m, held))
	for n := range uint32(100_000) {
		require.Nil(t, take(t, m, numbered(n)))
		if n%100 == 0 {
			require.NotNil(t, take(t, m, held), "who goes on asking is not idle, though nothing of it is counted")
			require.LessOrEqual(t, m.Usage().Bytes, bytes)
		}
	}
	u := m.Usage()
	require.Equal(t, 2, u.Names)
	require.Equal(t, int64(100_001), int64(u.Addresses)+u.Evicted)
	require.Greater(t, u.Addresses, 7000)
	require.NotNil(t, take(t, m, key), "a key never gives way")
	require.NotNil(t, take(t, m, account), "nor does an account")
}

// TestMemoryForgets shows that a flood leaves nothing behind.
func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	var clock ratelimittest.Clock
	m := ratelimit.NewMemory(ratelimit.Options{Elapsed: clock.Elapsed})
	const flood = 100_000
	for n := range uint32(flood) {
		take(t, m, numbered(n))
	}
	require.Equal(t, flood, m.Usage().Addresses)
	clock.Advance(time.Minute - time.Microsecond)
	take(t, m, numbered(flood))
	require.Equal(t, flood+1, m.Usage().Addresses, "their minute is not over")
	clock.Advance(time.Microsecond)
	const others = 5000 // enough for each part of the memory to be asked about as often as others
	for n := range uint32(flood) {
		take(t, m, numbered(flood+n%others))
	}
	require.LessOrEqual(t, m.Usage().Addresses, others)
	require.Zero(t, m.Usage().Evicted)
}

// TestMemoryByItself goes by the clock that a gateway takes.
func TestMemoryByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := ratelimit.NewMemory(ratelimit.Options{})
		ask := ratelimit.Ask{Subject: ratelimittest.KeyOf("k"), Limit: 1}
		require.Nil(t, take(t, m, ask))
		<-time.After(time.Second)
		require.Equal(t, &ratelimit.Refusal{Wait: 59 * time.Second}, take(t, m, ask))
		<-time.After(59 * time.Second)
		require.Nil(t, take(t, m, ask))
	})
}

// TestMemoryKeepsNoSemaphores: what is released leaves nothing behind, however many accounts and routes there were.
func TestMemoryKeepsNoSemaphores(t *testing.T) {
	t.Parallel()
	m := ratelimit.NewMemory(ratelimit.Options{})
	var permits []ratelimit.Permit
	for n := range 1000 {
		ask := ratelimit.Ask{Subject: ratelimittest.RunningOf("acct_" + strconv.Itoa(n%300))}
		p, _, err := m.Acquire(t.Context(), []ratelimit.Ask{ask})
		require.NoError(t, err)
		permits = append(permits, p)
	}
	require.Equal(t, 1000, m.Usage().Permits)
	for i, p := range permits {
		m.Release(p)
		require.Equal(t, 999-i, m.Usage().Permits)
	}
	require.Equal(t, ratelimit.Usage{}, m.Usage())
}
