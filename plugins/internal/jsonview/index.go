package jsonview

import "slices"

const (
	// Texts from this size on are indexed, and in them values from this size on that are not too deep: what is shorter
	// is passed by as fast by reading it, and the index stays smaller than the text whatever the text is.
	indexedText  = 2 << 10
	indexedValue = 64
	indexedDepth = 8
)

// index knows where the long values of a text end, so that those who walk it can step over them.
type index struct {
	size  int    // of the text
	spans []span // by where they begin
	last  int    // the span that was asked for last: walks go forward
}

// span is a string, array or object: from its first byte to behind its last.
type span struct {
	start, end int
	surrogate  bool // of a string: an escape in it is half of a surrogate pair
}

// at returns the value that begins at i, nil where it is not known.
func (x *index) at(i int) *span {
	for k := x.last; k < min(x.last+3, len(x.spans)); k++ {
		switch s := &x.spans[k]; {
		case s.start == i:
			x.last = k
			return s
		case s.start > i && k > x.last:
			return nil
		}
	}
	k, found := slices.BinarySearchFunc(x.spans, i, func(s span, i int) int { return s.start - i })
	if !found {
		x.last = max(k-1, 0)
		return nil
	}
	x.last = k
	return &x.spans[k]
}

// open notes that a container begins, close that it has ended, and str a string.
func (x *index) open(i int) (entry int) {
	x.spans = append(x.spans, span{start: i})
	return len(x.spans) - 1
}

func (x *index) close(entry, end int) {
	s := &x.spans[entry]
	if s.end = end; end-s.start < indexedValue {
		x.spans = x.spans[:entry] // nothing in it is longer
	}
}

func (x *index) str(start, end int, surrogate bool) {
	if end-start >= indexedValue {
		x.spans = append(x.spans, span{start, end, surrogate})
	}
}

func newIndex(size int) *index {
	return &index{size: size, spans: make([]span, 0, 8+size/1024)}
}
