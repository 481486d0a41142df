// Package redis is the affinity.Memory that several nodes of a service share: where conversations are lies in a Redis,
// or in what speaks its protocol, under keyed hashes. What a node has seen itself it remembers, too, for the time in
// which the server is away.
package redis

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
)

// Memory keeps conversations in a server. Close it.
type Memory struct {
	conn  *redisconn.Conn
	gate  *redisconn.Gate
	local *affinity.Local

	puts   chan struct{}
	ended  sync.WaitGroup
	closed context.Context
	close  context.CancelFunc

	full   atomic.Bool  // the server has little memory left, which the counts there need
	looked atomic.Int64 // when that was last looked at, in Unix seconds
}

const (
	// mostPuts is how many conversations are on their way to the server; of more, the latest are remembered here only.
	mostPuts = 256
	// lookEvery is how often the server's memory is looked at, in seconds.
	lookEvery = 5
	// mostMemory is the share of its maxmemory from which on nothing is put there: limits are worth more.
	mostMemory = 0.7
)

// New makes one on a connection, which is closed with it.
func New(conn *redisconn.Conn, now func() time.Time, log *slog.Logger) *Memory {
	m := &Memory{conn: conn, gate: redisconn.NewGate("conversations", conn, log),
		local: affinity.NewLocal(affinity.MaxConversations, now), puts: make(chan struct{}, mostPuts)}
	m.closed, m.close = context.WithCancel(context.Background())
	return m
}

// Secret makes keys of conversations that all nodes find.
func (m *Memory) Secret() []byte { return m.conn.Secret("affinity") }

// State is how the server does.
func (m *Memory) State() redisconn.State { return m.gate.State() }

// Close waits for what is on its way.
func (m *Memory) Close() error {
	m.close()
	m.ended.Wait()
	m.gate.Close()
	return m.conn.Close()
}

func (m *Memory) key(k affinity.Key) string { return m.conn.Key(hex.EncodeToString(k[:]), "v") }

// Recall implements affinity.Memory.
func (m *Memory) Recall(ctx context.Context, k affinity.Key) (c affinity.Conversation, ok bool) {
	answered := m.gate.Pass(ctx, func(ctx context.Context) error {
		text, err := m.conn.Get(ctx, m.key(k)).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err == nil {
			ok = json.Unmarshal(text, &c) == nil // what somebody else has put there is no conversation
		}
		return err
	})
	if answered && ok {
		return c, true
	}
	return m.local.Recall(ctx, k) // what could not be put there, or is lost there
}

// Remember implements affinity.Memory. It does not wait for the server.
func (m *Memory) Remember(ctx context.Context, k affinity.Key, c affinity.Conversation, lifetime time.Duration) {
	m.local.Remember(ctx, k, c, lifetime)
	text, err := json.Marshal(c)
	if err != nil || lifetime < time.Millisecond || m.closed.Err() != nil {
		return // a number that JSON does not have
	}
	select {
	case m.puts <- struct{}{}:
	default:
		return
	}
	m.ended.Go(func() {
		defer func() { <-m.puts }()
		m.look()
		if m.full.Load() {
			return
		}
		m.gate.Pass(m.closed, func(ctx context.Context) error { return m.conn.Set(ctx, m.key(k), text, lifetime).Err() })
	})
}

// look looks how much memory the server has left, every so often.
func (m *Memory) look() {
	now, before := time.Now().Unix(), m.looked.Load()
	if now-before < lookEvery || !m.looked.CompareAndSwap(before, now) {
		return
	}
	m.gate.Pass(m.closed, func(ctx context.Context) error {
		text, err := m.conn.Info(ctx, "memory").Result()
		if err != nil && strings.Contains(err.Error(), "NOPERM") {
			return nil // then nobody can tell
		}
		if err == nil {
			most := field(text, "maxmemory:")
			m.full.Store(most > 0 && field(text, "used_memory:") > mostMemory*most)
		}
		return err
	})
}

// field is a number of the server's report, 0 where it has none.
func field(text, name string) float64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return n
		}
	}
	return 0
}

var _ affinity.Shared = (*Memory)(nil)
