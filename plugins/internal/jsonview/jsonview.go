// Package jsonview reads JSON in place: a View is a piece of validated JSON text that is walked on demand,
// without building a tree. It also appends JSON text, for encoders that write their output by hand.
//
// The codecs (plugins/families) and the providers' readers use it. It is for text that is read once and of
// which little is kept; to fill a struct from a settings file, encoding/json is the right tool.
//
// Parse looks at every byte once, whatever it is given, and walking never recurses. Of a long text it notes where the
// long values end, and walks step over those. What is deep in it is read again by each step into a container, so a
// walk costs at most the text's length times the depth that the caller goes to: callers bound that depth, or use
// Names, which is one pass at any depth.
package jsonview

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
)

// View is one JSON value. The zero View is Absent, which is how a member that is not there reads, so that
// lookups can be chained without a check between them. A View refers to the text it was parsed from, which
// must not change while the View is in use. The Views of one text are used by one goroutine at a time.
type View struct {
	raw   []byte // one value without blanks around it; nil for Absent. Its capacity reaches to the end of the text
	index *index // of the text, nil for a short one
}

// Kind is the type of a value.
type Kind uint8

const (
	Absent Kind = iota // the zero View
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "number", "string", "array", "object"}[k]
}

// Parse validates b as one JSON text (RFC 8259) in valid UTF-8 with containers nested at most maxDepth
// deep. Nothing but blanks may follow the value. A name may occur twice in an object; an escape may be a
// lone surrogate. Errors are of type *SyntaxError.
func Parse(b []byte, maxDepth int) (View, error) {
	v, _, err := validate(b, maxDepth)
	return v, err
}

// Check is Parse of a text that is only to be judged, which costs no memory. It returns the type of the value.
func Check(b []byte, maxDepth int) (Kind, error) {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	*s = scanner{b: b[:len(b):len(b)], max: maxDepth, wide: wide, open: s.open[:0]}
	v, err := s.whole()
	s.b = nil
	return View{raw: v}.Kind(), err
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Of is the View of a text of which Parse has said before that it is valid, without blanks around it.
func Of(valid []byte) View { return View{raw: slices.Clip(valid)} }

// ParseCounting is Parse, and says how many objects there are in the text at any depth.
func ParseCounting(b []byte, maxDepth int) (v View, objects int, err error) {
	return validate(b, maxDepth)
}

// Kind returns the type of the value.
func (v View) Kind() Kind {
	if len(v.raw) == 0 {
		return Absent
	}
	switch v.raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Raw returns the text of the value without blanks around it, aliasing the input; nil if Absent.
func (v View) Raw() []byte { return slices.Clip(v.raw) }

// Set reports whether the value is there and is not null: for every optional field of a request null means
// absent (GAP-22).
func (v View) Set() bool { return len(v.raw) != 0 && v.raw[0] != 'n' }

// Bool returns the value of a boolean; ok is false for any other kind.
func (v View) Bool() (value, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.raw[0] == 't', true
}

// Get returns the member of an object with that name, the last one if it occurs twice, and Absent if there
// is none or the value is not an object. It reads the whole object: to read many members, range over
// Members once.
func (v View) Get(name string) View {
	var found View
	for n, member := range v.Members() {
		if n == name {
			found = member
		}
	}
	return found
}

// Members yields the members of an object in order, repeated names as often as they occur; nothing if the
// value is not an object. A name is valid for as long as the text is: clone it to keep it.
func (v View) Members() iter.Seq2[string, View] {
	return func(yield func(string, View) bool) {
		if v.Kind() != Object {
			return
		}
		i := blank(v.raw, 1)
		for v.raw[i] != '}' {
			nameEnd := stringEnd(v.raw, i)
			name := memberName(v.raw[i:nameEnd])
			i = blank(v.raw, nameEnd)
			start := blank(v.raw, i+1) // after the colon
			end := v.end(start)
			if !yield(name, View{raw: v.raw[start:end], index: v.index}) {
				return
			}
			i = next(v.raw, end)
		}
	}
}

// Elems yields the elements of an array with their index; nothing if the value is not an array.
func (v View) Elems() iter.Seq2[int, View] {
	return func(yield func(int, View) bool) {
		if v.Kind() != Array {
			return
		}
		i := blank(v.raw, 1)
		for n := 0; v.raw[i] != ']'; n++ {
			end := v.end(i)
			if !yield(n, View{raw: v.raw[i:end], index: v.index}) {
				return
			}
			i = next(v.raw, end)
		}
	}
}

// Names yields the names of all members at any depth inside the value, in the order of the text, in one
// pass. A name is valid for as long as the text is.
func (v View) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(v.raw); {
			if v.raw[i] != '"' {
				i++
				continue
			}
			end := stringEnd(v.raw, i)
			text := v.raw[i:end]
			i = blank(v.raw, end)
			if i < len(v.raw) && v.raw[i] == ':' && !yield(memberName(text)) {
				return
			}
		}
	}
}

// memberName decodes a name, without a copy when it holds no escape.
func memberName(quoted []byte) string {
	return llm.Quoted(inside(quoted)).String()
}

// end returns the index after the value that begins at i. Most values are short: the index is asked for others only.
func (v View) end(i int) int {
	switch v.raw[i] {
	case '"':
		end, ended := shortEnd(v.raw, i+1)
		if ended {
			return end
		}
		if s := v.indexed(i); s != nil {
			return i + s.end - s.start
		}
		return longEnd(v.raw, end)
	case '{', '[':
		if s := v.indexed(i); s != nil {
			return i + s.end - s.start
		}
	}
	return valueEnd(v.raw, i)
}

// indexed returns what is known of the value that begins at i, nil if nothing is.
func (v View) indexed(i int) *span {
	if v.index == nil {
		return nil
	}
	return v.index.at(v.index.size - cap(v.raw) + i)
}

// The functions below walk text that Parse has accepted, and so check nothing.

// blank returns the index of the first byte at or after i that is not a blank.
func blank(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

// next returns the index of the next name or element after a value that ended at i, or of the closing
// bracket.
func next(b []byte, i int) int {
	i = blank(b, i)
	if b[i] == ',' {
		i = blank(b, i+1)
	}
	return i
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(b []byte, i int) int {
	end, ended := shortEnd(b, i+1)
	if ended {
		return end
	}
	return longEnd(b, end)
}

// shortEnd looks for the end of a string in some words from i on, which is inside it and behind any escape. It returns
// the index after the string or, not ended, from where on to look.
func shortEnd(b []byte, i int) (end int, ended bool) {
	for range shortWords {
		if i+8 > len(b) {
			break
		}
		w := binary.LittleEndian.Uint64(b[i:])
		low := w & (0x7F * ones)
		quotes := (low ^ '"'*ones) + 0x7F*ones | w // see scanner.str
		slashes := (low ^ '\\'*ones) + 0x7F*ones | w
		hits := ^(quotes & slashes) & highs
		if hits == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(hits) / 8
		if b[i] == '"' {
			return i + 1, true
		}
		i += 2
	}
	return i, false
}

// shortWords is how many words, or escapes, are looked at before a faster look is worth its beginning.
const shortWords = 4

// longEnd returns the index after the string that goes on at i, behind any escape.
func longEnd(b []byte, i int) int {
	start := i
	for ; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for k := i - 1; k >= start && b[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns the index after the value that begins at i.
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = stringEnd(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && !isBlank(b[i]) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}
