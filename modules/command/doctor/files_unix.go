//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// ownerOf is whose a file is.
func ownerOf(info fs.FileInfo) (user, group int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}
