package redis_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/cache/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

func open(t *testing.T, o redisconn.Options) *redis.Cache {
	c := redis.New(redisconn.New(o), nil)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// await waits until a reply is there: nobody waits for a Put.
func await(t *testing.T, c *redis.Cache, k cache.Key) cache.Reply {
	t.Helper()
	for range 4000 {
		if r, ok := c.Get(t.Context(), k); ok {
			return r
		}
		<-time.After(5 * time.Millisecond)
	}
	require.Fail(t, "the reply is not there")
	return cache.Reply{}
}

// TestCache: nodes find what others have kept, as it was, for its time.
func TestCache(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := s.Options()
	o.Timeout, o.Password = 5*time.Second, ""
	one, two := open(t, o), open(t, o)
	require.Equal(t, one.Secret(), two.Secret())
	other := o
	other.Password = "another"
	require.NotEqual(t, one.Secret(), open(t, other).Secret())
	stop, none := "END", ""
	for i, r := range []cache.Reply{{}, {Text: "hello"}, {Text: "a\x00b", Stop: &stop},
		{Text: strings.Repeat("x", redis.MaxReply), Stop: &none}} {
		k := cache.Key{byte(i)}
		_, ok := two.Get(t.Context(), k)
		require.False(t, ok)
		one.Put(t.Context(), k, r, time.Hour)
		require.Equal(t, r, await(t, two, k))
	}
	for _, key := range s.Do("KEYS", "*").([]any) {
		require.Positive(t, s.Do("TTL", key), "every key expires")
	}
	one.Put(t.Context(), cache.Key{9}, cache.Reply{Text: strings.Repeat("x", redis.MaxReply+1)}, time.Hour)
	one.Put(t.Context(), cache.Key{10}, cache.Reply{Text: "x"}, 2*time.Millisecond)
	require.NoError(t, one.Close())
	require.EqualValues(t, 0, s.Do("EXISTS", "fareway:{0900000000000000}c:"+strings.Repeat("0", 48)), "too long")
	<-time.After(5 * time.Millisecond)
	_, ok := two.Get(t.Context(), cache.Key{10})
	require.False(t, ok)
	one.Put(t.Context(), cache.Key{11}, cache.Reply{}, time.Hour)
	require.True(t, two.State().Up)
}

// TestForeignValues: what somebody else has put there is no reply.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := s.Options()
	o.Timeout = 5 * time.Second
	c := open(t, o)
	for _, v := range []string{"", "\x01", "\x02\x00", "\x01\x02x", "\x01\x01", "\x01\x01\xff", "\x01\x01\x05abc",
		"\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		s.Do("SET", "fareway:{0000000000000000}c:"+strings.Repeat("0", 48), v)
		_, ok := c.Get(t.Context(), cache.Key{})
		require.False(t, ok, "%q", v)
	}
	require.True(t, c.State().Up)
}

// TestAway: nobody waits for a server that does not answer, but for the first few, and it is used when it is back.
func TestAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, begin func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Begin},
		"stopped": {func(s *redistest.Server) { s.Signal(syscall.SIGSTOP) },
			func(s *redistest.Server) { s.Signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o := s.Options()
			o.Timeout = 100 * time.Millisecond
			kept := open(t, o)
			kept.Put(t.Context(), cache.Key{1}, cache.Reply{Text: "x"}, time.Hour)
			await(t, kept, cache.Key{1})
			c.end(s)
			began := time.Now()
			for range 1000 {
				_, ok := kept.Get(t.Context(), cache.Key{1})
				require.False(t, ok)
			}
			require.Less(t, time.Since(began), 5*time.Second, "a thousand times the time-out would be 100 s")
			require.False(t, kept.State().Up)
			require.NotEmpty(t, kept.State().Reason)
			require.Less(t, kept.State().Errors, int64(100))
			c.begin(s)
			for range 4000 {
				kept.Put(t.Context(), cache.Key{2}, cache.Reply{Text: "y"}, time.Hour)
				if _, ok := kept.Get(t.Context(), cache.Key{2}); ok {
					break
				}
				<-time.After(5 * time.Millisecond)
			}
			require.True(t, kept.State().Up)
		})
	}
}
