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

// ErrTooLarge is returned, wrapped, when a line or an event's data exceeds the Reader's limit. The rest of
// the stream cannot be read.
var ErrTooLarge = errors.New("the event is larger than the limit")

// Event is one event of a stream.
type Event struct {
	// Name is the last `event` field, "" if there was none.
	Name string
	// Data are the `data` fields, joined by LF. Valid until the next call of Next.
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

	maxEmptyReads  = 100
	utf8ByteMark   = "\xEF\xBB\xBF"
	fieldNameData  = "data"
	fieldNameEvent = "event"
)

// Reader reads events. An event is returned as soon as the byte that ends it has been read; Reader never
// waits for more than that. Comments and the fields `id` and `retry` are passed over.
type Reader struct {
	src   io.Reader
	limit int

	buf        []byte
	start, end int   // the unread part of buf
	err        error // of src, once it has returned one
	filled     bool  // buf was about full after the last read
	quiet      int   // reads in a row that a small buffer would have had room for

	begun  bool // a line has been read: no byte order mark can follow
	skipLF bool // the last line ended in CR: an LF that follows belongs to it

	name    string
	named   bool
	data    []byte
	hasData bool
	alone   *Event // that came within another one: the next
}

// NewReader makes a Reader of src. A line, and the data of one event, may have at most limit bytes.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, limit: limit}
}

// Next returns the next event. At the end of the stream it returns io.EOF if the stream ended between two
// events, and io.ErrUnexpectedEOF if it was cut within one; what there was of that one is dropped, as the
// standard demands. Other errors are those of the source, and ErrTooLarge.
func (r *Reader) Next() (Event, error) {
	name := ""
	r.data, r.hasData, r.named = r.data[:0], false, false
	if r.alone != nil {
		e := *r.alone
		r.alone = nil
		return e, nil
	}
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && (r.hasData || r.named || r.start < r.end) {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if r.hasData {
				return Event{Name: name, Data: r.data}, nil
			}
			name, r.named = "", false
			continue
		}
		if e, ok := alone(line); ok {
			if e.Bare {
				e.Name = name
			}
			if !r.hasData {
				return e, nil
			}
			e.Data = bytes.Clone(e.Data)
			r.alone = &e // the event around it is first
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case fieldNameData:
			if len(r.data)+len(value) > r.limit {
				return Event{}, r.tooLarge()
			}
			if r.hasData {
				r.data = append(r.data, '\n')
			}
			r.data, r.hasData = append(r.data, value...), true
		case fieldNameEvent:
			if r.name != string(value) {
				r.name = string(value) // streams repeat few names: keep the last one made
			}
			name, r.named = r.name, true
		}
	}
}

// alone is the event that one line is: Event.Bare, or `error: ` and what (llama.cpp, pull request 16109).
func alone(line []byte) (e Event, ok bool) {
	if line[0] == '{' {
		return Event{Data: line, Bare: true}, true
	}
	value, ok := bytes.CutPrefix(line, []byte("error:"))
	return Event{Name: "error", Data: value}, ok
}

// Ready reports whether Next returns without reading the source: an event has been read ahead, or the source has ended.
func (r *Reader) Ready() bool {
	if r.err != nil || r.alone != nil {
		return true
	}
	rest := r.buf[r.start:r.end]
	if r.skipLF {
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	for hasData := false; ; {
		i := lineEnd(rest)
		if i < 0 {
			return false
		}
		line := rest[:i]
		if rest[i] == '\r' && i+1 < len(rest) && rest[i+1] == '\n' {
			i++
		}
		rest = rest[i+1:]
		if len(line) == 0 {
			if hasData {
				return true
			}
			continue
		}
		if _, ok := alone(line); ok && !hasData {
			return true
		}
		if field, _, _ := bytes.Cut(line, []byte(":")); string(field) == fieldNameData {
			hasData = true
		}
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

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	for i := r.start; ; {
		if r.skipLF && r.start < r.end {
			if r.skipLF = false; r.buf[r.start] == '\n' {
				r.start++
			}
			i = r.start
		}
		if n := lineEnd(r.buf[i:r.end]); n >= 0 {
			i += n
		} else {
			i = r.end
		}
		if i-r.start > r.limit {
			return nil, r.tooLarge()
		}
		if i < r.end {
			line := r.buf[r.start:i]
			r.skipLF = r.buf[i] == '\r'
			r.start = i + 1
			if !r.begun {
				r.begun = true
				line = bytes.TrimPrefix(line, []byte(utf8ByteMark))
			}
			return line, nil
		}
		seen := i - r.start
		if err := r.Fill(); err != nil {
			return nil, err
		}
		i = r.start + seen
	}
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
		r.move(rest, max(smallBuffer, 2*len(r.buf)))
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
