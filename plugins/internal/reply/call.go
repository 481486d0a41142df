package reply

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Call is a tool call that has begun.
type Call struct {
	stream *Stream
	index  int
	ended  bool
	joiner Joiner
}

// Piece sends a piece of the arguments' JSON text. Some upstreams send the object itself, which counts as its
// text; a value of another kind is no piece.
func (c *Call) Piece(v jsonview.View) error { return c.Arguments(c.joiner.Argument(v)) }

// Arguments sends a piece of the arguments' JSON text. A piece for a call that text has ended is an error of kind
// llm.ErrProtocol: the reply has gone on without it.
func (c *Call) Arguments(text string) error {
	switch {
	case text == "":
		return nil
	case c.ended:
		return llm.Errorf(llm.ErrProtocol, "the upstream went on with a tool call after it had ended it")
	}
	return c.stream.send(llm.Event{Kind: llm.EventToolArguments, Index: c.index, Text: text})
}

// End sends EventToolEnd, once, and not where text has ended the call before.
func (c *Call) End() error {
	if c.ended {
		return nil
	}
	if err := c.rest(); err != nil {
		return err
	}
	c.ended = true
	return c.stream.send(llm.Event{Kind: llm.EventToolEnd, Index: c.index})
}

func (c *Call) rest() error { return c.Arguments(c.joiner.Rest()) }
