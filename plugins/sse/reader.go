// Package sse reads and writes event streams as WHATWG's HTML standard defines them ("Server-sent events",
// section 9.2). Codecs, providers and fake upstreams use it. It knows nothing of HTTP, of JSON, or of what
// an event means.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is returned, wrapped, when a line, an event's data, or what stands between two events exceeds the
// Reader's limit. The rest of the stream cannot be read.
var ErrTooLarge = errors.New("the event is larger than the limit")

// Event is one event of a stream.
type Event struct {
	// Name is the last `event` field, "" if there was none.
	Name string
	// Data are the `data` fields, joined by LF. Valid until the next call of Next or Ready.
	Data []byte
	// Bare: it is a line that is an object without the name of a field before it (lemonade, issue 2826), which is none of
	// the standard's. Some services say so that something went wrong. It is an event of its own.
	Bare bool
}

const (
	// A quiet stream waits with a small buffer, for there are many; one whose reads fill it has a usual one, until so
	// many reads in a row would have fitted. It grows further only for lines that do not fit.
	smallBuffer = 1 << 10
	usualBuffer = 4 << 10
	quietReads  = 16
	keptData    = 64 << 10 // bytes of room for data that are kept for the next event

	maxEmptyReads  = 100
	utf8ByteMark   = "\xEF\xBB\xBF"
	fieldNameData  = "data"
	fieldNameEvent = "event"
)

// Reader reads events. An event is returned as soon as the byte that ends it has been read; Reader never
// waits for more than that. Comments and the fields `id` and `retry` are passed over. Each byte is looked at once,
// however it arrives and whoever asks whether an event is there.
type Reader struct {
	src   io.Reader
	limit int

	buf        []byte
	start, end int   // the unread part of buf
	seen       int   // bytes of the unread part that end no line
	err        error // of src, once it has returned one
	filled     bool  // buf was about full after the last read
	quiet      int   // reads in a row that a small buffer would have had room for

	begun  bool // a line has been read: no byte order mark can follow
	skipLF bool // the last line ended in CR: an LF that follows belongs to it

	// The event at hand.
	name    string // may be that of an event before, see named
	named   bool
	data    []byte
	hasData bool
	passed  int    // bytes of lines that say nothing, since the last event
	alone   *Event // that came within it: the next
	whole   bool   // there is one to return: it has ended, or there is another alone
	taken   bool   // Next has returned it
	failed  error  // it is too large
}

// NewReader makes a Reader of src. A line, the data of one event, and the lines between two events that are no data
// may have at most limit bytes.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, limit: limit}
}

