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

// Put implements disk: in one call, and the headers' page is not waited for.
func (f file) Put(b []byte, at int64) error {
	for {
		n, err := unix.Pwritev2(int(f.Fd()), [][]byte{b}, at, unix.RWF_DSYNC)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), err == nil && n < len(b):
			return put(f, b, at)
		default:
			return err
		}
	}
}
