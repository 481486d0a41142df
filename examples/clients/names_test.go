//go:build clients && linux

package clients_test

import (
	"maps"
	"slices"
	"sync"
)

// names collects model names.
type names struct {
	mu  sync.Mutex
	set map[string]bool
}

// allNames are the names that the clients of all tests have sent.
var allNames names

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[name] = true
}

func (n *names) sorted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.set))
}
