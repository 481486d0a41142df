package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A settings file that the gateway has written has a note beside it, which says what --undo needs to know, and a
// copy of what was there before.
const (
	connectNote   = ".fareway-undo"
	connectBackup = ".fareway-backup"
)

// undoNote is the content of the note.
type undoNote struct {
	Existed bool   `json:"existed"` // there was a file, and the backup has it
	Written string `json:"written"` // SHA-256 of what was written, in hex
}

var errNothingToUndo = errors.New("there is nothing to undo")

// locate is where the file lies. A link is followed: it is the file behind it that changes.
func (f connectFile) locate(home string, getenv func(string) string) string {
	path := filepath.Join(home, f.path)
	if f.folderVar != "" {
		if folder := getenv(f.folderVar); folder != "" {
			path = filepath.Join(folder, strings.TrimPrefix(f.path, f.folder+"/"))
		}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// write sets the settings in the file and keeps a backup of the file before the first time. The file is for its
// owner only from then on, for it holds a key. It returns the backup's path, "" when there was no file.
func (f connectFile) write(path string) (backup string, err error) {
	old, err := os.ReadFile(path)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the settings: %w", err)
	}
	content, err := f.over(old)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w: put the settings in by hand, without --write they are printed", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the folder of the settings: %w", err)
	}
	note, err := readNote(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first time
		note.Existed = existed
		if existed {
			if err := replaceFile(path+connectBackup, old); err != nil {
				return "", fmt.Errorf("keeping a backup: %w", err)
			}
		}
	case err != nil:
		return "", err
	}
	note.Written = digest(content)
	b, err := json.Marshal(note)
	if err != nil {
		return "", fmt.Errorf("writing down how to undo it: %w", err)
	}
	if err := replaceFile(path+connectNote, b); err != nil {
		return "", fmt.Errorf("writing down how to undo it: %w", err)
	}
	if err := replaceFile(path, content); err != nil {
		return "", fmt.Errorf("writing the settings: %w", err)
	}
	if note.Existed {
		backup = path + connectBackup
	}
	return backup, nil
}

// undo puts back what was there before the first write. A file that has been changed since is left as it is.
func undo(path string) error {
	note, err := readNote(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s was not written by `connect --write`", errNothingToUndo, path)
	}
	if err != nil {
		return err
	}
	now, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the settings: %w", err)
	}
	if err == nil && digest(now) != note.Written {
		before := "there was no such file before"
		if note.Existed {
			before = "what was there before is in " + path + connectBackup
		}
		return fmt.Errorf("%s has been changed since it was written: take the settings out by hand (%s), then remove %s", path, before, path+connectNote)
	}
	if note.Existed {
		err = os.Rename(path+connectBackup, path)
	} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Remove(path + connectNote)
	}
	if err != nil {
		return fmt.Errorf("putting the settings back: %w", err)
	}
	return nil
}

func readNote(path string) (n undoNote, err error) {
	b, err := os.ReadFile(path + connectNote)
	if err != nil {
		return n, fmt.Errorf("reading how to undo it: %w", err)
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("reading how to undo it: %s: %w: remove that file if you do not want to undo anything", path+connectNote, err)
	}
	return n, nil
}

// readObject reads a JSON object as it is, numbers too. Nothing is an empty one.
func readObject(b []byte) (map[string]any, error) {
	object := map[string]any{}
	if len(bytes.TrimSpace(b)) == 0 {
		return object, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	// The decoder's own words would show parts of the file, which may hold keys.
	if d.Decode(&object) != nil || object == nil {
		return nil, errors.New("it is not one plain JSON object (comments are not read)")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after its JSON object")
	}
	return object, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
