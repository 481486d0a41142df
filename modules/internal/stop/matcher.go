package stop

// Matcher runs over the visible text of one reply, in order. It is used by one goroutine. The zero value
// matches nothing and passes all text through.
//
// Reasoning and tool arguments are not fed to it (GAP-71).
type Matcher struct {
	set *Set
	// at is the automaton's node. The text withheld is the node's prefix, so nothing of it is stored.
	at      int32
	matched string
}

// Feed takes the next piece of the reply's text, whole characters of valid UTF-8. It returns what the
// client may see now: everything up to the longest end of the text that could still become a stop sequence.
//
// When the piece completes a stop sequence, emit is the rest of the text before it, matched is the
// sequence, and ok is true. The earliest completion wins, and the longest sequence among those that
// complete at the same character (STOP-06, STOP-08). From then on Feed returns the same match and emits
// nothing: the rest of the reply is dropped (STOP-13).
func (m *Matcher) Feed(text string) (emit, matched string, ok bool) {
	if m.set == nil {
		return text, "", false
	}
	if m.matched != "" {
		return "", m.matched, true
	}
	withheld := m.withheld()
	at := m.at
	for i := 0; i < len(text); i++ {
		if at == root {
			at = m.set.first[text[i]]
		} else {
			at = m.set.step(at, text[i])
		}
		if at == root {
			continue
		}
		if found := m.set.nodes[at].match; found != 0 {
			m.at, m.matched = root, m.set.stops[found-1]
			return join(withheld, text, len(withheld)+i+1-len(m.matched)), m.matched, true
		}
	}
	m.at = at
	return join(withheld, text, len(withheld)+len(text)-int(m.set.nodes[at].depth)), "", false
}

// Flush returns the withheld fragment, which the client gets before what ends the text: a tool call, or the
// end of a reply that is not an error (GAP-73). Matching then starts afresh, for a stop sequence never spans
// a tool call (STOP-12). After a match there is nothing to return, and the match stays.
func (m *Matcher) Flush() string {
	withheld := m.withheld()
	m.at = root
	return withheld
}

// Matched returns the stop sequence that ended the reply, "" while none did.
func (m *Matcher) Matched() string { return m.matched }

// withheld is the end of the text fed that was not emitted.
func (m *Matcher) withheld() string {
	if m.at == root {
		return ""
	}
	n := &m.set.nodes[m.at]
	return m.set.stops[n.stop][:n.depth]
}

// join returns the first n bytes of withheld + text. It allocates only when it needs some of both.
func join(withheld, text string, n int) string {
	switch {
	case n <= len(withheld):
		return withheld[:n]
	case withheld == "":
		return text[:n]
	default:
		return withheld + text[:n-len(withheld)]
	}
}
