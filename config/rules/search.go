package rules

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Search looks for rules in what a request says, while that is added. It keeps no more of a text than a window, and
// for patterns the piece at hand. Each byte costs the same, wherever it stands, but for patterns, which have a budget.
type Search struct {
	set *Set
	hit []bool // by rule
	run []bool // by pattern: a part of it is in the piece at hand

	text       reader
	at         int    // how much of text.out has been looked at
	pieceAt    int    // how much of it is in said
	allowedTo  int    // where in text.out ends what is allowed, so far
	clean      []byte // of the piece
	budget     int64  // steps that patterns may still take
	unsearched bool   // they would have taken more

	aside reader // for what is looked at in another way

	said, cut chain // messages, with a blank between each two of them and without
	values    chain // of a document
	inMessage bool
}

// span is where something was found.
type span struct{ start, end int }

const (
	// window is how much of a text is looked at at once, in bytes.
	window = 16 << 10
	// patternBudget is how many steps patterns may take for a request: characters, times the length of a pattern's
	// program. Most steps are not taken; a step that is takes some nanoseconds.
	patternBudget = 1 << 28
	// patternStart is what it costs to begin with a pattern, in characters.
	patternStart = 32
	// maxRetries bounds how often a pattern is looked for again where what it found is allowed: each time can cost as
	// much as the whole text. Beyond it, it counts as found.
	maxRetries = 64
	// leastSeam is how many letters a term has that is found across the end of a message, or of a value: shorter ones
	// come about by chance.
	leastSeam = 6
)

// Begin makes it a search for the rules of s, which may be nil. It keeps its memory.
func (t *Search) Begin(s *Set) {
	if s == nil {
		s = new(Set)
	}
	t.set, t.budget, t.unsearched = s, patternBudget, false
	t.hit = slices.Grow(t.hit[:0], len(s.rules))[:len(s.rules)]
	t.run = slices.Grow(t.run[:0], len(s.patterns))[:len(s.patterns)]
	clear(t.hit)
	clear(t.run)
	t.at, t.pieceAt, t.allowedTo, t.inMessage = 0, 0, 0, false
	t.clean = t.clean[:0]
	t.text.reset(t.look)
	if len(s.patterns) > 0 {
		t.text.clean = &t.clean
	}
	t.aside.reset(nil)
	for _, c := range [...]*chain{&t.said, &t.cut, &t.values} {
		c.begin(t)
	}
	t.said.between = ' '
}

// reset forgets all but the memory.
func (r *reader) reset(more func()) {
	*r = reader{raw: r.raw[:0], normal: r.normal, more: more, folder: folder{out: r.out, extra: r.extra,
		pending: r.pending, aside: r.folder.aside, spelling: spelling{spelt: r.spelt[:0], rows: r.rows[:0],
			tails: r.tails, after: r.after}}}
	for _, f := range [...]*folded{&r.out, &r.extra, &r.pending, &r.folder.aside, &r.tails, &r.after} {
		f.cut(0)
	}
}

// Size is how much memory it keeps, in bytes.
func (t *Search) Size() int {
	n := cap(t.clean)
	for _, r := range [...]*reader{&t.text, &t.aside} {
		n += cap(r.raw) + cap(r.normal) + cap(r.spelt) + cap(r.rows)
		for _, f := range [...]*folded{&r.out, &r.extra, &r.pending, &r.folder.aside, &r.tails, &r.after} {
			n += f.size()
		}
	}
	for _, c := range [...]*chain{&t.said, &t.cut, &t.values} {
		n += c.piece.size() + c.all.size()
	}
	return n
}

// Reserve is how much memory a search takes whose largest piece has so many bytes, in bytes. Terms take the same for
// all texts; for patterns, the piece is kept.
func (s *Set) Reserve(piece int) int64 {
	if s == nil || len(s.patterns) == 0 {
		return 0
	}
	return growing * maxWidth * int64(piece) / 4
}

const (
	// maxWidth is how much longer a text can be for patterns than it is.
	maxWidth = 3
	// growing is how much memory a slice takes that grows: the old one and the new one, in quarters of what it has.
	growing = 4 + 5
)

