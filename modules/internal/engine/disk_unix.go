//go:build linux || darwin

package engine

import "syscall"

// measureDisk is the room of the disk that path is on, in bytes: what this user may still write, and in all.
func measureDisk(path string) (free, whole uint64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, false
	}
	block := uint64(s.Bsize) // its type is another one on darwin
	return s.Bavail * block, s.Blocks * block, true
}
