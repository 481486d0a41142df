package gateway

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// openFiles are the log files that this process writes through FileWriter.
var openFiles = reopenedFiles{all: make(map[*reopenedFile]struct{})}

type reopenedFiles struct {
	mu  sync.Mutex
	all map[*reopenedFile]struct{}
}

// reopen opens all anew: one that was renamed, as logrotate does, gets a file at its old place. One that cannot be
// opened goes on where it is.
func (f *reopenedFiles) reopen() (err error) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.all))
	f.mu.Unlock()
	for _, file := range all {
		if failed := file.reopen(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", file.name, failed))
		}
	}
	return err
}

// reopenedFile is a log file that can be opened anew while it is written. No line is lost then, and none is cut: each
// is in the old file or in the new one.
type reopenedFile struct {
	name  string
	open  func() (io.WriteCloser, error)
	among *reopenedFiles

	mu      sync.Mutex
	current io.WriteCloser // nil when it is closed
}

// open opens a file and has it opened anew with the others, until it is closed.
func (f *reopenedFiles) open(name string, open func() (io.WriteCloser, error)) (io.WriteCloser, error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	file := &reopenedFile{name: name, open: open, among: f, current: w}
	f.mu.Lock()
	f.all[file] = struct{}{}
	f.mu.Unlock()
	return file, nil
}

// Write implements io.Writer.
func (f *reopenedFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		return 0, errClosed
	}
	return f.current.Write(b)
}

// Close implements io.Closer.
func (f *reopenedFile) Close() error {
	f.among.mu.Lock()
	delete(f.among.all, f)
	f.among.mu.Unlock()
	old, err := f.change(nil)
	if err != nil {
		return nil //nolint:nilerr // it is closed already
	}
	return old.Close()
}

var errClosed = errors.New("the log file is closed")

func (f *reopenedFile) reopen() error {
	w, err := f.open()
	if err != nil {
		return err
	}
	old, err := f.change(w)
	if err != nil {
		return w.Close() // a reload has closed it meanwhile
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("closing the old one: %w", err)
	}
	return nil
}

// change puts w in the place of what is written to, which it returns.
func (f *reopenedFile) change(w io.WriteCloser) (old io.WriteCloser, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		return nil, errClosed
	}
	old, f.current = f.current, w
	return old, nil
}
