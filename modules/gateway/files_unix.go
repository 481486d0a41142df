//go:build unix

package gateway

import "golang.org/x/sys/unix"

// maxFiles is how many files this process may open.
func maxFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return assumedFiles
	}
	return int(min(limit.Cur, assumedFiles*16)) //nolint:gosec // it fits
}
