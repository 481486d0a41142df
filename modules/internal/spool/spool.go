// Package spool keeps settlements that the ledger could not take, in a file of this machine, until it takes them. A
// settlement that Append has returned nil for survives a crash and a loss of power. What is read from it may have
// been applied already: settlements are idempotent, so that they can be repeated without harm.
//
// Beside it is a second file, the Aside: what was in the spool and cannot be applied, until an operator has decided.
//
// It is for the engine only. It knows settlements and nothing of the ledger's store.
package spool

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Size is how large a spool is made, in bytes, unless Open is told another size. It is written whole when it is made,
// so that a disk that is full later has room for settlements all the same. About 16,000 settlements of one attempt
// fit, and as many requests would have to be running when the ledger goes away: none begins while it is.
const Size = 16 << 20

var (
	// ErrFull: there is no room for the settlement until those that wait are applied.
	ErrFull = errors.New("the spool is full")
	// ErrForeign: the file is not a spool, or a newer fareway wrote it. Nothing was changed.
	ErrForeign = errors.New("unusable spool")
)

// Spool is an open spool. Its methods may be called concurrently.
type Spool struct {
	aside   *Aside
	waiting atomic.Int64

	mu    sync.Mutex // guards queue
	queue []*appending

	// io is held while the file is written; it guards what follows. Who holds it may take mu.
	io      sync.Mutex
	file    disk
	records []Record // that wait, oldest first
	header  header   // as it is on the disk
	next    int64    // where the next header goes
	seq     uint32   // number of the last record
	end     int64    // behind it
	torn    int64
	used    int64 // where what may be on the disk ends: end, or behind it when the disk failed
}

// appending is a settlement on its way into the file.
type appending struct {
	record  Record
	payload []byte
	done    bool // guarded by Spool.io, like err
	err     error
}

// Open opens the spool at path, and makes it, of a size in bytes (0 for Size), when there is none. What it cannot read
// it keeps aside (Spool.Aside), and goes on with the rest. One process has a spool at a time: the one that has the
// ledger's lock.
func Open(path string, size int64) (*Spool, error) { return open(machine{}, path, cmp.Or(size, Size)) }

func open(sys system, path string, size int64) (*Spool, error) {
	s, err := load(sys, path, size)
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, err)
	}
	return s, nil
}

func load(sys system, path string, size int64) (s *Spool, err error) {
	content, err := readIfAny(sys, path)
	if err != nil {
		return nil, err
	}
	f := new(found)
	if content != nil {
		if f, err = scan(content); err != nil {
			return nil, err
		}
	}
	aside, err := openAside(sys, AsidePath(path))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, aside.Close())
		}
	}()
	if err := aside.keepDamages(path, f.damages); err != nil {
		return nil, err
	}
	if content == nil || !f.isWhole() {
		// As a whole and at once: whatever happens, either file has all that can be read.
		return renew(sys, path, max(size, int64(len(content)), needed(f.records)), f.records, aside)
	}
	file, err := sys.Open(path)
	if err != nil {
		return nil, err
	}
	s = &Spool{
		aside: aside, file: file, records: f.records, header: f.header, next: other(f.headerAt),
		seq: f.count, end: f.end, used: f.used, torn: f.used - f.end,
	}
	s.header.size = int64(len(content)) / sectorSize * sectorSize
	s.waiting.Store(int64(len(s.records)))
	return s, nil
}

// renew makes a spool with these records, in place of what is there.
func renew(sys system, path string, size int64, records []Record, aside *Aside) (*Spool, error) {
	size = size / sectorSize * sectorSize
	s := &Spool{aside: aside, records: records, next: headerA, end: firstRecord}
	s.header = header{epoch: 1, size: size}
	_, _ = rand.Read(s.header.file[:]) // never fails
	content := make([]byte, size)      // not a hole: writing into one needs room that a full disk has not
	for _, r := range records {
		payload, err := r.encode()
		if err != nil {
			return nil, err
		}
		s.seq++
		b := appendSectors(nil, s.end, 1, s.seq, payload)
		s.end += int64(copy(content[s.end:], b))
	}
	s.header.count, s.used = s.seq, s.end
	copy(content[headerA:], s.header.sector(headerA))
	copy(content[headerB:], s.header.sector(headerB))
	var err error
	if s.file, err = install(sys, path, content); err != nil {
		return nil, err
	}
	s.waiting.Store(int64(len(records)))
	return s, nil
}

// needed is how large a file of these records is at least. They come from one that may have been packed more densely.
func needed(records []Record) int64 {
	size := int64(firstRecord)
	for _, r := range records {
		payload, _ := r.encode() // renew says what is wrong with it
		size += sectorsFor(payload) * sectorSize
	}
	return size
}

