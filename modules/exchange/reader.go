package exchange

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/llm"
)

// roomWait is how long an upstream is kept waiting by a client that takes nothing, once what is read ahead of it is
// full (GAP-112). One that takes something in that time is slow, and its upstream is as slow.
const roomWait = 5 * time.Second

// reader reads the stream of an attempt: the exchange itself does, one batch after the other, and while a write waits
// for the client another goroutine, into a queue (GAP-112). One of them reads at a time: the other one begins only
// while the exchange writes, and ends when the exchange has taken all that was read and asks for more.
type reader struct {
	stream   engine.Stream
	memory   memory
	delivery *delivery
	time     *routeTime      // is used by who reads
	flood    flood           // likewise
	ctx      context.Context // the attempt's
	proves   bool            // the stream outlives the attempt's time
	hungUp   <-chan struct{} // closed when nothing more is wanted of the stream

	queue *queue // nil until something was read ahead; set while the exchange writes

	held atomic.Int64 // nanoseconds for which the client kept the stream waiting
}

// next waits for the next batch, for the exchange, and says whether there are more that need not be waited for.
func (r *reader) next() (b batch, more bool) {
	if r.queue != nil {
		if b, more, ok := r.queue.next(); ok {
			return b, more
		}
	}
	return r.read(), false
}

// read reads a batch from the stream.
func (r *reader) read() batch {
	events, err := r.stream.Recv()
	b := batch{events: events, late: r.proves && r.ctx.Err() != nil,
		at: time.Now().Add(-time.Duration(r.held.Load()))}
	switch {
	case r.flood.countEvents(events):
		b.end, b.failure = true, &failure{kind: llm.ErrUpstream, err: errFlood}
	case errors.Is(err, io.EOF) && !b.late:
		b.end = true
	case err != nil:
		b.end, b.failure = true, failureOf(r.ctx, err)
	}
	if b.end {
		r.time.end() // before anybody waits: the route was in time
	}
	return b
}

// readAhead begins to read ahead, unless somebody does. It is called while the exchange writes.
func (r *reader) readAhead() {
	if r.queue == nil {
		r.queue = newQueue(r.memory)
	}
	if r.queue.begin() {
		go r.runAhead()
	}
}

// runAhead reads ahead, until the exchange reads for itself or the stream has ended.
func (r *reader) runAhead() {
	for goOn := true; goOn; {
		b := r.read()
		b.events = slices.Clone(b.events)
		var added bool
		if added, goOn = r.queue.push(b); !added {
			goOn = r.waitForRoom(b)
		}
	}
}

// waitForRoom pushes a batch when there is room for it. That time is the client's and not the route's; a client that
// takes nothing in it has left.
func (r *reader) waitForRoom(b batch) (goOn bool) {
	timeout := time.NewTimer(min(roomWait, r.delivery.patience()))
	defer timeout.Stop()
	for {
		begin := time.Now()
		r.time.pause()
		var hungUp bool
		select {
		case <-r.queue.room:
		case <-timeout.C:
			r.delivery.giveUpClient()
		case <-r.hungUp:
			hungUp = true
		}
		r.time.resume() // before the push, after which the exchange may read
		r.held.Add(int64(time.Since(begin)))
		if hungUp {
			return r.queue.addBeyondBound(b) // it came in time
		}
		if added, goOn := r.queue.push(b); added {
			return goOn
		}
		timeout.Reset(min(roomWait, r.delivery.patience()))
	}
}

// close forgets what was read ahead.
func (r *reader) close() {
	if r.queue != nil {
		r.queue.close()
	}
}

// routeTime is the time that a route has for an attempt. It stands still while the client keeps the attempt waiting
// (GAP-112). One goroutine alone uses it.
type routeTime struct {
	timer *time.Timer
	left  time.Duration // when it last began to run
	since time.Time     // zero while it stands still
}

// newRouteTime starts the time, at whose end over is called.
func newRouteTime(limit time.Duration, over func()) *routeTime {
	return &routeTime{timer: time.AfterFunc(limit, over), left: limit, since: time.Now()}
}

func (t *routeTime) pause() {
	if !t.since.IsZero() && t.timer.Stop() {
		t.left -= time.Since(t.since)
		t.since = time.Time{}
	}
}

// resume goes on after a pause.
func (t *routeTime) resume() {
	if t.since.IsZero() && t.left > 0 {
		t.since = time.Now()
		t.timer.Reset(t.left)
	}
}

// end stops the time for good.
func (t *routeTime) end() {
	t.timer.Stop()
	t.since, t.left = time.Time{}, 0
}

// What an upstream may send for an allowance: so many bytes for each token, and at least so many in all. A token is
// four bytes of English, and in any vocabulary at most 128, which are rows of blanks; 16 times what the allowance is
// worth is no longer a matter of counting.
const (
	floodPerToken = 64
	floodFloor    = 64 << 10
)

var errFlood = errors.New("the upstream sends many times what it was allowed to; the reply is cut")

// flood counts what an upstream sends, against what it was allowed to.
type flood struct{ left int64 }

func newFlood(allowance int64) flood {
	return flood{left: max(floodFloor, min(allowance, 1<<40)*floodPerToken)}
}

// countEvents takes events, and reports whether there have been too many.
func (f *flood) countEvents(events []llm.Event) bool {
	for i := range events {
		ev := &events[i]
		f.left -= 1 + int64(len(ev.Text)+len(ev.ID)+len(ev.Name)+len(ev.State))
	}
	return f.left < 0
}
