package sqlite

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// SQLite reads a write-ahead log up to the first frame whose checksum is wrong, and takes that for its end: it cannot
// know whether the frame was torn by a power cut, or was on the disk and is damaged, with all that came behind it. The
// ledger can (GAP-133), for it knows how its log is written:
//
//   - each commit is synced before the next transaction writes its first frame (synchronous=FULL), and a new header
//     before the first frame behind it. What is torn is hence part of one transaction, the last, whose commit frame is
//     the last frame, and was never answered;
//   - the checksum of a frame goes on from that of the frame before it. So one that goes on from a commit frame was
//     written when that one, and all before it, were on the disk.
//
// A log is damaged, then, where behind or at the first frame that is wrong there is a commit frame of this log from
// which the next frame goes on. What else may lie there is innocent: frames of before the log was begun anew have
// other salts; what is left of a transaction that was torn, taken back, or failed in its sync and was then
// overwritten in part, goes on from nothing that is there or ends with its commit frame. A commit frame that is wrong
// itself counts only where its head lies within a sector, and so is either old or new. What nobody can see without a
// witness is damage in the last transaction, and a log that is cut at any place.
//
// A log that begins with a damaged header is read by the salts of its first whole frame. What it says was copied into
// the database before a new header was begun; so it is damage only where the database does not have that.
//
// The checksums and the form: https://www.sqlite.org/fileformat2.html#walformat.
const (
	walHead, frameHead = 32, 24
	walMagic           = 0x377f0682 // with 1 at its end the checksums are of big-endian words
	walSector          = 512
	// keptDamaged and keptAccepted begin what stands behind the name of a damaged log that was kept, with the time: one
	// that nobody has decided about, and one that an operator has.
	keptDamaged, keptAccepted = "-wal.damaged-", "-wal.accepted-"
)

// walSum is the running checksum of a log.
type walSum struct{ a, b uint32 }

func (s walSum) add(order binary.ByteOrder, content []byte) walSum {
	for ; len(content) >= 8; content = content[8:] {
		s.a += order.Uint32(content) + s.b
		s.b += order.Uint32(content[4:]) + s.a
	}
	return s
}

func storedSum(content []byte) walSum {
	return walSum{binary.BigEndian.Uint32(content), binary.BigEndian.Uint32(content[4:])}
}

// walFrame says where a page is in a log.
type walFrame struct {
	page   uint32
	offset int64 // of its content
}

// walScan is what a log was found to be.
type walScan struct {
	end     int64 // behind the last transaction that SQLite reads
	bad     int64 // where the first frame is that is wrong; the size where none is
	damaged bool
	commits int64 // behind bad, that were on the disk for sure and are whole
	// Of a log whose header is damaged:
	headless bool
	frames   []walFrame // up to its last commit
	pages    uint32     // of the database by then
}

// scanWAL reads a log of so many bytes. pageSize is the database's, for a log whose header does not say it.
func scanWAL(log io.Reader, size, pageSize int64) (s walScan, err error) {
	in := bufio.NewReaderSize(log, 1<<20)
	var head [walHead]byte
	if s.bad = size; size <= walHead {
		return s, nil
	}
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return s, err
	}
	var order binary.ByteOrder = binary.NativeEndian
	magic := binary.BigEndian.Uint32(head[:])
	switch magic {
	case walMagic:
		order = binary.LittleEndian
	case walMagic + 1:
		order = binary.BigEndian
	}
	salts, before := bytes.Clone(head[16:24]), storedSum(head[24:])
	s.headless = magic&^1 != walMagic || walSum{}.add(order, head[:24]) != before
	if !s.headless {
		pageSize = int64(binary.BigEndian.Uint32(head[8:]))
	}
	if bits.OnesCount64(uint64(pageSize)) != 1 || pageSize < 512 || pageSize > 1<<16 {
		return s, nil // SQLite does not read it either
	}
	if s.headless {
		s.bad, salts = 0, nil
	}
	var all []walFrame
	var committed, whole bool // the frame before: it ends a transaction, for all that it says of itself; and is sound
	frame := make([]byte, frameHead+pageSize)
	for at := int64(walHead); at+int64(len(frame)) <= size; at += int64(len(frame)) {
		if _, err := io.ReadFull(in, frame); err != nil {
			return s, err
		}
		page, pages, stored := binary.BigEndian.Uint32(frame), binary.BigEndian.Uint32(frame[4:]), storedSum(frame[16:])
		sound := page != 0 && before.add(order, frame[:8]).add(order, frame[frameHead:]) == stored
		if sound && salts == nil {
			salts = bytes.Clone(frame[8:16])
		}
		ours := bytes.Equal(salts, frame[8:16])
		sound = sound && ours
		if !sound && s.bad == size {
			s.bad = at
		}
		if s.bad < size && committed && sound {
			s.damaged = true
			if whole {
				s.commits++
			}
		}
		if sound && pages != 0 && s.bad == size {
			s.end = at + int64(len(frame))
		}
		committed = ours && pages != 0 && (sound || at/walSector == (at+frameHead-1)/walSector)
		before, whole = stored, sound
		if s.headless && ours {
			all = append(all, walFrame{page, at + frameHead})
			if committed {
				s.frames, s.pages = all, pages
			}
		}
	}
	return s, nil
}

