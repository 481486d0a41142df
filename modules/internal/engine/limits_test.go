package engine

import (
	"context"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

const (
	keyRequests        = "key_requests_per_minute"
	accountRequests    = "tenant_requests_per_minute"
	addressRequests    = "ip_requests_per_minute"
	concurrentRequests = "tenant_concurrent_requests"
)

// limitedBy is what a request is told that is over the limit of a kind.
func limitedBy(kind ratelimit.Kind, reason string, wait time.Duration, limit int64) *Limited {
	return &Limited{Reason: reason, Message: refusals[kind].message, Wait: wait, Limit: limit,
		Foreseen: kind != ratelimit.Running}
}

// limits is an engine that has nothing but limits, and a clock for them.
func limits(cfg *config.Config) (func() *Work, *ratelimittest.Clock) {
	c := new(ratelimittest.Clock)
	e := (&Engine{core: core{metrics: newMetrics("")},
		requests: requests{limiter: ratelimit.NewMemory(ratelimit.Options{Elapsed: c.Elapsed})}}).connect()
	e.streams.limit(1 << 40)
	return func() *Work { return &Work{engine: e, gen: &Generation{Config: cfg}} }, c
}

func client(key, account, plan string) ledger.Principal {
	return ledger.Principal{Key: ledger.Key{ID: key}, Account: ledger.Account{ID: account, Plan: plan}}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	ctx, here := context.Background(), netip.MustParseAddr("192.0.2.1")
	cfg := &config.Config{
		PreAuth: config.PreAuth{FailuresPerMinute: 1},
		Plans: []config.Plan{
			{Name: "small", Limits: config.Limits{RequestsPerMinute: config.RequestsPerMinute{Key: 1, Account: 2, Address: 3}}},
			{Name: "alone", Limits: config.Limits{ConcurrentRequests: 1}},
			{Name: "none"},
		},
	}
	admit := func(t *testing.T, begin func() *Work, who ledger.Principal, from netip.Addr) string {
		t.Helper()
		l, err := begin().Admit(ctx, who, from)
		require.NoError(t, err)
		if l == nil {
			return ""
		}
		require.Equal(t, time.Minute, l.Wait)
		return l.Reason
	}
	t.Run("GAP-89 each limit has its reason, and its metric", func(t *testing.T) {
		t.Parallel()
		begin, _ := limits(cfg)
		require.Empty(t, admit(t, begin, client("k1", "a", "small"), here))
		require.Equal(t, keyRequests, admit(t, begin, client("k1", "a", "small"), here))
		require.Equal(t, keyRequests, admit(t, begin, client("k1", "a", "small"), here))
		require.Empty(t, admit(t, begin, client("k2", "a", "small"), here))
		require.Equal(t, accountRequests, admit(t, begin, client("k3", "a", "small"), here))
		require.Empty(t, admit(t, begin, client("k4", "b", "small"), here))
		require.Equal(t, addressRequests, admit(t, begin, client("k5", "b", "small"), here))
		for range 2 {
			_, err := begin().CountFailure(ctx, here)
			require.NoError(t, err)
		}
		first, second := begin(), begin()
		for _, w := range []*Work{first, second} {
			_, err := w.AdmitCharged(ctx, client("k", "c", "alone"), here)
			require.NoError(t, err)
		}
		require.Equal(t, map[string]float64{
			`fareway_limited_total{reason="key_requests_per_minute"}`:         2,
			`fareway_limited_total{reason="tenant_requests_per_minute"}`:      1,
			`fareway_limited_total{reason="ip_requests_per_minute"}`:          1,
			`fareway_limited_total{reason="pre_auth_ip_requests_per_minute"}`: 1,
			`fareway_limited_total{reason="tenant_concurrent_requests"}`:      1,
		}, limitedValues(t, first.engine.metrics))
	})
	t.Run("GAP-88 a peer without an address has no limit of it", func(t *testing.T) {
		t.Parallel()
		begin, _ := limits(cfg)
		for _, account := range []string{"a", "b", "c", "d"} {
			require.Empty(t, admit(t, begin, client(account, account, "small"), netip.Addr{}))
			require.Equal(t, keyRequests, admit(t, begin, client(account, account, "small"), netip.Addr{}), "others hold")
			l, err := begin().CountFailure(ctx, netip.Addr{})
			require.NoError(t, err)
			require.Nil(t, l)
			l, err = begin().CheckFailures(ctx, netip.Addr{})
			require.NoError(t, err)
			require.Nil(t, l)
		}
	})
	t.Run("LIM-04 without a plan, or on one that is gone, the defaults", func(t *testing.T) {
		t.Parallel()
		begin, _ := limits(cfg)
		for _, plan := range []string{"", "gone"} {
			for range cfg.Gateway.DefaultPlan().RequestsPerMinute.Key {
				require.Empty(t, admit(t, begin, client("k"+plan, "a"+plan, plan), here))
			}
			require.Equal(t, keyRequests, admit(t, begin, client("k"+plan, "a"+plan, plan), here))
		}
		for range 1000 {
			require.Empty(t, admit(t, begin, client("k", "c", "none"), here))
		}
	})
}

func TestLimiterMetrics(t *testing.T) {
	t.Parallel()
	m, limiter := newMetrics(""), ratelimit.NewMemory(ratelimit.Options{Bytes: 1})
	m.watchLimiter(limiter.Usage)
	for n := range 1000 {
		address := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String()
		_, _, err := limiter.Acquire(t.Context(), []ratelimit.Ask{{Subject: ratelimittest.AddressOf(address), Limit: 1}})
		require.NoError(t, err)
	}
	values := m.values(t)
	require.Positive(t, values["fareway_limiter_evicted_total{}"])
	require.InDelta(t, 1000, values["fareway_limiter_evicted_total{}"]+values["fareway_limiter_addresses{}"], 0)
}

func limitedValues(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	values := m.values(t)
	maps.DeleteFunc(values, func(name string, _ float64) bool { return !strings.HasPrefix(name, "fareway_limited") })
	return values
}

// TestChargedRequests proves that an account's places are neither lost nor doubled, whatever happens at once.
func TestChargedRequests(t *testing.T) {
	t.Parallel()
	ctx, here := context.Background(), netip.MustParseAddr("2001:db8::1")
	cfg := &config.Config{Plans: []config.Plan{{Name: "few", Limits: config.Limits{ConcurrentRequests: 3,
		RequestsPerMinute: config.RequestsPerMinute{Key: 500}}}}}
	begin, clock := limits(cfg)
	who := client("k", "a", "few")
	var running, admitted, busy, limited atomic.Int64
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range 200 {
				w := begin()
				l, err := w.AdmitCharged(ctx, who, here)
				switch {
				case err != nil:
					t.Errorf("admitting a request: %v", err)
				case l == nil:
					if n := running.Add(1); n > 3 {
						t.Errorf("%d requests run", n)
					}
					admitted.Add(1)
					running.Add(-1)
				case l.Reason == concurrentRequests:
					busy.Add(1)
				default:
					limited.Add(1)
				}
				w.Release()
				w.Release() // it counts once
			}
		})
	}
	workers.Wait()
	require.Zero(t, begin().engine.limiter.(*ratelimit.Memory).Usage().Permits)
	require.Zero(t, begin().engine.streams.used.Load())
	require.Equal(t, int64(16*200), admitted.Load()+busy.Load()+limited.Load())
	require.LessOrEqual(t, admitted.Load(), int64(500))
	require.Positive(t, admitted.Load())
	rest := int64(500) - admitted.Load() // what was refused did not count
	for range rest {
		w := begin()
		l, err := w.AdmitCharged(ctx, who, here)
		require.NoError(t, err)
		require.Nil(t, l)
		w.Release()
	}
	l, err := begin().AdmitCharged(ctx, who, here)
	require.NoError(t, err)
	require.Equal(t, limitedBy(ratelimit.Key, keyRequests, time.Minute, 500), l)
	clock.Advance(time.Minute)
	first, second, third, fourth := begin(), begin(), begin(), begin()
	for _, w := range []*Work{first, second, third} {
		l, err := w.AdmitCharged(ctx, who, here)
		require.NoError(t, err)
		require.Nil(t, l)
	}
	l, err = fourth.AdmitCharged(ctx, who, here)
	require.NoError(t, err)
	require.Equal(t, limitedBy(ratelimit.Running, concurrentRequests, time.Second, 3), l)
	fourth.Release()
	l, err = begin().AdmitCharged(ctx, who, here)
	require.NoError(t, err)
	require.NotNil(t, l, "who was refused has no place to give back")
	first.Release()
	l, err = fourth.AdmitCharged(ctx, who, here)
	require.NoError(t, err)
	require.Nil(t, l)
}

// TestStreamsInProgress: a place among max_streams is given back once, by the request that has it. Who finds none
// takes nothing else, and hears of a limit of its account first.
func TestStreamsInProgress(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Plans: []config.Plan{{Name: "small", Limits: config.Limits{
		RequestsPerMinute: config.RequestsPerMinute{Key: 2}}}}}
	begin, _ := limits(cfg)
	admit := func(w *Work) *Limited {
		t.Helper()
		l, err := w.AdmitCharged(t.Context(), client("k", "a", "small"), netip.Addr{})
		require.NoError(t, err)
		return l
	}
	first, second := begin(), begin()
	first.engine.streams.limit(1)
	require.Nil(t, admit(first))
	require.Equal(t, new(Limited), admit(second))
	second.Release()
	require.Equal(t, new(Limited), admit(second), "it had none to give back, and has not been counted")
	first.Release()
	first.Release()
	require.Nil(t, admit(second))
	require.Equal(t, limitedBy(ratelimit.Key, keyRequests, time.Minute, 2), admit(first))
	require.EqualValues(t, 1, first.engine.streams.used.Load())
}
