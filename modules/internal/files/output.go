package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Output is a file that a user named, for its owner only, which takes its place when it is whole. Until then what is
// there stays as it is.
type Output struct {
	*os.File
	path string
	name func(from, to string) error // nil for what has its place already
}

// OpenOutput begins a file that replaces the one that is there. That need not be a regular one: /dev/stdout works,
// too, and is written at once.
func OpenOutput(path string) (*Output, error) {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &Output{File: f}, err
	case err == nil:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	return openOutput(filepath.Dir(path), path, os.Rename)
}

// CreateOutput begins a new file. One that is there is fs.ErrExist, now and when it takes its place.
func CreateOutput(path string) (*Output, error) { return CreateOutputIn(filepath.Dir(path), path) }

// CreateOutputIn is CreateOutput with what is not whole yet in a folder of the same file system.
func CreateOutputIn(folder, path string) (*Output, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("creating %s: %w", path, fs.ErrExist)
	}
	return openOutput(folder, path, os.Link)
}

func openOutput(folder, path string, name func(from, to string) error) (*Output, error) {
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*") // for its owner only
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	return &Output{File: f, path: path, name: name}, nil
}

// Place ends the file and gives it its own name.
func (o *Output) Place() error {
	if o.name == nil {
		return o.Close()
	}
	err := o.Sync()
	if err := errors.Join(err, o.Close()); err != nil {
		return err
	}
	if err := o.name(o.Name(), o.path); err != nil {
		return fmt.Errorf("creating %s: %w", o.path, err)
	}
	return nil
}

// Discard leaves nothing of a file that has not been placed. Behind Place it does nothing.
func (o *Output) Discard() {
	_ = o.Close() // it may be closed
	if o.name != nil {
		_ = os.Remove(o.Name()) // after a rename there is nothing left to remove
	}
}
