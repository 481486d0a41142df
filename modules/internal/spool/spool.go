// Package spool keeps settlements in a file of this machine until the ledger has taken them up: each goes through it. A
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
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Size is how large a spool is made, in bytes, unless Open is told another size. It is written whole when it is made,
// so that a disk that is full later has room for settlements all the same. About 9,000 settlements of one attempt fit
// while none is released.
const Size = 16 << 20

var (
	// ErrFull: there is no room for the settlement until those that wait are applied.
	ErrFull = errors.New("the spool is full")
	// ErrForeign: the file is not a spool, or a newer fareway wrote it. Nothing was changed.
	ErrForeign = errors.New("unusable spool")
)

// keptTogether is how many bytes of records are kept in one piece.
const keptTogether = 32 << 10

// turnAt is after how many bytes the other half is used, if it is free: so much is read again after a crash.
const turnAt = 1 << 20

// Path is where the spool of a ledger in a file is: whoever has the ledger's lock has the spool, too.
func Path(database string) string { return database + ".spool" }

// Spool is an open spool. Its methods may be called concurrently.
type Spool struct {
	aside   *Aside
	isOwn   bool // the aside is no other spool's
	boot    boot
	waiting atomic.Int64
	torn    int64

	mu         sync.Mutex // guards what follows
	queue      []*appending
	spare      []*appending // an empty one with room
	writing    bool         // somebody writes what waits
	isTogether bool         // what was written last were several

	// io is held while the file is written; it guards what follows.
	io      sync.Mutex
	file    disk
	size    int64
	halves  [2]half
	current *half // which settlements go into
	buffer  []byte
	kept    []byte         // what keep copies into
	mark    ledger.LogMark // but for Waiting
	tell    func(ledger.LogMark)
	behind  behind
}

// half is one half of the file.
type half struct {
	from, to int64
	headers  [2]int64 // their places
	header   header   // as it is on the disk, or is to be next
	isBehind bool     // the disk has the header of an earlier epoch
	next     int      // which of the places the next header goes to
	seq      uint32   // number of the last record
	end      int64    // behind it
	used     int64    // where what may be on the disk ends: end, or behind it when the disk failed
	records  [][]byte // of the epoch, oldest first, as they are encoded; nil for one that is released
	left     int      // of them, those that wait
	freed    int64    // the round of syncs that had begun when the last was released
}

// Number says which record it is: its epoch, and its number in that. No other ever has it.
type Number = uint64

func numberOf(epoch, seq uint32) Number { return Number(epoch)<<32 | Number(seq) }

// appending is a settlement on its way into the file.
type appending struct {
	payload []byte
	number  Number
	err     error
	// turn gets whether it is this one's turn to write what waits, rather than written.
	turn chan bool
}

var appendings = sync.Pool{New: func() any { return &appending{turn: make(chan bool, 1)} }}

// Open opens the spool at path, and makes it, of a size in bytes (0 for Size), when there is none. What it cannot read
// it keeps aside (Spool.Aside), and goes on with the rest. One process has a spool at a time: the one that has the
// ledger's lock.
func Open(path string, size int64) (*Spool, error) { return open(machine{}, path, cmp.Or(size, Size)) }

func open(sys system, path string, size int64) (*Spool, error) {
	aside, err := openAside(sys, AsidePath(path))
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, err)
	}
	s, err := load(sys, path, size, aside)
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, errors.Join(err, aside.Close()))
	}
	s.isOwn = true
	return s, nil
}

// OpenLeft opens a spool that another process has left, as Open does; what cannot be read in it is kept in this one's
// Aside.
func (s *Spool) OpenLeft(path string) (*Spool, error) {
	left, err := load(machine{}, path, Size, s.aside)
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, err)
	}
	return left, nil
}

