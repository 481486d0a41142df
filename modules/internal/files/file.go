// Package files makes files whole or not at all.
package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CreateFile makes a file, whole or not at all. It never changes a file that is there: then the error is
// fs.ErrExist.
func CreateFile(path string, content []byte, mode fs.FileMode) error {
	return PlaceFile(path, content, mode, os.Link)
}

// ReplaceFile writes a file for its owner only, whole or not at all.
func ReplaceFile(path string, content []byte) error {
	return PlaceFile(path, content, 0o600, os.Rename)
}

// PlaceFile writes a file of another name in the same folder and then gives it its own name.
func PlaceFile(path string, content []byte, mode fs.FileMode, name func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	// After a rename there is nothing left to remove.
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = name(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return nil
}
