package engine

import (
	"sync"
	"time"
)

// lostEvery is how often it is said that requests are refused for what the ledger lacks: the start has said it, and
// status says it, and each request would.
const lostEvery = time.Minute

// refusedForLoss counts the requests that were refused since it was said last.
type refusedForLoss struct {
	mu    sync.Mutex
	said  time.Time
	count int64
}

// LogLost logs an error of a request that is ledger.ErrLost, once in a while, with how many requests met it since.
func (e *Engine) LogLost(doing, request string, err error) {
	r, now := &e.lost, e.Now()
	r.mu.Lock()
	r.count++
	due := r.said.IsZero() || now.Sub(r.said) >= lostEvery
	n := r.count
	if due {
		r.said, r.count = now, 0
	}
	r.mu.Unlock()
	if due {
		e.Logger().Error(doing, "request_id", request, "requests", n, "error", err)
	}
}
