package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Changes are changes to files that are taken back together when what they were made for fails. The zero value has
// none.
type Changes struct {
	mu   sync.Mutex
	undo []func() error // in the order in which they were made
}

// MakeFolder makes a folder, and those above it that are missing. Taken back, those go that nobody has put anything
// into.
func (c *Changes) MakeFolder(path string, mode fs.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var missing []string // the outermost last
	for dir := path; dir != ExistingFolder(path); dir = filepath.Dir(dir) {
		missing = append(missing, dir)
	}
	c.note(func() error {
		for _, dir := range missing {
			_ = os.Remove(dir) // one that is not empty stays
		}
		return nil
	})
	return os.MkdirAll(path, mode)
}

// ExistingFolder is the innermost of a folder and those above it that is there.
func ExistingFolder(path string) string {
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// Create makes a file as CreateFile does.
func (c *Changes) Create(path string, content []byte, mode fs.FileMode) error {
	if err := CreateFile(path, content, mode); err != nil {
		return err
	}
	c.note(func() error { return os.Remove(path) })
	return nil
}

// Replace writes a file, whole or not at all. It keeps the mode of one that is there; a new one is for its owner only.
func (c *Changes) Replace(path string, content []byte) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.Create(path, content, 0o600)
	}
	if err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := PlaceFile(path, content, info.Mode().Perm(), os.Rename); err != nil {
		return err
	}
	c.note(func() error { return PlaceFile(path, before, info.Mode().Perm(), os.Rename) })
	return nil
}

// Made notes a folder that was made.
func (c *Changes) Made(folder string) {
	c.note(func() error { return os.Remove(folder) })
}

// Appears notes a file that is not there yet, and that others may make.
func (c *Changes) Appears(path string) {
	c.note(func() error {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Rename gives a file another name, which no file has.
func (c *Changes) Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	c.note(func() error { return os.Rename(to, from) })
	return nil
}

func (c *Changes) note(undo func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, undo)
}

// Keep makes the changes last: TakeBack does nothing any more.
func (c *Changes) Keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = nil
}

// TakeBack takes back what was changed, the last first. Done again it does nothing.
func (c *Changes) TakeBack() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i := len(c.undo) - 1; i >= 0; i-- {
		if err := c.undo[i](); err != nil {
			errs = append(errs, fmt.Errorf("taking back a change: %w", err))
		}
	}
	c.undo = nil
	return errors.Join(errs...)
}
