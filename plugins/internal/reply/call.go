package reply

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Call is a tool call that is being made. It begins for the reader when its arguments come, or when something else
// does: until then more of its name may follow.
type Call struct {
	stream   *Stream
	id, name string // id as the upstream gave it
	sent     string // the id as the reader has it
	own      []byte // see Piece
	state    []byte // as the reader has it
	index    int
	begun    bool
	ended    bool
	joiner   Joiner
	held     []byte // arguments that are not sent
	live     bool   // what comes of them is sent as it comes
	so       object // what was sent of them
	whole    string // what they are if they do not come in pieces
}

// Whole says what the arguments are if none come in pieces: a place holder, which says nothing, or all of them.
func (c *Call) Whole(v jsonview.View) {
	if text := new(Joiner).Argument(v); text != "" && text != "{}" {
		c.whole = text
	}
}

// Piece takes a piece of the arguments' JSON text. Some upstreams send the object itself, which counts as its text, as
// does a value of another kind, which is no arguments.
func (c *Call) Piece(v jsonview.View) error { return c.Arguments(c.joiner.Argument(v)) }

// Arguments takes a piece of the arguments' JSON text. A piece for a call that has ended is an error of kind
// llm.ErrProtocol: the reply has gone on without it.
func (c *Call) Arguments(text string) error {
	switch {
	case text == "" || c.so.is(text): // said once more
		return nil
	case c.ended:
		return llm.Errorf(llm.ErrProtocol, "the upstream went on with a tool call after it had ended it")
	case !c.live:
		c.held = append(c.held, text...)
		return c.release(false)
	}
	return c.send(text)
}

// release sends the arguments that are held once it is clear what they are: an empty object may stand for those to
// come, and what begins as a text may be a text of an object. At the end they are what they are.
func (c *Call) release(end bool) error {
	for c.name != "" {
		text := bytes.TrimLeft(c.held, " \t\r\n")
		first := leading(text)
		inner, isText := unquoted(text[:first])
		rest := bytes.TrimLeft(text[first:], " \t\r\n")
		again := len(rest) > 0 && (rest[0] == '{' || rest[0] == '"') // the real ones follow
		switch {
		case len(text) == 0 || first == 0 && text[0] == '"' && !end, first > 0 && len(rest) == 0 && !end:
			return nil
		case isText && inner == "" && len(rest) == 0:
			c.held = nil
			return nil
		case first > 0 && again && (inner == "" || inner == "{}" || inner == "null"):
			c.held = rest
			continue
		case isText && len(rest) == 0 && strings.HasPrefix(inner, "{"):
			c.held = []byte(inner)
		}
		all := string(c.held)
		c.held, c.live = nil, true
		return c.send(all)
	}
	return nil
}

// leading is the length of what arguments begin with where it may not be all of them: an empty object, null, or a
// whole text.
func leading(text []byte) int {
	switch {
	case bytes.HasPrefix(text, []byte("{}")):
		return len("{}")
	case bytes.HasPrefix(text, []byte("null")):
		return len("null")
	case len(text) == 0 || text[0] != '"':
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// unquoted is what a JSON text says that is a text of JSON, however often it was made one. An empty object is no text,
// and says "{}".
func unquoted(text []byte) (inner string, isText bool) {
	inner = string(text)
	for range 3 {
		v, err := jsonview.Parse([]byte(inner), maxDepth)
		if err != nil || v.Kind() != jsonview.String {
			return inner, isText
		}
		inner, _ = v.Str()
		inner, isText = strings.TrimSpace(inner), true
	}
	return inner, isText
}

func (c *Call) send(text string) error {
	if err := c.begin(); err != nil {
		return err
	}
	c.so.add(text)
	return c.stream.send(llm.Event{Kind: llm.EventToolArguments, Index: c.index, Text: text})
}

// named takes a piece of the name, or all of it once more.
func (c *Call) named(piece string) error {
	switch {
	case piece == "" || piece == c.name:
	case c.begun && !strings.Contains(c.name, piece):
		return llm.Errorf(llm.ErrProtocol, "the upstream gave a tool call another name after it had begun")
	case c.begun:
	case strings.HasPrefix(piece, c.name):
		c.name = piece
	default:
		c.name += piece
	}
	return nil
}

// begin sends EventToolCall, once. A call without an id gets one, for the client needs it to send the result back, and
// one with the id of another call one of its own; one without a name cannot be made.
func (c *Call) begin() error {
	if c.begun {
		return nil
	}
	s := c.stream
	if c.name == "" {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent a tool call without a name")
	}
	c.index, c.begun, c.sent = s.begun, true, s.distinct(c.id)
	c.state = c.stateNow()
	s.begun++
	return s.send(llm.Event{Kind: llm.EventToolCall, Index: c.index, ID: c.sent, Name: c.name, State: c.state})
}

// stateNow is what the upstream wants back with the call's result, as far as it has said; nil for nothing, or too
// much.
func (c *Call) stateNow() []byte {
	state, s := c.state, c.stream
	switch {
	case s.states != nil:
		state = s.states(c.index == 0, s.thought, c.own)
	case s.returns && c.index == 0:
		state = s.thought
	}
	if len(state) == 0 || len(state) > llm.MaxState {
		return nil
	}
	return state
}

// distinct makes the id of a call one that no other call of the reply has.
func (s *Stream) distinct(id string) string {
	if id == "" {
		id = "call_" + rand.Text()
	}
	own := id
	for n := 2; s.ids[own]; n++ {
		own = id + "_" + strconv.Itoa(n)
	}
	if s.ids == nil {
		s.ids = make(map[string]bool)
	}
	s.ids[own] = true
	return own
}

// End sends EventToolEnd, once, and not where text has ended the call before.
func (c *Call) End() error {
	if c.ended {
		if !c.hasArguments() {
			return c.Arguments(c.whole) // which came too late
		}
		return nil
	}
	return c.close(true)
}

// close ends a call for good, once: with what is owed of it, and with EventToolEnd where that is wanted, or the state
// has come since the call began.
func (c *Call) close(tell bool) error {
	if c.ended {
		return nil
	}
	if err := c.sendRest(); err != nil {
		return err
	}
	c.ended = true
	end := llm.Event{Kind: llm.EventToolEnd, Index: c.index}
	if state := c.stateNow(); !bytes.Equal(state, c.state) {
		end.ID, end.State = c.sent, state
	}
	if !tell && end.State == nil {
		return nil
	}
	return c.stream.send(end)
}

// sendRest sends what is owed of a call.
func (c *Call) sendRest() error {
	if c.ended {
		return nil
	}
	if err := c.begin(); err != nil {
		return err
	}
	text := c.joiner.Rest()
	if !c.hasArguments() && text == "" {
		text = c.whole
	}
	if err := c.Arguments(text); err != nil {
		return err
	}
	return c.release(true)
}

// hasArguments reports whether arguments have come in pieces.
func (c *Call) hasArguments() bool { return c.live || len(c.held) > 0 }
