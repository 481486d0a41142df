package exchange

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// delivery is the client's side of an exchange: what was written and when. A stream's 200 is held until the
// first route accepts or one keep-alive interval has passed (SSE-43, GAP-64).
type delivery struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encoder families.Encoder
	stream  bool

	opened  bool // the 200 of a stream was written
	started bool // the first events were written
	shown   bool // something of the reply itself reached the client
	gone    bool // the client left, or a write failed

	stall   time.Duration // for which a client may take nothing (GAP-112)
	watch   *time.Timer   // runs while a write does
	mu      sync.Mutex
	writing bool // a write runs; the lock is held to change it
	stalled bool // the client took nothing for too long, and its connection is broken; likewise

	interval time.Duration
	quiet    *time.Timer // fires when nothing was written for one interval; nil without a stream
	frames   *frames     // of the events at hand, written and flushed together; nil when there are none
}

// frames are encoded events. Their memory is borrowed: a quiet stream has none, and a busy one does not grow
// a buffer of its own for each batch.
type frames struct{ b []byte }

// keptFrames is the largest memory that is given back to be borrowed again.
const keptFrames = 64 << 10

var framesPool = sync.Pool{New: func() any { return &frames{b: make([]byte, 0, 4<<10)} }}

// add appends to the frames of the events at hand, as one of the encoder's methods does.
func (d *delivery) add(encode func([]byte) []byte) {
	if d.frames == nil {
		d.frames = framesPool.Get().(*frames)
	}
	d.frames.b = encode(d.frames.b)
}

func newDelivery(w http.ResponseWriter, stream bool, interval, stall time.Duration) *delivery {
	d := &delivery{w: w, control: http.NewResponseController(w), stream: stream, interval: interval, stall: stall}
	d.watch = time.AfterFunc(stall, d.giveUp)
	d.watch.Stop()
	if stream {
		d.quiet = time.NewTimer(interval)
	}
	return d
}

// limit lets no write outlive the exchange: when ctx is done, a write that waits for a client that does not
// read has a few seconds left for the last frame.
func (d *delivery) limit(ctx context.Context) (release func()) {
	const lastFrame = 5 * time.Second
	stop := context.AfterFunc(ctx, func() {
		// Not every writer has deadlines; those of real connections do.
		_ = d.control.SetWriteDeadline(time.Now().Add(lastFrame))
	})
	return func() {
		if !stop() {
			_ = d.control.SetWriteDeadline(time.Time{})
		}
		if d.quiet != nil {
			d.quiet.Stop()
		}
	}
}

// silence is the channel that asks for a keep-alive; nil, which never does, when there is no stream.
func (d *delivery) silence() <-chan time.Time {
	if d.quiet == nil || d.gone {
		return nil
	}
	return d.quiet.C
}

func (d *delivery) keepAlive() {
	d.add(d.encoder.AppendKeepAlive)
	d.flush()
}

// start adds the first events of the stream, once (SSE-21).
func (d *delivery) start() {
	if d.stream && !d.started {
		d.started = true
		d.add(d.encoder.AppendStart)
	}
}

// event adds the frames of a visible event of a stream.
func (d *delivery) event(ev llm.Event) {
	d.add(func(b []byte) []byte { return d.encoder.AppendEvent(b, ev) })
	d.shown = d.shown || !d.gone
}

// flush writes the frames at hand, opening the stream if need be.
func (d *delivery) flush() {
	if d.frames == nil {
		return
	}
	defer d.drop()
	if len(d.frames.b) == 0 || d.gone {
		return
	}
	if !d.opened {
		d.opened = true
		h := d.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		// no-transform is what keeps Caddy's encode from compressing, and so delaying, the stream.
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
		d.w.WriteHeader(http.StatusOK)
	}
	d.gone = d.write(d.frames.b) != nil
	d.quiet.Reset(d.interval)
}

// atOnce is the most that one write takes, in bytes: a client that takes that much is not stalled, however much there
// is.
const atOnce = 16 << 10

// full reports whether the frames at hand are as much as one write takes.
func (d *delivery) full() bool { return d.frames != nil && len(d.frames.b) >= atOnce }

// write hands bytes to the connection, and gives up when the client takes none for too long.
func (d *delivery) write(b []byte) error {
	d.setWriting(true)
	defer d.setWriting(false)
	for len(b) > 0 {
		d.watch.Reset(d.stall)
		n := min(len(b), atOnce)
		if _, err := d.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return d.control.Flush()
}

func (d *delivery) setWriting(writing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = writing
	if !writing {
		d.watch.Stop()
	}
}

// giveUp breaks the connection of a client that has taken nothing for too long, if a write waits for it: the write
// returns, and the client has left. Any goroutine may call it.
func (d *delivery) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writing {
		d.stalled = true
		// It ends a connection of HTTP/1 and a stream of HTTP/2 or 3. Not every writer has deadlines; those of
		// real connections do.
		_ = d.control.SetWriteDeadline(time.Now())
	}
}

// stuck reports whether the client was given up.
func (d *delivery) stuck() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stalled
}

// body writes a whole reply in JSON.
func (d *delivery) body(b []byte) {
	describeBody(d.w.Header(), b)
	if err := d.write(b); err != nil && d.stuck() {
		panic(http.ErrAbortHandler)
	}
}

// drop forgets the frames at hand.
func (d *delivery) drop() {
	if d.frames != nil && cap(d.frames.b) <= keptFrames {
		d.frames.b = d.frames.b[:0]
		framesPool.Put(d.frames)
	}
	d.frames = nil
}

// end writes the last frames of a stream, those at hand. Where they cannot be written, the connection breaks: to
// somebody who reads after all, the reply must not look as if it were complete.
func (d *delivery) end() {
	d.flush()
	if d.gone {
		panic(http.ErrAbortHandler)
	}
}

// fail ends an open stream with its error frame, and nothing after it (SSE-30).
func (d *delivery) fail(e *families.Error) {
	d.drop()
	d.add(func(b []byte) []byte { return d.encoder.AppendError(b, e) })
	d.end()
}
