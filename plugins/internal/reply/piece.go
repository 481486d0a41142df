package reply

import (
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Piece is a piece of a tool call, as upstreams send them: with the index of its call, its id, both or neither, its
// name or a piece of it, and a piece of its arguments.
type Piece struct {
	Index     string // however the upstream counts; "" for none
	ID, Name  string
	Arguments jsonview.View
	Own       []byte // what is to come back with the call, see Stream.States; the latest counts
	Alone     bool   // it is all of a call
}

// Piece takes a piece of a call: of one that has begun, or of another one.
func (s *Stream) Piece(p Piece) error {
	c := s.find(p)
	if c == nil {
		var err error
		if c, err = s.open(p.ID, "", nil); err != nil {
			return err
		}
		if p.Index != "" {
			if s.byIndex == nil {
				s.byIndex = make(map[string]*Call)
			}
			s.byIndex[strings.Clone(p.Index)] = c
		}
	}
	s.last = c
	if len(p.Own) > 0 {
		c.own = p.Own
	}
	if c.id == "" {
		c.id = p.ID
	}
	if err := c.named(p.Name); err != nil {
		return err
	}
	if err := c.Piece(p.Arguments); err != nil || !p.Alone {
		return err
	}
	return c.sendRest()
}

// find finds the call of a piece; nil for a new one.
func (s *Stream) find(p Piece) *Call {
	c, indexed := s.last, p.Index != ""
	switch {
	case p.Alone:
		return nil
	case s.byIndex[p.Index] != nil:
		c = s.byIndex[p.Index]
		if other := s.known(p.ID); p.ID != "" && p.Name == "" && other != nil && c.id != p.ID {
			c = other // which its id names, and the index another
		}
	case p.ID != "":
		if known := s.known(p.ID); known != nil && !indexed || p.Name == "" && known != nil {
			c = known
		} else if indexed || p.Name != "" {
			return nil
		}
	case c == nil, p.Name == "" && indexed && c.so.whole,
		p.Name != "" && (indexed || c.name != "" && (c.name != p.Name || !c.hasArguments())):
		return nil
	}
	if c == nil || s.precedes(c, p) {
		return nil
	}
	return c
}

// known is the last call with that id.
func (s *Stream) known(id string) *Call {
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].id == id {
			return s.calls[i]
		}
	}
	return nil
}

// precedes reports whether a piece in the place of a call is none of it but begins another one: some upstreams give
// all their calls one index, or one id. Then it has a name. An id alone does not, for some make up a new one for
// every piece; nor does a name before the arguments, which may be more of the name, but where both are tools' by
// themselves.
func (s *Stream) precedes(c *Call, p Piece) bool {
	sameID := p.ID != "" && p.ID == c.id
	switch {
	case p.Name == "" || c.name == "":
		return false
	case p.ID != "" && c.id != "" && !sameID:
		return true
	case p.Name != c.name && !c.hasArguments():
		return !sameID && s.offers(c.name) && s.offers(p.Name) && !s.offers(c.name+p.Name)
	case p.Name != c.name:
		return !sameID || c.so.whole
	}
	more := new(Joiner).Argument(p.Arguments)
	return !sameID && more != "" && c.so.whole && !c.so.is(more)
}

// Tools says what the request offered, by the names that the upstream has for them.
func (s *Stream) Tools(names []string) { s.tools = names }

func (s *Stream) offers(name string) bool { return slices.Contains(s.tools, name) }

// FindArguments finds the arguments of a call in an object, under the dialect's own name for them or, where that is
// missing, under another that services have.
func FindArguments(v jsonview.View, own string) jsonview.View {
	var found jsonview.View
	for name, member := range v.Members() {
		switch name {
		case own:
			if member.Set() {
				return member
			}
		case "arguments", "input", "parameters", "args":
			if !found.Set() {
				found = member
			}
		}
	}
	return found
}
