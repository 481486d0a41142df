package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/requestlog"
)

// keptFailures is how many attempts' failures are in memory. What is older is in the request log, written behind.
const keptFailures = 4096

// Failure is why an upstream failed, in the operator's words: no text of the upstream's, no key and no prompt is in it
// (GAP-96).
type Failure struct {
	At   time.Time
	Text string
}

// failures are the latest failures of attempts, by attempt, and by route those that no reply has followed.
type failures struct {
	some atomic.Bool // a route has one: read without a lock

	mu       sync.Mutex
	attempts map[string]string
	order    []string // attempts as they failed, used round about
	next     int
	routes   map[string]Failure
}

// NoteFailure remembers why an attempt failed; route is "" where that says nothing of the route.
func (r *requests) NoteFailure(attempt, route, text string) {
	now, f := r.Now(), &r.failures
	r.LogRequest(requestlog.Record{ID: attempt, Time: now, Failure: text})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attempts == nil {
		f.attempts, f.routes = make(map[string]string), make(map[string]Failure)
	}
	if len(f.order) < keptFailures {
		f.order = append(f.order, attempt)
	} else {
		delete(f.attempts, f.order[f.next])
		f.order[f.next] = attempt
		f.next = (f.next + 1) % keptFailures
	}
	f.attempts[attempt] = text
	if route != "" {
		f.routes[route] = Failure{now, text}
		f.some.Store(true)
	}
}

// FailureOf is why an attempt failed, "" where it did not or that is forgotten.
func (r *requests) FailureOf(ctx context.Context, attempt string) string {
	r.failures.mu.Lock()
	text, ok := r.failures.attempts[attempt]
	r.failures.mu.Unlock()
	if ok {
		return text
	}
	request, err := r.FindRequest(ctx, attempt)
	if err != nil && !errors.Is(err, requestlog.ErrNotFound) {
		r.Logger().Warn("looking for why an attempt failed", "attempt", attempt, "error", err)
	}
	return request.Failure
}

// LastFailure is how the latest attempt on a route failed; its time is zero where the route has served since.
func (r *requests) LastFailure(route string) Failure {
	r.failures.mu.Lock()
	defer r.failures.mu.Unlock()
	return r.failures.routes[route]
}

// Served notes that a route has served.
func (r *requests) Served(route string) {
	if !r.failures.some.Load() {
		return
	}
	r.failures.mu.Lock()
	defer r.failures.mu.Unlock()
	delete(r.failures.routes, route)
	r.failures.some.Store(len(r.failures.routes) > 0)
}
