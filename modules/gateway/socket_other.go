//go:build !unix

package gateway

import "io/fs"

// ownedByUs: folders have no owner that could be compared here, and the temporary folder is the user's own.
func ownedByUs(fs.FileInfo) bool { return true }

// isUnixSocket: there are no inherited descriptors here.
func isUnixSocket(string) bool { return false }
