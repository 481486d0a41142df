//go:build linux || darwin

package command

import "syscall"

// readDisk is the room of the disk that a folder is on.
func readDisk(folder string) map[string]int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return nil
	}
	block := int64(s.Bsize) //nolint:unconvert // its type is another one on darwin
	return map[string]int64{"free": int64(s.Bavail) * block, "size": int64(s.Blocks) * block, "inodes": int64(s.Files),
		"free_inodes": int64(s.Ffree)}
}
