package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/files"
)

// installed are files that were replaced, and what they were.
type installed struct{ files []replaced }

type replaced struct {
	path   string // behind links
	before *string
	after  string
}

// install writes the files of a plan, each whole or not at all, the one that names the others last. It refuses when one
// of them is not as the plan has seen it: somebody else has saved it since.
func install(list []admin.PlanFile, last string) (*installed, error) {
	done := new(installed)
	for _, main := range [...]bool{false, true} {
		for _, f := range list {
			if (f.Path == last) != main {
				continue
			}
			r, err := swapFile(f.Path, f.Text, f.SavedSHA256)
			if err != nil {
				return nil, errors.Join(err, done.undo())
			}
			done.files = append(done.files, r)
		}
	}
	return done, nil
}

// undo puts back what was there, but for files that somebody else has saved since.
func (i *installed) undo() error {
	var errs []error
	for _, r := range i.files {
		switch {
		case r.before != nil:
			_, err := swapFile(r.path, *r.before, config.DigestOf(r.after))
			errs = append(errs, err)
		default:
			errs = append(errs, os.Remove(r.path))
		}
	}
	return errors.Join(errs...)
}

// swapFile gives a file another content, if it still has the one with the digest expected ("" for no file). It keeps
// its mode, its owner and the links that lead to it. Whoever else does the same waits.
func swapFile(path, text, expected string) (replaced, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	r := replaced{path: path, after: text}
	lock := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return r, fmt.Errorf("locking the folder of %s: %w", path, err)
	}
	defer lock.Close()
	content, err := os.ReadFile(path)
	digest := ""
	switch {
	case err == nil:
		r.before = new(string(content))
		digest = config.DigestOf(*r.before)
	case !errors.Is(err, fs.ErrNotExist):
		return r, fmt.Errorf("reading what is installed: %w", err)
	}
	if digest != expected {
		return r, fmt.Errorf("%s was saved by somebody else in the meantime: look at it, and plan again", path)
	}
	mode, place := fs.FileMode(0o600), os.Rename
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		place = func(from, to string) error {
			if err := keepOwner(from, info); err != nil {
				return err
			}
			return os.Rename(from, to)
		}
	}
	if err := files.PlaceFile(path, []byte(text), mode, place); err != nil {
		return r, fmt.Errorf("installing the configuration: %w", err)
	}
	return r, nil
}
