package http1

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the system takes of a body at once is written, in its order, and what is left is returned: nothing waits for a
// peer that does not read.
func TestOffer(t *testing.T) {
	t.Parallel()
	if !canPoll {
		return // then all of a body is written beside the reading
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	raw, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	peer, err := l.Accept()
	require.NoError(t, err)
	c := newConn(raw, "")
	require.Empty(t, c.offer(nil))
	body := make([]byte, 64<<20)
	for i := range body {
		body[i] = byte(i >> 9)
	}
	rest := c.offer(body)
	taken := len(body) - len(rest)
	require.Positive(t, taken)
	require.Less(t, taken, len(body), "nobody reads")
	for more := c.offer(rest); len(more) < len(rest); more = c.offer(rest) {
		taken, rest = taken+len(rest)-len(more), more
	}
	got := make([]byte, taken)
	_, err = io.ReadFull(peer, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body[:taken], got))

	_ = c.offer(body[:1]) // which is taken now
	require.NoError(t, raw.Close())
	require.Len(t, c.offer(body), len(body), "whoever writes the rest hears of it")
	require.NoError(t, peer.Close())
}
