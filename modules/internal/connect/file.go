package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/settings"
)

// A settings file that the gateway has written has a note beside it, which says what --undo needs to know, and a
// copy of what was there before.
const (
	connectNote   = ".fareway-undo"
	connectBackup = ".fareway-backup"
)

// undoNote is the content of the note.
type undoNote struct {
	Existed bool            `json:"existed"` // there was a file, and the backup has it
	Mode    fs.FileMode     `json:"mode"`    // of that file
	Written string          `json:"written"` // SHA-256 of what was written, in hex
	Format  settings.Format `json:"format"`
	// Changes are our settings, and what they replaced; none in notes of earlier versions.
	Changes []settings.Change `json:"changes"`
	// Shared: between two of our writes somebody else wrote, so that the backup is not what an undo leaves.
	Shared bool `json:"shared,omitempty"`
}

// ErrNothingToUndo: Write has not written the file.
var ErrNothingToUndo = errors.New("there is nothing to undo")

// ReadVariables reads the client's variables: the environment's, else those of its files below the home folder.
func (c Client) ReadVariables(home string, getenv func(string) string) func(string) string {
	return func(name string) string {
		if value := getenv(name); value != "" {
			return value
		}
		value, _ := findVariable(c.dotEnvIn(home), name)
		return value
	}
}

func (c Client) dotEnvIn(home string) (paths []string) {
	for _, file := range c.dotEnv {
		paths = append(paths, filepath.Join(home, file))
	}
	return paths
}

// VariableFiles are all files from which the client takes variables, whatever project it is started in: beside its
// settings, wherever those were moved to, and then below the home folder.
func (c Client) VariableFiles(home string, getenv func(string) string) (paths []string) {
	if len(c.dotEnv) == 0 {
		return nil
	}
	beside := File{Path: c.dotEnv[0], moved: c.File(Gateway{}).moved}
	paths = append(paths, beside.Locate(home, c.ReadVariables(home, getenv)))
	return append(paths, c.dotEnvIn(home)...)
}

// findVariable is the value that the first of these files with one gives a variable, and that file; "" for none.
func findVariable(paths []string, name string) (value, path string) {
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // most often there is none
		}
		if value := findAssignment(string(b), name); value != "" {
			return value, path
		}
	}
	return "", ""
}

// findAssignment is the value that a file of lines NAME=VALUE gives a variable, the last one, "" for none. A value may
// be in quotes; without them a comment begins at " #".
func findAssignment(text, name string) (value string) {
	for line := range strings.Lines(text) {
		assigned, rest, ok := strings.Cut(strings.TrimSpace(line), "=")
		if assigned = strings.TrimSpace(strings.TrimPrefix(assigned, "export ")); !ok || assigned != name {
			continue
		}
		rest = strings.TrimSpace(rest)
		if rest != "" && strings.ContainsRune("\"'`", rune(rest[0])) {
			if end := strings.IndexByte(rest[1:], rest[0]); end >= 0 {
				value = rest[1 : 1+end]
				continue
			}
		}
		rest, _, _ = strings.Cut(rest, " #")
		value = strings.TrimSpace(rest)
	}
	return value
}

