//go:build unix

package gateway

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether the file belongs to the user that this process runs as.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
