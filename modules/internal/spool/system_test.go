package spool

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"

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

func written(file, b []byte, at int64) []byte {
	if grown := at + int64(len(b)); grown > int64(len(file)) {
		file = append(file, make([]byte, grown-int64(len(file)))...)
	}
	copy(file[at:], b)
	return file
}

func (o *opened) Sync() error {
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
	o.f.sure, o.f.pending = bytes.Clone(o.f.now), nil
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
		b := bytes.Clone(f.sure)
		kept := rapid.SampledFrom([]string{"none", "all", "some"}).Draw(t, "kept")
		for _, p := range f.pending {
			if kept == "all" || kept == "some" && rapid.Bool().Draw(t, "sector") {
				b = written(b, p.b, p.at)
			}
		}
		files[name] = b
	}
	after := holding(files)
	after.boot[0] = c.boot[0] + 1
	return after
}

func (c *computer) Boot() boot { return c.boot }

// where is the spool of the tests.
const where = "/data/fareway.db.spool"

var _ system = (*computer)(nil)
