package spool

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"regexp"
)

// Damage is a part of a file that cannot be read.
type Damage struct {
	File   string `json:"file"`            // its path
	Offset int64  `json:"offset"`          // where it begins
	Bytes  []byte `json:"bytes,omitempty"` // what is there; none when it is gone
	// Lost is how many settlements are not whole for it, as far as the numbers of the others tell.
	Lost int64 `json:"lost,omitempty"`
	// Requests are the ids that can still be read in Bytes.
	Requests []string `json:"requests,omitempty"`

	file [8]byte
	what string
}

// found is what is in a spool's file.
type found struct {
	header
	headerAt int64 // of the newest header
	records  []Record
	damages  []Damage
	end      int64 // behind the last record
	used     int64 // behind what was torn after it
	old      bool  // it has the format of before
}

// isWhole reports whether the file can be gone on with as it is.
func (f *found) isWhole() bool { return !f.old && len(f.damages) == 0 }

// scan reads a spool's whole file. It has the format of before only when nothing of today's can be read in it: two
// damaged bits of a header make one magic the other.
func scan(content []byte) (*found, error) {
	old := bytes.HasPrefix(content, []byte(oldMagic)) && len(content) >= firstRecord
	s := &scanner{found: found{headerAt: -1}, length: int64(len(content))}
	s.content = content
	if rest := len(content) % sectorSize; rest > 0 {
		// What is left of a sector is a damaged one.
		s.content = append(bytes.Clone(content), make([]byte, sectorSize-rest)...)
	}
	s.readHeaders()
	s.readSectors()
	if s.headerAt < 0 && !s.any {
		if old {
			return scanOld(content)
		}
		return nil, fmt.Errorf("%w: it does not begin as one; move the file away and start again, and keep it: "+
			"settlements may be in it", ErrForeign)
	}
	if err := s.assemble(); err != nil {
		return nil, err
	}
	for i := range s.damages {
		s.damages[i].file = s.header.file
		s.damages[i].Requests = requestsIn(s.damages[i].Bytes)
	}
	return &s.found, nil
}

// kind is what a sector behind the headers is.
type kind byte

const (
	unused kind = iota // zeros, or of an earlier epoch
	whole              // of a record
	bad                // damaged
)

type scanner struct {
	found
	content []byte
	length  int64 // of the file
	any     bool  // there is a whole sector of a record
	kinds   []kind
	parts   []part // of those that are whole
}

// readHeaders finds the newest header. Whatever else is in the first page is damage.
func (s *scanner) readHeaders() {
	for at := int64(0); at < min(firstRecord, int64(len(s.content))); at += sectorSize {
		sector := s.content[at : at+sectorSize]
		if at != headerA && at != headerB {
			if !zero(sector) {
				s.damage(at, sector, 0, "a sector of the header's page is damaged")
			}
			continue
		}
		h, ok := parseHeader(sector, at)
		switch {
		case !ok:
			s.damage(at, sector, 0, "one of the two headers is damaged")
		case s.headerAt < 0 || h.newer(s.header):
			s.header, s.headerAt = h, at
		}
	}
}

// readSectors tells what each sector is. The epoch that counts is the last one that anything is of.
func (s *scanner) readSectors() {
	n := max(0, (len(s.content)-firstRecord)/sectorSize)
	s.kinds, s.parts = make([]kind, n), make([]part, n)
	for i := range n {
		at := int64(firstRecord + i*sectorSize)
		sector := s.content[at : at+sectorSize]
		if zero(sector) {
			continue
		}
		p, ok := parseSector(sector, at)
		if !ok {
			s.kinds[i] = bad
			continue
		}
		s.kinds[i], s.parts[i], s.any = whole, p, true
		if p.epoch > s.epoch {
			s.epoch, s.count = p.epoch, 0
		}
	}
	for i, p := range s.parts {
		if s.kinds[i] == whole && p.epoch != s.epoch {
			s.kinds[i] = unused
		}
	}
}

