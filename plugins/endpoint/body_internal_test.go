package endpoint

import (
	"bufio"
	"io"
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
