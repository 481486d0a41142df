//go:build !linux

package spool

// Put implements disk.
func (f file) Put(b []byte, at int64) error { return put(f, b, at) }
