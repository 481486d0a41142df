package exchange

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/llm"
)

// roomWait is how long an upstream is kept waiting by a client that takes nothing, once what is read ahead of it is
// full (GAP-112). One that takes something in that time is slow, and its upstream is as slow.
const roomWait = 5 * time.Second

// reader reads the stream of an attempt into a queue, beside the goroutine that writes to the client.
type reader struct {
	stream   engine.Stream
	queue    *queue
	delivery *delivery
	time     *routeTime
	flood    flood
	failed   func(error) *failure
	hungUp   <-chan struct{} // closed when nothing more is wanted of the stream

	held atomic.Int64 // nanoseconds for which the client kept the stream waiting
}

// run reads to the end of the stream.
func (r *reader) run() {
	for {
		events, err := r.stream.Recv()
		b := batch{events: events}
		switch {
		case r.flood.over(events):
			b.end = &ended{&failure{kind: llm.ErrUpstream, err: errFlood}}
		case errors.Is(err, io.EOF):
			b.end = &ended{}
		case err != nil:
			b.end = &ended{r.failed(err)}
		}
		if b.end != nil {
			r.time.end() // before anybody waits: the route was in time
		}
		if !r.queue.push(b) {
			r.wait(b)
		}
		if b.end != nil {
			return
		}
	}
}

// wait pushes a batch when there is room for it. That time is the client's and not the route's; a client that takes
// nothing in it has left.
func (r *reader) wait(b batch) {
	begin := time.Now()
	r.time.pause()
	defer func() {
		r.time.resume()
		r.held.Add(int64(time.Since(begin)))
	}()
	patience := time.NewTimer(min(roomWait, r.delivery.stall))
	defer patience.Stop()
	for !r.queue.push(b) {
		select {
		case <-r.queue.room:
		case <-patience.C:
			r.delivery.giveUp()
		case <-r.hungUp:
			r.queue.force(b) // it came in time
			return
		}
		patience.Reset(min(roomWait, r.delivery.stall))
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

// over takes events, and reports whether there have been too many.
func (f *flood) over(events []llm.Event) bool {
	for i := range events {
		ev := &events[i]
		f.left -= 1 + int64(len(ev.Text)+len(ev.ID)+len(ev.Name))
	}
	return f.left < 0
}
