package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parts is in how many files a series is kept about, by age and by size: the oldest go first, whole.
const parts = 16

// series is files of lines, one behind the other. Their names say when each was begun.
type series struct {
	dir, name string

	waits []byte // whole lines
	count int

	file  *os.File // the last one, nil before it is needed
	begun time.Time
	size  int64
}

// part is a file of a series.
type part struct {
	path  string
	begun time.Time
	size  int64
}

const suffix = ".jsonl"

func (s *series) path(begun time.Time) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s-%012d%s", s.name, begun.Unix(), suffix))
}

// list are the files that there are, the oldest first.
func (s *series) list() (all []part, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		begun, of := strings.CutPrefix(e.Name(), s.name+"-")
		begun, ok := strings.CutSuffix(begun, suffix)
		if !of || !ok {
			continue
		}
		at, err := strconv.ParseInt(begun, 10, 64)
		info, infoErr := e.Info()
		if err != nil || infoErr != nil || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, part{filepath.Join(s.dir, e.Name()), time.Unix(at, 0), info.Size()})
	}
	slices.SortFunc(all, func(a, b part) int { return a.begun.Compare(b.begun) })
	return all, nil
}

// write appends what waits, whole or not at all.
func (s *series) write(now time.Time, keep time.Duration, size int64) error {
	if s.file != nil && (s.size >= size/parts || now.Sub(s.begun) >= keep/parts || now.Before(s.begun)) {
		s.close()
	}
	if s.file == nil {
		if err := s.open(now, keep, size); err != nil {
			return err
		}
	}
	n, err := s.file.Write(s.waits)
	if err == nil {
		s.size += int64(n)
		return nil
	}
	if n > 0 { // a full disk: a part of a line is nothing
		err = errors.Join(err, s.file.Truncate(s.size))
	}
	s.close()
	return err
}

// open continues the last file, or begins one.
func (s *series) open(now time.Time, keep time.Duration, size int64) error {
	if err := os.MkdirAll(s.dir, privateFolder); err != nil {
		return err
	}
	all, err := s.list()
	if err != nil {
		return err
	}
	begun := now.Truncate(time.Second)
	if n := len(all); n > 0 {
		last := all[n-1]
		if last.size < size/parts && now.Sub(last.begun) < keep/parts && !now.Before(last.begun) {
			begun = last.begun
		} else if !begun.After(last.begun) {
			begun = last.begun.Add(time.Second) // the clock has been turned back, or this second's file is full
		}
	}
	f, err := os.OpenFile(s.path(begun), os.O_CREATE|os.O_RDWR|os.O_APPEND, privateFile)
	if err != nil {
		return err
	}
	end, err := wholeLines(f)
	if err == nil {
		err = errors.Join(f.Chmod(privateFile), f.Truncate(end))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.begun, s.size = f, begun, end
	return nil
}

// wholeLines is where the last whole line of a file ends: a crash may have left a part of one.
func wholeLines(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	buffer := make([]byte, 64<<10)
	for err == nil && end > 0 {
		from := max(end-int64(len(buffer)), 0)
		var n int
		if n, err = f.ReadAt(buffer[:end-from], from); err != nil && !errors.Is(err, io.EOF) {
			break
		}
		err = nil
		if at := bytes.LastIndexByte(buffer[:n], '\n'); at >= 0 {
			return from + int64(at) + 1, nil
		}
		end = from
	}
	return 0, err
}

// prune removes the oldest files: those with a line that may be older than it may be kept, and what is too much.
func (s *series) prune(now time.Time, keep time.Duration, size int64) error {
	all, err := s.list()
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, p := range all {
		sum += p.size
	}
	var errs []error
	for _, p := range all {
		if now.Sub(p.begun) < keep && sum <= size {
			break
		}
		if s.file != nil && p.begun.Equal(s.begun) {
			s.close()
		}
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		sum -= p.size
	}
	return errors.Join(errs...)
}

func (s *series) close() {
	if s.file != nil {
		_ = s.file.Close() // what was written is there, or the next write says it
		s.file = nil
	}
}
