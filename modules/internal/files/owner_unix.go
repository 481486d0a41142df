//go:build unix

package files

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// KeepOwner gives a new file the owner of the one whose place it takes: the gateway's user has to read it.
func KeepOwner(path string, old fs.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := os.Chown(path, int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("keeping its owner: %w: be that user, or root", err)
	}
	return nil
}
