package upstream

import (
	"bytes"
	"errors"
	"net"
	"net/http"
)

// How a reply ends early, beside an *Error that was sent.
var (
	errLeft     = errors.New("the client left")
	errUnmarked = errors.New("the script ended without an end marker")
)

// brokenError says that Wire.Break or a step ended the body.
type brokenError struct{ how End }

func (brokenError) Error() string { return "the script broke the reply off" }

// wire writes the body of one reply as its Wire says.
type wire struct {
	w       http.ResponseWriter
	control *http.ResponseController
	shape   Wire
	sent    int64
	pending []byte // not a whole piece yet
}

func newWire(w http.ResponseWriter, shape Wire) *wire {
	return &wire{w: w, control: http.NewResponseController(w), shape: shape}
}

// lines sends what a renderer made, with the line ends of the Wire.
func (o *wire) lines(b []byte) error {
	switch o.shape.LineEnd {
	case "crlf":
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	case "cr":
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r"))
	}
	return o.raw(b)
}

// raw sends bytes as they are, in pieces.
func (o *wire) raw(b []byte) error {
	if o.shape.Piece <= 0 {
		return o.write(b)
	}
	o.pending = append(o.pending, b...)
	for len(o.pending) >= o.shape.Piece {
		if err := o.write(o.pending[:o.shape.Piece]); err != nil {
			return err
		}
		o.pending = o.pending[o.shape.Piece:]
	}
	return nil
}

// flush sends what is pending, and the header if nothing was sent yet.
func (o *wire) flush() error {
	if len(o.pending) > 0 {
		b := o.pending
		o.pending = nil
		return o.write(b)
	}
	if err := o.control.Flush(); err != nil {
		return errLeft
	}
	return nil
}

// write hands bytes to the operating system, up to where the reply breaks off.
func (o *wire) write(b []byte) error {
	broken := o.shape.Break
	reached := broken != nil && o.sent+int64(len(b)) >= broken.At
	if reached {
		b = b[:broken.At-o.sent]
	}
	n, err := o.w.Write(b)
	o.sent += int64(n)
	if err != nil {
		return errLeft
	}
	if err := o.control.Flush(); err != nil {
		return errLeft
	}
	if reached {
		return brokenError{broken.How}
	}
	return nil
}

// hangUp ends the connection in the middle of a body. It does not return.
func (o *wire) hangUp(how End) {
	if how == EndReset {
		if conn, _, err := o.control.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // best effort: without it the connection closes in the ordinary way
			}
			_ = conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}
