package endpoint

import (
	"bytes"
	"io"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
)

// body is the body of a request. Its memory is used again when the transport closes it, which may be while it still
// reads from it, or has read nothing.
type body struct {
	mu   sync.Mutex
	left []byte
	room *[]byte // of left, until it is given back
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

func (b *body) Close() error {
	b.giveBack()
	return nil
}

// giveBack lets go of the memory.
func (b *body) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left = nil; b.room != nil && cap(*b.room) <= maxRoom {
		rooms.Put(b.room)
	}
	b.room = nil
}
