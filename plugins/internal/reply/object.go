package reply

// object follows the text of a JSON object as it comes: whether it is whole, and what it was.
type object struct {
	depth        int
	text, escape bool // within a text, behind its escape
	whole        bool
	size         int
	hash         uint64
}

// add takes a piece.
func (o *object) add(piece string) {
	for i := range len(piece) {
		b := piece[i]
		o.hash = (o.hash ^ uint64(b)) * 1099511628211 // FNV-1a
		switch {
		case o.escape:
			o.escape = false
		case o.text:
			o.escape, o.text = b == '\\', b != '"'
		case b == '"':
			o.text = true
		case b == '{', b == '[':
			o.depth++
		case b == '}', b == ']':
			o.depth--
			o.whole = o.depth == 0 && b == '}'
		}
	}
	o.size += len(piece)
}

// is reports whether the object is whole, and this is its text.
func (o *object) is(text string) bool {
	if !o.whole || len(text) != o.size {
		return false
	}
	var other object
	other.add(text)
	return other.hash == o.hash
}
