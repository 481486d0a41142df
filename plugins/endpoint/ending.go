package endpoint

import (
	"context"
	"errors"
	"io"
)

// ending is a body that completes its last event when it has ended well: some services leave out the blank line after
// their end marker, and without it an event does not count. A body that broke off returns its error.
type ending struct {
	body    io.Reader
	ended   bool // the body has
	reached bool // and every whole event of it was read
	written int
}

func (e *ending) Read(p []byte) (int, error) {
	const blank = "\n\n"
	if !e.ended {
		n, err := e.body.Read(p)
		e.ended = errors.Is(err, io.EOF)
		if !e.ended {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
	e.reached = true
	if e.written == len(blank) {
		return 0, io.EOF
	}
	n := copy(p, blank[e.written:])
	e.written += n
	return n, nil
}

// linger reads what is left of a reply after its end marker, which is nothing but the end of the HTTP body, and gives
// the connection back. A service that does not end the body soon loses the connection instead.
func (c *Client) linger(body io.ReadCloser, cancel context.CancelFunc) {
	defer c.afterFunc(lingerTime, cancel).Stop()
	defer cancel()
	_, _ = io.Copy(io.Discard, io.LimitReader(body, maxErrorBody)) // nothing of it counts
	_ = body.Close()
}
