//go:build unix

package files

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// GiveOwner gives a file the owner of another one: what root writes for the gateway, its user has to read.
func GiveOwner(path string, of fs.FileInfo) error {
	was, ok := of.Sys().(*syscall.Stat_t)
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
		return fmt.Errorf("giving it its owner: %w: be that user, or root", err)
	}
	return nil
}
