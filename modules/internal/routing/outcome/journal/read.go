package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	maxLine = 64 << 10 // bytes of one
	// MaxRead is how much is read at most, in bytes: what is behind it is left out, and said.
	MaxRead = 1 << 30
)

// Skipped is what was left out of a journal, and where the first of it stood.
type Skipped struct {
	Why   string `json:"why"`
	Lines int64  `json:"lines"`
	File  string `json:"file"`
	Line  int64  `json:"line"` // the first one
}

func (s Skipped) String() string {
	return fmt.Sprintf("%d left out from line %d of %s on: %s", s.Lines, s.Line, s.File, s.Why)
}

// Read gives take the lines of a journal's files, or of a folder of them, the oldest first, in little memory. What is
// no line of this version is left out, and returned. An error of take ends it.
func Read(path string, take func(*Line) error) ([]Skipped, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading outcomes: %w", err)
	}
	paths := []string{path}
	if info.IsDir() {
		all, err := (&series{dir: path, name: "lines"}).list()
		if err != nil {
			return nil, fmt.Errorf("reading outcomes: %w", err)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s holds no outcomes (lines-*.jsonl): name the folder or a file in which a gateway with a "+
				"block `outcomes` keeps them", path)
		}
		paths = nil
		for _, p := range all {
			paths = append(paths, p.path)
		}
	}
	r := reader{take: take}
	for _, path := range paths {
		if err := r.file(path); err != nil {
			return r.skipped, err
		}
	}
	return r.skipped, nil
}

type reader struct {
	take    func(*Line) error
	read    int64
	skipped []Skipped
}

// skip notes a line that is left out.
func (r *reader) skip(why, path string, line int64) {
	for i := range r.skipped {
		if r.skipped[i].Why == why {
			r.skipped[i].Lines++
			return
		}
	}
	const reasons = 20
	if len(r.skipped) < reasons {
		r.skipped = append(r.skipped, Skipped{why, 1, path, line})
	}
}

func (r *reader) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading outcomes: %w", err)
	}
	defer f.Close()
	b := bufio.NewReaderSize(f, maxLine)
	for n := int64(1); ; n++ {
		text, err := b.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) && r.read <= MaxRead {
			long = true
			r.read += int64(len(text))
			text, err = b.ReadSlice('\n')
		}
		r.read += int64(len(text))
		switch {
		case r.read > MaxRead:
			r.skip("more than 1 GiB is not read: give the newer files alone", path, n)
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("reading line %d of %s: %w", n, path, err)
		case err != nil && len(text) == 0:
			return nil
		case err != nil:
			r.skip("the last line is not whole: the gateway was killed there, or writes it", path, n)
			return nil
		case long:
			r.skip(fmt.Sprintf("it is longer than %d bytes", maxLine), path, n)
			continue
		}
		l, why := parse(text)
		if why != "" {
			r.skip(why, path, n)
			continue
		}
		if err := r.take(l); err != nil {
			return err
		}
	}
}

// parse reads a line, or says why it is none.
func parse(text []byte) (l *Line, why string) {
	l = new(Line)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, "it is no line of outcomes"
	}
	switch {
	case l.Version != Version:
		return nil, fmt.Sprintf("it is of version %d, and this fareway reads %d", l.Version, Version)
	case !(l.Score >= 0 && l.Score <= 1):
		return nil, "its score is not from 0 to 1"
	case l.Route == "" || l.Model == "" || len(l.Signal) < 4:
		return nil, "it has no route, no model or no signal"
	}
	return l, ""
}
