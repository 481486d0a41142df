// Package history keeps the configurations that were in force, in a folder of the gateway's data: for whoever asks
// what was changed when, and wants it back. It is for the engine, and for commands where no gateway runs.
package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
)

// Size is how many configurations are kept.
const Size = 20

// Kept is a configuration that was in force.
type Kept struct {
	Number int64     `json:"number"`       // counts the configurations of this data folder
	Since  time.Time `json:"since"`        // when it came into force
	Hash   string    `json:"hash"`         // of its files' names and contents
	By     string    `json:"by,omitempty"` // what brought it into force, and who as far as that is known
	Files  []File    `json:"files"`        // first the one that names the others
}

// File is a file that a configuration is made of.
type File struct {
	Path string `json:"path"` // absolute
	// Text is its content; null of what file("...") brings, which may be a secret and is never copied.
	Text *string `json:"text"`
}

// Texts are the contents by path, without those of secrets.
func (k Kept) Texts() map[string]*string {
	texts := make(map[string]*string)
	for _, f := range k.Files {
		if f.Text != nil {
			texts[f.Path] = f.Text
		}
	}
	return texts
}

// History is a folder of them, one file each. Its methods may be called concurrently.
type History struct {
	dir string
	mu  sync.Mutex // of whoever adds
}

// In is the history of a data folder. Nothing is made before the first Add.
func In(data string) *History { return &History{dir: filepath.Join(data, "configurations")} }

// ErrNotKept: there is no configuration of that number, or no more.
var ErrNotKept = errors.New("not kept")

// Add keeps a configuration that has come into force, under the next number, above that of k itself, and lets the
// oldest go. One that is the newest already is not kept again: the result is that.
func (h *History) Add(k Kept) (Kept, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	numbers, err := h.numbers()
	if err != nil {
		return Kept{}, err
	}
	k.Number++
	if n := len(numbers); n > 0 {
		newest := numbers[n-1]
		if last, err := h.Get(newest); err == nil && last.Hash == k.Hash {
			return last, nil
		}
		k.Number = max(k.Number, newest+1)
	}
	if err := h.put(k); err != nil {
		return Kept{}, err
	}
	for _, old := range numbers[:max(0, len(numbers)+1-Size)] {
		if err := os.Remove(h.path(old)); err != nil {
			return k, fmt.Errorf("removing an old configuration: %w", err)
		}
	}
	return k, nil
}

// Sign notes what has brought a configuration into force that is kept already.
func (h *History) Sign(number int64, by string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, err := h.Get(number)
	if err != nil {
		return err
	}
	k.By = by
	return h.put(k)
}

func (h *History) put(k Kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keeping a configuration: %w", err)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("keeping a configuration: %w", err)
	}
	if err := files.ReplaceFile(h.path(k.Number), text); err != nil {
		return fmt.Errorf("keeping a configuration: %w", err)
	}
	return nil
}

// List has all that are kept, the newest last. A file that cannot be read is left out, and named by the error.
func (h *History) List() ([]Kept, error) {
	numbers, err := h.numbers()
	if err != nil {
		return nil, err
	}
	var (
		list []Kept
		errs []error
	)
	for _, n := range numbers {
		k, err := h.Get(n)
		switch {
		case errors.Is(err, ErrNotKept): // it went just now
		case err != nil:
			errs = append(errs, err)
		default:
			list = append(list, k)
		}
	}
	return list, errors.Join(errs...)
}

// Get is the configuration of a number. The error is ErrNotKept when there is none.
func (h *History) Get(number int64) (Kept, error) {
	text, err := os.ReadFile(h.path(number))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Kept{}, fmt.Errorf("configuration %d is %w", number, ErrNotKept)
	case err != nil:
		return Kept{}, fmt.Errorf("reading a kept configuration: %w", err)
	}
	var k Kept
	if err := json.Unmarshal(text, &k); err != nil || k.Number != number || len(k.Files) == 0 {
		return Kept{}, fmt.Errorf("%s is damaged: remove it; it is only a copy of what was in force", h.path(number))
	}
	return k, nil
}

func (h *History) path(number int64) string {
	return filepath.Join(h.dir, strconv.FormatInt(number, 10)+suffix)
}

const suffix = ".json"

// numbers are those of the files, in order.
func (h *History) numbers() ([]int64, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the kept configurations: %w", err)
	}
	var list []int64
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		if n, err := strconv.ParseInt(name, 10, 64); ours && err == nil && n > 0 {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, cmp.Compare[int64])
	return list, nil
}
