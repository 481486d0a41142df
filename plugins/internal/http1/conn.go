package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection with at most one request at a time.
type conn struct {
	net.Conn
	address string
	raw     syscall.RawConn // nil where it cannot be read without waiting
	poll    poll            // of raw

	left   int64 // bytes that may be read
	reader *bufio.Reader
	buf    []byte // of the head of a request
	pieces [2][]byte
	out    net.Buffers // of pieces

	hangUp func()      // close
	unhook func() bool // of the call's context
	rest   chan error  // of the writing beside the reading, nil where there was none
	since  time.Time   // when it was given back
	closed atomic.Bool

	polling bool  // the reader does not wait
	failed  error // of a reading that did not wait
}

func newConn(raw net.Conn, address string) *conn {
	c := &conn{Conn: raw, address: address}
	c.reader, c.hangUp = bufio.NewReader(reading{c}), c.close
	if s, ok := raw.(syscall.Conn); ok && canPoll {
		c.raw, _ = s.SyscallConn()
		c.poll.read, c.poll.write = c.poll.do, c.poll.put
	}
	return c
}

// alive reports whether the peer has neither closed an unused connection nor said anything.
func (c *conn) alive() bool {
	if c.reader.Buffered() > 0 {
		return false
	}
	if c.raw == nil {
		return true // which shows when it is used
	}
	var b [1]byte
	_, err := c.now(b[:])
	return errors.Is(err, errNothing)
}

// errNothing says that nothing has come.
var errNothing = errors.New("nothing has come")

// poll is a reading or a writing that does not wait.
type poll struct {
	read, write func(fd uintptr) bool
	into        []byte // what is read into, or written
	n           int
	err         error
}

// now reads what has come. Where that is nothing the error is errNothing.
func (c *conn) now(p []byte) (int, error) {
	c.poll.into = p
	if err := c.raw.Read(c.poll.read); err != nil {
		return 0, err
	}
	n, err := c.poll.n, c.poll.err
	if c.poll.into, c.poll.err = nil, nil; n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (c *conn) close() {
	if c.closed.CompareAndSwap(false, true) {
		_ = c.Conn.Close() // whoever reads or writes hears of it
	}
}

// send writes the head of a request, with the size of its body, and the first bytes of it: at once.
func (c *conn) send(head []byte, size int, first []byte) (int64, error) {
	c.buf = append(c.buf[:0], head...)
	c.buf = strconv.AppendInt(c.buf, int64(size), 10)
	c.buf = append(c.buf, "\r\n\r\n"...)
	c.pieces = [2][]byte{c.buf, first}
	c.out = c.pieces[:]
	n, err := c.out.WriteTo(c.Conn)
	c.pieces = [2][]byte{}
	return n, err
}

// offer writes what the system takes without waiting, and returns what is left.
func (c *conn) offer(p []byte) []byte {
	if c.raw == nil || len(p) == 0 {
		return p
	}
	c.poll.into = p
	if err := c.raw.Write(c.poll.write); err != nil {
		c.poll.n = 0 // whoever writes the rest hears of it
	}
	c.poll.into = nil
	return p[c.poll.n:]
}

// write writes the rest of a body beside the reading of the reply.
func (c *conn) write(rest []byte, release func()) {
	_, err := c.Conn.Write(rest)
	release()
	c.rest <- err
}

const interim = 16 // replies 1xx that are passed over

// head reads the head of the reply.
func (c *conn) head(most int64) (*http.Response, error) {
	c.left = most
	for range interim {
		switch first, err := c.reader.Peek(1); {
		case err != nil:
			return nil, err
		case first[0] == alert:
			return nil, ErrTLS
		}
		resp, err := http.ReadResponse(c.reader, nil)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the protocol was switched without being asked to")
		case resp.StatusCode >= http.StatusOK:
			c.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, fmt.Errorf("more than %d interim replies", interim)
}

// reading is the reading side of a connection.
type reading struct{ *conn }

var errHead = errors.New("the head of the reply is too large")

func (r reading) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errHead
	}
	if r.failed != nil {
		return 0, r.failed
	}
	if !r.polling {
		n, err := r.Conn.Read(p)
		r.left -= int64(n)
		return n, err
	}
	n, err := r.now(p)
	if err != nil && !errors.Is(err, errNothing) {
		r.failed = err
	}
	return n, err
}

// arrived reports whether enough of a reply has come, looking at the connection where the buffer has not enough.
func (c *conn) arrived(enough func(b []byte) bool) bool {
	b, _ := c.reader.Peek(c.reader.Buffered())
	if enough(b) {
		return true
	}
	if c.raw == nil || len(b) == c.reader.Size() {
		return false
	}
	c.polling = true
	_, err := c.reader.Peek(len(b) + 1)
	c.polling = false
	b, _ = c.reader.Peek(c.reader.Buffered())
	return c.failed != nil || err == nil && enough(b)
}

// reply is the body of a reply. Close may be called while Read waits.
type reply struct {
	io.Reader
	client *Client
	conn   *conn
	enough func(b []byte) bool // whether what has come is, for a Read
	keep   bool                // the connection may be used again
	ended  atomic.Bool
}

func (r *reply) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Ready reports whether Read returns without waiting for the peer. It is called by the goroutine that reads.
func (r *reply) Ready() bool { return !r.ended.Load() && r.conn.arrived(r.enough) }

// Close closes the connection of a reply that was not read to its end.
func (r *reply) Close() error {
	r.end(false)
	return nil
}

func (r *reply) end(whole bool) {
	if !r.ended.CompareAndSwap(false, true) {
		return
	}
	if c := r.conn; !c.unhook() || !whole || !r.keep || !c.written() {
		c.close()
	} else {
		r.client.put(c)
	}
}

// written reports whether the whole request was.
func (c *conn) written() bool {
	if c.rest == nil {
		return true
	}
	select {
	case err := <-c.rest:
		c.rest = nil
		return err == nil
	default:
		return false
	}
}
