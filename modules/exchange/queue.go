package exchange

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/fareway/fareway/plugins/llm"
)

// maxAhead is how much of a reply is read ahead of its client, in bytes (GAP-112).
const maxAhead = 1 << 20

// batch is what one Recv returned.
type batch struct {
	events  []llm.Event
	end     bool      // of the stream
	failure *failure  // with end: why the route did not finish its reply, nil where it did
	late    bool      // the attempt's time was over: only what it used still counts
	at      time.Time // when it was read, by a clock that stands still while the client keeps the stream waiting
}

// size is about what a batch takes in memory.
func (b *batch) size() int64 {
	n := int64(unsafe.Sizeof(*b)) + int64(len(b.events))*int64(unsafe.Sizeof(llm.Event{}))
	for i := range b.events {
		ev := &b.events[i]
		n += int64(len(ev.Text) + len(ev.ID) + len(ev.Name) + len(ev.Model) + len(ev.State))
	}
	return n
}

// memory is what the queues of all requests share.
type memory interface {
	AcquireAhead(n int64) bool
	ReleaseAhead(n int64)
}

// queue is what was read of an upstream while a write waited for the client (GAP-112). One goroutine reads ahead and
// pushes, the exchange pops. The first batch counts for nothing, so that a client that keeps up costs nothing. Reading
// ahead ends when the exchange waits for it: from then on the exchange reads for itself.
type queue struct {
	memory memory
	ready  chan struct{} // capacity 1: there is something to pop
	room   chan struct{} // capacity 1: something was popped

	mu      sync.Mutex
	waiting []waiting
	head    int // of waiting
	used    int64
	wanted  bool // a push found no room
	reading bool // somebody reads ahead
	idle    bool // the exchange waits for a batch
	closed  bool
}

type waiting struct {
	batch
	counted int64 // bytes taken of the memory
}

func newQueue(m memory) *queue {
	return &queue{memory: m, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// begin makes the caller the one who reads ahead; false when somebody is, or nobody is to.
func (q *queue) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reading || q.closed {
		return false
	}
	q.reading = true
	return true
}

// push adds a batch, if there is room for it. goOn says whether to read on.
func (q *queue) push(b batch) (added, goOn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return true, false
	}
	var size int64
	if len(q.waiting) > q.head {
		if size = b.size(); q.used+size > maxAhead || !q.memory.AcquireAhead(size) {
			q.wanted = true
			return false, true
		}
	}
	return true, q.add(waiting{b, size})
}

// addBeyondBound adds a batch though there may be no room for it.
func (q *queue) addBeyondBound(b batch) (goOn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.add(waiting{b, 0})
}

func (q *queue) add(w waiting) (goOn bool) {
	if len(q.waiting) == cap(q.waiting) {
		q.waiting, q.head = slices.Delete(q.waiting, 0, q.head), 0
	}
	q.waiting = append(q.waiting, w)
	q.used += w.counted
	q.reading = !q.idle && !w.end
	q.idle = false
	signal(q.ready)
	return q.reading
}

// next is pop, and waits for a batch as long as somebody reads ahead.
func (q *queue) next() (b batch, more, ok bool) {
	for {
		if b, more, ok = q.pop(); ok || !q.noteWaiting() {
			return b, more, ok
		}
		<-q.ready
	}
}

// noteWaiting notes that the exchange waits, if somebody reads ahead.
func (q *queue) noteWaiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > q.head {
		return true // it is ready meanwhile
	}
	q.idle = q.reading
	return q.idle
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
	q.returnMemory(w.counted)
	if q.wanted {
		q.wanted = false
		signal(q.room)
	}
	return w.batch, more, true
}

// close forgets what nobody pops any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.returnMemory(q.used)
	q.waiting, q.head, q.closed = nil, 0, true
}

// returnMemory gives memory back.
func (q *queue) returnMemory(size int64) {
	if size > 0 {
		q.used -= size
		q.memory.ReleaseAhead(size)
	}
}

// signal wakes whoever waits on a channel with a capacity of one, now or when he comes.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
