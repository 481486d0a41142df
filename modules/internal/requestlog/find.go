package requestlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// idPattern is the form of the ids that the gateway gives out (GAP-91), and of those of attempts.
var idPattern = regexp.MustCompile(`^req_[0-9a-f]{32}(\.[0-9]{1,3})?$`)

// Find returns the record of a request, or of an attempt, from the files in a folder, which nobody needs to write.
// ErrNotFound when there is none, or when the request began before oldest.
func Find(dir, id string, oldest time.Time) (Record, error) {
	if !idPattern.MatchString(id) {
		return Record{}, fmt.Errorf("request %q: %w", id, ErrNotFound)
	}
	kinds := kindNames[:attempts]
	if strings.Contains(id, ".") {
		kinds = kindNames[attempts:]
	}
	for _, kind := range kinds {
		all, err := list(dir, kind)
		if err != nil {
			return Record{}, err
		}
		for _, s := range slices.Backward(all) {
			r, err := search(s.path, id)
			switch {
			case errors.Is(err, ErrNotFound):
			case err != nil:
				return Record{}, err
			case r.Time.After(oldest):
				return r, nil
			}
		}
	}
	return Record{}, fmt.Errorf("request %q: %w", id, ErrNotFound)
}

// search reads one file. What a crash has cut off is passed over.
func search(path, id string) (Record, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, ErrNotFound // it was removed meanwhile
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading the request log: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		var r Record
		if bytes.Contains(lines.Bytes(), []byte(id)) && json.Unmarshal(lines.Bytes(), &r) == nil && r.ID == id {
			return r, nil
		}
	}
	if err := lines.Err(); err != nil {
		return Record{}, fmt.Errorf("reading the request log: %w", err)
	}
	return Record{}, ErrNotFound
}
