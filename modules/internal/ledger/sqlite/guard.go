package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// guard notices when a file of the database was moved, removed or replaced. SQLite would not: it goes on in the
// files that it has open, where nobody will find what it writes.
type guard struct {
	path  string
	main  os.FileInfo
	aside map[string]os.FileInfo // the write-ahead log and its index, by name
}

func newGuard(path string) (*guard, error) {
	main, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking at the database: %w: %w", ledger.ErrUnavailable, err)
	}
	return &guard{path: path, main: main}, nil
}

// connected remembers the files beside the database, which its connections share.
func (g *guard) connected() error {
	g.aside = make(map[string]os.FileInfo)
	for _, suffix := range []string{"-wal", "-shm"} {
		info, err := os.Stat(g.path + suffix)
		if err != nil {
			return fmt.Errorf("looking at the database: %w: %w", ledger.ErrUnavailable, err)
		}
		g.aside[g.path+suffix] = info
	}
	return nil
}

// check is nil when everything is in its place. The error wraps errAside when only the files beside the database
// are not.
func (g *guard) check() error {
	if same, err := isFile(g.path, g.main); err != nil || !same {
		return fmt.Errorf("%w: %s was moved or replaced; put the file back that the gateway was started with, or restart "+
			"the gateway",
			ledger.ErrUnavailable, g.path)
	}
	for name, was := range g.aside {
		if same, err := isFile(name, was); err != nil || !same {
			return fmt.Errorf("%w: %w: %s was moved or replaced", ledger.ErrUnavailable, errAside, name)
		}
	}
	return nil
}

var errAside = errors.New("a file beside the database is missing")

func isFile(name string, was os.FileInfo) (same bool, err error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return os.SameFile(info, was), nil
}
