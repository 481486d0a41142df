package engine

import "sync/atomic"

// budget bounds the memory of all request bodies together (max_body_memory).
type budget struct {
	max, used atomic.Int64
}

func (b *budget) limit(n int64) { b.max.Store(n) }

// TakeBody sets n bytes aside for a request body; false when all bodies together would pass
// max_body_memory. What was taken is given back with GiveBody.
func (e *Engine) TakeBody(n int64) bool {
	if e.bodies.used.Add(n) > e.bodies.max.Load() {
		e.bodies.used.Add(-n)
		return false
	}
	return true
}

// GiveBody gives back n bytes.
func (e *Engine) GiveBody(n int64) { e.bodies.used.Add(-n) }
