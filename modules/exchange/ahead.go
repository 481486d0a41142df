package exchange

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/fareway/fareway/plugins/llm"
)

// maxAhead is how much of a reply is read ahead of its client, in bytes (GAP-112).
const maxAhead = 1 << 20

// batch is what one Recv returned.
type batch struct {
	events []llm.Event
	end    *ended // of the stream, nil while it goes on
}

// ended is how a stream ended; failure is nil where the route finished its reply.
type ended struct{ failure *failure }

// size is about what a batch takes in memory.
func (b *batch) size() int64 {
	n := int64(unsafe.Sizeof(*b)) + int64(len(b.events))*int64(unsafe.Sizeof(llm.Event{}))
	for i := range b.events {
		ev := &b.events[i]
		n += int64(len(ev.Text) + len(ev.ID) + len(ev.Name) + len(ev.Model))
	}
	return n
}

// memory is what the queues of all requests share.
type memory interface {
	TakeAhead(n int64) bool
	GiveAhead(n int64)
}

// queue is what an upstream has sent and the client has not taken yet. One goroutine reads the upstream and pushes,
// another one writes to the client and pops: a write that waits for the client does not keep the upstream waiting
// (GAP-112). The first batch counts for nothing, so that a client that keeps up costs nothing.
type queue struct {
	memory memory
	ready  chan struct{} // capacity 1: there is something to pop
	room   chan struct{} // capacity 1: something was popped

	mu      sync.Mutex
	waiting []waiting
	head    int // of waiting
	used    int64
	wanted  bool // a push found no room
	closed  bool
}

type waiting struct {
	batch
	counted int64 // bytes taken of the memory
}

func newQueue(m memory) *queue {
	return &queue{memory: m, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// push adds a batch; false when there is no room for it.
func (q *queue) push(b batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return true
	}
	var size int64
	if len(q.waiting) > q.head {
		if size = b.size(); q.used+size > maxAhead || !q.memory.TakeAhead(size) {
			q.wanted = true
			return false
		}
	}
	q.add(waiting{b, size})
	return true
}

// force adds a batch though there may be no room for it.
func (q *queue) force(b batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.add(waiting{b, 0})
	}
}

func (q *queue) add(w waiting) {
	if len(q.waiting) == cap(q.waiting) {
		q.waiting, q.head = slices.Delete(q.waiting, 0, q.head), 0
	}
	q.waiting = append(q.waiting, w)
	q.used += w.counted
	signal(q.ready)
}

// pop returns the oldest batch and whether there are more; ok is false when there is none.
func (q *queue) pop() (b batch, more, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == q.head {
		return batch{}, false, false
	}
	w := q.waiting[q.head]
	q.waiting[q.head] = waiting{}
	q.head++
	if more = len(q.waiting) > q.head; more {
		signal(q.ready)
	} else {
		q.waiting, q.head = q.waiting[:0], 0
	}
	q.give(w.counted)
	if q.wanted {
		q.wanted = false
		signal(q.room)
	}
	return w.batch, more, true
}

// len counts the batches that wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) - q.head
}

// close forgets what nobody pops any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(q.used)
	q.waiting, q.head, q.closed = nil, 0, true
}

// give gives memory back.
func (q *queue) give(size int64) {
	if size > 0 {
		q.used -= size
		q.memory.GiveAhead(size)
	}
}

// signal wakes whoever waits on a channel with a capacity of one, now or when he comes.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