// assemble puts the records together. What is between two that do not follow one another is damage.
func (s *scanner) assemble() error {
	var (
		end  int       // the sector behind the last record
		seq  uint32    // its number
		last = s.count // the number of the last record that anything is known of
		n    = len(s.kinds)
	)
	for i := range n {
		if s.kinds[i] != whole {
			continue
		}
		last = max(last, s.parts[i].seq)
		payload, sectors, ok := s.readRecord(i)
		if !ok || s.parts[i].seq <= seq {
			continue
		}
		r, err := decode(payload)
		if err != nil {
			return fmt.Errorf("%w: %w; run the newer fareway that wrote it", ErrForeign, err)
		}
		s.reportGap(end, i, int64(s.parts[i].seq-seq-1))
		s.records = append(s.records, r)
		seq, end = s.parts[i].seq, i+sectors
	}
	s.end = firstRecord + int64(end)*sectorSize
	s.used = s.end
	if torn := s.countTornSectors(end, seq); torn > 0 {
		s.used += int64(torn) * sectorSize
	} else {
		before := len(s.damages)
		s.reportGap(end, n, int64(last)-int64(seq))
		if s.length < s.size && len(s.damages) == before {
			s.damage(s.length, nil, 0, fmt.Sprintf("the file has %d of its %d bytes", s.length, s.size))
		}
	}
	s.count = seq
	return nil
}

// countTornSectors is how many sectors behind the last record are of records that were being written when the process
// or the machine died: those that Append has returned for are counted in the header. 0 when it can be anything else.
func (s *scanner) countTornSectors(end int, seq uint32) (sectors int) {
	if len(s.damages) > 0 || s.length < s.size || seq < s.count {
		return 0
	}
	for i := end; i < len(s.kinds); i++ {
		switch s.kinds[i] {
		case bad:
			return 0
		case whole:
			sectors = i + 1 - end
		}
	}
	return sectors
}

// readRecord is the whole record that begins with a sector, and how many sectors it has.
func (s *scanner) readRecord(i int) (payload []byte, sectors int, ok bool) {
	first := s.parts[i]
	sectors = int(first.of)
	if first.n != 0 || sectors == 0 || i+sectors > len(s.parts) {
		return nil, 0, false
	}
	for n := range sectors {
		p := s.parts[i+n]
		if s.kinds[i+n] != whole || p.seq != first.seq || p.tag != first.tag || p.of != first.of || int(p.n) != n {
			return nil, 0, false
		}
		payload = append(payload, p.data...)
	}
	return payload, sectors, crc32.Checksum(payload, castagnoli) == first.tag
}

// reportGap reports what is between two records, of which lost are missing there.
func (s *scanner) reportGap(from, to int, lost int64) {
	for from < to && s.kinds[from] == unused {
		from++
	}
	for from < to && s.kinds[to-1] == unused {
		to--
	}
	at, until := int64(firstRecord+from*sectorSize), int64(firstRecord+to*sectorSize)
	switch {
	case from < to:
		s.damage(at, s.content[at:min(until, s.length)], lost, "it is damaged")
	case lost > 0:
		s.damage(min(at, s.length), nil, lost, "settlements that were kept are gone")
	}
}

func (s *scanner) damage(at int64, b []byte, lost int64, what string) {
	s.damages = append(s.damages, Damage{Offset: at, Bytes: bytes.Clone(b), Lost: lost, what: what})
}

func zero(b []byte) bool { return len(bytes.TrimRight(b, "\x00")) == 0 }

// requestID is how a request's id looks that this gateway made.
var requestID = regexp.MustCompile(`req_[0-9a-f]{32}`)

func requestsIn(b []byte) []string {
	var ids []string
	seen := make(map[string]bool)
	for _, id := range requestID.FindAll(b, -1) {
		if !seen[string(id)] {
			seen[string(id)] = true
			ids = append(ids, string(id))
		}
	}
	return ids
}
