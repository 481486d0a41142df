package spool

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"

	"pgregory.net/rapid"
)

var errBroken = errors.New("broken by the test")

// computer is a system that remembers what is sure on its disk, and fails or loses its power when it is told to.
type computer struct {
	files map[string]*inode // by their names now
	sure  map[string]*inode // by the names that survive a loss of power
	names []map[string]*inode

	// left is how many operations go well before the power is gone; negative: all.
	left int
	gone atomic.Bool // it is
	// broken and stuck: no sync goes well, and no write either.
	broken, stuck bool
	failing       int // so many syncs fail, and then they go well again
	syncs         int
	handles       int // files that are open
	boot          boot
}

type inode struct {
	now, sure []byte
	pending   []piece // written and not sure
}

type piece struct {
	at int64
	b  []byte
}

func newComputer() *computer {
	return &computer{files: make(map[string]*inode), sure: make(map[string]*inode), left: -1, boot: boot{1}}
}

// holding is a computer with these files.
func holding(files map[string][]byte) *computer {
	c := newComputer()
	for name, b := range files {
		c.files[name] = &inode{now: bytes.Clone(b), sure: bytes.Clone(b)}
	}
	c.sure = maps.Clone(c.files)
	return c
}

// step is one operation that the loss of power can come before.
func (c *computer) step() error {
	if c.left == 0 {
		c.gone.Store(true)
		return errors.New("the power is gone")
	}
	c.left--
	return nil
}

func (c *computer) named() { c.names = append(c.names, maps.Clone(c.files)) }

func (c *computer) Read(path string) ([]byte, error) {
	f, ok := c.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(f.now), nil
}

func (c *computer) Open(path string) (disk, error) {
	f, ok := c.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	c.handles++
	return &opened{c, f}, nil
}

func (c *computer) Create(path string) (disk, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	f := &inode{}
	c.files[path] = f
	c.named()
	c.handles++
	return &opened{c, f}, nil
}

func (c *computer) Rename(from, to string) error {
	if err := c.step(); err != nil {
		return err
	}
	c.files[to] = c.files[from]
	delete(c.files, from)
	c.named()
	return nil
}

func (c *computer) Remove(path string) error {
	if err := c.step(); err != nil {
		return err
	}
	delete(c.files, path)
	c.named()
	return nil
}

func (c *computer) SyncDir(dir string) error {
	if dir != filepath.Dir(where) {
		return errors.New("another folder")
	}
	if err := c.step(); err != nil {
		return err
	}
	c.sure, c.names = maps.Clone(c.files), nil
	return nil
}

type opened struct {
	c *computer
	f *inode
}

func (o *opened) WriteAt(b []byte, at int64) (int, error) {
	if err := o.c.step(); err != nil {
		return 0, err
	}
	if o.c.stuck {
		return 0, errBroken
	}
	o.f.now = written(o.f.now, b, at)
	for n := 0; n < len(b); {
		size := min(len(b)-n, sectorSize-int(at+int64(n))%sectorSize)
		o.f.pending = append(o.f.pending, piece{at + int64(n), bytes.Clone(b[n : n+size])})
		n += size
	}
	return len(b), nil
}

// Put has on the disk what it writes and nothing else of the file; the power can go before, in between, and after.
func (o *opened) Put(b []byte, at int64) error {
	if _, err := o.WriteAt(b, at); err != nil {
		return err
	}
	return o.sync(func() {
		o.f.sure = written(o.f.sure, b, at)
		// What was written there before comes no more.
		o.f.pending = slices.DeleteFunc(o.f.pending, func(p piece) bool { return p.at >= at && p.at < at+int64(len(b)) })
	})
}

func written(file, b []byte, at int64) []byte {
	if grown := at + int64(len(b)); grown > int64(len(file)) {
		file = append(file, make([]byte, grown-int64(len(file)))...)
	}
	copy(file[at:], b)
	return file
}

func (o *opened) Sync() error {
	return o.sync(func() { o.f.sure, o.f.pending = bytes.Clone(o.f.now), nil })
}

// sync runs what has something on the disk, unless the disk fails.
func (o *opened) sync(run func()) error {
	if err := o.c.step(); err != nil {
		return err
	}
	if o.c.broken {
		return errBroken
	}
	if o.c.failing > 0 {
		o.c.failing--
		return errBroken
	}
	o.c.syncs++
	run()
	return nil
}

func (o *opened) Close() error {
	o.c.handles--
	return nil
}

// after is the computer when the power is back: of what was not sure some sectors and some names are there.
func (c *computer) after(t *rapid.T) *computer {
	names := append([]map[string]*inode{c.sure}, c.names...)[rapid.IntRange(0, len(c.names)).Draw(t, "names")]
	files := make(map[string][]byte)
	for name, f := range names {
		kept := rapid.SampledFrom([]string{"none", "all", "some"}).Draw(t, "kept")
		files[name] = f.after(func(int) bool {
			return kept == "all" || kept == "some" && rapid.Bool().Draw(t, "sector")
		})
	}
	return c.next(files)
}

// next is the computer in its next boot, with these files.
func (c *computer) next(files map[string][]byte) *computer {
	next := holding(files)
	next.boot[0] = c.boot[0] + 1
	return next
}

func (c *computer) Boot() boot { return c.boot }

// after is what the disk has of a file when the power is back, with those of its sectors that are kept.
func (f *inode) after(kept func(sector int) bool) []byte {
	b := bytes.Clone(f.sure)
	for i, p := range f.pending {
		if kept(i) {
			b = written(b, p.b, p.at)
		}
	}
	return b
}

// maxSubsets is up to how many sectors that are not sure each subset of them is tried.
const maxSubsets = 6

// all are the computers that this one can be when the power is back, where its spool alone has sectors that are not
// sure: with each subset of them, or, where they are many, with none, all, each one alone and all but each one.
func (c *computer) all() (list []*computer) {
	f := c.files[where]
	n := len(f.pending)
	seen := make(map[string]bool)
	add := func(kept func(int) bool) {
		content := f.after(kept)
		if seen[string(content)] {
			return
		}
		seen[string(content)] = true
		files := map[string][]byte{where: content}
		for name, other := range c.files {
			if name != where {
				files[name] = bytes.Clone(other.sure)
			}
		}
		list = append(list, c.next(files))
	}
	if n <= maxSubsets {
		for subset := range 1 << n {
			add(func(i int) bool { return subset>>i&1 == 1 })
		}
		return list
	}
	for one := -1; one < n; one++ {
		add(func(i int) bool { return i == one })
		add(func(i int) bool { return i != one })
	}
	return list
}

// where is the spool of the tests.
const where = "/data/fareway.db.spool"

var _ system = (*computer)(nil)
