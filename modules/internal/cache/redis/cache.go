// Package redis is the cache.Cache that several nodes of a service share: replies lie in a Redis, or in what speaks
// its protocol, each for its time. The server bounds their memory. While it is away nothing is found and nothing is
// kept, and nobody waits for it.
package redis

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/redisconn"
)

// Cache keeps replies in a server. Close it.
type Cache struct {
	conn *redisconn.Conn
	gate *redisconn.Gate

	puts   chan struct{} // those that are on their way: no request waits for them
	ended  sync.WaitGroup
	closed context.Context
	close  context.CancelFunc
}

// mostPuts is how many replies are on their way to the server; of more, the latest are not kept.
const mostPuts = 64

// MaxReply is the longest text that is kept, in bytes.
const MaxReply = 1 << 20

// New makes one on a connection, which is closed with it.
func New(conn *redisconn.Conn, log *slog.Logger) *Cache {
	c := &Cache{conn: conn, gate: redisconn.NewGate("the response cache", conn, log), puts: make(chan struct{}, mostPuts)}
	c.closed, c.close = context.WithCancel(context.Background())
	return c
}

// Secret makes the keys of requests that all nodes find.
func (c *Cache) Secret() []byte { return c.conn.Secret("cache") }

// State is how the server does.
func (c *Cache) State() redisconn.State { return c.gate.State() }

// Close waits for what is on its way.
func (c *Cache) Close() error {
	c.close()
	c.ended.Wait()
	c.gate.Close()
	return c.conn.Close()
}

func (c *Cache) key(k cache.Key) string {
	text := hex.EncodeToString(k[:])
	return c.conn.Key(text[:16], "c:"+text[16:])
}

// Get implements cache.Cache.
func (c *Cache) Get(ctx context.Context, k cache.Key) (r cache.Reply, ok bool) {
	c.gate.Pass(ctx, func(ctx context.Context) error {
		b, err := c.conn.Get(ctx, c.key(k)).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err == nil {
			r, ok = decode(b)
		}
		return err
	})
	return r, ok
}

// Put implements cache.Cache. It does not wait for the server.
func (c *Cache) Put(_ context.Context, k cache.Key, r cache.Reply, ttl time.Duration) {
	if len(r.Text) > MaxReply || ttl < time.Millisecond || c.closed.Err() != nil {
		return
	}
	select {
	case c.puts <- struct{}{}:
	default:
		return
	}
	c.ended.Go(func() {
		defer func() { <-c.puts }()
		c.gate.Pass(c.closed, func(ctx context.Context) error {
			return c.conn.Set(ctx, c.key(k), encode(r), ttl).Err()
		})
	})
}

// version begins what is kept: another one is not understood.
const version = 1

// A reply is the version, 0 or 1 and the length of the stop sequence, that, and the text.
func encode(r cache.Reply) []byte {
	b := make([]byte, 0, len(r.Text)+16)
	b = append(b, version)
	if r.Stop == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(len(*r.Stop)))
		b = append(b, *r.Stop...)
	}
	return append(b, r.Text...)
}

// decode is false for what encode has not made.
func decode(b []byte) (r cache.Reply, ok bool) {
	if len(b) < 2 || b[0] != version {
		return r, false
	}
	switch b[1] {
	case 0:
		b = b[2:]
	case 1:
		n, size := binary.Uvarint(b[2:])
		if size <= 0 || n > uint64(len(b)-2-size) {
			return r, false
		}
		stop := string(b[2+size:][:n])
		r.Stop, b = &stop, b[2+size+int(n):]
	default:
		return r, false
	}
	r.Text = string(b)
	return r, true
}

var _ cache.Shared = (*Cache)(nil)
