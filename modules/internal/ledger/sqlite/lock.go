package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// fileLease is the lease of a ledger in a file: PATH.lock, for as long as this process lives, for the system drops it
// with the process, however that ends. So it never expires, and whoever has it knows that every earlier owner is gone.
// The file says who has it, for people, and its generation; it is never removed, for a lock on a removed file locks
// nothing.
type fileLease struct {
	path string
	lock *flock.Flock
	held ledger.Grant // the zero Grant: none is
}

// newFileLease is the lease of the ledger at a path, as one of its gateways takes it.
func newFileLease(path string) *fileLease {
	return &fileLease{path: path + ".lock", lock: flock.New(path + ".lock")}
}

// Acquire implements ledger.Lease.
func (l *fileLease) Acquire(owner string) (ledger.Grant, error) {
	got, err := false, error(nil)
	if l.held == (ledger.Grant{}) {
		got, err = l.lock.TryLock()
	}
	switch {
	case err != nil:
		return ledger.Grant{}, fmt.Errorf("locking %s: %w; the ledger's folder has to be writable", l.path, err)
	case !got:
		return ledger.Grant{}, locked(l.path)
	}
	g := ledger.Grant{Owner: owner, Generation: generationOf(l.path) + 1}
	if err := l.record(g); err != nil {
		return ledger.Grant{}, errors.Join(fmt.Errorf("writing %s: %w", l.path, err), l.lock.Unlock())
	}
	l.held = g
	return g, nil
}

// record says in the file who has the lease. A crash leaves the whole line, or the one before.
func (l *fileLease) record(g ledger.Grant) error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, "%d %s %d\n", os.Getpid(), g.Owner, g.Generation)
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}

// Renew implements ledger.Lease.
func (l *fileLease) Renew(g ledger.Grant) (ledger.Grant, error) {
	if g != l.held || g == (ledger.Grant{}) {
		return ledger.Grant{}, ledger.ErrLapsed
	}
	return g, nil
}

// Release implements ledger.Lease.
func (l *fileLease) Release(g ledger.Grant) error {
	if g != l.held || g == (ledger.Grant{}) {
		return nil
	}
	l.held = ledger.Grant{}
	return l.lock.Unlock()
}

// locked says who has the lock of a ledger.
func locked(name string) error {
	return fmt.Errorf("%w: process %s has %s; stop it first, or give this gateway a data folder of its own",
		ledger.ErrLocked, holder(name), name)
}

// generationOf is the generation of the last lease, 0 for none; an older fareway wrote none.
func generationOf(name string) int64 {
	text, _ := os.ReadFile(name) // nothing: there was none
	line, _, _ := strings.Cut(string(text), "\n")
	if words := strings.Fields(line); len(words) == 3 {
		n, _ := strconv.ParseInt(words[2], 10, 64)
		return n
	}
	return 0
}

// holder is the process id in a lock file, or a word in its place.
func holder(name string) string {
	text, err := os.ReadFile(name)
	if pid, _, ok := strings.Cut(string(text), " "); err == nil && ok {
		return pid
	}
	return "(unknown)"
}

// resolve follows symbolic links, so that two names of one database share one lock.
func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("opening the ledger: its path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("opening the ledger: %w", err)
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("opening the ledger: %w; make its folder first", err)
		}
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	if err != nil {
		return "", fmt.Errorf("opening the ledger: %w", err)
	}
	return target, nil
}

// CheckUnlocked is ledger.ErrLocked where another process admits requests on the ledger at path. It changes nothing.
func CheckUnlocked(path string) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	name := path + ".lock"
	if _, err := os.Stat(name); err != nil {
		return nil // nobody ever has
	}
	l := flock.New(name, flock.SetFlag(os.O_RDONLY))
	got, err := l.TryLock()
	if err != nil {
		return fmt.Errorf("looking at %s: %w", name, err)
	}
	if !got {
		return locked(name)
	}
	return l.Unlock()
}
