// Package http1 posts bodies that are in memory over HTTP/1.1 without TLS, as to a model server in the same network. A
// call runs in the goroutine of its caller, where net/http's transport has two more for each connection and hands each
// request and reply from one to the other. What is read is read by net/http all the same.
//
// As there, no request is sent twice: one that found its connection closed before a byte of it was taken goes to
// another connection, any other fails.
package http1

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// inline is how much of a body is written before the reply is read, in bytes. It fits into what systems buffer of a
// connection, whose peer may answer without reading it. Of the rest, what the system does not take at once is written
// beside the reading.
const inline = 32 << 10

// Client keeps connections. Its fields are not changed after the first call.
type Client struct {
	Dialer      net.Dialer
	IdleTimeout time.Duration // after which a connection that nobody uses is closed
	MaxIdle     int           // connections to one address that are kept
	MaxHeader   int64         // bytes of a reply's head, with those of interim replies

	mu     sync.Mutex
	idle   map[string][]*conn // by address, in the order of their last use
	reaper *time.Timer        // nil while no connection is kept
}

// Target is where requests go to, with the headers that they have in common. It is not changed.
type Target struct {
	address string
	head    []byte // up to the value of Content-Length
}

// NewTarget makes a target of an address (host and port), the value of the header Host, a path with its query, and
// headers, whose names and values are legal.
func NewTarget(address, host, uri string, header http.Header) *Target {
	head := []byte("POST " + uri + " HTTP/1.1\r\nHost: " + host + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			head = append(head, name+": "+value+"\r\n"...)
		}
	}
	return &Target{address: address, head: append(head, "Content-Length: "...)}
}

// Post sends a request and returns the head of the reply, interim ones (1xx) left out. Whoever gets it reads its body
// to the end, which gives the connection back, or closes it, which closes the connection. ctx ends the call up to
// then. release is called once, by whatever goroutine, when body is not read any more, also if there is an error.
func (c *Client) Post(ctx context.Context, to *Target, body []byte, release func()) (*http.Response, error) {
	first, rest := body, []byte(nil)
	if len(body) > inline {
		first, rest = body[:inline], body[inline:]
	}
	conn, err := c.send(ctx, to, len(body), first)
	if conn == nil {
		release()
		return nil, err
	}
	if err == nil {
		rest = conn.offer(rest)
	}
	if err == nil && len(rest) > 0 {
		conn.rest = make(chan error, 1)
		go conn.write(rest, release)
	} else {
		release()
	}
	resp, readErr := conn.head(c.MaxHeader) // a peer that takes no more of the request may say why
	if readErr != nil {
		conn.unhook()
		conn.close()
		return nil, readErr
	}
	r := &reply{Reader: resp.Body, client: c, conn: conn, keep: err == nil && !resp.Close, enough: some}
	if slices.Equal(resp.TransferEncoding, []string{"chunked"}) {
		chunks := &chunked{r: conn.reader}
		r.Reader, r.enough = chunks, chunks.ready
	}
	resp.Body = r
	return resp, nil
}

func some(b []byte) bool { return len(b) > 0 }

// send writes the head of a request and the first part of its body. If it failed there is no connection, or one that
// took something.
func (c *Client) send(ctx context.Context, to *Target, size int, first []byte) (*conn, error) {
	for {
		conn := c.take(to.address)
		used := conn != nil
		if !used {
			raw, err := c.Dialer.DialContext(ctx, "tcp", to.address)
			if err != nil {
				return nil, err
			}
			conn = newConn(raw, to.address)
		}
		conn.unhook = afterFunc(ctx, conn.hangUp)
		n, err := conn.send(to.head, size, first)
		if err == nil || n > 0 {
			return conn, err
		}
		conn.unhook()
		conn.close()
		if !used || ctx.Err() != nil {
			return nil, err
		} // it was closed just now
	}
}

// afterFuncer is a context that calls functions at its end by itself, see context.AfterFunc.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// afterFunc is context.AfterFunc, which makes a context more of it.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(afterFuncer); ok {
		return c.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// take returns a connection that was given back and is open, nil if there is none.
func (c *Client) take(address string) *conn {
	for {
		c.mu.Lock()
		some := c.idle[address]
		if len(some) == 0 {
			c.mu.Unlock()
			return nil
		}
		last := len(some) - 1
		conn := some[last]
		some[last], c.idle[address] = nil, some[:last]
		c.mu.Unlock()
		if conn.alive() {
			return conn
		}
		conn.close()
	}
}

// put keeps a connection for another call.
func (c *Client) put(free *conn) {
	free.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	some := c.idle[free.address]
	if len(some) >= c.MaxIdle {
		free.close()
		return
	}
	if c.idle == nil {
		c.idle = make(map[string][]*conn)
	}
	c.idle[free.address] = append(some, free)
	if c.reaper == nil {
		c.reaper = time.AfterFunc(c.IdleTimeout, c.reap)
	}
}

// reap closes the connections that nobody has used for long.
func (c *Client) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaper = nil
	c.drop(time.Now().Add(-c.IdleTimeout))
	if len(c.idle) > 0 {
		c.reaper = time.AfterFunc(c.IdleTimeout, c.reap)
	}
}

// Idle is how many connections nobody uses.
func (c *Client) Idle() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, some := range c.idle {
		n += len(some)
	}
	return n
}

// CloseIdle closes the connections that nobody uses.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(time.Now())
}

// drop closes the connections that were not used after a moment. The lock is held.
func (c *Client) drop(before time.Time) {
	for address, some := range c.idle {
		for len(some) > 0 && !some[0].since.After(before) {
			some[0].close()
			some[0] = nil
			some = some[1:]
		}
		if c.idle[address] = some; len(some) == 0 {
			delete(c.idle, address)
		}
	}
}
