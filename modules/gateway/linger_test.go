package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// pouring is a client that sends some bytes every now and then, without an end.
type pouring struct {
	net.Conn
	every time.Duration
	bytes int

	deadline time.Time
	sent     int64
	ended    bool // its reply, before any of that
	closed   bool
}

func (p *pouring) CloseWrite() error {
	p.ended = p.sent == 0
	return nil
}

func (p *pouring) SetReadDeadline(t time.Time) error {
	p.deadline = t
	return nil
}

func (p *pouring) Read(b []byte) (int, error) {
	if until := time.Until(p.deadline); until < p.every {
		<-time.After(until) // of the bubble's clock
		return 0, os.ErrDeadlineExceeded
	}
	<-time.After(p.every)
	n := min(p.bytes, len(b))
	p.sent += int64(n)
	return n, nil
}

func (p *pouring) Close() error {
	p.closed = true
	return nil
}

func TestLingeringIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		known bool
		every time.Duration
		bytes int
		sent  int64
		took  time.Duration
	}{
		"GAP-138 a stranger who says nothing":      {false, time.Hour, 1, 0, 500 * time.Millisecond},
		"GAP-138 a customer who says nothing":      {true, time.Hour, 1, 0, 500 * time.Millisecond},
		"GAP-138 a stranger who trickles":          {false, 100 * time.Millisecond, 1, 5, 500 * time.Millisecond},
		"GAP-138 a customer who trickles":          {true, 400 * time.Millisecond, 1, 12, 5 * time.Second},
		"GAP-138 a stranger who sends without end": {false, 0, 1 << 20, 4<<20 + framing, 0},
		"GAP-138 a customer who sends without end": {true, 0, 1 << 20, 64<<20 + framing, 0},
		"GAP-138 a customer who is too slow":       {true, 501 * time.Millisecond, 1, 0, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := &pouring{every: test.every, bytes: test.bytes}
				began := time.Now()
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(WithConn(t.Context(), conn), "POST", "/", strings.NewReader("{}"))
				r.ContentLength = -1
				var l Linger
				l.Announce(w, r)
				require.Equal(t, "close", w.Header().Get("Connection"))
				w.Header().Set("Content-Length", "0")
				l.End(w, r, test.known)
				require.Equal(t, test.sent, conn.sent)
				require.Equal(t, test.took, time.Since(began))
				require.True(t, conn.closed)
				require.True(t, conn.ended, "the client is told that there is no more")
				require.Empty(t, l.count)
				require.Zero(t, l.all)
			})
		})
	}
}

func TestLingeringConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	var l Linger
	network := func(s string) netip.Prefix { return ratelimit.NetworkOf(netip.MustParseAddr(s)) }
	for range 64 {
		require.True(t, l.acquire(network("2001:db8::1")))
	}
	require.False(t, l.acquire(network("2001:db8::2")), "GAP-138 GAP-88 a customer's network is one address")
	require.True(t, l.acquire(network("192.0.2.1")))
	l.release(network("2001:db8::3"))
	require.True(t, l.acquire(network("2001:db8::1")))
	for i := l.all; i < lingersInAll; i++ {
		require.True(t, l.acquire(network(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String())))
	}
	require.False(t, l.acquire(network("192.0.2.1")), "many addresses do not help either")

	conn := &pouring{bytes: 1}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "0")
	r := httptest.NewRequestWithContext(WithConn(t.Context(), conn), "POST", "/", strings.NewReader("{}"))
	r.Body = io.NopCloser(failing{})
	l.End(w, r, true)
	require.True(t, conn.closed)
	require.Zero(t, conn.sent, "one more is not waited for")
}

// stream is the reply of an HTTP/2 stream.
type stream struct{ *httptest.ResponseRecorder }

func (stream) SetReadDeadline(time.Time) error { return nil }

// TestStreamsLingerToo: GAP-138. What is left of the body of an HTTP/2 stream is read, behind the reply.
func TestStreamsLingerToo(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		w := stream{httptest.NewRecorder()}
		body := strings.NewReader(strings.Repeat("x", 1<<20))
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
		r.ProtoMajor = 2
		var l Linger
		l.End(w, r, known)
		require.Zero(t, body.Len())
		require.True(t, w.Flushed)
		require.Zero(t, l.all)

		full := Linger{all: lingersInAll}
		body.Reset("y")
		full.End(w, r, known)
		require.Equal(t, 1, body.Len(), "there are enough")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("of the test") }

func TestWhatDoesNotLinger(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request, http.Header){
		"HTTP/3": func(r *http.Request, _ http.Header) { r.ProtoMajor = 3 },
		"a body that is asked for": func(r *http.Request, _ http.Header) {
			r.ProtoMajor = 2
			r.Header.Set("Expect", "100-Continue")
			r.Body = nil // reading it would ask
		},
		"no body":                  func(r *http.Request, _ http.Header) { r.ContentLength = 0 },
		"no length of the reply":   func(_ *http.Request, h http.Header) { h.Del("Content-Length") },
		"a writer of another kind": func(r *http.Request, _ http.Header) { *r = *r.WithContext(context.Background()) },
	} {
		conn := new(pouring)
		w := httptest.NewRecorder()
		w.Header().Set("Content-Length", "0")
		r := httptest.NewRequestWithContext(WithConn(t.Context(), conn), "POST", "/", strings.NewReader("{}"))
		change(r, w.Header())
		var l Linger
		l.Announce(w, r)
		l.End(w, r, true)
		require.False(t, conn.closed, name)
		require.Empty(t, w.Header().Get("Connection"), name)
	}
}

// outer is a wrapper as Caddy has them.
type outer struct{ net.Conn }

func TestInner(t *testing.T) {
	t.Parallel()
	one, two := net.Pipe()
	defer one.Close()
	defer two.Close()
	require.Nil(t, Inner(one))
	require.Same(t, one, Inner(tls.Server(one, new(tls.Config))))
	require.Same(t, one, Inner(outer{one}))
	require.Same(t, one, Inner(&outer{one}))
	require.Nil(t, Inner(outer{}))
}
