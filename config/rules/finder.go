package rules

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// finder looks for many texts at once. At most places of a text a bit of a small table says that none begins there; at
// the others the texts, in order, are searched in halves: so the costliest text takes some comparisons for each byte.
type finder struct {
	texts []dictionaryText // in order, each once
	// filters are for texts that begin a word, and for texts that begin anywhere.
	word, anywhere filter
}

// dictionaryText is what is looked for.
type dictionaryText struct {
	text    []byte
	longest int   // of the others that it begins with, the longest, as a place; -1: none
	needles []int // that it is
}

// filter says where a text may begin, by its first bytes. Short texts are told by fewer of them.
type filter struct{ short, long gramFilter }

const (
	// longGram is how many bytes of a long text are looked at.
	longGram = 5
	// filterBits is the size of a table, which stays in a processor's nearest cache.
	filterBits = 17
)

// gramFilter knows the first bytes of texts. The zero value knows none.
type gramFilter struct {
	size int // bytes of each, 1 to longGram
	mask uint64
	bits *gramTable // nil: none
}

// gramTable has a bit for each hash.
type gramTable [1 << filterBits / 64]uint64

func newGramFilter(texts [][]byte) (f gramFilter) {
	if len(texts) == 0 {
		return f
	}
	f.size = longGram
	for _, text := range texts {
		f.size = min(f.size, len(text))
	}
	f.mask = 1<<(8*f.size) - 1
	f.bits = new(gramTable)
	for _, text := range texts {
		at := hashGram(gram(text, 0) & f.mask)
		f.bits[at/64] |= 1 << (at % 64)
	}
	return f
}

// gram is what stands at a place, 8 bytes or what there is.
func gram(text []byte, at int) uint64 {
	if at+8 <= len(text) {
		return binary.LittleEndian.Uint64(text[at:])
	}
	var b [8]byte
	copy(b[:], text[at:])
	return binary.LittleEndian.Uint64(b[:])
}

// hashGram is Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
func hashGram(g uint64) uint64 { return g * 0x9e3779b97f4a7c15 >> (64 - filterBits) }

func (f *gramFilter) may(g uint64) bool {
	if f.bits == nil {
		return false
	}
	at := hashGram(g & f.mask)
	return f.bits[at/64]>>(at%64)&1 != 0
}

func newFilter(texts [][]byte) filter {
	short := slices.DeleteFunc(slices.Clone(texts), func(text []byte) bool { return len(text) >= longGram })
	long := slices.DeleteFunc(slices.Clone(texts), func(text []byte) bool { return len(text) < longGram })
	return filter{newGramFilter(short), newGramFilter(long)}
}

func (f *filter) may(g uint64) bool { return f.long.may(g) || f.short.may(g) }

// newFinder makes a finder of texts, none of them empty, that are these needles; nil where there are none.
func newFinder(texts [][]byte, needles []needle, wanted func(*needle) bool) *finder {
	var places []int
	for i := range needles {
		if wanted(&needles[i]) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return nil
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Or(bytes.Compare(texts[a], texts[b]), cmp.Compare(a, b)) })
	f := new(finder)
	var word, anywhere [][]byte
	for _, place := range places {
		text := texts[place]
		if n := len(f.texts); n > 0 && bytes.Equal(f.texts[n-1].text, text) {
			f.texts[n-1].needles = append(f.texts[n-1].needles, place)
		} else {
			f.texts = append(f.texts, dictionaryText{text: text, longest: f.beginning(text), needles: []int{place}})
		}
		if needles[place].edges.before {
			word = append(word, text)
		} else {
			anywhere = append(anywhere, text)
		}
	}
	f.word, f.anywhere = newFilter(word), newFilter(anywhere)
	return f
}

// beginning is the longest text so far that another one, which comes behind them, begins with; -1: none.
func (f *finder) beginning(text []byte) int {
	for at := len(f.texts) - 1; at >= 0; at = f.texts[at].longest {
		if bytes.HasPrefix(text, f.texts[at].text) {
			return at
		}
	}
	return -1
}

// find tells of each place from one to another where a needle begins.
func (f *finder) find(text []byte, from, to int, found func(needle, start, end int)) {
	starts, everywhere := true, f.anywhere.long.bits != nil || f.anywhere.short.bits != nil
	if from > 0 {
		c := text[from-1]
		starts = !('a' <= c && c <= 'z' || '0' <= c && c <= '9')
	}
	for i := from; i < to; i++ {
		c := text[i]
		begins := starts // a word may begin here
		starts = !('a' <= c && c <= 'z' || '0' <= c && c <= '9')
		if c&0xc0 == 0x80 || !begins && !everywhere { // in the middle of a character, or of a word
			continue
		}
		var g uint64
		if len(text)-i >= 8 {
			g = binary.LittleEndian.Uint64(text[i : i+8])
		} else {
			g = gram(text, i)
		}
		if everywhere && f.anywhere.may(g) || begins && f.word.may(g) {
			f.at(text, i, found)
		}
	}
}

// at tells of the needles that begin at a place. They are all at the beginning of the last one that does not come
// behind what stands there.
func (f *finder) at(text []byte, start int, found func(needle, start, end int)) {
	rest := text[start:]
	n, equal := slices.BinarySearchFunc(f.texts, rest, func(t dictionaryText, rest []byte) int {
		return bytes.Compare(t.text, rest)
	})
	if !equal {
		n--
	}
	for ; n >= 0; n = f.texts[n].longest {
		if t := &f.texts[n]; bytes.HasPrefix(rest, t.text) {
			for _, needle := range t.needles {
				found(needle, start, start+len(t.text))
			}
		}
	}
}
