package engine_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm"
)

// node is one of a service whose nodes share a limiter and a response cache.
func node(t *testing.T, s *redistest.Server, log *slog.Logger) (*engine.Engine, *config.Config) {
	at := config.Redis{URL: "unix://:hunter2@" + s.Addr(), Mode: config.RedisSingle, Prefix: "nodes:",
		Timeout: 5 * time.Second}
	cfg := &config.Config{
		Gateway: config.Gateway{MaxStreams: 1000},
		Limiter: config.Limiter{Kind: config.RedisKind, Redis: at, Nodes: 1},
		Cache:   config.Cache{Kind: config.RedisKind, Redis: at, TTL: time.Hour},
		Plans: []config.Plan{{Name: "small", Limits: config.Limits{
			RequestsPerMinute: config.RequestsPerMinute{Account: 100}, ConcurrentRequests: 30}}},
	}
	e := enginetest.Start(t, cfg, engine.Options{OpenLimiter: stores.OpenLimiter, OpenCache: stores.OpenCache,
		OpenConversations: stores.OpenConversations, Logger: log})
	require.True(t, e.LimiterServer().Up, e.LimiterServer().Reason)
	return e, cfg
}

// TestNodes: what nodes share holds for all of them together, and a reload under load changes none of it
// (maximhq/bifrost issue 5925).
func TestNodes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "hunter2")
	var logged strings.Builder
	one, cfg := node(t, s, slog.New(slog.NewTextHandler(&logged, nil)))
	two, _ := node(t, s, nil)
	for one.LimiterServer().Nodes < 2 { // who begins knows of the others, and the others hear of it within a second
		<-time.After(10 * time.Millisecond)
	}
	who := ledger.Principal{Account: ledger.Account{ID: "a", Plan: "small"}, Key: ledger.Key{ID: "k"}}
	from := netip.MustParseAddr("192.0.2.1")
	var admitted, running, most atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		e := []*engine.Engine{one, two}[i%2]
		all.Go(func() {
			for range 40 {
				w := e.Begin()
				l, err := w.AdmitCharged(t.Context(), who, from)
				if err != nil {
					t.Errorf("asking: %v", err)
				}
				if l == nil {
					admitted.Add(1)
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					running.Add(-1)
				}
				w.Release()
				w.Done()
			}
		})
	}
	for range 5 {
		old := one.Current()
		g, err := one.Prepare(t.Context(), cfg)
		require.NoError(t, err)
		one.Activate(g)
		one.Retire(old)
	}
	all.Wait()
	t.Run("LIM-05 rates hold over all nodes, also while one is reloaded", func(t *testing.T) {
		require.EqualValues(t, 100, admitted.Load())
		require.LessOrEqual(t, most.Load(), int64(30))
	})
	t.Run("GAP-61 a reply that one node has kept answers on the other", func(t *testing.T) {
		at, keys := one.Current().Replies()
		there, same := two.Current().Replies()
		req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hello")}}}}
		k := keys.Key(cache.Scope{Account: "a"}, req)
		require.Equal(t, k, same.Key(cache.Scope{Account: "a"}, req))
		at.Put(t.Context(), k, cache.Reply{Text: "hi"}, time.Hour)
		for range 4000 {
			if r, ok := there.Get(t.Context(), k); ok {
				require.Equal(t, "hi", r.Text)
				return
			}
			<-time.After(5 * time.Millisecond)
		}
		require.Fail(t, "it is not there")
	})
	t.Run("GAP-134 a conversation is on one route on both", func(t *testing.T) {
		key := one.Conversations().Key("a", "max", &llm.Request{})
		one.Conversations().Note(t.Context(), key, affinity.Turn{Home: "deep", Served: "deep"}, time.Hour)
		for range 4000 {
			if past := two.Conversations().Past(t.Context(), key); past != nil {
				require.Equal(t, "deep", past.Home)
				return
			}
			<-time.After(5 * time.Millisecond)
		}
		require.Fail(t, "it is not there")
	})
	t.Run("it says where it counts, and no password", func(t *testing.T) {
		for _, s := range one.Servers() {
			require.True(t, s.Up)
			require.NotContains(t, s.Address, "hunter2")
		}
		require.Len(t, one.Servers(), 2)
		require.NotContains(t, one.LimiterServer().Address, "hunter2")
		require.NotContains(t, logged.String(), "hunter2")
		require.Contains(t, logged.String(), "the limiter's server counts")
	})
}
