package exchange

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// delivery is the client's side of an exchange: what was written and when. A stream's 200 is held until the
// first route accepts or one keep-alive interval has passed (SSE-43, GAP-64).
//
// The exchange's goroutine writes the reply, and that of a timer the keep-alives. These hold:
//   - Whoever has the turn writes, and only whole frames. A keep-alive for which somebody else has the turn is not due.
//   - The frames at hand, and the encoder but for AppendKeepAlive, are the exchange's.
//   - After stopKeepAlives the exchange alone writes: nothing comes after an end, or after the handler's return.
//   - While a write of the exchange lasts longer than readAheadAfter, or waits for the turn, readAhead is called: the
//     exchange is not reading its upstream then, so that somebody else may.
//   - A write that takes a client's stall time, in which it took nothing, is broken, whoever writes.
type delivery struct {
	client  context.Context // ends when the client leaves
	w       http.ResponseWriter
	control *http.ResponseController
	encoder families.Encoder
	stream  bool

	started bool // the first events were written
	shown   bool // something of the reply itself reached the client

	gone   atomic.Bool   // the client left, or a write failed
	broken chan struct{} // of a stream: closed when a write has failed

	turn   chan struct{} // capacity 1; it holds something while somebody writes
	opened bool          // the 200 of a stream was written; changed by whoever has the turn
	over   bool          // there are no more keep-alives; likewise

	stall        time.Duration // for which a client may take nothing (GAP-112)
	readAhead    func()        // reads the upstream beside a write of the exchange; nil while there is nothing to read
	mu           sync.Mutex    // of what follows
	watch        *time.Timer   // runs while a write does
	writing      writer        // whose write runs
	since        time.Time     // the client has taken nothing
	stalled      bool          // the client took nothing for too long, and its connection is broken
	lastDeadline bool          // there is a deadline for the last frame
	released     bool          // the exchange has ended

	begun    time.Time
	interval time.Duration
	quiet    *time.Timer // fires when nothing was written for one interval; nil before begin and without a stream
	frames   *frames     // of the events at hand, written and flushed together; nil when there are none
}

// writer is who writes.
type writer uint8

const (
	nobody writer = iota
	theExchange
	theTimer // a keep-alive
)

// readAheadAfter is how long a write waits for the client before the upstream is read beside it.
const readAheadAfter = 20 * time.Millisecond

// frames are encoded events, or the body of what is no stream. Their memory is borrowed: a quiet stream has none, and
// a busy one does not grow a buffer of its own for each batch.
type frames struct{ b []byte }

// keptFrames is the largest memory that is given back to be borrowed again.
const keptFrames = 64 << 10

var framesPool = sync.Pool{New: func() any { return &frames{b: make([]byte, 0, 4<<10)} }}

// addFrames appends to the frames of the events at hand, as one of the encoder's methods does.
func (d *delivery) addFrames(encode func([]byte) []byte) {
	if d.frames == nil {
		d.frames = framesPool.Get().(*frames)
	}
	d.frames.b = encode(d.frames.b)
}

func newDelivery(client context.Context, w http.ResponseWriter, stream bool, interval, stall time.Duration) *delivery {
	d := &delivery{client: client, w: w, control: http.NewResponseController(w), stream: stream, interval: interval,
		stall: stall}
	if stream {
		d.begun, d.broken, d.turn = time.Now(), make(chan struct{}), make(chan struct{}, 1)
	}
	return d
}

// setEncoder sets the encoder, and starts the keep-alives of a stream.
func (d *delivery) setEncoder(e families.Encoder) {
	d.encoder = e
	if d.stream {
		d.quiet = time.AfterFunc(d.interval, d.keepAlive)
		d.quiet.Reset(time.Until(d.begun.Add(d.interval)))
	}
}

// stopKeepAlives ends the keep-alives.
func (d *delivery) stopKeepAlives() {
	if d.quiet == nil {
		return
	}
	d.quiet.Stop()
	d.turn <- struct{}{}
	d.over = true
	<-d.turn
}

// setLastDeadline is called when the time of the exchange is over: a write that waits for a client that does not read
// has a few seconds left for the last frame. Any goroutine may call it.
func (d *delivery) setLastDeadline() {
	const lastFrame = 5 * time.Second
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.released {
		d.lastDeadline = true
		// Not every writer has deadlines; those of real connections do.
		_ = d.control.SetWriteDeadline(time.Now().Add(lastFrame))
	}
}