// Next returns the next event. At the end of the stream it returns io.EOF if the stream ended between two
// events, and io.ErrUnexpectedEOF if it was cut within one; what there was of that one is dropped, as the
// standard demands. Other errors are those of the source, and ErrTooLarge.
func (r *Reader) Next() (Event, error) {
	for !r.scan() {
		if r.failed != nil {
			return Event{}, r.failed
		}
		if err := r.Fill(); err != nil {
			if errors.Is(err, io.EOF) && (r.hasData || r.named || r.start < r.end) {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
	}
	r.taken = true
	e := Event{Data: r.data}
	switch {
	case !r.hasData:
		e, r.alone = *r.alone, nil
	case r.named:
		e.Name = r.name
	}
	return e, nil
}

// alone is the event that one line is: Event.Bare, or `error: ` and what (llama.cpp, pull request 16109).
func alone(line []byte) (e Event, ok bool) {
	if line[0] == '{' {
		return Event{Data: line, Bare: true}, true
	}
	value, ok := bytes.CutPrefix(line, []byte("error:"))
	return Event{Name: "error", Data: value}, ok
}

// Ready reports whether Next returns without reading the source: an event has been read ahead, or the source has
// ended.
func (r *Reader) Ready() bool { return r.scan() || r.failed != nil || r.err != nil }

// scan takes the lines that have been read, up to the end of an event, and reports whether that was among them.
func (r *Reader) scan() bool {
	if r.taken {
		if cap(r.data) > keptData {
			r.data = nil
		}
		r.data, r.hasData, r.named, r.passed, r.taken = r.data[:0], false, false, 0, false
		r.whole = r.alone != nil
	}
	for !r.whole && r.failed == nil {
		line, ok := r.line()
		if !ok {
			break
		}
		r.take(line)
	}
	return r.whole
}

// take takes a line into the event at hand.
func (r *Reader) take(line []byte) {
	switch {
	case len(line) == 0 && r.hasData:
		r.whole = true
		return
	case len(line) > 0:
		if e, ok := alone(line); ok {
			r.takeAlone(e)
			return
		}
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	if string(field) == fieldNameData {
		if len(r.data)+len(value) > r.limit {
			r.failed = r.tooLarge()
			return
		}
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data, r.hasData = append(r.data, value...), true
		return
	}
	switch {
	case len(line) == 0:
		r.named = false
	case string(field) == fieldNameEvent:
		if r.name != string(value) {
			r.name = string(value) // streams repeat few names: keep the last one made
		}
		r.named = true
	}
	r.pass(line)
}

// takeAlone takes an event of one line. Where it stands within another one, that is the first.
func (r *Reader) takeAlone(e Event) {
	if e.Bare && r.named {
		e.Name = r.name
	}
	if r.pass(e.Data); r.hasData {
		e.Data = bytes.Clone(e.Data)
	} else {
		r.whole = true
	}
	r.alone = &e
}

// pass counts a line that is no data of the event at hand.
func (r *Reader) pass(line []byte) {
	if r.passed += max(1, len(line)); r.passed > r.limit {
		r.failed = r.tooLarge()
	}
}

// lineEnd returns the index of the first byte that ends a line, -1 if there is none.
func lineEnd(b []byte) int {
	const stretch = 512 // that is looked through for one of the two, where the other may come soon
	for start := 0; start < len(b); start += stretch {
		part := b[start:min(start+stretch, len(b))]
		i := bytes.IndexByte(part, '\n')
		if i >= 0 {
			part = part[:i]
		}
		if n := bytes.IndexByte(part, '\r'); n >= 0 {
			i = n
		}
		if i >= 0 {
			return start + i
		}
	}
	return -1
}

// line returns the next line of what has been read, without its end; ok is false where there is no whole one. It is
// valid until the next call.
func (r *Reader) line() (line []byte, ok bool) {
	if r.skipLF && r.start < r.end {
		if r.skipLF = false; r.buf[r.start] == '\n' {
			r.start++
		}
	}
	size := r.end - r.start
	n := lineEnd(r.buf[r.start+r.seen : r.end])
	if n >= 0 {
		size = r.seen + n
	}
	if size > r.limit {
		r.failed = r.tooLarge()
		return nil, false
	}
	if n < 0 {
		r.seen = size
		return nil, false
	}
	end := r.start + size
	line = r.buf[r.start:end]
	r.skipLF = r.buf[end] == '\r'
	r.start, r.seen = end+1, 0
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte(utf8ByteMark))
	}
	return line, true
}

func (r *Reader) tooLarge() error {
	return fmt.Errorf("reading an event stream: %w (%d bytes)", ErrTooLarge, r.limit)
}

// Fill reads what the source has, once. Next does so by itself where it needs more.
func (r *Reader) Fill() error {
	if r.err != nil {
		return r.err
	}
	rest := r.buf[r.start:r.end]
	switch {
	case r.quiet >= quietReads && len(r.buf) > smallBuffer && len(rest) < smallBuffer/2:
		r.move(rest, smallBuffer)
	case len(rest) == len(r.buf):
		r.move(rest, max(smallBuffer, min(2*len(r.buf), r.limit+smallBuffer))) // a longer line is none
	case r.filled && len(r.buf) < usualBuffer:
		r.move(rest, usualBuffer)
	case r.start > 0:
		r.start, r.end = 0, copy(r.buf, rest)
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if r.filled = r.end >= len(r.buf)/4*3; n > smallBuffer/2 {
			r.quiet = 0
		} else {
			r.quiet++
		}
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// move makes a buffer of a size for what is unread.
func (r *Reader) move(rest []byte, size int) {
	buf := make([]byte, size)
	r.start, r.end, r.buf = 0, copy(buf, rest), buf
	r.quiet = 0
}
