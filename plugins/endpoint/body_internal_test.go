package endpoint

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

var plainChat = &Endpoint{Dialect: Chat}

// TestBody: what was sent is let go of, and a transport that still reads after it closed the body gets nothing of it,
// and nothing of the next one in its place.
func TestBody(t *testing.T) {
	t.Parallel()
	req := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	want, err := dialects[Chat].encode(nil, req, plainChat)
	require.NoError(t, err)
	for range 3 {
		b, err := newBody(plainChat, req)
		require.NoError(t, err)
		require.Equal(t, len(want), b.Len())
		got, err := io.ReadAll(iotest.OneByteReader(b))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.Zero(t, b.Len())

		b, err = newBody(plainChat, req)
		require.NoError(t, err)
		_, err = b.Read(make([]byte, 3))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		next, err := newBody(plainChat, req)
		require.NoError(t, err)
		require.NoError(t, b.Close(), "twice")
		other, err := newBody(plainChat, req)
		require.NoError(t, err)
		require.NotSame(t, &next.left[0], &other.left[0], "closed twice, it is given back once")
		n, err := b.Read(make([]byte, 3))
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
		require.Equal(t, string(want), string(next.left))
	}
	_, err = newBody(plainChat, &llm.Request{Messages: []llm.Message{{Role: "nobody"}}})
	require.ErrorContains(t, err, "encoding the request")
	require.Equal(t, llm.ErrRejected, llm.KindOf(err))
}

// TestSmallBody: headers and a small body go out in one write.
func TestSmallBody(t *testing.T) {
	t.Parallel()
	req := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	b, err := newBody(plainChat, req)
	require.NoError(t, err)
	want, size := string(b.left), b.Len()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.test/", nil)
	require.NoError(t, err)
	r.Body, r.ContentLength = b.small(), int64(size)
	require.Nil(t, b.room, "given back")
	var out pieces
	w := bufio.NewWriterSize(&out, writeBuffer)
	require.NoError(t, r.Write(w))
	require.NoError(t, w.Flush())
	require.Len(t, out, 1)
	require.True(t, strings.HasSuffix(out[0], "\r\n\r\n"+want), out[0])
}

// pieces are what was written, each write apart.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

// stuck is a connection that does not take what is written to it until it is told to.
type stuck struct {
	begun, goOn chan struct{}
	got         []byte
}

func (s *stuck) Write(b []byte) (int, error) {
	close(s.begun)
	<-s.goOn
	s.got = append(s.got, b...)
	return len(b), nil
}

// TestBodyWrittenAtOnce: memory that is being written is not used again, though the transport has closed the body.
func TestBodyWrittenAtOnce(t *testing.T) {
	t.Parallel()
	req := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	want, err := dialects[Chat].encode(nil, req, plainChat)
	require.NoError(t, err)
	b, err := newBody(plainChat, req)
	require.NoError(t, err)
	conn := &stuck{begun: make(chan struct{}), goOn: make(chan struct{})}
	_, ok, err := b.writeTo(conn, int64(len(want))-1)
	require.NoError(t, err)
	require.False(t, ok, "not the rest of the body")

	type wrote struct {
		n   int
		ok  bool
		err error
	}
	done := make(chan wrote, 1)
	go func() {
		n, ok, err := b.writeTo(conn, int64(len(want)))
		done <- wrote{n, ok, err}
	}()
	<-conn.begun
	require.NoError(t, b.Close())
	require.NotNil(t, b.room, "it is still read from")
	n, err := b.Read(make([]byte, 3))
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
	close(conn.goOn)
	require.Equal(t, wrote{len(want), true, nil}, <-done)
	require.Nil(t, b.room)
	require.Equal(t, string(want), string(conn.got))
	_, ok, err = b.writeTo(conn, int64(len(want)))
	require.NoError(t, err)
	require.False(t, ok, "nothing is left")
}

// TestPlainConnection: a body goes to a connection without TLS from where it is, and everything else as it always does.
func TestPlainConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	conn, err := dialPlain(&net.Dialer{})(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	peer, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close() })
	req := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	b, err := newBody(plainChat, req)
	require.NoError(t, err)
	want := string(b.left)

	rest := &io.LimitedReader{R: b, N: int64(len(want))}
	n, err := io.Copy(conn, rest) // as the transport does
	require.NoError(t, err)
	require.EqualValues(t, len(want), n)
	require.Zero(t, rest.N)
	require.Nil(t, b.left, "it was not read")
	for _, other := range []io.Reader{strings.NewReader("a"), &io.LimitedReader{R: strings.NewReader("bc"), N: 1}, b} {
		_, err = io.Copy(conn, other)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	got, err := io.ReadAll(peer)
	require.NoError(t, err)
	require.Equal(t, want+"ab", string(got))
}
