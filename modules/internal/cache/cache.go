// Package cache keeps replies for requests that are sent again (GAP-61).
package cache

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// Key is what a request is known by, see Keys.
type Key [sha256.Size]byte

// Reply is a whole reply that ended by itself or at a stop sequence, of text alone.
type Reply struct {
	Text string
	Stop *string // the stop sequence that the service matched
}

// size is about what a kept reply takes, in bytes.
func (r *Reply) size() int64 {
	n := int64(len(r.Text)) + entryCost
	if r.Stop != nil {
		n += int64(len(*r.Stop))
	}
	return n
}

// entryCost is about what one takes beside its texts.
const entryCost = 256

// Cache keeps replies, where it can: one that is away, or full, finds and keeps nothing.
type Cache interface {
	// Get finds a reply that was put there less than its ttl ago.
	Get(ctx context.Context, k Key) (Reply, bool)
	// Put keeps a reply for ttl. One that is too large is not kept.
	Put(ctx context.Context, k Key, r Reply, ttl time.Duration)
}

// Shared is a Cache that several nodes have together.
type Shared interface {
	Cache
	// Secret makes keys that all of them find, see NewKeys.
	Secret() []byte
	Close() error
}

// Memory is a Cache of this process. Those that were used longest ago go first.
type Memory struct {
	now func() time.Time

	mu    sync.Mutex
	most  int64 // bytes
	bytes int64
	byKey map[Key]*list.Element
	used  list.List // of *entry, the latest first

	evicted int64
}

type entry struct {
	key   Key
	reply Reply
	until time.Time
}

// NewMemory makes an empty one that keeps nothing before Limit.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, byKey: make(map[Key]*list.Element)}
}

// Limit says how many bytes all replies may take.
func (m *Memory) Limit(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = bytes
	m.shrink()
}

// largest is the share of it all that one reply may have.
const largest = 16

// Get implements Cache.
func (m *Memory) Get(_ context.Context, k Key) (Reply, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.byKey[k]
	if !ok {
		return Reply{}, false
	}
	e := at.Value.(*entry)
	if !m.now().Before(e.until) {
		m.remove(at)
		return Reply{}, false
	}
	m.used.MoveToFront(at)
	return e.reply, true
}

// Put implements Cache.
func (m *Memory) Put(_ context.Context, k Key, r Reply, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.byKey[k]; ok {
		m.remove(at)
	}
	if r.size() > m.most/largest {
		return
	}
	m.byKey[k] = m.used.PushFront(&entry{k, r, m.now().Add(ttl)})
	m.bytes += r.size()
	m.shrink()
}

func (m *Memory) shrink() {
	for m.bytes > m.most {
		m.remove(m.used.Back())
		m.evicted++
	}
}

func (m *Memory) remove(at *list.Element) {
	e := m.used.Remove(at).(*entry)
	delete(m.byKey, e.key)
	m.bytes -= e.reply.size()
}

// Usage is how much is kept, and how many replies had to go for others.
func (m *Memory) Usage() (replies, bytes, evicted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.byKey)), m.bytes, m.evicted
}

var _ Cache = (*Memory)(nil)
