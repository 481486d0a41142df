package spool

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// The file is made of sectors, which a disk writes whole or not at all. Each says by itself what it is and whether
// it is whole, so that a damaged one takes no other with it. All numbers are little-endian. The first page has the
// header twice, in the sectors headerA and headerB; from firstRecord on come the records, each in sectors of its
// own, in two halves of the file, of which each has its own headers:
//
//	checksum u32 | tag u32 | epoch u32 | seq u32 | part u16 | parts u16 | used u16 | nth u16 | data
//
// The checksum is over what is behind it and over the sector's place: one in another place is damage. The tag is the
// checksum of the whole record. Records are numbered in an epoch from 1 on, without gaps. A half whose records are
// released begins the next epoch, which no half has had: whatever is in it of an earlier one is no more than the zeros
// of an unused sector. So an epoch with a number says which record it is, for ever, and in which order.
//
// The record is the nth of those that were written together: all before these were on the disk then. 0 says nothing of
// them, as where they are synced behind.
const (
	sectorSize  = 512
	sectorHead  = 24
	sectorData  = sectorSize - sectorHead
	pageSize    = 4096
	firstRecord = pageSize // the headers are in a page of their own
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a sector's content behind its checksum, at a place in the file.
func checksum(content []byte, at int64) uint32 {
	place := ^uint32(0)
	for range 8 { // as crc32.Checksum has it, which would have these bytes on the heap
		place = castagnoli[byte(place)^byte(at)] ^ place>>8
		at >>= 8
	}
	return crc32.Update(^place, castagnoli, content)
}

// part is a sector of a record.
type part struct {
	tag, epoch, seq uint32
	n, of, nth      uint16
	data            []byte
}

// sectorsFor is how many sectors a record takes.
func sectorsFor(payload []byte) int64 {
	return (int64(len(payload)) + sectorData - 1) / sectorData
}

// appendSectors writes a record that begins at a place in the file, the nth of those that are written together.
func appendSectors(b []byte, at int64, epoch, seq uint32, nth int, payload []byte) []byte {
	tag, parts := crc32.Checksum(payload, castagnoli), sectorsFor(payload)
	for n := range parts {
		data := payload[n*sectorData : min((n+1)*sectorData, int64(len(payload)))]
		b = slices.Grow(b, sectorSize)
		s := b[len(b) : len(b)+sectorSize]
		b = b[:len(b)+sectorSize]
		binary.LittleEndian.PutUint32(s[4:], tag)
		binary.LittleEndian.PutUint32(s[8:], epoch)
		binary.LittleEndian.PutUint32(s[12:], seq)
		binary.LittleEndian.PutUint16(s[16:], uint16(n))
		binary.LittleEndian.PutUint16(s[18:], uint16(parts))
		binary.LittleEndian.PutUint16(s[20:], uint16(len(data)))
		binary.LittleEndian.PutUint16(s[22:], uint16(nth))
		clear(s[sectorHead+copy(s[sectorHead:], data):])
		binary.LittleEndian.PutUint32(s, checksum(s[4:], at+n*sectorSize))
	}
	return b
}

// parseSector reads the sector at a place; false when it is not whole.
func parseSector(s []byte, at int64) (part, bool) {
	p := part{
		tag:   binary.LittleEndian.Uint32(s[4:]),
		epoch: binary.LittleEndian.Uint32(s[8:]),
		seq:   binary.LittleEndian.Uint32(s[12:]),
		n:     binary.LittleEndian.Uint16(s[16:]),
		of:    binary.LittleEndian.Uint16(s[18:]),
		nth:   binary.LittleEndian.Uint16(s[22:]),
	}
	used := binary.LittleEndian.Uint16(s[20:])
	if binary.LittleEndian.Uint32(s) != checksum(s[4:], at) || used > sectorData {
		return part{}, false
	}
	p.data = s[sectorHead : sectorHead+int(used)]
	return p, true
}

// The header of a half:
//
//	magic | checksum u32 | epoch u32 | count u32 | size u64 | file [8]byte | before u32 | boot [8]byte
//
// count is how many records the epoch has. A header is written behind them, and not synced: a power cut may leave an
// earlier one, and the records say themselves then which were there before them. Where they are not synced either, it
// may leave the header without them: before is how many there were before, which counts where the boot is not that of
// today. The two of a half are written in turn, so that one is whole. The file's size and its identity are the same in
// all.
const (
	magic = "fareway spool 3\n"
	// magic2 is that of format 2, which has one half: the whole file, with its headers at the places of the first.
	magic2 = "fareway spool 2\n"
)

// headers are the places of each half's two headers.
var headers = [2][2]int64{{0, 2048}, {1024, 3072}}

type header struct {
	epoch, count, before uint32
	size                 int64   // of the file
	file                 [8]byte // by chance, tells this file from the one that was here before
	boot                 boot    // of the machine, in which it was written
}

// boot names a start of the machine; the zero one is not known.
type boot [8]byte

// least is how many records the epoch must have, as far as the header knows, on a machine that was started as now.
func (h header) least(now boot) uint32 {
	if h.boot != now {
		return h.before
	}
	return h.count
}

func (h header) sector(at int64) []byte {
	s := make([]byte, sectorSize)
	copy(s, magic)
	binary.LittleEndian.PutUint32(s[20:], h.epoch)
	binary.LittleEndian.PutUint32(s[24:], h.count)
	binary.LittleEndian.PutUint64(s[28:], uint64(h.size))
	copy(s[36:], h.file[:])
	binary.LittleEndian.PutUint32(s[44:], h.before)
	copy(s[48:], h.boot[:])
	binary.LittleEndian.PutUint32(s[16:], checksum(s[20:], at))
	return s
}

func parseHeader(magic string, s []byte, at int64) (header, bool) {
	h := header{
		epoch:  binary.LittleEndian.Uint32(s[20:]),
		count:  binary.LittleEndian.Uint32(s[24:]),
		size:   int64(binary.LittleEndian.Uint64(s[28:])),
		file:   [8]byte(s[36:]),
		before: binary.LittleEndian.Uint32(s[44:]),
		boot:   boot(s[48:]),
	}
	if magic == magic2 {
		h.before = h.count
	}
	return h, string(s[:len(magic)]) == magic && binary.LittleEndian.Uint32(s[16:]) == checksum(s[20:], at)
}

// newer reports whether h was written after o.
func (h header) newer(o header) bool {
	return h.epoch > o.epoch || h.epoch == o.epoch && h.count > o.count
}

// middle is where the second half of a file begins.
func middle(size int64) int64 {
	return firstRecord + (size-firstRecord)/2/sectorSize*sectorSize
}
