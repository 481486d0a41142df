package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// lock takes PATH.lock for as long as this process lives: the system drops it with the process, however that
// ends. So whoever has it knows that every earlier owner is gone. The file says who has it, for people; it
// is never removed, for a lock on a removed file locks nothing.
func lock(path, bootID string) (*flock.Flock, error) {
	name := path + ".lock"
	l := flock.New(name)
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w; the ledger's folder has to be writable", name, err)
	}
	if !got {
		return nil, fmt.Errorf("%w: process %s has %s; stop it first, or give this gateway a data folder of its own",
			ledger.ErrLocked, holder(name), name)
	}
	text := fmt.Sprintf("%d %s\n", os.Getpid(), bootID)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", name, err), l.Unlock())
	}
	return l, nil
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
		return fmt.Errorf("%w: process %s has %s; stop it first, or give this gateway a data folder of its own",
			ledger.ErrLocked, holder(name), name)
	}
	return l.Unlock()
}
