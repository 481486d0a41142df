package requestlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The kinds of records, which are kept apart.
const (
	strangers = iota
	known
	attempts
)

var kindNames = [...]string{strangers: "strangers", known: "accounts", attempts: "attempts"}

// segments is over how many files the records of one kind are spread: the oldest goes when there is no room, or when
// all in it is too old.
const segments = 8

// files writes the records of one kind into numbered files of JSON lines. Log's goroutine alone uses it.
type files struct {
	dir, kind string
	size      int64 // of all

	file      *os.File // nil: none is open
	out       *bufio.Writer
	number    int
	begun     time.Time
	written   int64
	unflushed int // records
}

// segment is a file.
type segment struct {
	path   string
	number int
}

const namePattern = "%s-%d.jsonl" // kind and number

// list finds the files of one kind, oldest first.
func list(dir, kind string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the request log: %w", err)
	}
	var all []segment
	for _, e := range entries {
		s := segment{path: filepath.Join(dir, e.Name())}
		if _, err := fmt.Sscanf(e.Name(), kind+"-%d.jsonl", &s.number); err != nil ||
			e.Name() != fmt.Sprintf(namePattern, kind, s.number) {
			continue // somebody else's
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b segment) int { return a.number - b.number })
	return all, nil
}

// write adds a record, to the file at hand or to a new one. It returns how many records were lost when it fails.
func (f *files) write(r Record, now time.Time, keep time.Duration) (lost int, err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return 1, fmt.Errorf("writing a request: %w", err)
	}
	full := f.written > 0 && f.written+int64(len(line)) >= f.size/segments
	if f.file != nil && (full || now.Sub(f.begun) >= keep/segments) {
		if lost, err := f.close(); err != nil {
			return lost + 1, err
		}
	}
	if f.file == nil {
		if err := f.begin(now); err != nil {
			return 1, err
		}
	}
	f.unflushed++
	n, err := f.out.Write(append(line, '\n'))
	f.written += int64(n)
	if err != nil {
		return f.abandon(err)
	}
	return 0, nil
}

// begin starts a new file, and makes room for it.
func (f *files) begin(now time.Time) error {
	all, err := list(f.dir, f.kind)
	if err != nil {
		return err
	}
	if n := len(all); n > 0 {
		f.number = max(f.number, all[n-1].number)
	}
	if err := f.makeRoom(all); err != nil {
		return err
	}
	f.number++
	path := filepath.Join(f.dir, fmt.Sprintf(namePattern, f.kind, f.number))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("beginning a file of the request log: %w", err)
	}
	f.file, f.out, f.begun, f.written = file, bufio.NewWriterSize(file, 64<<10), now, 0
	return nil
}

// makeRoom removes the oldest files until a further one fits. Files are small after a restart, so there may be many.
func (f *files) makeRoom(all []segment) error {
	left := f.size - f.size/segments
	for _, s := range slices.Backward(all) {
		info, err := os.Stat(s.path)
		if err == nil {
			left -= info.Size()
		}
		if left >= 0 {
			continue
		}
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("making room in the request log: %w", err)
		}
	}
	return nil
}

// flush writes through. It returns how many records that were, or how many are lost.
func (f *files) flush() (records int, err error) {
	if f.file == nil {
		return 0, nil
	}
	if err := f.out.Flush(); err != nil {
		return f.abandon(err)
	}
	records, f.unflushed = f.unflushed, 0
	return records, nil
}

// close ends the file at hand.
func (f *files) close() (records int, err error) {
	if records, err = f.flush(); err == nil && f.file != nil {
		_, err = f.abandon(nil)
	}
	return records, err
}

// abandon lets go of the file at hand; the next record begins another. What was not written through is lost.
func (f *files) abandon(why error) (lost int, err error) {
	file := f.file
	lost, f.file, f.out, f.unflushed = f.unflushed, nil, nil, 0
	if err := errors.Join(why, file.Close()); err != nil {
		return lost, fmt.Errorf("writing the request log: %w", err)
	}
	return lost, nil
}

// purge removes the files that nothing was written to for so long.
func (f *files) purge(now time.Time, keep time.Duration) error {
	all, err := list(f.dir, f.kind)
	if err != nil {
		return err
	}
	for _, s := range all {
		info, err := os.Stat(s.path)
		if err != nil || info.ModTime().After(now.Add(-keep)) {
			continue // what is gone already is no error
		}
		if f.file != nil && s.number == f.number {
			if _, err := f.close(); err != nil {
				return err
			}
		}
		if err := os.Remove(s.path); err != nil {
			return fmt.Errorf("removing an old file of the request log: %w", err)
		}
	}
	return nil
}