func load(sys system, path string, size int64, aside *Aside) (s *Spool, err error) {
	content, err := readIfAny(sys, path)
	if err != nil {
		return nil, err
	}
	f := new(found)
	if content != nil {
		if f, err = scan(content, sys.Boot()); err != nil {
			return nil, err
		}
	}
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
	s = &Spool{aside: aside, file: file, torn: f.torn(), boot: sys.Boot()}
	s.divide(f.size)
	for i := range s.halves {
		if err := s.halves[i].load(&f.halves[i]); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if s.halves[1].header.epoch > s.halves[0].header.epoch {
		s.current = &s.halves[1]
	}
	if len(f.records) > 0 { // a process that was killed may have left them in the cache alone
		if err := file.Sync(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	s.waiting.Store(int64(len(f.records)))
	s.mark = markOf(s.current)
	return s, nil
}

// divide divides a file of a size.
func (s *Spool) divide(size int64) {
	s.size = size
	for i, from := range []int64{firstRecord, middle(size)} {
		s.halves[i] = half{from: from, to: middle(size), headers: headers[i], end: from, used: from}
	}
	s.halves[1].to = size
	s.current = &s.halves[0]
}

// load goes on with a half as it was found.
func (h *half) load(f *foundHalf) error {
	h.header, h.seq, h.end, h.used = f.header, f.count, f.end, f.used
	if f.headerAt == h.headers[0] {
		h.next = 1
	}
	for i := range f.records {
		payload, err := f.records[i].encode(nil)
		if err != nil {
			return err
		}
		h.records = append(h.records, payload)
	}
	h.left = len(h.records)
	return nil
}

// renew makes a spool with these records, in place of what is there.
func renew(sys system, path string, size int64, records []Record, aside *Aside) (*Spool, error) {
	size = size / sectorSize * sectorSize
	s := &Spool{aside: aside, boot: sys.Boot()}
	s.divide(size)
	id := header{size: size, boot: s.boot}
	_, _ = rand.Read(id.file[:])  // never fails
	content := make([]byte, size) // not a hole: writing into one needs room that a full disk has not
	rest := records
	for i := range s.halves {
		h := &s.halves[i]
		h.header = id
		if len(rest) > 0 || i == 0 {
			h.header.epoch = uint32(i + 1)
			s.current = h
		}
		for len(rest) > 0 {
			payload, err := rest[0].encode(nil)
			if err != nil {
				return nil, err
			}
			b := appendSectors(nil, h.end, h.header.epoch, h.seq+1, 0, payload)
			if h.end+int64(len(b)) > h.to {
				break
			}
			h.end += int64(copy(content[h.end:], b))
			h.seq++
			h.records = append(h.records, payload)
			rest = rest[1:]
		}
		h.left, h.header.count, h.header.before, h.used = len(h.records), h.seq, h.seq, h.end
		for _, at := range h.headers {
			copy(content[at:], h.header.sector(at))
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d settlements find no room in %d bytes", ErrFull, len(rest), size)
	}
	var err error
	if s.file, err = install(sys, path, content); err != nil {
		return nil, err
	}
	s.waiting.Store(int64(len(records)))
	s.mark = markOf(s.current)
	return s, nil
}

// needed is how large a file of these records is at least. They come from one that may have been packed more densely,
// and none lies in both halves.
func needed(records []Record) int64 {
	var all, largest int64
	for _, r := range records {
		payload, _ := r.encode(nil) // renew says what is wrong with it
		n := sectorsFor(payload)
		all, largest = all+n, max(largest, n)
	}
	return firstRecord + (all+2*largest+1)*sectorSize
}

// Len is how many settlements wait.
func (s *Spool) Len() int64 { return s.waiting.Load() }

// Torn is how many bytes Open found behind the last record of settlements that were being written when the process or
// the machine died: their Append has not returned. They do not count.
func (s *Spool) Torn() int64 { return s.torn }

// Aside is what cannot be applied.
func (s *Spool) Aside() *Aside { return s.aside }

// Append keeps a settlement until Release is told its number. It is on the disk when Append returns nil (see
// SyncBehind), and ErrFull or the disk's error means that it is not kept. One that comes while nothing is written is
// written at once, and those that come meanwhile are then written and synced together.
func (s *Spool) Append(r *Record) (Number, error) {
	a, _ := appendings.Get().(*appending)
	defer appendings.Put(a)
	payload, err := r.encode(a.payload[:0])
	if err != nil {
		return 0, err
	}
	a.payload, a.number, a.err = payload, 0, nil
	s.mu.Lock()
	s.queue = append(s.queue, a)
	isTurn := !s.writing
	s.writing = true
	s.mu.Unlock()
	if isTurn || <-a.turn {
		s.writeQueue(a)
	}
	if a.err != nil {
		return 0, fmt.Errorf("spooling the settlement of request %q: %w", r.Settlement.Request, a.err)
	}
	return a.number, nil
}

// writeQueue writes all that wait, among them the caller's own, and passes the turn on.
func (s *Spool) writeQueue(own *appending) {
	s.mu.Lock()
	isTogether := s.isTogether
	s.mu.Unlock()
	if isTogether {
		runtime.Gosched() // who is about to come is written with them; alone it would only wake another thread
	}
	s.io.Lock()
	s.mu.Lock()
	batch := s.queue
	s.queue = s.spare[:0]
	s.isTogether = len(batch) > 1
	s.mu.Unlock()
	before := s.mark.Number
	for rest := batch; len(rest) > 0; {
		rest = s.write(rest)
	}
	if s.mark.Number != before {
		s.tellWitness()
	}
	s.io.Unlock()
	for _, a := range batch {
		if a != own {
			a.turn <- false
		}
	}
	clear(batch)
	s.mu.Lock()
	s.spare = batch
	var next *appending
	if s.writing = len(s.queue) > 0; s.writing {
		next = s.queue[0]
	}
	s.mu.Unlock()
	if next != nil {
		next.turn <- true
	}
}

// write puts as many of a batch as one half has room for behind its last record, syncs them, and returns the others.
func (s *Spool) write(batch []*appending) (rest []*appending) {
	var (
		b   = s.buffer[:0]
		h   = s.chooseHalf()
		n   = 0 // of the batch are written or refused
		seq = h.seq
	)
	for ; n < len(batch); n++ {
		a := batch[n]
		sectors := sectorsFor(a.payload)
		if sectors > math.MaxUint16 || h.end+int64(len(b))+sectors*sectorSize > h.to {
			if seq > h.seq {
				break
			}
			a.err = ErrFull
			continue
		}
		seq++
		a.number = numberOf(h.header.epoch, seq)
		nth := int(seq - h.seq)
		if s.behind.on || nth > math.MaxUint16 {
			nth = 0
		}
		b = appendSectors(b, h.end+int64(len(b)), h.header.epoch, seq, nth, a.payload)
	}
	s.buffer = b
	batch, rest = batch[:n], batch[n:]
	if seq == h.seq {
		return rest
	}
	err := s.eraseTail(h)
	if err == nil {
		h.used = h.end + int64(len(b))
		if err = s.commit(h, b, seq); err != nil {
			// What is on the disk now is not known. Their callers are told that nothing is kept, so it must not be
			// found after a restart; a disk that refuses this, too, cannot be told before it is repaired.
			_ = s.eraseTail(h)
		}
	}
	for _, a := range batch {
		switch {
		case a.err != nil:
		case err != nil:
			a.err = err
		default:
			h.records = append(h.records, s.keep(a.payload))
		}
	}
	if err == nil {
		s.waiting.Add(int64(seq - h.seq))
		h.left += int(seq - h.seq)
		h.seq, h.end = seq, h.used
		covered := s.mark.Covered
		s.mark = markOf(h)
		s.mark.Covered = covered
	}
	return rest
}

// chooseHalf is the half that a batch goes into: the one that the last went into, from its beginning where nothing in
// it waits, or the other one, once that is free and this one has enough.
func (s *Spool) chooseHalf() *half {
	h, other := s.current, &s.halves[0]
	if h == other {
		other = &s.halves[1]
	}
	epoch := max(h.header.epoch, other.header.epoch) + 1
	switch {
	case h.end-h.from < min(turnAt, (h.to-h.from)/2):
		// It has room. A half begins anew only once a part of it is used: epochs are never used up then.
	case s.isFree(h):
		h.beginEpoch(epoch)
	case s.isFree(other):
		other.beginEpoch(epoch)
		s.current = other
	}
	return s.current
}

// beginEpoch has the next record be the first of an epoch: whatever is in the half counts no more with it, also when
// only that is written.
func (h *half) beginEpoch(epoch uint32) {
	h.header.epoch, h.header.count, h.header.before, h.isBehind = epoch, 0, 0, true
	h.seq, h.end, h.used, h.records = 0, h.from, h.from, h.records[:0]
}

// keep copies a record, with others into one piece of memory, which is let go when none of them waits any more.
func (s *Spool) keep(payload []byte) []byte {
	from := len(s.kept)
	if from+len(payload) > cap(s.kept) {
		s.kept, from = make([]byte, 0, max(keptTogether, len(payload))), 0
	}
	s.kept = append(s.kept, payload...)
	return s.kept[from:len(s.kept):len(s.kept)]
}

// commit has records on the disk behind the last one of a half, unless that is done behind, and then a header that
// counts them.
func (s *Spool) commit(h *half, b []byte, count uint32) (err error) {
	next := h.header
	next.count, next.before, next.boot = count, count, s.boot
	if s.behind.on {
		next.before = h.seq
		_, err = s.file.WriteAt(b, h.end)
	} else {
		err = s.file.Put(b, h.end)
	}
	if err == nil {
		// Records that are on the disk prove themselves: the next commit's header counts them, too.
		if failed := s.writeHeader(h, next); s.behind.on {
			err = failed
		}
	}
	s.behind.unsynced = s.behind.unsynced || s.behind.on && err == nil
	return err
}

// writeHeader writes a header in place of the older one of a half.
func (s *Spool) writeHeader(h *half, next header) error {
	at := h.headers[h.next]
	if _, err := s.file.WriteAt(next.sector(at), at); err != nil {
		return err
	}
	h.header, h.next, h.isBehind = next, 1-h.next, false
	return nil
}

// sync has on the disk what is written, unless that is done behind.
func (s *Spool) sync() error {
	if s.behind.on {
		s.behind.unsynced = true
		return nil
	}
	return s.file.Sync()
}

// eraseTail removes what a disk that failed may have behind the last record: nothing that counts may stand behind that.
func (s *Spool) eraseTail(h *half) error {
	if h.used == h.end {
		return nil
	}
	if _, err := s.file.WriteAt(make([]byte, h.used-h.end), h.end); err != nil {
		return err
	}
	next := h.header
	next.count, next.before, next.boot = h.seq, h.seq, s.boot
	err := s.writeHeader(h, next)
	if err == nil { // what is removed may have been the first of its epoch, and then it is the header that says so
		err = s.sync()
	}
	if err == nil {
		h.used = h.end
	}
	return err
}

// Release says that nothing more is to be done with settlements: the ledger has them, which has so many movements then.
// A restart may find them all the same, for as long as their half has others.
func (s *Spool) Release(covered int64, numbers ...Number) {
	s.io.Lock()
	defer s.io.Unlock()
	for _, n := range numbers {
		s.release(n)
	}
	s.mark.Covered = max(s.mark.Covered, covered)
	s.tellWitness()
}

func (s *Spool) release(n Number) {
	for i := range s.halves {
		h := &s.halves[i]
		seq := uint32(n)
		if h.header.epoch != uint32(n>>32) || seq == 0 || int(seq) > len(h.records) || h.records[seq-1] == nil {
			continue
		}
		h.records[seq-1] = nil
		h.left--
		h.freed = s.behind.begun
		s.waiting.Add(-1)
	}
}

// Batch is a number of settlements that wait, oldest first.
type Batch struct {
	Records []Record
	numbers []Number
}

// Oldest gives the settlements that have waited longest, at most n. They go on waiting until Applied.
func (s *Spool) Oldest(n int) (b Batch) {
	s.io.Lock()
	defer s.io.Unlock()
	order := [2]*half{&s.halves[0], &s.halves[1]}
	if order[0].header.epoch > order[1].header.epoch {
		order[0], order[1] = order[1], order[0]
	}
	for _, h := range order {
		for i := range h.records {
			if len(b.Records) == n {
				return b
			}
			if h.records[i] != nil {
				r, _ := decode(h.records[i]) // it was encoded here; a settlement of nothing would be kept aside
				b.Records = append(b.Records, r)
				b.numbers = append(b.numbers, numberOf(h.header.epoch, uint32(i+1)))
			}
		}
	}
	return b
}

// ReleaseBatch says that nothing more is to be done with the settlements of a batch, and empties the file when none
// waits any more. After an error a restart finds also those that are applied.
func (s *Spool) ReleaseBatch(batch Batch) error {
	s.io.Lock()
	for _, n := range batch.numbers {
		s.release(n)
	}
	s.io.Unlock()
	return s.Empty()
}

// Empty has a restart find nothing, where no settlement waits any more.
func (s *Spool) Empty() error {
	s.io.Lock()
	defer s.io.Unlock()
	if !s.isFree(&s.halves[0]) || !s.isFree(&s.halves[1]) {
		return nil
	}
	var errs []error
	for i := range s.halves {
		h := &s.halves[i]
		if h.seq == 0 && !h.isBehind {
			continue
		}
		applied := make([]byte, h.used-h.from)
		// The next epoch begins also when that cannot be written: the next record will, which is the first of it.
		h.beginEpoch(max(s.halves[0].header.epoch, s.halves[1].header.epoch) + 1)
		err := s.writeHeader(h, h.header)
		if err == nil {
			err = s.sync()
		}
		h.isBehind = err != nil // then the next call does it again
		if errs = append(errs, err); err == nil {
			// It counts no more, so it does not matter when this is on the disk, or whether.
			_, _ = s.file.WriteAt(applied, h.from)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("emptying the spool: %w", err)
	}
	return nil
}

// Close closes the files. Settlements that wait stay in it.
func (s *Spool) Close() error {
	s.io.Lock()
	defer s.io.Unlock()
	var err error
	if s.behind.unsynced {
		err = s.file.Sync()
	}
	err = errors.Join(err, s.file.Close())
	if s.isOwn {
		err = errors.Join(err, s.aside.Close())
	}
	if err != nil {
		return fmt.Errorf("closing the spool: %w", err)
	}
	return nil
}
