package spool

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
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
	size    int64   // of the file
	file    [8]byte // its identity
	halves  [2]foundHalf
	records []Record // of both halves, in their order
	damages []Damage
	old     bool // it has a format of before
	holes   bool // records are missing that a power cut has kept from the disk, before others that it has not
}

// foundHalf is what is in one half.
type foundHalf struct {
	header
	headerAt int64 // of its newest header; below zero: none can be read
	records  []Record
	numbers  []uint32 // theirs in the epoch
	last     uint32   // the number of the last record that anything is known of
	end      int64    // behind the last record
	used     int64    // behind what was torn after it
}

// isWhole reports whether the file can be gone on with as it is.
func (f *found) isWhole() bool { return !f.old && !f.holes && len(f.damages) == 0 }

// torn is how many bytes are of records that were being written.
func (f *found) torn() (bytes int64) {
	for _, h := range f.halves {
		bytes += h.used - h.end
	}
	return bytes
}

// scan reads a spool's whole file, in a boot of the machine.
func scan(content []byte, now boot) (*found, error) {
	f := &found{size: int64(len(content))}
	whole := content
	if rest := len(content) % sectorSize; rest > 0 {
		// What is left of a sector is a damaged one.
		whole = append(bytes.Clone(content), make([]byte, sectorSize-rest)...)
	}
	format := f.readFormat(whole)
	halves := [2]*scanner{
		{found: f, format: format, content: whole, length: int64(len(content)), from: firstRecord, to: middle(f.size)},
		{found: f, format: format, content: whole, length: int64(len(content)), from: middle(f.size), to: f.size},
	}
	if format == magic2 {
		f.old, halves[0].to, halves[1].from = true, f.size, f.size
	}
	any := false
	for i, s := range halves {
		s.foundHalf = &f.halves[i]
		s.readHeaders(headers[i])
		s.count = s.least(now)
		s.readSectors()
		any = any || s.headerAt >= 0 || s.any
	}
	if !any {
		// A damaged bit or two make one magic another: it has the first format only when nothing else can be read.
		if bytes.HasPrefix(content, []byte(oldMagic)) && len(content) >= firstRecord {
			return scanOld(content)
		}
		return nil, fmt.Errorf("%w: it does not begin as one; move the file away and start again, and keep it: "+
			"settlements may be in it", ErrForeign)
	}
	f.readFirstPage(whole)
	if halves[0].epoch > halves[1].epoch {
		halves[0], halves[1] = halves[1], halves[0]
	}
	for _, s := range halves {
		if err := s.assemble(); err != nil {
			return nil, err
		}
		f.records = append(f.records, s.foundHalf.records...)
	}
	if int64(len(content)) < f.size && len(f.damages) == 0 {
		f.damage(int64(len(content)), nil, 0, fmt.Sprintf("the file has %d of its %d bytes", len(content), f.size))
	}
	for i := range f.damages {
		f.damages[i].file = f.file
		f.damages[i].Requests = requestsIn(f.damages[i].Bytes)
	}
	return f, nil
}

// readFormat finds out which format a file has by the headers that can be read, today's before another, and with it
// how large the file is to be, and its identity.
func (f *found) readFormat(content []byte) (format string) {
	for _, format := range []string{magic, magic2} {
		for half, places := range headers {
			for _, at := range places {
				if at+sectorSize > int64(len(content)) || format == magic2 && half > 0 {
					continue
				}
				if h, ok := parseHeader(format, content[at:at+sectorSize], at); ok && h.size >= firstRecord {
					f.size, f.file = h.size, h.file
					return format
				}
			}
		}
	}
	return magic
}

// readFirstPage finds what is damaged in the page of the headers: whatever is neither a header nor empty.
func (f *found) readFirstPage(content []byte) {
	format := magic
	if f.old {
		format = magic2
	}
	for at := int64(0); at < min(firstRecord, int64(len(content))); at += sectorSize {
		sector := content[at : at+sectorSize]
		isHeader := slices.Contains(headers[0][:], at) || !f.old && slices.Contains(headers[1][:], at)
		if _, ok := parseHeader(format, sector, at); isHeader && !ok {
			f.damage(at, sector, 0, "one of the headers is damaged")
		} else if !isHeader && !zero(sector) {
			f.damage(at, sector, 0, "a sector of the headers' page is damaged")
		}
	}
}

func (f *found) damage(at int64, b []byte, lost int64, what string) {
	f.damages = append(f.damages, Damage{Offset: at, Bytes: bytes.Clone(b), Lost: lost, what: what})
}

// kind is what a sector behind the headers is.
type kind byte

const (
	unused kind = iota // zeros, or of an earlier epoch
	whole              // of a record
	bad                // damaged
)

// scanner reads one half of a file.
type scanner struct {
	*found
	*foundHalf
	format   string
	content  []byte
	length   int64 // of the file
	from, to int64 // the half
	any      bool  // there is a whole sector of a record
	kinds    []kind
	parts    []part // of those that are whole
}

// readHeaders finds the newest of two headers.
func (s *scanner) readHeaders(places [2]int64) {
	s.headerAt = -1
	for _, at := range places {
		if at+sectorSize > int64(len(s.content)) {
			continue
		}
		h, ok := parseHeader(s.format, s.content[at:at+sectorSize], at)
		if ok && (s.headerAt < 0 || h.newer(s.header)) {
			s.header, s.headerAt = h, at
		}
	}
}

// readSectors tells what each sector is. The epoch that counts is the last one that anything is of.
func (s *scanner) readSectors() {
	n := max(0, (min(s.to, int64(len(s.content)))-s.from)/sectorSize)
	s.kinds, s.parts = make([]kind, n), make([]part, n)
	for i := range s.kinds {
		at := s.place(i)
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
		switch {
		case s.kinds[i] != whole:
		case p.epoch != s.epoch:
			s.kinds[i] = unused
		case p.nth > 0:
			s.count = max(s.count, p.seq-uint32(p.nth))
		}
	}
}

// place is where the half's i-th sector is.
func (s *scanner) place(i int) int64 { return s.from + int64(i)*sectorSize }

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
		if lost := s.parts[i].seq - seq - 1; lost > 0 && seq >= s.count && !slices.Contains(s.kinds[end:i], bad) {
			s.holes = true // of those that were being written nobody was told
		} else {
			s.reportGap(end, i, int64(lost))
		}
		s.foundHalf.records, s.numbers = append(s.foundHalf.records, r), append(s.numbers, s.parts[i].seq)
		seq, end = s.parts[i].seq, i+sectors
	}
	s.end = s.place(end)
	s.used = s.end
	if torn := s.countTornSectors(end, seq); torn > 0 {
		s.used += int64(torn) * sectorSize
	} else {
		s.reportGap(end, n, int64(last)-int64(seq))
	}
	s.count, s.last = seq, last
	return nil
}

// countTornSectors is how many sectors behind the last record are of records that were being written when the process
// or the machine died: those that Append has returned for are counted in the header. 0 when it can be anything else.
func (s *scanner) countTornSectors(end int, seq uint32) (sectors int) {
	if len(s.damages) > 0 || s.length < s.found.size || seq < s.count {
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
	at, until := s.place(from), s.place(to)
	switch {
	case from < to:
		s.damage(at, s.content[at:min(until, s.length)], lost, "it is damaged")
	case lost > 0:
		s.damage(min(at, s.length), nil, lost, "settlements that were kept are gone")
	}
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
