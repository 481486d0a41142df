// Package spool keeps settlements that the ledger could not take, in a file of this machine, until it takes them
// (design, "Life and death": database away). A settlement that Append has returned nil for survives a crash and a
// loss of power. What is read from it may have been applied already: settlements are idempotent, so that they can
// be repeated without harm.
//
// It is for the engine only. It knows settlements and nothing of the ledger's store.
package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Size is the size of the file, in bytes. It is written whole when it is made, so that a disk that is full later
// has room for settlements all the same. About 25,000 settlements of one attempt fit, and as many requests would
// have to be running when the ledger goes away: none begins while it is.
const Size = 8 << 20

var (
	// ErrFull: there is no room for the settlement until those that wait are applied.
	ErrFull = errors.New("the spool is full")
	// ErrForeign: the file is not a spool, or a newer fareway wrote it. Nothing was changed.
	ErrForeign = errors.New("unusable spool")
)

// Spool is an open spool. Its methods may be called concurrently.
type Spool struct {
	waiting atomic.Int64

	mu    sync.Mutex // guards queue
	queue []*appending

	// io is held while the file is written or read; it guards what follows. Who holds it may take mu.
	io    sync.Mutex
	file  disk
	limit int64  // size of the file
	next  int64  // where the oldest record begins that is not known to be applied
	end   int64  // behind the last record
	used  int64  // where what has not been emptied ends: end, or behind it when the disk failed
	sum   uint32 // checksum of the last record
	torn  int64
}

// appending is a settlement on its way into the file.
type appending struct {
	payload []byte
	done    bool // guarded by Spool.io, like err
	err     error
}

// Open opens the spool at path, and makes it when there is none. One process has a spool at a time: the one that
// has the ledger's lock.
func Open(path string) (*Spool, error) {
	file, size, err := open(path, Size)
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, err)
	}
	s, err := load(file, size)
	if err != nil {
		return nil, fmt.Errorf("opening the spool %s: %w", path, errors.Join(err, file.Close()))
	}
	return s, nil
}

// Len is how many settlements wait.
func (s *Spool) Len() int64 { return s.waiting.Load() }

// Torn is how many bytes Open found behind the last whole record, and dropped: a settlement that was being written
// when the process or the machine died, whose Append has not returned.
func (s *Spool) Torn() int64 { return s.torn }

// Append keeps a settlement. It is on the disk when Append returns nil, and ErrFull or the disk's error means that
// it is not kept. Those that come at the same time are synced together.
func (s *Spool) Append(settlement ledger.Settlement) error {
	payload, err := json.Marshal(settlement)
	if err != nil {
		return fmt.Errorf("encoding the settlement of request %q: %w", settlement.Request, err)
	}
	a := &appending{payload: payload}
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
		return fmt.Errorf("spooling the settlement of request %q: %w", settlement.Request, a.err)
	}
	return nil
}

// write puts a batch behind the last record and syncs it.
func (s *Spool) write(batch []*appending) {
	var (
		b       []byte
		sum     = s.sum
		written []*appending
	)
	for _, a := range batch {
		a.done = true
		if s.end+int64(len(b)+headLen+len(a.payload)) > s.limit {
			a.err = ErrFull
			continue
		}
		b, sum = appendRecord(b, sum, a.payload)
		written = append(written, a)
	}
	if len(written) == 0 {
		return
	}
	s.used = max(s.used, s.end+int64(len(b)))
	if err := s.put(b, s.end); err != nil {
		// What is on the disk now is not known. Their callers are told that nothing is kept, so it must not be
		// found after a restart; a disk that refuses this, too, cannot be told.
		_ = s.put(make([]byte, len(b)), s.end)
		for _, a := range written {
			a.err = err
		}
		return
	}
	s.end, s.sum = s.end+int64(len(b)), sum
	s.waiting.Add(int64(len(written)))
}

// put writes and syncs.
func (s *Spool) put(b []byte, at int64) error {
	if _, err := s.file.WriteAt(b, at); err != nil {
		return err
	}
	return s.file.Sync()
}

// Batch is a number of settlements that wait, oldest first.
type Batch struct {
	Settlements []ledger.Settlement
	end         int64
}

// Oldest gives the settlements that have waited longest, at most n. They go on waiting until Applied.
func (s *Spool) Oldest(n int) (Batch, error) {
	s.io.Lock()
	defer s.io.Unlock()
	batch := Batch{end: s.next}
	for len(batch.Settlements) < n && batch.end < s.end {
		var head [headLen]byte
		if _, err := s.file.ReadAt(head[:], batch.end); err != nil {
			return Batch{}, fmt.Errorf("reading the spool: %w", err)
		}
		payload := make([]byte, lengthOf(head[:]))
		if _, err := s.file.ReadAt(payload, batch.end+headLen); err != nil {
			return Batch{}, fmt.Errorf("reading the spool: %w", err)
		}
		settlement, err := decode(payload)
		if err != nil {
			return Batch{}, fmt.Errorf("reading the spool: %w", err)
		}
		batch.Settlements = append(batch.Settlements, settlement)
		batch.end += headLen + int64(len(payload))
	}
	return batch, nil
}

// Applied says that the ledger has the settlements of a batch, which Oldest gave last. When none waits any more
// the file is emptied. Until then, and after an error, a restart finds also those that are applied.
func (s *Spool) Applied(batch Batch) error {
	s.io.Lock()
	defer s.io.Unlock()
	s.next = batch.end
	s.waiting.Add(-int64(len(batch.Settlements)))
	if s.next < s.end || s.end == firstRecord {
		return nil
	}
	err := s.put(make([]byte, s.used-firstRecord), firstRecord)
	// Also when that failed, the next record is the first: what is left of the old ones is not known, and nothing
	// that counts may stand behind them.
	s.next, s.end, s.sum = firstRecord, firstRecord, 0
	if err != nil {
		return fmt.Errorf("emptying the spool: %w", err)
	}
	s.used = firstRecord
	return nil
}

// Close closes the file. Settlements that wait stay in it.
func (s *Spool) Close() error {
	s.io.Lock()
	defer s.io.Unlock()
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("closing the spool: %w", err)
	}
	return nil
}
