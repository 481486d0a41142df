package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Format 1, which is read and no longer written: after the first page come the records, each four bytes of length,
// four of checksum (little-endian) and a settlement as JSON. A checksum covers the one before it. After the last
// record there are zeros to the file's end.
const (
	oldMagic = "fareway spool 1\n"
	oldHead  = 8
	// oldBeginning is how each of its records begins.
	oldBeginning = `{"request":"`
)

// oldChecksum is that of a record that follows one with the checksum before; 0 for the first.
func oldChecksum(before uint32, payload []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:4], before)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, payload)
}

// oldSpool reads one.
type oldSpool struct {
	found
	content []byte
}

func scanOld(content []byte) (*found, error) {
	s := &oldSpool{found: found{old: true}, content: content}
	if !zero(content[len(oldMagic):firstRecord]) {
		s.damage(int64(len(oldMagic)), firstRecord, "the first page is damaged")
	}
	end := int64(len(bytes.TrimRight(content, "\x00")))
	at, sum := int64(firstRecord), uint32(0)
	for at < end {
		payload, next, ok := s.record(at, sum)
		if !ok {
			at, sum = s.skip(at)
			continue
		}
		var settlement ledger.Settlement
		if err := json.Unmarshal(payload, &settlement); err != nil {
			return nil, fmt.Errorf("%w: decoding a settlement: %w; run the newer fareway that wrote it",
				ErrForeign, err)
		}
		s.records = append(s.records, Record{Settlement: settlement})
		at, sum = next, oldChecksum(sum, payload)
	}
	for i := range s.damages {
		s.damages[i].Requests = requestsIn(s.damages[i].Bytes)
	}
	return &s.found, nil
}

// head reads what stands before a record: where it ends, and the checksum that it should have. False when there is
// no room for one.
func (s *oldSpool) head(at int64) (end int64, sum uint32, ok bool) {
	if at+oldHead > int64(len(s.content)) {
		return 0, 0, false
	}
	length := int64(binary.LittleEndian.Uint32(s.content[at:]))
	end = at + oldHead + length
	return end, binary.LittleEndian.Uint32(s.content[at+4:]), length > 0 && end <= int64(len(s.content))
}

// record is the record at a place, if it follows one with that checksum.
func (s *oldSpool) record(at int64, before uint32) (payload []byte, next int64, ok bool) {
	next, sum, ok := s.head(at)
	if !ok {
		return nil, 0, false
	}
	payload = s.content[at+oldHead : next]
	return payload, next, sum == oldChecksum(before, payload)
}

// skip reports the damage at a place and returns where a record begins that is whole, with the checksum before it:
// that is told by the head of the record before, which is damaged itself or cannot be proven. The end when there is
// none.
func (s *oldSpool) skip(at int64) (next int64, before uint32) {
	next = int64(len(s.content))
	for from := at; ; {
		if end, sum, ok := s.head(from); ok {
			if _, _, ok := s.record(end, sum); ok {
				next, before = end, sum
				break
			}
		}
		search := min(from+1+oldHead, int64(len(s.content)))
		found := bytes.Index(s.content[search:], []byte(oldBeginning))
		if found < 0 {
			break
		}
		from = search + int64(found) - oldHead
	}
	s.damage(at, next, "it is damaged")
	return next, before
}

func (s *oldSpool) damage(at, until int64, what string) {
	b := bytes.TrimRight(s.content[at:until], "\x00")
	s.damages = append(s.damages, Damage{Offset: at, Bytes: bytes.Clone(b), what: what})
}
