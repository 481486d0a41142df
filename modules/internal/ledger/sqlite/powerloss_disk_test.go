package sqlite

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// disk records what SQLite does to the files of a folder, in the order of its doing.
type disk struct {
	// volatile disks record nothing and sync nothing: for ledgers whose durability is not in question.
	volatile bool
	// fault is asked before each write and sync, and may take its time; what it returns, when it is not 0, is SQLite's
	// error. Nothing fails without it.
	fault atomic.Pointer[func(kind eventKind, file string) int32]

	mu     sync.Mutex
	events []event
}

type event struct {
	kind   eventKind
	file   string // without its folder
	offset int64  // of a write; the size of a truncation
	data   []byte // of a write
}

type eventKind int

const (
	created eventKind = iota
	written
	truncated
	deleted
	synced
	syncedFolder
)

func (d *disk) record(e event) {
	if d.volatile || strings.HasSuffix(e.file, "-shm") {
		return // shared memory is made anew by whoever opens the ledger first
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// position is how many things have happened.
func (d *disk) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

// image is the content of files by their names.
type image map[string][]byte

func (i image) apply(e event) {
	switch e.kind {
	case created:
		if _, ok := i[e.file]; !ok {
			i[e.file] = nil
		}
	case written:
		end := int(e.offset) + len(e.data)
		i[e.file] = resized(i[e.file], max(end, len(i[e.file])))
		copy(i[e.file][e.offset:], e.data)
	case truncated:
		i[e.file] = resized(i[e.file], int(e.offset))
	case deleted:
		delete(i, e.file)
	}
}

func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

func (i image) clone() image {
	c := maps.Clone(i)
	for name, b := range c {
		c[name] = bytes.Clone(b)
	}
	return c
}

// save writes the files into a folder.
func (i image) save(dir string) error {
	for name, b := range i {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return fmt.Errorf("saving a disk: %w", err)
		}
	}
	return nil
}

// platter is what of a recording is on the disk for sure, and what may be: a file's writes since its last sync, and
// the names that were made and removed since the last sync of the folder. A file that is synced has its name.
type platter struct {
	sure    image
	all     image // as the running system sees it
	pending []event
}

func newPlatter() *platter { return &platter{sure: image{}, all: image{}} }

func (p *platter) apply(e event) {
	switch e.kind {
	case synced:
		p.pending = slices.DeleteFunc(p.pending, func(w event) bool { return w.file == e.file })
		p.sure[e.file] = bytes.Clone(p.all[e.file])
	case syncedFolder:
		for i := 0; i < len(p.pending); i++ {
			name := p.pending[i]
			if name.kind != created && name.kind != deleted {
				continue
			}
			p.sure.apply(name)
			// What was written to a file before it was removed is gone with it.
			before := slices.DeleteFunc(slices.Clone(p.pending[:i]),
				func(w event) bool { return name.kind == deleted && w.file == name.file })
			p.pending = append(before, p.pending[i+1:]...)
			i = len(before) - 1
		}
	default:
		p.all.apply(e)
		p.pending = append(p.pending, e)
	}
}

// sector is what a disk writes whole or not at all.
const sector = 512

// loss decides what of the pending events the disk has kept when the power fails.
type loss struct {
	name string
	keep func(random *rand.Rand, pending []event) []event
}

var losses = []loss{
	{"everything since the last sync is lost", func(*rand.Rand, []event) []event { return nil }},
	{"everything was written, though not synced", func(_ *rand.Rand, p []event) []event { return p }},
	{"the writes end in the middle of one", func(random *rand.Rand, p []event) []event {
		if len(p) == 0 {
			return nil
		}
		n := random.IntN(len(p))
		pieces := sectors(p[n])
		return append(slices.Clone(p[:n]), pieces[:random.IntN(len(pieces)+1)]...)
	}},
	{"some sectors were written", func(random *rand.Rand, p []event) (kept []event) {
		for _, e := range p {
			for _, piece := range sectors(e) {
				if random.IntN(2) == 0 {
					kept = append(kept, piece)
				}
			}
		}
		return kept
	}},
	{"a few sectors were not written", func(random *rand.Rand, p []event) (kept []event) {
		for _, e := range p {
			for _, piece := range sectors(e) {
				if random.IntN(10) > 0 {
					kept = append(kept, piece)
				}
			}
		}
		return kept
	}},
	{"the last write came first", func(_ *rand.Rand, p []event) []event { return p[max(0, len(p)-1):] }},
	{"an early write comes last", func(random *rand.Rand, p []event) []event {
		if len(p) == 0 {
			return nil
		}
		n := random.IntN(len(p))
		return slices.Delete(slices.Clone(p), n, n+1)
	}},
}

// sectors cuts a write at the sectors of its file. Anything else happens or does not.
func sectors(e event) (pieces []event) {
	if e.kind != written {
		return []event{e}
	}
	for len(e.data) > 0 {
		n := min(int64(len(e.data)), sector-e.offset%sector)
		piece := e
		piece.data = e.data[:n]
		pieces = append(pieces, piece)
		e.offset, e.data = e.offset+n, e.data[n:]
	}
	return pieces
}

// after is what the disk holds after a loss.
func (p *platter) after(l loss, random *rand.Rand) image {
	i := p.sure.clone()
	for _, e := range l.keep(random, p.pending) {
		i.apply(e)
	}
	return i
}
