package sockets_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func duplicate(t *testing.T, fd uintptr) *os.File {
	t.Helper()
	n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(n), "given")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nameOf is the path of a unix socket.
func nameOf(t *testing.T, fd uintptr) string {
	t.Helper()
	local, err := unix.Getsockname(int(fd))
	require.NoError(t, err)
	return local.(*unix.SockaddrUnix).Name
}