// Locate is where the file lies. A link is followed: it is the file behind it that changes.
func (f File) Locate(home string, getenv func(string) string) string {
	path := filepath.Join(home, f.Path)
	for _, o := range f.moved {
		place := strings.TrimSpace(getenv(o.variable))
		if place == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(place, "~"); ok && (rest == "" || rest[0] == '/') {
			place = filepath.Join(home, rest)
		}
		path = filepath.Join(place, strings.TrimPrefix(f.Path, o.replaces))
		break
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Change is what a write would do, for a file that has been read and not yet changed.
type Change struct {
	path    string
	old     []byte
	first   bool // nothing of ours is in the file
	note    undoNote
	Content []byte // that the file is given
}

// Plan looks whether the settings can be put into the file, and how.
func (f File) Plan(path string) (p Change, err error) {
	p.path = path
	p.old, err = os.ReadFile(path)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("reading the settings: %w", err)
	}
	base := p.old
	p.note, err = readNote(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.first, p.note.Existed = true, existed
		if info, err := os.Stat(path); err == nil {
			p.note.Mode = info.Mode().Perm()
		}
	case err != nil:
		return p, err
	case existed && digest(p.old) != p.note.Written:
		p.note.Shared = true
	}
	if existed && !p.first && len(p.note.Changes) > 0 { // ours of the last time go first, for they may be others now
		if base, _, err = settings.Undo(p.note.Format, p.old, p.note.Changes); err != nil {
			return p, byHand(path, err)
		}
	}
	p.note.Format = f.format
	if p.Content, p.note.Changes, err = settings.Apply(f.format, base, f.members); err != nil {
		return p, byHand(path, err)
	}
	p.note.Written = digest(p.Content)
	return p, nil
}

func byHand(path string, err error) error {
	return fmt.Errorf("reading %s: %w: put the settings in by hand, without --write they are printed", path, err)
}

// Write puts the settings into the file and keeps a backup of the file before the first time. The file is for its
// owner only from then on, for it holds a key. It returns the backup's path, "" when there was no file.
func (p Change) Write() (backup string, err error) {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return "", fmt.Errorf("making the folder of the settings: %w", err)
	}
	if p.first && p.note.Existed {
		if err := files.ReplaceFile(p.path+connectBackup, p.old); err != nil {
			return "", fmt.Errorf("keeping a backup: %w", err)
		}
	}
	b, err := json.Marshal(p.note)
	if err != nil {
		return "", fmt.Errorf("writing down how to undo it: %w", err)
	}
	if err := files.ReplaceFile(p.path+connectNote, b); err != nil {
		return "", fmt.Errorf("writing down how to undo it: %w", err)
	}
	if err := files.ReplaceFile(p.path, p.Content); err != nil {
		return "", fmt.Errorf("writing the settings: %w", err)
	}
	if p.note.Existed {
		backup = p.path + connectBackup
	}
	return backup, nil
}

// Undone is what an undo has left of the file.
type Undone struct {
	Same bool       // it is as it was before the first write
	Kept [][]string // settings of ours that somebody has changed since, which stay
}

// Undo takes our settings out of the file and puts back what they replaced. All else stays as it is now, whoever has
// written it since; so does a file's mode, unless it is the one that we gave it.
func Undo(path string) (u Undone, err error) {
	note, err := readNote(path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, fmt.Errorf("%w: %s was not written by `connect --write`", ErrNothingToUndo, path)
	}
	if err != nil {
		return u, err
	}
	now, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && digest(now) == note.Written && !note.Shared:
		u.Same = true
		err = note.putBack(path)
	case err != nil:
		return u, fmt.Errorf("reading the settings: %w", err)
	case len(note.Changes) == 0:
		before := "there was no such file before"
		if note.Existed {
			before = "what was there before is in " + path + connectBackup
		}
		return u, fmt.Errorf("%s has been changed since an earlier version wrote it: "+
			"take the settings out by hand (%s), then remove %s", path, before, path+connectNote)
	default:
		u.Kept, err = note.takeOut(path, now)
	}
	if err == nil {
		err = os.Remove(path + connectNote)
	}
	if err != nil {
		return u, fmt.Errorf("putting the settings back: %w", err)
	}
	return u, nil
}

// putBack makes the file what it was before the first write.
func (n undoNote) putBack(path string) error {
	if !n.Existed {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if n.Mode != 0 { // an earlier version did not note it
		if err := os.Chmod(path+connectBackup, n.Mode); err != nil {
			return err
		}
	}
	return os.Rename(path+connectBackup, path)
}

// takeOut takes our settings out of a file that others have written since.
func (n undoNote) takeOut(path string, now []byte) (kept [][]string, err error) {
	content, kept, err := settings.Undo(n.Format, now, n.Changes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w: take the settings out by hand, then remove %s", path, err, path+connectNote)
	}
	if !n.Existed && settings.Blank(n.Format, content) {
		return kept, os.Remove(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	mode := info.Mode().Perm()
	if n.Existed && n.Mode != 0 && mode == 0o600 {
		mode = n.Mode
	}
	if err := files.PlaceFile(path, content, mode, os.Rename); err != nil {
		return nil, err
	}
	if err := os.Remove(path + connectBackup); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	return kept, nil
}

func readNote(path string) (n undoNote, err error) {
	b, err := os.ReadFile(path + connectNote)
	if err != nil {
		return n, fmt.Errorf("reading how to undo it: %w", err)
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("reading how to undo it: %s: %w: remove that file if you do not want to undo anything",
			path+connectNote, err)
	}
	return n, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
