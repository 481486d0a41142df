package chat

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Some services want more of a reply back with the results of its calls than the calls (GAP-117):
//
//   - of the message `reasoning_details` (openrouter.ai/docs, "Reasoning tokens"; Vercel's gateway and MiniMax have
//     them too), `thinking_blocks` (docs.litellm.ai, "Thinking"), and `reasoning_opaque` with `reasoning_text`
//     (GitHub Copilot, anomalyco/opencode PR 8900);
//   - of a call `extra_content` (ai.google.dev, "Thought signatures"; of Vertex too, earendil-works/pi #6733), and
//     `provider_specific_fields`, LiteLLM's name for it;
//   - and of the message its reasoning, see Service.
//
// Whoever sends them gets them back. They are the state of a call: an object with the members that its message had, in
// the state of the first call, and with its own.
const ofMessage, ofCall = "message", "call"

const reasoningContent = "reasoning_content"

// memory is what a reply has said that is to come back with its message.
type memory struct {
	members []*remembered
	size    int // of texts and raw values, in bytes
}

// remembered is a member of a message or of a block: a text, another value, or blocks.
type remembered struct {
	name   string
	isText bool
	text   []byte
	joiner reply.Joiner
	raw    []byte
	blocks []*block
}

// block is an object in a list of a message, which comes in pieces. Those of one index and type are one block, and
// those without an index while they go on (agno-agi/agno #8794: what is signed is the whole text).
type block struct {
	index, kind string
	members     []*remembered
}

// find returns the member of that name, which is made where it is missing.
func find(members *[]*remembered, name string) *remembered {
	for _, m := range *members {
		if m.name == name {
			return m
		}
	}
	m := &remembered{name: strings.Clone(name)}
	*members = append(*members, m)
	return m
}

// text takes a piece of a text of the message.
func (m *memory) text(name string, v jsonview.View) {
	if v.Kind() == jsonview.String && m.fits(v) {
		find(&m.members, name).add(v, false)
	}
}

// fits reports whether a piece is one that there is still room for. Of what is too large nothing comes back.
func (m *memory) fits(v jsonview.View) bool {
	if v.Set() && m.size <= llm.MaxState {
		m.size += len(v.Raw())
		return m.size <= llm.MaxState
	}
	return false
}

// add takes a piece of a text; some services say what came before once more.
func (r *remembered) add(v jsonview.View, again bool) (added string) {
	r.isText = true
	piece := r.joiner.Piece(v)
	if again {
		piece = strings.TrimPrefix(piece, string(r.text))
	}
	r.text = append(r.text, piece...)
	return piece
}

// list takes pieces of a list of blocks, or a whole one, and returns what was thought in them.
func (m *memory) list(name string, v jsonview.View, whole bool) (thought string) {
	if !m.fits(v) {
		return ""
	}
	list := find(&m.members, name)
	for _, piece := range v.Elems() {
		var index, kind string
		if i := piece.Get("index"); i.Set() {
			index = string(i.Raw())
		}
		kind, _ = piece.Get("type").Str()
		b := list.goingOn(index, kind, piece)
		if b == nil || whole {
			b = &block{index: index, kind: kind}
			list.blocks = append(list.blocks, b)
		}
		thought += b.take(piece)
	}
	return thought
}

// goingOn finds the block that a piece belongs to, nil for a new one.
func (r *remembered) goingOn(index, kind string, piece jsonview.View) *block {
	if index != "" {
		i := slices.IndexFunc(r.blocks, func(b *block) bool { return b.index == index && b.kind == kind })
		if i < 0 {
			return nil
		}
		return r.blocks[i]
	}
	if len(r.blocks) == 0 || piece.Get("data").Set() {
		return nil
	}
	last := r.blocks[len(r.blocks)-1]
	signed := find(&last.members, "signature")
	if last.index != "" || last.kind != kind || len(signed.text) > 0 {
		return nil
	}
	return last
}

// take adds a piece to a block: its texts go on, of the rest what is said last counts. It returns what was thought.
func (b *block) take(piece jsonview.View) (thought string) {
	format, _ := piece.Get("format").Str()
	again := strings.HasPrefix(format, "MiniMax") // platform.minimax.io, "Interleaved thinking": each piece says all
	for name, v := range piece.Members() {
		m := find(&b.members, name)
		switch name {
		case "text", "summary", "thinking":
			thought += m.add(v, again)
		case "data":
			m.add(v, true)
		case "signature":
			if v.Kind() == jsonview.String && string(v.Raw()) != `""` {
				m.text = nil
				m.add(v, false)
			}
		default:
			if v.Set() || m.raw == nil {
				m.raw = bytes.Clone(v.Raw())
			}
		}
	}
	return thought
}

// state composes the state of a call from what the call itself has, and for the first one what was thought and what
// the message has; nil for nothing, or too much.
func (m *memory) state(first bool, thought, own []byte) []byte {
	var message []byte
	if first && m.size <= llm.MaxState {
		message = appendRemembered(nil, m.members)
	}
	if first && len(thought) > 0 {
		message = appendName(message, reasoningContent)
		message = jsonview.AppendString(message, string(thought))
	}
	if len(message)+len(own) == 0 {
		return nil
	}
	b := appendObject([]byte{'{'}, ofMessage, message)
	return append(appendObject(b, ofCall, own), '}')
}

func appendObject(b []byte, name string, members []byte) []byte {
	if len(members) == 0 {
		return b
	}
	b = append(appendName(b, name), '{')
	return append(append(b, members...), '}')
}

// appendName appends the name of a member, behind a comma where it is not the first.
func appendName(b []byte, name string) []byte {
	if len(b) > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(jsonview.AppendString(b, name), ':')
}

func appendRemembered(b []byte, members []*remembered) []byte {
	for _, m := range members {
		switch {
		case m.isText:
			b = jsonview.AppendString(appendName(b, m.name), string(m.text)+m.joiner.Rest())
		case m.raw != nil:
			b = append(appendName(b, m.name), m.raw...)
		case len(m.blocks) > 0:
			b = append(appendName(b, m.name), '[')
			for _, block := range m.blocks {
				b = append(appendRemembered(append(b, '{'), block.members), '}', ',')
			}
			b[len(b)-1] = ']'
		}
	}
	return b
}

// appendOwnMembers returns the members of a call that are to come back with it, as they are.
func appendOwnMembers(b []byte, name string, v jsonview.View) []byte {
	if !v.Set() {
		return b
	}
	return append(appendName(b, name), v.Raw()...)
}

// stateOf reads the state of a call; one that is no such state is Absent.
func stateOf(state []byte) jsonview.View {
	if len(state) == 0 {
		return jsonview.View{}
	}
	root, err := reply.Parse(state)
	if err != nil {
		return jsonview.View{}
	}
	return root
}

// appendMembers adds the members of a part of a state, which may be Absent, to the object at the end of b.
func appendMembers(b []byte, part jsonview.View) []byte {
	if part.Kind() != jsonview.Object {
		return b
	}
	b = b[:len(b)-1]
	for name, v := range part.Members() {
		b = append(appendName(b, name), v.Raw()...)
	}
	return append(b, '}')
}
