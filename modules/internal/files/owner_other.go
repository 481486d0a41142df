//go:build !unix

package files

import "io/fs"

// KeepOwner: files have no owner that could be kept here.
func KeepOwner(string, fs.FileInfo) error { return nil }
