package endpoint

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
)

// body is the body of a request. Its memory is used again when the transport closes it, which may be while it still
// reads from it, or has read nothing.
type body struct {
	mu     sync.Mutex
	left   []byte
	room   *[]byte // of left, until it is given back
	busy   bool    // writeTo reads from it
	closed bool
}

// maxRoom is the most memory that is kept for the next body, in bytes.
const maxRoom = 1 << 20

var rooms = sync.Pool{New: func() any { return new([]byte) }}

// newBody encodes a request.
func newBody(e *Endpoint, req *llm.Request) (*body, error) {
	room := rooms.Get().(*[]byte)
	b, err := e.codec().encode((*room)[:0], req, e)
	if err != nil {
		rooms.Put(room)
		return nil, llm.Errorf(llm.ErrRejected, "encoding the request: %v", err)
	}
	*room = b
	return &body{left: b, room: room}, nil
}

// Len is how many bytes are left to be read.
func (b *body) Len() int { return len(b.left) }

// small is a body of up to writeBuffer bytes as one that the transport knows to be in memory: it writes the headers
// and such a body at once, and the headers of any other before it. It takes the place of b.
func (b *body) small() io.ReadCloser {
	defer b.Close()
	return io.NopCloser(bytes.NewReader(bytes.Clone(b.left)))
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// writeTo writes what is left, at once, if that is so many bytes. It reports whether it did.
func (b *body) writeTo(w io.Writer, size int64) (n int, ok bool, err error) {
	b.mu.Lock()
	left := b.left
	if int64(len(left)) != size {
		b.mu.Unlock()
		return 0, false, nil
	}
	b.left, b.busy = nil, true
	b.mu.Unlock()
	n, err = w.Write(left)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy = false; b.closed {
		b.giveBack()
	}
	return n, true, err
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.closed = nil, true
	if !b.busy {
		b.giveBack()
	}
	return nil
}

// giveBack is called with the lock held.
func (b *body) giveBack() {
	if b.room != nil && cap(*b.room) <= maxRoom {
		rooms.Put(b.room)
	}
	b.room = nil
}

// plain is a connection that is not encrypted. A body goes to it in one piece, and not by a copy of its own.
type plain struct{ *net.TCPConn }

// ReadFrom is called by the transport, whose reader ends where the body does by its length.
func (c plain) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if b, ok := limited.R.(*body); ok {
			if n, ok, err := b.writeTo(c.TCPConn, limited.N); ok {
				limited.N -= int64(n)
				return int64(n), err
			}
		}
	}
	return c.TCPConn.ReadFrom(r)
}

// dialPlain makes connections of kind plain.
func dialPlain(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			return plain{tcp}, nil
		}
		return conn, err
	}
}
