package engine

import (
	"sync"

	"github.com/fareway/fareway/config"
)

// slots counts the attempts that run on each route, by its name: over all accounts, and over all generations,
// so that a reload neither forgets nor doubles what runs.
type slots struct {
	mu      sync.Mutex
	running map[string]int64
}

func newSlots() *slots { return &slots{running: make(map[string]int64)} }

// TakeSlot counts an attempt on a route; false when max_concurrent attempts run on it already. What was taken
// is given back with GiveSlot when the attempt has ended, however it ended.
func (e *Engine) TakeSlot(route *config.Route) bool {
	s := e.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.running[route.Name]
	if route.MaxConcurrent > 0 && n >= route.MaxConcurrent {
		return false
	}
	s.running[route.Name] = n + 1
	e.metrics.running(route.Name, n+1)
	return true
}

// GiveSlot gives back what TakeSlot took.
func (e *Engine) GiveSlot(route *config.Route) {
	s := e.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.running[route.Name] - 1
	e.metrics.running(route.Name, n)
	if n > 0 {
		s.running[route.Name] = n
		return
	}
	delete(s.running, route.Name) // the route may be gone from the configuration
}
