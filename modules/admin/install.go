package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/files"
)

// Installed are files that were changed, and what they were.
type Installed struct {
	files []replaced
	main  string        // the file that names the others
	made  files.Changes // folders
	at    time.Time
}

type replaced struct {
	path   string  // behind links, but for one that is no more there
	before *string // nil where there was none
	after  *string // nil where there is none any more
	aside  string  // where what was saved is now; "" when it is nowhere else
}

// Install makes the files as a plan has them. All are written before the first takes its place, and the one that
// names the others comes last, so that whoever reads them meanwhile finds them as they were or as they will be. What
// is saved and did not serve, and what has to go, is kept beside them. It refuses when one of them is not as the plan
// has seen it: somebody else has saved it since.
func Install(list []PlanFile, main string, at time.Time) (*Installed, error) {
	done := &Installed{main: main, at: at}
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b PlanFile) int {
		rank := map[bool]int{true: 0, false: 1} // the first of them takes its place last
		return cmp.Compare(rank[a.Path == main], rank[b.Path == main])
	})
	var folders []string
	for _, f := range order {
		folders = append(folders, filepath.Dir(behindLinks(f)))
	}
	for _, folder := range folders {
		if err := done.made.MakeFolder(folder, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("making a folder of the configuration: %w", err), done.made.TakeBack())
		}
	}
	unlock, err := LockFolders(folders)
	if err != nil {
		return nil, errors.Join(err, done.made.TakeBack())
	}
	defer unlock()
	if err := done.place(order); err != nil {
		return nil, errors.Join(err, done.putBack())
	}
	for _, folder := range slices.Compact(folders) {
		if err := files.SyncFolder(folder); err != nil { // a power cut would leave what was there
			return nil, errors.Join(err, done.putBack())
		}
	}
	return done, nil
}

// KeptFiles are the files that are kept beside those that were changed.
func (i *Installed) KeptFiles() []string {
	list := []string{}
	for _, r := range i.files {
		if r.aside != "" {
			list = append(list, r.aside)
		}
	}
	slices.Sort(list)
	return list
}

// Undo puts back what was there, but for files that somebody else has saved since.
func (i *Installed) Undo() error {
	var folders []string
	for _, r := range i.files {
		folders = append(folders, filepath.Dir(r.path))
	}
	unlock, err := LockFolders(folders)
	if err != nil {
		return err
	}
	defer unlock()
	return i.putBack()
}

func (i *Installed) putBack() error {
	var errs []error
	for _, r := range slices.Backward(i.files) {
		errs = append(errs, i.putBackOne(r))
	}
	return errors.Join(append(errs, i.made.TakeBack())...)
}

func (i *Installed) putBackOne(r replaced) error {
	expected := ""
	if r.after != nil {
		expected = config.DigestOf(*r.after)
	}
	if err := isStill(r.path, expected); err != nil {
		return err
	}
	switch {
	case r.after == nil:
		return os.Rename(r.aside, r.path)
	case r.before == nil:
		return os.Remove(r.path)
	}
	err := i.write(r.path, *r.before, func() error { return isStill(r.path, expected) })
	if err == nil && r.aside != "" {
		err = os.Remove(r.aside)
	}
	return err
}

// place changes the files, the last of the list first.
func (i *Installed) place(list []PlanFile) error {
	if len(list) == 0 {
		return nil
	}
	f := list[0]
	r := replaced{path: behindLinks(f), after: f.Text}
	if f.Text == nil || f.Unkept {
		r.aside = r.path + ".aside-" + i.at.UTC().Format("20060102T150405.000Z")
	}
	others := func() error {
		if err := i.place(list[1:]); err != nil {
			return err
		}
		return isStill(r.path, f.SavedSHA256)
	}
	if f.Text == nil {
		if err := others(); err != nil {
			return err
		}
		if err := os.Rename(r.path, r.aside); err != nil {
			return fmt.Errorf("setting a file aside: %w", err)
		}
		i.files = append(i.files, r)
		return nil
	}
	kept := false
	err := i.write(r.path, *f.Text, func() error {
		if err := others(); err != nil {
			return err
		}
		content, err := os.ReadFile(r.path)
		if err == nil {
			r.before = new(string(content))
		}
		if r.aside == "" || r.before == nil {
			return nil
		}
		err = files.CreateFile(r.aside, content, 0o600)
		kept = err == nil
		return err
	})
	if err == nil {
		i.files = append(i.files, r)
	} else if kept {
		_ = os.Remove(r.aside) // what it holds is still in its place
	}
	return err
}

// behindLinks is where a file is. Of one that has to go, the link itself goes.
func behindLinks(f PlanFile) string {
	if real, err := filepath.EvalSymlinks(f.Path); err == nil && f.Text != nil {
		return real
	}
	return f.Path
}

// LockFolders makes whoever else installs files there, or starts a gateway on one of them, wait.
func LockFolders(folders []string) (unlock func(), err error) {
	var locks []*flock.Flock
	unlock = func() {
		for _, lock := range locks {
			_ = lock.Close() // it was only read
		}
	}
	for _, folder := range slices.Compact(slices.Sorted(slices.Values(folders))) {
		lock := flock.New(folder, flock.SetFlag(os.O_RDONLY))
		locks = append(locks, lock)
		if err := lock.Lock(); err != nil {
			unlock()
			return nil, fmt.Errorf("locking the folder %s: %w", folder, err)
		}
	}
	return unlock, nil
}

// isStill sees whether a file has the content with a digest; "" for no file.
func isStill(path, expected string) error {
	content, err := os.ReadFile(path)
	digest := ""
	switch {
	case err == nil:
		digest = config.DigestOf(string(content))
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("reading what is installed: %w", err)
	}
	if digest != expected {
		return fmt.Errorf("%s was saved by somebody else in the meantime: look at it, and plan again", path)
	}
	return nil
}

// write gives a file another content, whole or not at all; last is what is done before it takes its place. It keeps
// the file's mode and owner; a new one has those of the main file.
func (i *Installed) write(path, text string, last func() error) error {
	mode := fs.FileMode(0o600)
	info, err := os.Stat(path)
	if err != nil {
		info, err = os.Stat(i.main)
	}
	if err == nil {
		mode = info.Mode().Perm()
	}
	var refused error
	err = files.PlaceFile(path, []byte(text), mode, func(from, to string) error {
		if info != nil {
			if err := files.KeepOwner(from, info); err != nil {
				return err
			}
		}
		if refused = last(); refused != nil {
			return refused
		}
		return os.Rename(from, to)
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("installing the configuration: %w", err)
	}
	return nil
}
