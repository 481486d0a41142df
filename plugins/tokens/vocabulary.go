package tokens

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
)

// o200kFilter answers whether a string is a token of o200k_base, from a small part of the space that the
// vocabulary takes: a xor filter (Graf and Lemire, "Xor Filters", 2020) of two bytes a slot, behind its seed in
// eight bytes, all little-endian. It knows every token, and takes one in 65,536 other strings for one. That is
// nothing to an estimate, but a bound must not be built on it: who wants to can search for such strings.
//
// The file holds fingerprints, neither tokens nor their ranks. It is written by
// `go test ./plugins/tokens -run TestVocabulary -update` from the vocabulary in
// github.com/tiktoken-go/tokenizer (MIT), which only tests import.
//
//go:embed o200k.filter
var o200kFilter string

var (
	filterSeed    = binary.LittleEndian.Uint64([]byte(o200kFilter[:8]))
	filterSlots   = o200kFilter[8:]
	filterSegment = uint32(len(filterSlots) / 2 / 3)
)

// key is the FNV-1a hash of a string, which grows byte by byte: one walk hashes all beginnings of a text.
type key uint64

const emptyKey key = 14695981039346656037

func (k key) add(c byte) key { return (k ^ key(c)) * 1099511628211 }

func keyOf(s string) key {
	k := emptyKey
	for i := range len(s) {
		k = k.add(s[i])
	}
	return k
}

// known reports whether the string of that key is a token of o200k, or, rarely, only looks like one.
func known(k key) bool {
	h := scramble(k, filterSeed)
	slots := filterPlaces(h, filterSegment)
	return filterSlot(slots[0])^filterSlot(slots[1])^filterSlot(slots[2]) == fingerprint(h)
}

// scramble spreads a key over all 64 bits: FNV leaves those of short strings close together.
func scramble(k key, seed uint64) uint64 {
	h := uint64(k) ^ seed
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

func fingerprint(h uint64) uint16 { return uint16(h>>48 ^ h) }

func filterSlot(i uint32) uint16 {
	return uint16(filterSlots[2*i]) | uint16(filterSlots[2*i+1])<<8
}

// filterPlaces returns the slots of a key, one in each third of the filter.
func filterPlaces(h uint64, segment uint32) [3]uint32 {
	place := func(turn int) uint32 {
		return uint32(uint64(uint32(bits.RotateLeft64(h, turn))) * uint64(segment) >> 32)
	}
	return [3]uint32{place(0), place(21) + segment, place(42) + 2*segment}
}
