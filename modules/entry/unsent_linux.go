package entry

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/gateway"
)

// maxUnsent is how much of what was written to a client the kernel may keep unsent, in bytes. By itself it takes
// megabytes, and says nothing of a slow client's progress until a third of them is gone, which takes longer than a
// client may take nothing (GAP-112). What is under way to a client, however far, is not bounded by it.
const maxUnsent = 128 << 10

// boundUnsent sets the bound on a connection; one that has no socket is left as it is.
func boundUnsent(c net.Conn) {
	for inner := gateway.Inner(c); inner != nil; inner = gateway.Inner(c) {
		c = inner
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) // a unix socket has none
	})
}
