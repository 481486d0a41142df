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
	mu     sync.Mutex
	logged time.Time
	count  int64
}

// LogLost logs an error of a request that is ledger.ErrLost, once in a while, with how many requests met it since.
func (r *requests) LogLost(doing, request string, err error) {
	seen, now := &r.lost, r.Now()
	seen.mu.Lock()
	seen.count++
	due := seen.logged.IsZero() || now.Sub(seen.logged) >= lostEvery
	n := seen.count
	if due {
		seen.logged, seen.count = now, 0
	}
	seen.mu.Unlock()
	if due {
		r.Logger().Error(doing, "request_id", request, "requests", n, "error", err)
	}
}