// restoreConnection leaves the connection as it was, for the next request.
func (d *delivery) restoreConnection() {
	d.stopKeepAlives()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released = true; d.lastDeadline {
		_ = d.control.SetWriteDeadline(time.Time{})
	}
}

// keepAlive writes a keep-alive, unless something else is being written: when that has been, the next interval begins.
func (d *delivery) keepAlive() {
	select {
	case d.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-d.turn }()
	if !d.over && !d.gone.Load() {
		d.sendFrames(theTimer, d.encoder.AppendKeepAlive(nil))
	}
}

// addStart adds the first events of the stream, once (SSE-21).
func (d *delivery) addStart() {
	if d.stream && !d.started {
		d.started = true
		d.addFrames(d.encoder.AppendStart)
	}
}

// untilOpen is how long it is until a keep-alive opens the stream; not positive where it is open.
func (d *delivery) untilOpen() time.Duration {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	default: // a keep-alive is written
		return 0
	}
	if d.opened {
		return 0
	}
	return time.Until(d.begun.Add(d.interval))
}

// openStream opens a stream of which nothing is to be shown yet (GAP-85).
func (d *delivery) openStream() {
	d.addStart()
	d.flush()
}

// addEvent adds the frames of a visible event of a stream.
func (d *delivery) addEvent(ev llm.Event) {
	d.addFrames(func(b []byte) []byte { return d.encoder.AppendEvent(b, ev) })
	d.shown = d.shown || !d.gone.Load()
}

// flush writes the frames at hand, opening the stream if need be.
func (d *delivery) flush() {
	if d.frames == nil {
		return
	}
	defer d.dropFrames()
	if len(d.frames.b) == 0 || d.gone.Load() {
		return
	}
	select {
	case d.turn <- struct{}{}:
	default: // a keep-alive waits for the client
		if d.readAhead != nil {
			d.readAhead()
		}
		d.turn <- struct{}{}
	}
	defer func() { <-d.turn }()
	if !d.gone.Load() {
		d.sendFrames(theExchange, d.frames.b)
	}
}

// sendFrames writes frames, for who has the turn.
func (d *delivery) sendFrames(who writer, frames []byte) {
	if !d.opened {
		d.opened = true
		gateway.SetStreamHead(d.w.Header())
		d.w.WriteHeader(http.StatusOK)
	}
	if d.write(who, frames) != nil && !d.gone.Swap(true) {
		close(d.broken)
	}
	if !d.over {
		d.quiet.Reset(d.interval)
	}
}

// maxWrite is the most that one write takes, in bytes: a client that takes that much is not stalled.
const maxWrite = 16 << 10

// isFull reports whether the frames at hand are as much as one write takes.
func (d *delivery) isFull() bool { return d.frames != nil && len(d.frames.b) >= maxWrite }

// write hands bytes to the connection, and gives up when the client takes none for too long. The exchange's frames are
// not used again after an error: a connection of HTTP/2 may be reading from them still.
func (d *delivery) write(who writer, b []byte) (err error) {
	defer d.noteWritten()
	defer func() {
		if err != nil && who == theExchange {
			d.frames = nil
		}
	}()
	for len(b) > 0 {
		d.noteWrite(who)
		n := min(len(b), maxWrite)
		if _, err := d.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return d.control.Flush()
}

// noteWrite notes that a write begins, or that the client has taken something of it.
func (d *delivery) noteWrite(who writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing, d.since = who, time.Now()
	if wait := min(readAheadAfter, d.stall); d.watch == nil {
		d.watch = time.AfterFunc(wait, d.checkWrite)
	} else {
		d.watch.Reset(wait)
	}
}

func (d *delivery) noteWritten() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = nobody
	if d.watch != nil {
		d.watch.Stop()
	}
}

// checkWrite looks at a write that has not returned yet.
func (d *delivery) checkWrite() {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := time.Since(d.since)
	switch {
	case d.writing == nobody:
		return
	case taken >= d.stall:
		d.breakConnection()
		return
	case taken < readAheadAfter: // another write than the timer was set for
		d.watch.Reset(min(readAheadAfter, d.stall) - taken)
		return
	case d.writing == theExchange && d.readAhead != nil:
		d.readAhead()
	}
	d.watch.Reset(d.stall - taken)
}

// giveUpClient breaks the connection of a client that has taken nothing for too long, if a write waits for it. Any
// goroutine may call it.
func (d *delivery) giveUpClient() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writing != nobody {
		d.breakConnection()
	}
}

