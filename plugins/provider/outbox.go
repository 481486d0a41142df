package provider

import (
	"context"
	"sync"

	"github.com/fareway/fareway/plugins/internal/wire"
)

const (
	// An outbox holds this many events, or text of this many bytes, before it slows the provider down.
	outboxEvents = 256
	outboxBytes  = 64 << 10
)

// outbox is between the send of a provider of whom nobody knows when it waits and the gRPC stream, which a goroutine
// writes. What gathers while a message is being written leaves together in the next one, and nothing waits for more to
// come: HTTP/2 costs by the message, so a slow consumer makes a cheap one. It holds a bounded amount, so that a slow
// host slows the provider.
type outbox struct {
	ready chan struct{} // capacity 1: something waits, or the outbox is closed
	room  chan struct{} // capacity 1: what waited has been taken

	mu     sync.Mutex
	queue  []wire.Said
	bytes  int
	closed bool
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds an event, with size bytes of text in it. It blocks while the outbox is full, until ctx ends. It
// must not be called concurrently.
func (o *outbox) put(ctx context.Context, ev wire.Said, size int) error {
	for {
		if o.tryPut(ev, size) {
			wake(o.ready)
			return nil
		}
		select {
		case <-o.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *outbox) tryPut(ev wire.Said, size int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= outboxEvents || o.bytes >= outboxBytes {
		return false
	}
	o.queue = append(o.queue, ev)
	o.bytes += size
	return true
}

// close says that nothing more will be put in.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	wake(o.ready)
}

// take waits for events and takes all that there are. It answers nil when the outbox is closed and empty.
// The events that it returned before must no longer be in use: it recycles their slice.
func (o *outbox) take(recycle []wire.Said) []wire.Said {
	for {
		o.mu.Lock()
		if len(o.queue) > 0 {
			batch := o.queue
			clear(recycle)
			o.queue, o.bytes = recycle[:0], 0
			o.mu.Unlock()
			wake(o.room)
			return batch
		}
		closed := o.closed
		o.mu.Unlock()
		if closed {
			return nil
		}
		<-o.ready
	}
}

// wake rouses the one who waits on c, now or the next time.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
