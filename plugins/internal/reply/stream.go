// Package reply is what the decoders of upstreams' replies share, whatever the dialect: how the events of one reply
// follow each other, how pieces of text are joined, and what the errors and counts of upstreams mean. It is for the
// families' packages and for providers with a wire format of their own; what a wire looks like is theirs.
package reply

import (
	"bytes"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// maxDepth bounds the nesting of what an upstream sends: its own shape is a few levels deep, and the arguments
// of a call are as deep as a schema that a client may send (GAP-33).
const maxDepth = 1100

// maxCalls bounds the calls of a reply: far more than any model makes at a time.
const maxCalls = 1024

// Stream sends the events of one reply, from its first text to its finish or its error. What it is told of the
// reply as a whole, in its fields, goes out at the end. It does not send EventAccepted.
type Stream struct {
	Model string // what the upstream said it was, "" while it has not
	ID    string // what the upstream calls the reply, "" while it has not said

	send   func(llm.Event) error
	finish llm.FinishReason
	failed error
	ended  bool

	counting  Counting
	allowance int64      // see Allowance
	usage     *llm.Usage // as far as it is known
	expected  bool       // its output was said before the reply
	done      *llm.Usage // what was done so far, see Timed
	hides     bool       // see HidesLength
	garbled   string     // what is wrong with a later one
	produced  bool       // something was sent that costs output
	visible   bool       // so was text, or a call

	text, reasoning Joiner
	returns         bool   // the upstream wants its reasoning back
	thought         []byte // for that
	states          func(first bool, thought, own []byte) []byte
	tools           []string // see Tools
	calls           []*Call
	byIndex         map[string]*Call
	last            *Call           // of which a piece came
	ids             map[string]bool // of the calls that have begun
	begun           int             // how many have
	running         int             // the first call that text has not ended
}

// New makes a Stream that hands its events to send.
func New(counting Counting, send func(llm.Event) error) *Stream {
	s := &Stream{counting: counting}
	s.send = func(ev llm.Event) error {
		switch ev.Kind {
		case llm.EventText, llm.EventToolCall, llm.EventToolArguments:
			s.produced, s.visible = true, true
		case llm.EventReasoning:
			s.produced = true
		}
		return send(ev)
	}
	return s
}

// Parse reads what an upstream sent as one piece: an object of JSON. The error is of kind llm.ErrProtocol.
func Parse(data []byte) (jsonview.View, error) {
	root, err := jsonview.Parse(data, maxDepth)
	if err != nil || root.Kind() != jsonview.Object {
		if failed := failed(root); err == nil && failed != nil {
			return jsonview.View{}, failed
		}
		return jsonview.View{}, llm.Errorf(llm.ErrProtocol, "the upstream sent a chunk that is not a JSON object")
	}
	return root, nil
}

// Take reads the data of one event of a stream and hands it to event; its errors end the reply. It passes over
// what keeps a stream alive and, since some proxies add it whatever the family, the end marker of chat: for a
// family whose streams end in an event of their own it says nothing.
func (s *Stream) Take(data []byte, event func(root jsonview.View) error) error {
	if s.failed != nil {
		return s.failed
	}
	switch data = bytes.TrimSpace(data); string(data) {
	case "", "[DONE]":
		return nil
	}
	root, err := Parse(data)
	if err == nil {
		err = event(root)
	}
	return s.Fail(err)
}

// Whole reads a reply in one piece, hands it to read, and ends the reply.
func (s *Stream) Whole(body []byte, read func(root jsonview.View) error) error {
	root, err := Parse(body)
	if err == nil {
		err = read(root)
	}
	if err != nil {
		return s.Fail(err)
	}
	return s.End()
}

// Err is the error that ended the reply, nil while none did.
func (s *Stream) Err() error { return s.failed }

// Fail ends the reply with err, after the usage that is known; nil changes nothing. It returns err.
func (s *Stream) Fail(err error) error {
	if err == nil || s.failed != nil {
		return err
	}
	s.failed = err
	_ = s.sendUsage() // err says why the reply ended; that usage could not be sent follows from it or is of no use
	return err
}

// Broken ends the reply as one that its upstream did not finish, with an error of kind llm.ErrBroken. One that
// has failed before keeps its error.
func (s *Stream) Broken() error {
	if s.failed != nil {
		return s.failed
	}
	return s.Fail(llm.Errorf(llm.ErrBroken, "the upstream's stream ended before its reply did"))
}

// End ends the reply as a whole one: with what is owed of text and arguments, usage, and EventFinish. Calls
// that have not ended stay as they are, for the finish ends them.
func (s *Stream) End() error {
	if s.failed != nil || s.ended {
		return s.failed
	}
	return s.Fail(s.end())
}

func (s *Stream) end() error {
	if err := s.piece(llm.EventReasoning, s.reasoning.Rest()); err != nil {
		return err
	}
	if err := s.piece(llm.EventText, s.text.Rest()); err != nil {
		return err
	}
	for _, c := range s.calls {
		if err := c.close(false); err != nil {
			return err
		}
	}
	s.finish = s.finishReason()
	if err := s.sendUsage(); err != nil {
		return err
	}
	s.ended = true
	return s.send(llm.Event{Kind: llm.EventFinish, Finish: s.finish, Model: s.Model})
}

// Text sends a piece of visible text; a value that is no string is none.
func (s *Stream) Text(v jsonview.View) error {
	return s.piece(llm.EventText, s.text.Piece(v))
}

// Reasoning sends a piece of hidden reasoning; a value that is no string is none.
func (s *Stream) Reasoning(v jsonview.View) error {
	return s.piece(llm.EventReasoning, s.reasoning.Piece(v))
}

// TextOf is Text for a piece of a text that may be said once more as a whole.
func (s *Stream) TextOf(v jsonview.View, of *Spoken) error {
	piece := s.text.Piece(v)
	of.Add(piece)
	return s.piece(llm.EventText, piece)
}

// ReasoningOf is TextOf for hidden reasoning.
func (s *Stream) ReasoningOf(v jsonview.View, of *Spoken) error {
	piece := s.reasoning.Piece(v)
	of.Add(piece)
	return s.piece(llm.EventReasoning, piece)
}

// Said is Text for a text that has been read.
func (s *Stream) Said(text string) error { return s.piece(llm.EventText, text) }

// Thought is Reasoning for a text that has been read.
func (s *Stream) Thought(text string) error { return s.piece(llm.EventReasoning, text) }

// piece sends text, which, where visible, ends the calls before it.
func (s *Stream) piece(kind llm.EventKind, text string) error {
	if text == "" {
		return nil
	}
	if kind == llm.EventText {
		for ; s.running < len(s.calls); s.running++ {
			c := s.calls[s.running]
			if err := c.close(false); err != nil {
				return err
			}
		}
	}
	if s.returns && kind == llm.EventReasoning && len(s.thought) <= llm.MaxState { // more than that is not kept
		s.thought = append(s.thought, text...)
	}
	return s.send(llm.Event{Kind: kind, Text: text})
}

// ReturnReasoning makes the reasoning of the reply the state of its first call, or a part of it (see States): the
// upstream wants it back with the results.
func (s *Stream) ReturnReasoning() { s.returns = true }

// States says what the states of calls are: of the first call or another, with what was thought, see ReturnReasoning,
// and what the pieces of the call brought, see Piece. It is asked as a call begins and as it ends, for an upstream may
// say it late; nil is none.
func (s *Stream) States(of func(first bool, thought, own []byte) []byte) { s.states = of }

// Visible reports whether text has come, or a call has begun.
func (s *Stream) Visible() bool { return s.visible }

// Calls is how many tool calls have begun.
func (s *Stream) Calls() int { return len(s.calls) }

// Call begins a tool call, whose name is known. One without a name is an error of kind llm.ErrProtocol.
func (s *Stream) Call(id, name string) (*Call, error) { return s.CallWith(id, name, nil) }

// CallWith is Call for a call whose upstream wants something back with its result. What is too large is left out.
func (s *Stream) CallWith(id, name string, state []byte) (*Call, error) {
	c, err := s.open(id, name, state)
	if err == nil {
		err = c.begin()
	}
	return c, err
}

// open makes a call. Those before it have their names.
func (s *Stream) open(id, name string, state []byte) (*Call, error) {
	if len(s.calls) == maxCalls {
		return nil, llm.Errorf(llm.ErrProtocol, "the upstream sent more than %d tool calls", maxCalls)
	}
	for _, c := range s.calls[s.running:] {
		if c.name != "" {
			if err := c.begin(); err != nil {
				return nil, err
			}
		}
	}
	if err := s.piece(llm.EventText, s.text.Rest()); err != nil {
		return nil, err
	}
	c := &Call{stream: s, id: id, name: name, state: state}
	s.calls = append(s.calls, c)
	return c, nil
}
