package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// peer is a server that a test scripts a connection at a time.
type peer struct {
	net.Listener
	conns chan *served
}

// served is a connection as the peer has it.
type served struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

func listen(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &peer{Listener: l, conns: make(chan *served, 64)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(p.conns)
				return
			}
			p.conns <- &served{Conn: conn, Reader: bufio.NewReader(conn), t: t}
		}
	}()
	return p
}

func (p *peer) target() *Target {
	return NewTarget(p.Addr().String(), "host.test", "/v1/x?a=b", http.Header{"Accept": {"a", "b"}, "X-Key": {"k"}})
}

// request reads a request.
func (s *served) request() string {
	r, err := http.ReadRequest(s.Reader)
	require.NoError(s.t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	return string(body)
}

func (s *served) say(text string) {
	_, err := io.WriteString(s.Conn, text)
	require.NoError(s.t, err)
}

// gone waits until the client has closed the connection.
func (s *served) gone() {
	_, err := io.Copy(io.Discard, s.Reader)
	if err != nil {
		_, network := errors.AsType[*net.OpError](err)
		require.True(s.t, network, err)
	}
}

func client(t *testing.T) *Client {
	t.Helper()
	c := &Client{IdleTimeout: time.Hour, MaxIdle: 2, MaxHeader: 8 << 10}
	t.Cleanup(c.CloseIdle)
	return c
}

// answer is what became of a call.
type answer struct {
	status   int
	body     string
	err      error
	released int64
}

// post makes a call beside the test and reads its reply to the end.
func post(ctx context.Context, c *Client, to *Target, body string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		var released atomic.Int64
		told := make(chan struct{}, 2)
		resp, err := c.Post(ctx, to, []byte(body), func() { released.Add(1); told <- struct{}{} })
		a := answer{err: err}
		if err == nil {
			a.status = resp.StatusCode
			var all []byte
			all, a.err = io.ReadAll(resp.Body)
			a.body = string(all)
			_ = resp.Body.Close()
		}
		<-told
		a.released = released.Load()
		done <- a
	}()
	return done
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

func TestRequestsAndReplies(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	var conn *served
	for i, size := range []int{0, 1, inline, inline + 1, 4 << 20} {
		body := strings.Repeat("x", size)
		done := post(t.Context(), c, p.target(), body)
		if i == 0 {
			conn = <-p.conns
		}
		r, err := http.ReadRequest(conn.Reader)
		require.NoError(t, err)
		require.Equal(t, "POST /v1/x?a=b HTTP/1.1", fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Proto))
		require.Equal(t, "host.test", r.Host)
		require.EqualValues(t, size, r.ContentLength)
		require.Equal(t, http.Header{"Accept": {"a", "b"}, "X-Key": {"k"}, "Content-Length": {fmt.Sprint(size)}}, r.Header)
		got, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.True(t, body == string(got))
		conn.say([]string{
			fine,
			"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + fine,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\nTrailer: x\r\n\r\n",
		}[i%3])
		require.Equal(t, answer{200, "hi", nil, 1}, <-done)
	}
	require.Empty(t, p.conns, "they went over one connection")
}

// TestConnectionsThatAreNotKept: after some replies there is a new connection.
func TestConnectionsThatAreNotKept(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"the peer closes it":           "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
		"the reply ends with it":       "HTTP/1.1 200 OK\r\n\r\nhi",
		"the peer is of HTTP/1.0":      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"something comes behind reply": fine + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := listen(t), client(t)
			done := post(t.Context(), c, p.target(), "x")
			conn := <-p.conns
			require.Equal(t, "x", conn.request())
			conn.say(reply)
			if name == "the reply ends with it" {
				require.NoError(t, conn.Close())
			}
			require.Equal(t, answer{200, "hi", nil, 1}, <-done)
			done = post(t.Context(), c, p.target(), "y")
			next := <-p.conns
			require.Equal(t, "y", next.request())
			next.say(fine)
			require.Equal(t, answer{200, "hi", nil, 1}, <-done)
		})
	}
}