// other is the place of the header that was not written last.
func other(at int64) int64 {
	if at == headerA {
		return headerB
	}
	return headerA
}

// Len is how many settlements wait.
func (s *Spool) Len() int64 { return s.waiting.Load() }

// Torn is how many bytes Open found behind the last record of settlements that were being written when the process or
// the machine died: their Append has not returned. They do not count.
func (s *Spool) Torn() int64 { return s.torn }

// Aside is what cannot be applied.
func (s *Spool) Aside() *Aside { return s.aside }

// Append keeps a settlement. It is on the disk when Append returns nil, and ErrFull or the disk's error means that
// it is not kept. Those that come at the same time are synced together.
func (s *Spool) Append(r Record) error {
	payload, err := r.encode()
	if err != nil {
		return err
	}
	a := &appending{record: r, payload: payload}
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.mu.Unlock()

	s.io.Lock()
	defer s.io.Unlock()
	if !a.done { // by somebody who had the file before
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		s.mu.Unlock()
		s.write(batch)
	}
	if a.err != nil {
		return fmt.Errorf("spooling the settlement of request %q: %w", r.Settlement.Request, a.err)
	}
	return nil
}

// write puts a batch behind the last record and syncs it.
func (s *Spool) write(batch []*appending) {
	var (
		b       []byte
		seq     = s.seq
		written []*appending
	)
	for _, a := range batch {
		a.done = true
		sectors := sectorsFor(a.payload)
		if sectors > math.MaxUint16 || s.end+int64(len(b))+sectors*sectorSize > s.header.size {
			a.err = ErrFull
			continue
		}
		seq++
		b = appendSectors(b, s.end+int64(len(b)), s.header.epoch, seq, a.payload)
		written = append(written, a)
	}
	if len(written) == 0 {
		return
	}
	err := s.clean()
	if err == nil {
		s.used = s.end + int64(len(b))
		if err = s.commit(b, seq); err != nil {
			// What is on the disk now is not known. Their callers are told that nothing is kept, so it must not be
			// found after a restart; a disk that refuses this, too, cannot be told before it is repaired.
			_ = s.clean()
		}
	}
	if err != nil {
		for _, a := range written {
			a.err = err
		}
		return
	}
	s.seq, s.end = seq, s.used
	for _, a := range written {
		s.records = append(s.records, a.record)
	}
	s.waiting.Add(int64(len(written)))
}

// commit writes what is behind the last record, and a header that counts it.
func (s *Spool) commit(b []byte, count uint32) error {
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	h := s.header
	h.count = count
	return s.sign(h)
}

// sign writes a header in place of the older one, and syncs.
func (s *Spool) sign(h header) error {
	if err := put(s.file, h.sector(s.next), s.next); err != nil {
		return err
	}
	s.header, s.next = h, other(s.next)
	return nil
}

// clean removes what a disk that failed may have behind the last record: nothing that counts may stand behind that.
func (s *Spool) clean() error {
	if s.used == s.end {
		return nil
	}
	if err := s.commit(make([]byte, s.used-s.end), s.seq); err != nil {
		return err
	}
	s.used = s.end
	return nil
}

// Batch is a number of settlements that wait, oldest first.
type Batch struct{ Records []Record }

// Oldest gives the settlements that have waited longest, at most n. They go on waiting until Applied.
func (s *Spool) Oldest(n int) Batch {
	s.io.Lock()
	defer s.io.Unlock()
	return Batch{s.records[:min(n, len(s.records)):min(n, len(s.records))]}
}

// Applied says that nothing more is to be done with the settlements of a batch, which Oldest gave last. When none
// waits any more the file is emptied. Until then, and after an error, a restart finds also those that are applied.
func (s *Spool) Applied(batch Batch) error {
	s.io.Lock()
	defer s.io.Unlock()
	s.records = s.records[len(batch.Records):]
	s.waiting.Add(-int64(len(batch.Records)))
	if len(s.records) > 0 || s.seq == 0 {
		return nil
	}
	s.records = nil
	applied := make([]byte, s.used-firstRecord)
	// The next epoch begins also when that cannot be written: the next record will, which is the first of it.
	s.seq, s.end, s.used = 0, firstRecord, firstRecord
	s.header.epoch, s.header.count = s.header.epoch+1, 0
	if err := s.sign(s.header); err != nil {
		return fmt.Errorf("emptying the spool: %w", err)
	}
	// It counts no more, so it does not matter when this is on the disk, or whether.
	_, _ = s.file.WriteAt(applied, firstRecord)
	return nil
}

// Close closes the files. Settlements that wait stay in it.
func (s *Spool) Close() error {
	s.io.Lock()
	defer s.io.Unlock()
	if err := errors.Join(s.file.Close(), s.aside.Close()); err != nil {
		return fmt.Errorf("closing the spool: %w", err)
	}
	return nil
}
