package engine

import (
	"maps"
	"sync"
	"sync/atomic"
)

// handles keeps the collectors of a vector by their labels, for what a request counts: the vector would hash the
// labels each time. As of every label, there are only as many as the configuration or a closed list has.
type handles[K comparable, V any] struct {
	known atomic.Pointer[map[K]V]
	mu    sync.Mutex // held while one is added
	find  func(K) V
}

// handlesOf keeps what find finds.
func handlesOf[K comparable, V any](find func(K) V) *handles[K, V] {
	h := &handles[K, V]{find: find}
	h.known.Store(new(map[K]V))
	return h
}

func (h *handles[K, V]) of(labels K) V {
	if v, ok := (*h.known.Load())[labels]; ok {
		return v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	more := maps.Clone(*h.known.Load())
	if more == nil {
		more = make(map[K]V)
	}
	v := h.find(labels)
	more[labels] = v
	h.known.Store(&more)
	return v
}

// forget has everything found anew: what was kept may have been deleted of its vector.
func (h *handles[K, V]) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known.Store(new(map[K]V))
}

// answer is what replies are counted by.
type answer struct {
	endpoint string
	status   int // HTTP
}

// came is what outcomes are counted by.
type came struct{ route, outcome string }

// used is what tokens are counted by.
type used struct{ route, class string }
