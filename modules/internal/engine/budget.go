package engine

import "sync/atomic"

// budget bounds something of which all requests together have a share: memory in bytes, or their own number.
type budget struct {
	max, used atomic.Int64
}

func (b *budget) limit(n int64) { b.max.Store(n) }

// acquire sets n aside; false when that would pass the limit.
func (b *budget) acquire(n int64) bool {
	if b.used.Add(n) > b.max.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// maxAhead is what all upstreams together may be read ahead of their clients, in bytes (GAP-112).
const maxAhead = 256 << 20

// AcquireBody sets n bytes aside for a request body; false when all bodies together would pass max_body_memory.
func (r *requests) AcquireBody(n int64) bool { return r.bodies.acquire(n) }

// ReleaseBody gives back n bytes.
func (r *requests) ReleaseBody(n int64) { r.bodies.release(n) }

// AcquireAhead sets n bytes aside for events that wait for a client; false when those of all requests together would
// pass 256 MiB. ReleaseAhead gives them back.
func (r *requests) AcquireAhead(n int64) bool { return r.ahead.acquire(n) }

// ReleaseAhead gives back n bytes.
func (r *requests) ReleaseAhead(n int64) { r.ahead.release(n) }
