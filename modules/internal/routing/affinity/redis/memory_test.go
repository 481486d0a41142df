package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/affinity/redis"
	"github.com/fareway/fareway/plugins/llm"
)

func open(t *testing.T, s *redistest.Server) (*redis.Memory, *affinity.Book) {
	o := s.Options()
	o.Timeout = time.Second
	m := redis.New(redisconn.New(o), time.Now, nil)
	t.Cleanup(func() { _ = m.Close() })
	return m, affinity.New(affinity.Options{Memory: m, Secret: m.Secret()})
}

var hello = &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hello")}}}}

// TestMemory: a turn on one node finds the route that another has noted; and while the server is away, the one that
// this node has noted itself.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, one := open(t, s)
	m, two := open(t, s)
	key := one.Key("a", "max", hello)
	require.Equal(t, key, two.Key("a", "max", hello))
	require.Nil(t, two.Past(t.Context(), key))
	one.Note(t.Context(), key, affinity.Turn{Home: "deep", Served: "small", Tokens: 100}, time.Hour)
	for range 4000 {
		if two.Past(t.Context(), key) != nil {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	past := two.Past(t.Context(), key)
	require.Equal(t, "deep", past.Home)
	require.EqualValues(t, "small", past.Served[0].Route)
	require.EqualValues(t, 100, past.Served[0].Warm)
	for _, key := range s.Do("KEYS", "*").([]any) {
		require.Positive(t, s.Do("TTL", key), "every key expires")
		s.Do("SET", key, "{no JSON", "EX", 100)
	}
	require.Nil(t, two.Past(t.Context(), key), "of somebody else")
	require.NotNil(t, one.Past(t.Context(), key))
	s.Kill()
	require.NotNil(t, one.Past(t.Context(), key))
	began := time.Now()
	for range 1000 {
		require.Nil(t, two.Past(t.Context(), key))
	}
	require.Less(t, time.Since(began), 5*time.Second)
	require.False(t, m.State().Up)
}

// TestFull: conversations leave room for the counts in the server.
func TestFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "1mb") // about what it has of its own
	m, book := open(t, s)
	book.Note(t.Context(), book.Key("a", "max", hello), affinity.Turn{Home: "deep", Served: "small"}, time.Hour)
	require.NoError(t, m.Close())
	require.EqualValues(t, 0, s.Do("DBSIZE"))
	require.True(t, m.State().Up)
}