// Add adds a text that somebody says. What is added without a Break in between goes on in the middle of a word.
func (t *Search) Add(s string) {
	t.inMessage = true
	t.text.read(s, plain)
}

// AddQuoted adds a text that stands between the quotes of a JSON string.
func (t *Search) AddQuoted(inside string) {
	t.inMessage = true
	t.text.read(inside, quoted)
}

// AddName adds a text that goes on nowhere, such as the name of a tool.
func (t *Search) AddName(s string) { t.text.read(s, plain) }

// AddJSON adds JSON text, with the escapes taken out. It need not be valid.
func (t *Search) AddJSON(s string) {
	t.text.read(s, document)
	t.addValues(s)
}

// AddID adds an identifier, which is often made of letters by chance: only words of their own are found in it.
func (t *Search) AddID(id string) {
	t.aside.reset(func() {})
	from := 0
	look := func(all bool) {
		t.aside.extra.cut(0)
		from = t.find(t.set.finder, &t.aside.folder, from, all, func(n *needle, start, end int) {
			whole := edges{true, true}
			if n.pattern < 0 && n.weight > 2 && whole.fit(t.aside.out.text, start, end) {
				t.found(n)
			}
		})
		if drop := from - t.set.longest - utf8.UTFMax; drop > window {
			for !utf8.RuneStart(t.aside.out.text[drop]) {
				drop--
			}
			t.aside.forget(drop)
			from -= drop
		}
	}
	t.aside.more = func() { look(false) }
	t.aside.read(id, plain)
	t.aside.end()
	look(true)
}

// Break ends a piece. Only terms are found across it, and only where one message goes on with the next one.
func (t *Search) Break() {
	t.text.end()
	t.lookAll(true)
	t.matchPatterns()
	if t.inMessage {
		t.said.endPiece()
		t.cut.endPiece()
	}
	t.text.out.put('\n', noJoint)
	t.at, t.pieceAt = t.text.out.len(), t.text.out.len()
	t.text.word, t.text.context, t.inMessage = t.at, noContext, false
	t.clean = t.clean[:0]
	clear(t.run)
}

// Hits are the rules that were found, each once, in their order. whole is false where the patterns would have taken
// more time than there is: then there may be others.
func (t *Search) Hits() (hits []Hit, whole bool) {
	if t.text.out.len() > t.pieceAt || len(t.text.raw) > 0 || t.text.aside.len() > 0 {
		t.Break()
	}
	for _, c := range [...]*chain{&t.said, &t.cut} {
		c.end()
	}
	for i, hit := range t.hit {
		if r := &t.set.rules[i]; hit && r.Action != Allow {
			hits = append(hits, Hit{r.Name, r.Category, r.Action})
		}
	}
	return hits, !t.unsearched
}

// Match finds the rules in one text.
func (s *Set) Match(text string) []Hit {
	var t Search
	t.Begin(s)
	t.Add(text)
	hits, _ := t.Hits()
	return hits
}

func (t *Search) found(n *needle) { t.hit[n.rule] = true }

// look looks at what came, when it is enough.
func (t *Search) look() {
	if t.text.out.len()-t.at > window {
		t.lookAll(false)
	}
	t.lookExtra()
}

// lookAll looks at what came, and forgets it; not at what could go on, unless it is all of a piece.
func (t *Search) lookAll(all bool) {
	to := t.find(t.set.finder, &t.text.folder, t.at, all, t.foundInText)
	if t.inMessage {
		done := t.text.out.slice(t.pieceAt, max(to, t.pieceAt))
		t.said.add(done)
		t.cut.add(done)
	}
	t.pieceAt, t.at = max(to, t.pieceAt), to
	if drop := t.at - t.set.longest - utf8.UTFMax; drop > window {
		for !utf8.RuneStart(t.text.out.text[drop]) {
			drop--
		}
		t.text.forget(drop)
		t.at, t.pieceAt = t.at-drop, t.pieceAt-drop
		t.allowedTo = max(t.allowedTo-drop, 0)
	}
}

