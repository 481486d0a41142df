//go:build unix

package gateway

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// ownedByUs reports whether the file belongs to the user that this process runs as.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// isUnixSocket reports whether the descriptor, a number as in Caddy's address fd/3, is a unix socket.
func isUnixSocket(descriptor string) bool {
	fd, err := strconv.Atoi(descriptor)
	if err != nil {
		return false
	}
	local, err := syscall.Getsockname(fd)
	_, isUnix := local.(*syscall.SockaddrUnix)
	return err == nil && isUnix
}
