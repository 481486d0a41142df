package responses

import (
	"bytes"
	"slices"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
)

// The kinds of items that are read.
const (
	message      = "message"
	reasoning    = "reasoning"
	functionCall = "function_call"
)

// said is an item of the response's output of which something has come.
type said struct {
	kind, id, callID string
	index            int64
	indexed          bool
	proven           bool        // events have named its id: another id is another item's
	call             *reply.Call // nil for one that is no call
	text             bool        // text has come
	spoken           reply.Spoken
	closed           bool // its arguments have ended
	over             bool // it has ended
	repeated         bool // at the response's end
}

// place is where an event says that an item is.
type place struct {
	id      jsonview.View
	index   int64
	indexed bool
}

// items are told apart by their ids, and where an id says nothing, for some upstreams give none, or another one in
// each event, by their kind and index.
type items struct{ all []*said }

// add adds an item that begins.
func (s *items) add(at place, v jsonview.View) *said {
	it := &said{index: at.index, indexed: at.indexed}
	it.kind, _ = v.Get("type").Str()
	it.id, _ = v.Get("id").Str()
	it.callID, _ = v.Get("call_id").Str()
	s.all = append(s.all, it)
	return it
}

// find finds the item of a delta, or of the end of arguments; where none was begun it does.
func (s *items) find(at place, kind string) *said {
	var open *said
	for _, it := range slices.Backward(s.all) {
		fits, named := it.kind == kind || foreign(it.kind), is(at.id, it.id) || is(at.id, it.callID)
		it.proven = it.proven || named
		switch {
		case fits && (named || at.indexed && it.indexed && at.index == it.index):
			return it
		case open == nil && it.kind == kind && !it.over && (!at.indexed || kind == functionCall):
			open = it // calls' pieces may come with another's index
		}
	}
	if open == nil || at.id.Set() && !at.indexed && open.id != "" {
		open = &said{kind: kind, index: at.index, indexed: at.indexed}
		open.id, _ = at.id.Str()
		s.all = append(s.all, open)
	}
	return open
}

// foreign reports whether an item is of a tool that the upstream runs itself.
func foreign(kind string) bool { return kind != message && kind != reasoning && kind != functionCall }

// findRepeated finds the item that is said once more as a whole; nil is for one of which nothing has come. Where its
// id says nothing it is the last one of its kind at its index or, at the response's end, the first that is not there
// by its id.
func (s *items) findRepeated(at place, v jsonview.View, last bool) *said {
	id, kind, callID := v.Get("id"), v.Get("type"), v.Get("call_id")
	if it := s.known(id); it != nil {
		return it
	}
	for _, it := range s.all { // its other name, which is the client's
		if is(kind, it.kind) && is(callID, it.callID) && !it.repeated && (last || !it.over) {
			return it
		}
	}
	all := slices.Backward(s.all) // what ends has begun last
	if last {
		all = slices.All(s.all)
	}
	for _, it := range all {
		another := callID.Set() && it.callID != "" && !is(callID, it.callID) || it.proven && id.Set() && !it.is(v)
		if !is(kind, it.kind) || another || it.repeated || it.over && !last {
			continue
		}
		here := at.indexed == it.indexed && at.index == it.index
		nameless := !id.Set() || it.id == ""
		if is(callID, it.callID) || here && (nameless || at.indexed && !last) || last && (nameless || it.text) {
			return it
		}
	}
	return nil
}

// is reports whether what has come of a text is what a whole one begins with.
func (it *said) is(v jsonview.View) bool {
	_, begun := it.spoken.Rest(textOf(v))
	return it.call == nil && it.text && begun
}

// textOf is the text of a whole message, or of what was thought.
func textOf(v jsonview.View) string {
	var all string
	for _, member := range []string{"summary", "content"} {
		for _, part := range v.Get(member).Elems() {
			piece, _ := textIn(part).Str()
			all += piece
		}
	}
	return all
}

func textIn(part jsonview.View) jsonview.View {
	if text := part.Get("text"); text.Set() {
		return text
	}
	return part.Get("refusal")
}

// findRestarted finds the item that begins once more, nil for a new one.
func (s *items) findRestarted(at place, v jsonview.View) *said {
	id, kind, callID := v.Get("id"), v.Get("type"), v.Get("call_id")
	for _, it := range s.all {
		here := !at.indexed || !it.indexed || at.index == it.index
		if is(id, it.id) && is(kind, it.kind) && here && (!callID.Set() || it.callID == "" || is(callID, it.callID)) {
			return it
		}
	}
	return nil
}

// known is the item with that id.
func (s *items) known(id jsonview.View) *said {
	for _, it := range s.all {
		if is(id, it.id) {
			return it
		}
	}
	return nil
}

// is reports whether a value is that text, which is not empty.
func is(v jsonview.View, text string) bool {
	raw := v.Raw()
	if v.Kind() != jsonview.String || text == "" {
		return false
	}
	if bytes.IndexByte(raw, '\\') < 0 { // without a copy
		return string(raw[1:len(raw)-1]) == text
	}
	s, _ := v.Str()
	return s == text
}
