package entry

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheKernelKeepsLittleUnsent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	unsent := func() (n int) {
		t.Helper()
		raw, err := server.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		}))
		require.NoError(t, err)
		return n
	}
	require.NotEqual(t, maxUnsent, unsent())
	boundUnsent(tls.Server(server, &tls.Config{}))
	require.Equal(t, maxUnsent, unsent(), "GAP-112")

	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	boundUnsent(pipe) // it has no socket, and that is all
	require.NoError(t, server.Close())
	boundUnsent(server)
}
