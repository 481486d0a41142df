package spool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Sync has the content on the disk, with what it takes to find it: a file that has its size already costs no change to
// the file system's own records then (fdatasync(2)).
func (f file) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Put implements disk: in one call, which waits for no other page of the file, where the system has that.
func (f file) Put(b []byte, at int64) error {
	if n, err := unix.Pwritev2(int(f.Fd()), [][]byte{b}, at, unix.RWF_DSYNC); err == nil && n == len(b) {
		return nil
	}
	return put(f, b, at)
}
