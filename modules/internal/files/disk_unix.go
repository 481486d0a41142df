//go:build linux || darwin

package files

import "syscall"

// ReadDisk reads the room of the disk that a path is on. It is false where nobody tells.
func ReadDisk(path string) (Disk, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return Disk{}, false
	}
	block := uint64(s.Bsize) // its type is another one on darwin
	return Disk{Free: s.Bavail * block, Size: s.Blocks * block, FreeInodes: s.Ffree, Inodes: s.Files}, true
}
