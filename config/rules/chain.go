package rules

import "strings"

// chain finds terms that begin in one text and end in a later one. It keeps the two ends of each.
type chain struct {
	search  *Search
	between byte   // what stands between two texts; 0 for nothing
	piece   folded // the text at hand
	all     folded
	at      int
}

func (c *chain) begin(t *Search) {
	*c = chain{search: t, piece: c.piece, all: c.all}
	c.piece.cut(0)
	c.all.cut(0)
}

// reach is how much of a text's end matters.
func (c *chain) reach() int { return c.search.set.longest + 2 }

// add takes more of the text at hand.
func (c *chain) add(text folded) {
	reach := c.reach()
	for n := window; text.len() > n; text = text.slice(n, text.len()) {
		c.piece.append(text.slice(0, n))
		c.shorten(reach)
	}
	c.piece.append(text)
	if c.piece.len() > window {
		c.shorten(reach)
	}
}

// shorten leaves out the middle of the text at hand.
func (c *chain) shorten(reach int) {
	n := c.piece.len()
	if n <= 2*reach+1 {
		return
	}
	copy(c.piece.text[reach+1:], c.piece.text[n-reach:])
	copy(c.piece.joints[reach+1:], c.piece.joints[n-reach:])
	c.piece.text[reach], c.piece.joints[reach] = '\n', noJoint
	c.piece.cut(2*reach + 1)
}

// endPiece ends the text at hand.
func (c *chain) endPiece() {
	c.shorten(c.reach())
	p := c.piece
	for p.len() > 0 && (p.text[p.len()-1] == '\n' || c.between != 0 && p.text[p.len()-1] == ' ') {
		p.cut(p.len() - 1)
	}
	if p.len() > 0 && strings.TrimSpace(string(p.text)) != "" {
		if c.all.len() > 0 && c.between != 0 {
			c.all.put(c.between, noJoint)
		}
		p.joints[0] = seam
		c.all.append(p)
	}
	c.piece.cut(0)
	if c.all.len()-c.at > window {
		c.look(c.all.len() - c.reach())
	}
}

// end looks at what is left.
func (c *chain) end() {
	c.look(c.all.len())
	c.all.cut(0)
	c.at = 0
}

// look looks for terms across a seam that begin before a place.
func (c *chain) look(to int) {
	t := c.search
	if t.set.finder == nil || to <= c.at {
		return
	}
	t.set.finder.find(c.all.text, c.at, to, func(i, start, end int) {
		n := &t.set.needles[i]
		if n.pattern >= 0 || n.weight < leastSeam || t.set.rules[n.rule].Action == Allow ||
			!n.edges.fit(c.all.text, start, end) {
			return
		}
		crosses := false
		for at := start; at < end; at++ {
			joint := c.all.joints[at]
			crosses = crosses || joint == seam && at > start
		}
		for _, at := range n.hyphens {
			crosses = crosses && c.all.joints[start+at] == hyphen
		}
		if crosses {
			t.found(n)
		}
	})
	c.at = to
	if drop := to - c.reach(); drop > window {
		c.all.drop(drop)
		c.at -= drop
	}
}

// addValues looks for terms that go on from one value of a JSON document to the next one: strings that are no names of
// members, nor the type of something.
func (t *Search) addValues(s string) {
	name := ""
	t.values.begin(t)
	for {
		start := strings.IndexByte(s, '"')
		if start < 0 {
			break
		}
		size := stringSize(s[start+1:])
		inside := s[start+1 : start+1+size]
		s = s[min(start+size+2, len(s)):]
		if rest := strings.TrimLeft(s[:min(len(s), maxBlanks)], " \t\r\n"); strings.HasPrefix(rest, ":") {
			name = inside
			continue
		}
		if name != "type" {
			t.addValue(inside)
		}
		name = ""
	}
	t.values.end()
}

// maxBlanks is how many blanks may be between a name and its colon.
const maxBlanks = 64

// stringSize is how many bytes of JSON come before the quote that ends a string.
func stringSize(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(s)
}

// addValue adds a value to the chain.
func (t *Search) addValue(inside string) {
	r := &t.aside
	r.reset(nil)
	from := 0
	r.more = func() {
		r.extra.cut(0)
		to := r.out.len()
		if r.letters > 0 {
			to = r.word
		}
		t.values.add(r.out.slice(from, max(from, to)))
		if from = max(from, to); from > window {
			r.forget(from)
			from = 0
		}
	}
	r.read(inside, quoted)
	r.end()
	t.values.endPiece()
}
