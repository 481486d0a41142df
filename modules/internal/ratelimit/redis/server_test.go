package redis_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// TestServerClockIsSet: when the server's clock is set, or the clock of the one that takes its place is another,
// nothing that was counted is forgotten, and nobody is refused for longer.
func TestServerClockIsSet(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run("LIM-05 "+name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			at := fresh(s.Options())
			var off atomic.Int64
			o := redis.Options{}.ServerClock(func() int64 { return time.Now().UnixMicro() + off.Load() })
			one, two := open(t, at, o), open(t, at, o)
			awaitPair(t, one, two)
			settle(t, one, two)
			require.Equal(t, 30, admit(t, one, 30, hundred))
			require.Equal(t, 30, admit(t, two, 30, hundred))
			held := admit(t, one, 3, ten)
			off.Add(by.Microseconds())
			settle(t, one, two)
			settle(t, one, two) // what the first has found the second hears of
			require.Equal(t, 40, admit(t, one, 100, hundred)+admit(t, two, 100, hundred))
			require.Equal(t, 10-held, admit(t, two, 20, ten))
			r, err := one.Check(t.Context(), []ratelimit.Ask{hundred})
			require.NoError(t, err)
			require.LessOrEqual(t, r.Wait, time.Minute)
		})
	}
}

// buffer is a log that many write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestSaidAtStart: what is wrong with a server is said at the start, with what to do, and the gateway starts all the
// same.
func TestSaidAtStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		up   bool
		says string
	}{
		"eviction": {[]string{"--maxmemory-policy", "allkeys-lru"}, true, "maxmemory-policy noeviction"},
		"replica":  {[]string{"--replicaof", "127.0.0.1 1"}, false, "is a replica"},
		"password": {[]string{"--requirepass", "hunter2"}, false, "wants a password"},
		"rights": {[]string{"--user", "default", "on", "nopass", "~test*", "+@all", "-@admin", "-@dangerous", "+info"}, true,
			"the limiter's server counts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := new(buffer)
			l := redis.New(redis.Options{Conn: redisconn.New(fresh(redistest.Start(t, c.args...).Options())),
				Logger: slog.New(slog.NewTextHandler(log, nil)), LeastNodes: 4})
			t.Cleanup(func() { _ = l.Close() })
			require.Equal(t, c.up, l.Status().Up, l.Status().Reason)
			require.Contains(t, log.String(), c.says)
			l.Settle()
			require.Equal(t, 25, admit(t, l, 30, ratelimit.Ask{Subject: KeyOf("k"), Limit: 25 * nodesOf(c.up)}))
			require.Equal(t, 1, admit(t, l, 1, ten))
		})
	}
}

// nodesOf is by how many nodes a limit is divided in TestSaidAtStart.
func nodesOf(up bool) int64 {
	if up {
		return 1
	}
	return 4
}

// TestSlowLink: a server that answers, but never in time, is not asked; one that is as fast as before again is.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	var slow atomic.Bool
	at := fresh(s.Options())
	at.Addrs, at.Timeout = []string{slowed(t, s.Addr(), &slow)}, 150*time.Millisecond
	l := open(t, at, redis.Options{})
	l.Settle()
	slow.Store(true)
	began := time.Now()
	require.Equal(t, 100, admit(t, l, 150, hundred))
	require.Less(t, time.Since(began), 5*time.Second, "two waited")
	for range 4000 {
		if len(l.Status().Reason) > 0 && bytes.Contains([]byte(l.Status().Reason), []byte("raise `timeout`")) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	require.Contains(t, l.Status().Reason, "raise `timeout` in the block")
	require.False(t, l.Status().Up)
	slow.Store(false)
	await(t, l, true)
	require.Zero(t, admit(t, l, 10, hundred))
}

// slowed is the address of a server's whose answers are late while slow.
func slowed(t *testing.T, to string, slow *atomic.Bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				defer server.Close()
				_, _ = io.Copy(server, client)
			}()
			go func() {
				defer client.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := server.Read(b)
					if err != nil {
						return
					}
					if slow.Load() {
						<-time.After(400 * time.Millisecond)
					}
					if _, err := client.Write(b[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
