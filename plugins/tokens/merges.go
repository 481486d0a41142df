package tokens

import _ "embed"

// mergeBits is two sets of short strings that are tokens of both o200k_base and cl100k_base, one bit a string,
// from the lowest bit of the first byte: first the pairs of ASCII characters (128 x 128), then the triples of
// blank and small letters (32 x 32 x 32, blank being 0 and a being 1). Both are exact: the proof of Bound rests on
// them. The file is written, and held against both vocabularies, by the test that writes o200k.filter.
//
//go:embed merges.bits
var mergeBits string

const tripleBits = 128 * 128 // where the triples begin

// pairMerges reports whether the ASCII characters a and b are one token together.
func pairMerges(a, b byte) bool { return merges(int(a)<<7 | int(b)) }

// tripleMerges reports whether a, b and c are one token together, as far as the set goes.
func tripleMerges(a, b, c byte) bool {
	x, y, z := tripleSymbol(a), tripleSymbol(b), tripleSymbol(c)
	return x|y|z < 32 && merges(tripleBits+(x<<10|y<<5|z))
}

func tripleSymbol(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return int(c-'a') + 1
	case c == ' ':
		return 0
	}
	return 32
}

func merges(bit int) bool { return mergeBits[bit>>3]>>(bit&7)&1 == 1 }
