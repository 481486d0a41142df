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
func (e *Engine) NoteFailure(attempt, route, text string) {
	now, f := e.Now(), &e.failures
	e.LogRequest(requestlog.Record{ID: attempt, Time: now, Failure: text})
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
func (e *Engine) FailureOf(ctx context.Context, attempt string) string {
	e.failures.mu.Lock()
	text, ok := e.failures.attempts[attempt]
	e.failures.mu.Unlock()
	if ok {
		return text
	}
	r, err := e.FindRequest(ctx, attempt)
	if err != nil && !errors.Is(err, requestlog.ErrNotFound) {
		e.Logger().Warn("looking for why an attempt failed", "attempt", attempt, "error", err)
	}
	return r.Failure
}

// LastFailure is how the latest attempt on a route failed; its time is zero where the route has served since.
func (e *Engine) LastFailure(route string) Failure {
	e.failures.mu.Lock()
	defer e.failures.mu.Unlock()
	return e.failures.routes[route]
}

// Served notes that a route has served.
func (e *Engine) Served(route string) {
	if !e.failures.some.Load() {
		return
	}
	e.failures.mu.Lock()
	defer e.failures.mu.Unlock()
	delete(e.failures.routes, route)
	e.failures.some.Store(len(e.failures.routes) > 0)
}
