package reply

// object follows the text of a JSON object as it comes: whether it is whole, and what it was.
type object struct {
	depth        int
	text, escape bool // within a text, behind its escape
	whole        bool
	so           Spoken
}

// add takes a piece.
func (o *object) add(piece string) {
	for i := range len(piece) {
		b := piece[i]
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
	o.so.Add(piece)
}

// is reports whether the object is whole, and this is its text.
func (o *object) is(text string) bool {
	rest, begun := o.so.Rest(text)
	return o.whole && begun && rest == ""
}