// TestAliveWithoutPolling: where nobody can look at a connection, what was read behind a reply ends it all the same.
func TestAliveWithoutPolling(t *testing.T) {
	t.Parallel()
	own, peer := net.Pipe()
	t.Cleanup(func() { _, _ = own.Close(), peer.Close() })
	c := newConn(own, "host.test:80")
	require.Nil(t, c.raw)
	c.left = 1 << 10
	require.True(t, c.alive())
	go func() { _, _ = peer.Write([]byte("forged")) }()
	_, err := c.reader.Peek(1)
	require.NoError(t, err)
	require.False(t, c.alive())
}

// TestClosedWhileIdle: the next request finds another connection.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	for range 3 {
		done := post(t.Context(), c, p.target(), "x")
		conn := <-p.conns
		require.Equal(t, "x", conn.request())
		conn.say(fine)
		require.Equal(t, answer{200, "hi", nil, 1}, <-done)
		require.NoError(t, conn.Close())
	}
}

// TestNoRequestIsSentTwice: a peer that has taken a request and says nothing may have done what it asks for.
func TestNoRequestIsSentTwice(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	done := post(t.Context(), c, p.target(), "x")
	conn := <-p.conns
	conn.request()
	conn.say(fine)
	require.NoError(t, (<-done).err)
	done = post(t.Context(), c, p.target(), "y")
	require.Equal(t, "y", conn.request())
	require.NoError(t, conn.Close())
	a := <-done
	require.ErrorIs(t, a.err, io.EOF)
	require.EqualValues(t, 1, a.released)
	require.Empty(t, p.conns)
}

// TestPeerAnswersWithoutReading: what it says is heard, though the request is not taken to its end.
func TestPeerAnswersWithoutReading(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	done := post(t.Context(), c, p.target(), strings.Repeat("x", 32<<20))
	conn := <-p.conns
	_, err := conn.ReadString('\n')
	require.NoError(t, err)
	conn.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
	require.Equal(t, answer{413, "no", nil, 1}, <-done)
	conn.gone()
}

func TestRepliesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"no status":          "hello\r\n\r\n",
		"a wrong length":     "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"half a head":        "HTTP/1.1 200 OK\r\nContent-",
		"a long line":        "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n",
		"many lines":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: x\r\n", 4<<10) + "\r\n",
		"another protocol":   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"interim ones only":  strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 17),
		"large interim ones": strings.Repeat("HTTP/1.1 103 Hints\r\nX: "+strings.Repeat("x", 1<<10)+"\r\n\r\n", 15) + fine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := listen(t), client(t)
			done := post(t.Context(), c, p.target(), "x")
			conn := <-p.conns
			conn.request()
			_, _ = io.WriteString(conn.Conn, reply) // the client may not want all of it
			if name == "half a head" {
				require.NoError(t, conn.Close())
			}
			a := <-done
			require.Error(t, a.err)
			require.EqualValues(t, 1, a.released)
			if name != "half a head" {
				conn.gone()
			}
		})
	}
}

// TestLeaving: the end of the context ends a call wherever it is, and its connection.
func TestLeaving(t *testing.T) {
	t.Parallel()
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi"
	for name, said := range map[string]string{"before the head": "", "in the head": "HTTP/1.1 2", "in the body": half} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := listen(t), client(t)
			ctx, leave := context.WithCancel(t.Context())
			done := post(ctx, c, p.target(), strings.Repeat("x", 16<<20)) // part of it is still being written
			conn := <-p.conns
			conn.say(said)
			leave()
			a := <-done
			require.Error(t, a.err)
			require.EqualValues(t, 1, a.released)
			conn.gone()
		})
	}
	t.Run("before the call", func(t *testing.T) {
		t.Parallel()
		p, c := listen(t), client(t)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		require.ErrorIs(t, (<-post(ctx, c, p.target(), "x")).err, context.Canceled)
	})
	t.Run("after the reply", func(t *testing.T) {
		t.Parallel()
		p, c := listen(t), client(t)
		ctx, leave := context.WithCancel(t.Context())
		done := post(ctx, c, p.target(), "x")
		conn := <-p.conns
		conn.request()
		conn.say(fine)
		require.NoError(t, (<-done).err)
		leave()
		done = post(t.Context(), c, p.target(), "y")
		require.Equal(t, "y", conn.request(), "the connection was given back")
		conn.say(fine)
		require.NoError(t, (<-done).err)
	})
}