// breakConnection breaks the connection under a write: it returns, and the client has left. The lock is held.
func (d *delivery) breakConnection() {
	d.stalled = true
	// It ends a connection of HTTP/1 and a stream of HTTP/2 or 3. Not every writer has deadlines; those of
	// real connections do.
	_ = d.control.SetWriteDeadline(time.Now())
}

// gaveUp reports whether the client was given up.
func (d *delivery) gaveUp() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stalled
}

// writeBody writes a whole reply in JSON.
func (d *delivery) writeBody(b []byte) {
	describeBody(d.w.Header(), b)
	if err := d.write(theExchange, b); err != nil && d.gaveUp() {
		panic(http.ErrAbortHandler)
	}
}

// dropFrames forgets the frames at hand.
func (d *delivery) dropFrames() {
	if d.frames != nil && cap(d.frames.b) <= keptFrames {
		d.frames.b = d.frames.b[:0]
		framesPool.Put(d.frames)
	}
	d.frames = nil
}

// writeEnd writes the last frames of a stream, those at hand. Where they cannot be written, the connection breaks: to
// somebody who reads after all, the reply must not look as if it were complete.
func (d *delivery) writeEnd() {
	d.stopKeepAlives()
	d.flush()
	if d.gone.Load() {
		panic(http.ErrAbortHandler)
	}
}

// clientLeft reports whether the client has left.
func (d *delivery) clientLeft() bool { return d.gone.Load() || d.client.Err() != nil }

// What the other parts do with it beside writing.
func (d *delivery) markGone()                         { d.gone.Store(true) } // what the client gets must not look whole
func (d *delivery) isGone() bool                      { return d.gone.Load() }
func (d *delivery) hasShown() bool                    { return d.shown }
func (d *delivery) connectionBroken() <-chan struct{} { return d.broken }
func (d *delivery) patience() time.Duration           { return d.stall }
func (d *delivery) readBeside(read func())            { d.readAhead = read } // nil while there is nothing to read

// finish ends the reply, whose end has been encoded.
func (d *delivery) finish() {
	if d.stream {
		d.writeEnd()
	} else {
		d.writeBody(d.frames.b)
		d.dropFrames()
	}
}

// writeReply writes a reply of text alone.
func (d *delivery) writeReply(text string, e families.End) {
	var fold llm.Reply
	event := llm.Event{Kind: llm.EventText, Text: text}
	if d.stream {
		if d.addStart(); text != "" {
			d.addEvent(event)
		}
	} else if text != "" {
		fold.Add(event)
	}
	fold.Close()
	d.encodeEnd(ending{}, &fold, e)
	d.finish()
}

// showKept shows a reply that was kept back.
func (d *delivery) showKept(kept *llm.Reply) {
	if !d.stream {
		return
	}
	d.addStart()
	calls := 0
	for _, item := range kept.Items {
		if item.Call == nil {
			d.addEvent(llm.Event{Kind: llm.EventText, Text: item.Text})
			continue
		}
		d.addEvent(llm.Event{Kind: llm.EventToolCall, Index: calls, ID: item.Call.ID, Name: item.Call.Name})
		d.addEvent(llm.Event{Kind: llm.EventToolArguments, Index: calls, Text: item.Call.Arguments.String()})
		d.addEvent(llm.Event{Kind: llm.EventToolEnd, Index: calls})
		calls++
	}
	d.flush()
}

// writeError tells the client of an error: as the last frame of an open stream (SSE-30), otherwise as the reply.
func (d *delivery) writeError(e *families.Error) *families.Error {
	d.stopKeepAlives()
	if !d.opened {
		return e
	}
	d.dropFrames()
	d.addFrames(func(b []byte) []byte { return d.encoder.AppendError(b, e) })
	d.writeEnd()
	return nil
}

// encodeEnd adds the end of the reply to the frames at hand, which are the whole body of what is no stream. Text that
// a stream still owes is sent at once, for the frames at hand go when the settlement fails.
func (d *delivery) encodeEnd(end ending, fold *llm.Reply, e families.End) {
	rest := llm.Event{Kind: llm.EventText, Text: end.rest}
	if d.stream {
		if end.rest != "" {
			d.addEvent(rest)
			d.flush()
		}
		d.addFrames(func(b []byte) []byte { return d.encoder.AppendEnd(b, e) })
		return
	}
	if end.rest != "" {
		fold.Add(rest)
		fold.Close()
	}
	d.addFrames(func(b []byte) []byte { return d.encoder.AppendReply(b, fold, e) })
}
