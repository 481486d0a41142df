package engine

import (
	"sync"

	"github.com/fareway/fareway/config"
)

// slots counts what runs under each name: over all generations, so that a reload neither forgets nor doubles
// what runs.
type slots struct {
	mu      sync.Mutex
	running map[string]int64
	changed func(name string, running int64) // nil, or told of every change, in order
}

func newSlots(changed func(name string, running int64)) *slots {
	return &slots{running: make(map[string]int64), changed: changed}
}

// take counts one more; false when limit run already. With a limit of 0 there is none, and what runs is counted
// all the same, for the next configuration may have one.
func (s *slots) take(name string, limit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.running[name]
	if limit > 0 && n >= limit {
		return false
	}
	s.set(name, n+1)
	return true
}

// give counts one less.
func (s *slots) give(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(name, s.running[name]-1)
}

// all counts what runs under all names.
func (s *slots) all() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, running := range s.running {
		n += running
	}
	return n
}

func (s *slots) set(name string, n int64) {
	s.running[name] = n
	if n == 0 {
		delete(s.running, name) // the name may be gone from the configuration
	}
	if s.changed != nil {
		s.changed(name, n)
	}
}

// TakeSlot counts an attempt on a route; false when max_concurrent attempts run on it already, of all accounts.
// What was taken is given back with GiveSlot when the attempt has ended, however it ended.
func (e *Engine) TakeSlot(route *config.Route) bool {
	return e.attempts.take(route.Name, route.MaxConcurrent)
}

// GiveSlot gives back what TakeSlot took.
func (e *Engine) GiveSlot(route *config.Route) { e.attempts.give(route.Name) }

// InProgress counts what holds a place in a limit at the moment: charged requests of all accounts, and attempts on
// all routes.
func (e *Engine) InProgress() (requests, attempts int64) { return e.requests.all(), e.attempts.all() }
