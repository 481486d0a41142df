package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setPeerTimeout has a connection fail whose data nobody acknowledges (TCP_USER_TIMEOUT, tcp(7)).
func setPeerTimeout(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(peerTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
