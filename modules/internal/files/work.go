package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// WorkFolder is a folder, for its owner only, for what is made beside something else. Its owner has it locked until it
// is removed, and the system unlocks it with the process, however that ends.
type WorkFolder struct {
	Path string
	lock *flock.Flock
}

// MakeWorkFolder makes one in a folder, with a name that begins so, and removes there what killed owners left of the
// same beginning.
func MakeWorkFolder(parent, begins string) (*WorkFolder, error) {
	RemoveLeftWork(parent, begins)
	for {
		path, err := os.MkdirTemp(parent, begins+"*")
		if err != nil {
			return nil, err
		}
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		// Some network file systems lock no folders. Then nobody finds it unlocked either, and it is never taken for left.
		if got, err := lock.TryLock(); got || err != nil {
			return &WorkFolder{path, lock}, nil
		}
		// Somebody looks whether it was left. It is empty, so it is taken for left in an hour at the earliest.
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
}

// Remove removes it with all that is in it.
func (w *WorkFolder) Remove() error { return errors.Join(os.RemoveAll(w.Path), w.lock.Close()) }

// RemoveLeftWork removes the work folders of a beginning whose owners are gone: those that nobody has locked. One that
// is empty may be about to be locked, and is left for an hour. What cannot be removed stays.
func RemoveLeftWork(parent, begins string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), begins) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		if got, err := lock.TryLock(); err != nil || !got {
			continue
		}
		if left(path) {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}

func left(path string) bool {
	inside, err := os.ReadDir(path)
	if err != nil || len(inside) > 0 {
		return err == nil
	}
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > time.Hour
}