// find looks for needles that begin from a place on, up to where what follows could change them, and says where that
// is.
func (t *Search) find(f *finder, text *folder, from int, all bool, found func(n *needle, start, end int)) int {
	to := text.out.len()
	if !all {
		if text.letters > 0 {
			to = text.word
		}
		to -= t.set.longest + utf8.UTFMax
	}
	if to <= from {
		return from
	}
	if f != nil {
		out := &text.out
		f.find(out.text, from, to, func(i, start, end int) {
			n := &t.set.needles[i]
			for _, at := range n.hyphens {
				if out.joints[start+at] != hyphen {
					return
				}
			}
			found(n, start, end)
		})
	}
	return to
}

// foundInText takes a needle of the text itself. What it is allowed to be in was found before it: that begins not
// behind it, and is longer.
func (t *Search) foundInText(n *needle, start, end int) {
	switch {
	case n.pattern >= 0:
		t.run[n.pattern] = true
	case !n.edges.fit(t.text.out.text, start, end):
	case t.set.rules[n.rule].Action == Allow:
		t.allowedTo = max(t.allowedTo, end)
	case end > t.allowedTo:
		t.found(n)
	}
}

// lookExtra looks at other ways to read parts of the text. In them, nothing is allowed.
func (t *Search) lookExtra() {
	extra := &t.text.extra
	if extra.len() == 0 || t.set.spelled == nil {
		extra.cut(0)
		return
	}
	t.set.spelled.find(extra.text, 0, extra.len(), func(i, start, end int) {
		n := &t.set.needles[i]
		switch {
		case n.pattern >= 0:
			t.run[n.pattern] = true
		case t.set.rules[n.rule].Action == Allow || !n.edges.fit(extra.text, start, end):
		case extra.joints[start] == beside && len(bytes.Trim(extra.joints[start:end], string([]byte{hyphen, beside}))) == 0:
			// it is in the text itself
		case slices.ContainsFunc(n.hyphens, func(at int) bool { return extra.joints[start+at] != hyphen }):
		case extra.joints[start] != parted || bytes.IndexByte(extra.text[start:end], ' ') > 0:
			t.found(n) // parts of a word are none
		}
	})
	extra.cut(0)
}

// spend takes steps from the budget; false where there are not as many.
func (t *Search) spend(p *pattern, characters int) bool {
	if t.budget -= p.steps * int64(characters+patternStart); t.budget < 0 {
		t.unsearched = true
	}
	return t.budget >= 0
}

// matchPatterns looks for patterns in the piece.
func (t *Search) matchPatterns() {
	if len(t.clean) == 0 {
		return
	}
	var allowed []span
	for i := range t.set.patterns {
		p := &t.set.patterns[i]
		if t.set.rules[p.rule].Action == Allow && (p.always || t.run[i]) && t.spend(p, len(t.clean)) {
			for _, at := range p.re.FindAllIndex(t.clean, maxRetries) {
				allowed = append(allowed, span{at[0], at[1]})
			}
		}
	}
	for i := range t.set.patterns {
		p := &t.set.patterns[i]
		if (p.always || t.run[i]) && t.set.rules[p.rule].Action != Allow && !t.hit[p.rule] {
			t.hit[p.rule] = t.matches(p, allowed)
		}
	}
}

// matches reports whether a pattern is found where it is not allowed.
func (t *Search) matches(p *pattern, allowed []span) bool {
	from := 0
	for range maxRetries {
		if from >= len(t.clean) || !t.spend(p, len(t.clean)-from) {
			return false
		}
		at := p.re.FindIndex(t.clean[from:])
		if at == nil {
			return false
		}
		place := span{from + at[0], from + at[1]}
		if !slices.ContainsFunc(allowed, func(a span) bool { return a.start <= place.start && place.end <= a.end }) {
			return true
		}
		from = place.end
	}
	return true
}

// foldTerm folds a term as texts are folded.
func foldTerm(term string) folded {
	var r reader
	r.read(term, plain)
	r.end()
	return r.out.trimmed()
}