// findDamage looks for damage in a log of the database, which nobody writes to; nil: there is none. end is where
// SQLite ends to read it.
func findDamage(database, log string) (damage *ledger.LogDamage, end int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("looking for damage in %s: %w", log, err)
		}
	}()
	f, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	db, err := os.Open(database)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var size [2]byte
	if _, err := db.ReadAt(size[:], 16); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	pageSize := int64(binary.BigEndian.Uint16(size[:]))
	if pageSize == 1 {
		pageSize = 1 << 16
	}
	s, err := scanWAL(f, info.Size(), pageSize)
	if err != nil || !s.damaged {
		return nil, s.end, err
	}
	if s.headless {
		has, err := hasPages(db, f, pageSize, s)
		if err != nil || has {
			return nil, 0, err
		}
	}
	return &ledger.LogDamage{File: log, Byte: s.bad, Commits: max(s.commits, 1)}, s.end, nil
}

// hasPages reports whether a database has what the frames of a log say.
func hasPages(database, log io.ReaderAt, pageSize int64, s walScan) (bool, error) {
	latest := make(map[uint32]int64, len(s.frames))
	for _, f := range s.frames {
		latest[f.page] = f.offset
	}
	here, there := make([]byte, pageSize), make([]byte, pageSize)
	for page, offset := range latest {
		if page > s.pages {
			continue // it was cut off since
		}
		clear(here)
		if _, err := database.ReadAt(here, int64(page-1)*pageSize); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if _, err := log.ReadAt(there, offset); err != nil {
			return false, err
		}
		if !bytes.Equal(here, there) {
			return false, nil
		}
	}
	return true, nil
}

// DamagedLogs are the damaged write-ahead logs of a database that were kept and that nobody has decided about.
func DamagedLogs(database string) (paths []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(database))
	if err != nil {
		return nil, fmt.Errorf("looking for damaged logs: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(database)+keptDamaged) {
			paths = append(paths, filepath.Join(filepath.Dir(database), e.Name()))
		}
	}
	return paths, nil
}

// undecidedDamage is what is damaged of a ledger's log and was not accepted; nil: nothing is. It changes nothing, and
// a gateway may be running on the ledger: that has looked at its log itself, at its start.
func undecidedDamage(database string) (*ledger.LogDamage, error) {
	kept, err := DamagedLogs(database)
	if err != nil {
		return nil, err
	}
	if len(kept) > 0 {
		damage, _, err := findDamage(database, kept[0])
		if err == nil && damage == nil {
			damage = &ledger.LogDamage{File: kept[0]} // the database has changed since
		}
		return damage, err
	}
	if CheckUnlocked(database) != nil {
		return nil, nil
	}
	damage, _, err := findDamage(database, database+"-wal")
	if CheckUnlocked(database) != nil {
		return nil, nil // what was read was being written
	}
	return damage, err
}

// settleLog makes the log of a ledger that nobody has open ready for being gone on with. What is in it is on the disk
// then, so that no power cut takes a part of what a killed process has written from beneath what comes behind it. A
// damaged one is kept, for whoever has to decide and for whoever can read it, and ends where SQLite ends it: the rest
// would be taken for damage again.
func settleLog(database string, now time.Time) (err error) {
	log := database + "-wal"
	f, err := os.OpenFile(log, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening its write-ahead log: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing its write-ahead log: %w", err)
	}
	damage, end, err := findDamage(database, log)
	if damage == nil || err != nil {
		return err
	}
	if err := keepLog(f, database+keptDamaged+now.UTC().Format("20060102-150405")); err != nil {
		return fmt.Errorf("keeping its damaged write-ahead log: %w; make room beside it and start again", err)
	}
	if err := errors.Join(f.Truncate(end), f.Sync()); err != nil {
		return fmt.Errorf("ending its damaged write-ahead log: %w", err)
	}
	return nil
}

// keepLog copies a log into a file that is whole when it is there.
func keepLog(log io.Reader, to string) (err error) {
	part := filepath.Join(filepath.Dir(to), ".damaged-log.part") // the same for whoever tries again
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	_, err = io.Copy(f, log)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return files.SyncFolder(filepath.Dir(to))
}

// acceptLogs gives the damaged logs that were kept the names of those that an operator has decided about.
func acceptLogs(database string) error {
	kept, err := DamagedLogs(database)
	for _, log := range kept {
		to := database + keptAccepted + strings.TrimPrefix(filepath.Base(log), filepath.Base(database)+keptDamaged)
		err = errors.Join(err, os.Rename(log, to))
	}
	if err != nil {
		return fmt.Errorf("renaming the damaged log that was kept: %w; remove it, or the next start asks again", err)
	}
	return nil
}
