package affinity

import (
	"context"
	"sync"
	"time"
)

// MaxConversations is how many conversations one process remembers, at about 300 bytes each.
const MaxConversations = 100_000

// Local is a Memory in this process: bounded, and what nobody has asked for the longest time is forgotten first, by
// halves.
type Local struct {
	now func() time.Time

	mu         sync.Mutex
	half       int
	young, old map[Key]kept
}

type kept struct {
	Conversation
	until time.Time
}

// NewLocal makes a memory of at most so many conversations.
func NewLocal(most int, now func() time.Time) *Local {
	return &Local{now: now, half: max(most/2, 1), young: make(map[Key]kept)}
}

// Recall implements Memory.
func (l *Local) Recall(_ context.Context, key Key) (Conversation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.young[key]
	if !ok {
		if k, ok = l.old[key]; ok {
			l.put(key, k)
		}
	}
	if !ok || !l.now().Before(k.until) {
		return Conversation{}, false
	}
	return k.Conversation, true
}

// Remember implements Memory.
func (l *Local) Remember(_ context.Context, key Key, c Conversation, lifetime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(key, kept{c, l.now().Add(lifetime)})
}

// put makes a conversation one of the young. When there are too many of them, they are the old.
func (l *Local) put(key Key, k kept) {
	delete(l.old, key)
	if _, ok := l.young[key]; !ok && len(l.young) == l.half {
		l.old, l.young = l.young, make(map[Key]kept)
	}
	l.young[key] = k
}

// Len is how many conversations are remembered.
func (l *Local) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.young) + len(l.old)
}
