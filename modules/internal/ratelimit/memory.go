package ratelimit

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// tick is the resolution of the limiter's clock.
const tick = time.Microsecond

// DefaultBytes bounds the memory for addresses: enough for a million of them in one minute.
const DefaultBytes = 128 << 20

// Options are what a Memory is made with; the zero value is what a gateway takes.
type Options struct {
	// Bytes bounds the memory for addresses. When it is full, the address that nothing was heard of for the
	// longest time gives way, and what it had used is forgotten; keys and accounts never give way. Only addresses
	// that send hundreds of thousands of requests in a minute can take more, for they don't give way to themselves.
	// 0: DefaultBytes.
	Bytes int
	// Elapsed is the time since some fixed moment, by a clock that nobody can set: when the wall clock is set,
	// nobody is freed and nobody is blocked. Nil: since NewMemory.
	Elapsed func() time.Duration
}

// Memory is the Limiter of one process. It lies in shards, each with a lock and a part of the memory: which
// address gives way is decided among those of one shard.
type Memory struct {
	elapsed func() time.Duration
	seed    maphash.Seed
	shards  [shardCount]shard
}

const shardCount = 64

type shard struct {
	mu         sync.Mutex
	names      table[name]
	addresses  table[address]
	semaphores semaphores
	_          [64]byte // the next shard's lock lies on another cache line
}

// NewMemory makes an empty limiter.
func NewMemory(o Options) *Memory {
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Elapsed == nil {
		start := time.Now()
		o.Elapsed = func() time.Duration { return time.Since(start) } // by Go's monotonic clock
	}
	m := &Memory{elapsed: o.Elapsed, seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].addresses.most = max(1, o.Bytes/shardCount)
	}
	return m
}

// Acquire implements Limiter.
func (m *Memory) Acquire(_ context.Context, asks []Ask) (Permit, *Refusal, error) {
	c := m.begin(asks)
	defer c.end()
	if r := c.refusal(); r != nil {
		return 0, r, nil
	}
	return c.take(), nil, nil
}

// Check implements Limiter.
func (m *Memory) Check(_ context.Context, asks []Ask) (*Refusal, error) {
	c := m.begin(asks)
	defer c.end()
	return c.refusal(), nil
}

// Release implements Limiter.
func (m *Memory) Release(p Permit) {
	s := &m.shards[p%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.semaphores.release(p)
}

// Usage is what a Memory holds at the moment.
type Usage struct {
	Names     int   // keys and accounts
	Addresses int   // addresses, once for each Kind
	Bytes     int   // what the addresses are reckoned at
	Evicted   int64 // addresses that gave way so far
	Permits   int   // of semaphores
}

// Usage adds up what the shards hold.
func (m *Memory) Usage() Usage {
	var u Usage
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		u.Names += len(s.names.index)
		u.Addresses += len(s.addresses.index)
		u.Bytes += s.addresses.bytes()
		u.Evicted += s.addresses.evicted
		u.Permits += len(s.semaphores.permits)
		s.mu.Unlock()
	}
	return u
}

// call is one Acquire or Check. It has the locks of all the shards that its asks are about: what it sees is what it
// changes.
type call struct {
	memory *Memory
	asks   []Ask
	shards [MaxAsks]*shard // of each ask; nil for one that counts nothing
	order  [MaxAsks]uint8  // the shards that are locked, by number
	locked int
	now    int64
}

func (m *Memory) begin(asks []Ask) call {
	c := call{memory: m, asks: asks}
	for i, a := range asks {
		if a.Limit <= 0 && !a.Subject.Kind.Semaphore() {
			continue
		}
		n := m.shardOf(a.Subject)
		c.shards[i] = &m.shards[n]
		// In the order of their numbers, so that no two calls wait for each other.
		at, found := slices.BinarySearch(c.order[:c.locked], n)
		if !found {
			copy(c.order[at+1:], c.order[at:c.locked])
			c.order[at] = n
			c.locked++
		}
	}
	for _, n := range c.order[:c.locked] {
		m.shards[n].mu.Lock()
	}
	c.now = int64(m.elapsed() / tick) // with the locks held: in a shard, moments never go back
	return c
}

func (c *call) end() {
	for _, n := range c.order[:c.locked] {
		c.memory.shards[n].mu.Unlock()
	}
}

func (c *call) refusal() *Refusal {
	var r *Refusal
	for i, a := range c.asks {
		if c.shards[i] == nil {
			continue
		}
		wait := c.shards[i].wait(a, c.now)
		if wait == 0 {
			continue
		}
		if r == nil {
			r = &Refusal{Ask: i}
		}
		r.Wait = max(r.Wait, wait)
	}
	return r
}

// take takes one of each ask, which all have room.
func (c *call) take() (p Permit) {
	for i, a := range c.asks {
		switch s := c.shards[i]; {
		case s == nil:
		case a.Subject.Kind.Semaphore():
			p = s.semaphores.acquire(name{a.Subject.Kind, a.Subject.Name}, c.memory.shardOf(a.Subject))
		default:
			s.add(a.Subject, c.now)
		}
	}
	return p
}

func (m *Memory) shardOf(s Subject) uint8 {
	if a, ok := addressOf(s); ok {
		return uint8(maphash.Bytes(m.seed, a.bits[:]) % shardCount)
	}
	return uint8(maphash.String(m.seed, s.Name) % shardCount)
}

// wait is how long it takes until an ask has room, in whole seconds; 0 when it has.
func (s *shard) wait(a Ask, now int64) time.Duration {
	if a.Subject.Kind.Semaphore() {
		if a.Limit > 0 && s.semaphores.held[name{a.Subject.Kind, a.Subject.Name}] >= a.Limit {
			return SemaphoreWait
		}
		return 0
	}
	wait := time.Duration(s.room(a, now)-now) * tick
	return (wait + time.Second - 1).Truncate(time.Second)
}

// room is the first moment at which an ask has room for another request, and now when it has.
func (s *shard) room(a Ask, now int64) int64 {
	if at, ok := addressOf(a.Subject); ok {
		return s.addresses.room(at, a.Limit, now)
	}
	return s.names.room(name{a.Subject.Kind, a.Subject.Name}, a.Limit, now)
}

func (s *shard) add(sub Subject, now int64) {
	if at, ok := addressOf(sub); ok {
		s.addresses.add(at, now)
		return
	}
	s.names.add(name{sub.Kind, sub.Name}, now)
}

var _ Limiter = (*Memory)(nil)