func TestClosedReply(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	asked := make(chan *http.Response, 1)
	go func() {
		resp, err := c.Post(t.Context(), p.target(), nil, func() {})
		if err == nil {
			asked <- resp
		}
	}()
	conn := <-p.conns
	conn.request()
	conn.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi")
	resp := <-asked
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	conn.gone()
	require.Nil(t, c.take(p.Addr().String()))
}

// TestIdleConnections: some are kept, for a while.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	var conns []*served
	var calls []<-chan answer
	for range 3 {
		calls = append(calls, post(t.Context(), c, p.target(), "x"))
		conns = append(conns, <-p.conns)
	}
	for i, conn := range conns {
		conn.request()
		conn.say(fine)
		require.NoError(t, (<-calls[i]).err)
	}
	conns[2].gone() // one more than are kept
	require.NotNil(t, c.take(p.Addr().String()))
	c.CloseIdle()
	conns[0].gone()
	require.Nil(t, c.take(p.Addr().String()))

	soon := &Client{IdleTimeout: time.Millisecond, MaxIdle: 2, MaxHeader: 8 << 10}
	for range 2 {
		done := post(t.Context(), soon, p.target(), "x")
		conn := <-p.conns
		conn.request()
		conn.say(fine)
		require.NoError(t, (<-done).err)
		conn.gone()
	}
}

// halting is the client's side of a connection, on which nobody may wait.
type halting struct {
	net.Conn
	may bool
}

var errWaited = errors.New("it would have waited")

func (h *halting) Read(p []byte) (int, error) {
	if !h.may {
		return 0, errWaited
	}
	return h.Conn.Read(p)
}

// TestReady: what is said to be there can be read without waiting, however the peer cuts its reply, and all of a reply
// that has come whole is there.
func TestReady(t *testing.T) {
	t.Parallel()
	p := listen(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\r")), 0, 300).Draw(t, "text")
		wire, head := []byte(nil), "HTTP/1.1 200 OK\r\nContent-Length: "+fmt.Sprint(len(text))+"\r\n\r\n"
		if wire = text; rapid.Bool().Draw(t, "chunked") {
			head, wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", nil
			for rest := text; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
				wire = fmt.Appendf(wire, "%x\r\n%s\r\n", n, rest[:n])
				rest = rest[n:]
			}
			wire = append(wire, "0\r\n\r\n"...)
		}
		c := &Client{IdleTimeout: time.Hour, MaxIdle: 1, MaxHeader: 8 << 10}
		defer c.CloseIdle()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		asked := make(chan *http.Response, 1)
		go func() {
			resp, err := c.Post(ctx, p.target(), nil, func() {})
			if err != nil {
				panic(err)
			}
			asked <- resp
		}()
		conn := <-p.conns
		_, err := conn.Conn.Write([]byte(head))
		require.NoError(t, err)
		body := (<-asked).Body.(*reply)
		halt := &halting{Conn: body.conn.Conn}
		body.conn.Conn = halt
		var got bytes.Buffer
		buf := make([]byte, rapid.IntRange(1, 400).Draw(t, "room"))
		for ended := false; !ended; {
			n := rapid.IntRange(0, len(wire)).Draw(t, "piece")
			_, err := conn.Conn.Write(wire[:n])
			require.NoError(t, err)
			wire = wire[n:]
			for body.Ready() {
				n, err := body.Read(buf)
				got.Write(buf[:n])
				require.NotErrorIs(t, err, errWaited)
				require.True(t, err == nil || errors.Is(err, io.EOF), err)
			}
			if len(wire) == 0 {
				ended = true
			}
		}
		require.Equal(t, string(text), got.String())
		halt.may = true
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Empty(t, rest)
	})
}

// TestReadyAfterABreak: what broke a connection while nobody waited is heard by who reads.
func TestReadyAfterABreak(t *testing.T) {
	t.Parallel()
	p, c := listen(t), client(t)
	done := make(chan error, 1)
	go func() {
		resp, err := c.Post(t.Context(), p.target(), nil, func() {})
		if err == nil {
			for !resp.Body.(*reply).Ready() && t.Context().Err() == nil { // until it has come
				runtime.Gosched()
			}
			_, err = io.ReadAll(resp.Body)
		}
		done <- err
	}()
	conn := <-p.conns
	conn.request()
	conn.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi")
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-done, io.ErrUnexpectedEOF)
}
