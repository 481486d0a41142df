package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// The file begins with magic. From firstRecord on come the records: four bytes of length, four of checksum
// (little-endian), and a settlement as JSON. A checksum covers the one before it, so that a record counts only
// behind the one that it was written behind. After the last record there are zeros to the file's end.
const (
	magic       = "fareway spool 1\n"
	firstRecord = 4096 // in a page of its own, so that no torn write of a record reaches what is before it
	headLen     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a record that follows one with the checksum before; 0 for the first.
func checksum(before uint32, payload []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:4], before)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, payload)
}

func appendRecord(b []byte, before uint32, payload []byte) ([]byte, uint32) {
	sum := checksum(before, payload)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, payload...), sum
}

func lengthOf(head []byte) int64 { return int64(binary.LittleEndian.Uint32(head)) }

func decode(payload []byte) (ledger.Settlement, error) {
	var settlement ledger.Settlement
	if err := json.Unmarshal(payload, &settlement); err != nil {
		return settlement, fmt.Errorf("decoding a settlement: %w", err)
	}
	return settlement, nil
}

// disk is the file, which has its size from the beginning.
type disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

func open(path string, size int64) (disk, int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		file, err = create(path, size)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// create makes an empty spool that takes its whole room on the disk. It has its name when it is whole.
func create(path string, size int64) (*os.File, error) {
	unfinished := path + ".new"
	file, err := os.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	content := make([]byte, size) // not a hole: writing into one needs room that a full disk has not
	copy(content, magic)
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync()); err != nil {
		// Half a spool would take the room that a disk lacks.
		return nil, errors.Join(err, file.Close(), os.Remove(unfinished))
	}
	if err = os.Rename(unfinished, path); err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load finds the records and drops what is behind them.
func load(file disk, size int64) (*Spool, error) {
	content := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, size), content); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(content, []byte(magic)) || len(content) < firstRecord {
		return nil, fmt.Errorf("%w: it does not begin as one; move the file away and start again, and keep it: settlements may be in it", ErrForeign)
	}
	s := &Spool{file: file, limit: size, next: firstRecord, end: firstRecord}
	for {
		rest := content[s.end:]
		if len(rest) < headLen {
			break
		}
		length := lengthOf(rest)
		if length == 0 || length > int64(len(rest)-headLen) {
			break
		}
		payload := rest[headLen : headLen+length]
		sum := checksum(s.sum, payload)
		if sum != binary.LittleEndian.Uint32(rest[4:]) {
			break
		}
		if _, err := decode(payload); err != nil {
			return nil, fmt.Errorf("%w: %w; run the newer fareway that wrote it", ErrForeign, err)
		}
		s.end, s.sum = s.end+headLen+length, sum
		s.waiting.Add(1)
	}
	if left := bytes.TrimRight(content[s.end:], "\x00"); len(left) > 0 {
		s.torn = int64(len(left))
		if err := s.put(make([]byte, len(left)), s.end); err != nil {
			return nil, fmt.Errorf("removing a torn record: %w", err)
		}
	}
	s.used = s.end
	return s, nil
}
