package spool

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fareway/fareway/modules/internal/files"
)

// disk is an open file.
type disk interface {
	io.WriterAt
	// Put writes as WriteAt does, and has that on the disk; of what else was written it says nothing.
	Put(b []byte, at int64) error
	Sync() error
	Close() error
}

// system is what the spool needs of the file system. A name that was made or moved is sure after SyncDir of its
// folder.
type system interface {
	// Read gives a file's whole content, which is not nil; fs.ErrNotExist when there is none.
	Read(path string) ([]byte, error)
	// Open opens a file for writing, and Create makes an empty one, also in place of another.
	Open(path string) (disk, error)
	Create(path string) (disk, error)
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(dir string) error
	// Boot names this start of the machine.
	Boot() boot
}

// machine is the system of this machine. Files are for their owner only.
type machine struct{}

func (machine) Read(path string) ([]byte, error) { return os.ReadFile(path) }

func (machine) Open(path string) (disk, error) { return openFile(path, os.O_RDWR) }

func (machine) Create(path string) (disk, error) {
	return openFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
}

func openFile(path string, flag int) (disk, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

// file is a file whose content a sync is about, and not its times.
type file struct{ *os.File }

// WriteAt writes a page at a time. What is written at once Linux may keep in one piece of its cache, and goes through
// all of that for each small write into it later: in a spool that was made in one write a sync costs twice as much.
func (f file) WriteAt(b []byte, at int64) (n int, err error) {
	for n < len(b) && err == nil {
		var wrote int
		wrote, err = f.File.WriteAt(b[n:min(n+pageSize, len(b))], at+int64(n))
		n += wrote
	}
	return n, err
}

func (machine) Rename(from, to string) error { return os.Rename(from, to) }

func (machine) Remove(path string) error { return os.Remove(path) }

func (machine) SyncDir(dir string) error { return files.SyncFolder(dir) }

func (machine) Boot() boot { return bootOfMachine() }

var bootOfMachine = sync.OnceValue(func() (b boot) {
	if id := files.ReadBootID(); id != "" {
		sum := sha256.Sum256([]byte(id))
		copy(b[:], sum[:])
	}
	return b
})

// put writes and syncs.
func put(d disk, b []byte, at int64) error {
	if _, err := d.WriteAt(b, at); err != nil {
		return err
	}
	return d.Sync()
}

// install makes a file of this content, in place of another if there is one. It has its name when it is whole.
func install(sys system, path string, content []byte) (disk, error) {
	unfinished := path + ".new"
	file, err := sys.Create(unfinished)
	if err != nil {
		return nil, err
	}
	if err := put(file, content, 0); err != nil {
		// Half a file would take the room that a disk lacks.
		return nil, errors.Join(err, file.Close(), sys.Remove(unfinished))
	}
	if err = sys.Rename(unfinished, path); err == nil {
		err = sys.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// readIfAny is a file's content, nil when there is no file.
func readIfAny(sys system, path string) ([]byte, error) {
	content, err := sys.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}
