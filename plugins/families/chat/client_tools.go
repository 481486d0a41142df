package chat

import (
	"crypto/rand"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// call is a tool call that the upstream is making. It begins for the reader once its name is known; what
// came of its arguments until then waits.
type call struct {
	index int    // among the calls of this reply
	id    string // the upstream's, "" while it has said none
	begun bool
	early []byte // arguments that came before the name
	high  rune   // half a surrogate pair that ended the last piece of the arguments
}

// toolCall takes an element of a chunk's `tool_calls`: a piece of a call.
func (d *Decoder) toolCall(v jsonview.View) error {
	var index, idView, function jsonview.View
	for name, member := range v.Members() {
		switch name {
		case "index":
			index = member
		case "id":
			idView = member
		case "function":
			function = member
		}
	}
	id, _ := idView.Str()
	name, _ := function.Get("name").Str()
	var c *call
	if n, ok := index.Int(); ok {
		c = d.indexedCall(n, id, name)
	} else {
		c = d.unindexedCall(id, name)
	}
	if c.id == "" {
		c.id = id
	}
	return d.function(c, function)
}

// indexedCall finds the call by the index that the upstream gives it, however it counts. Some upstreams give
// every call of a reply the same index: another id with a name is another call. An id alone is not, for
// some make up a new one for every piece.
func (d *Decoder) indexedCall(index int64, id, name string) *call {
	c := d.byIndex[index]
	if c != nil && (id == "" || id == c.id || name == "" || c.id == "" || !c.begun) {
		d.lastCall = c
		return c
	}
	c = d.newCall()
	if d.byIndex == nil {
		d.byIndex = make(map[int64]*call)
	}
	d.byIndex[index] = c
	return c
}

// unindexedCall finds the call of a piece that says no index: by its id, and where that is missing or unknown
// a name begins a call and anything else belongs to the last one.
func (d *Decoder) unindexedCall(id, name string) *call {
	if id != "" {
		for _, c := range d.calls {
			if c.id == id {
				d.lastCall = c
				return c
			}
		}
	}
	if d.lastCall == nil || name != "" && d.lastCall.begun {
		return d.newCall()
	}
	return d.lastCall
}

// legacyCall is the one call of an upstream that still sends `function_call`.
func (d *Decoder) legacyCall() *call {
	if d.lastCall == nil {
		return d.newCall()
	}
	return d.lastCall
}

func (d *Decoder) newCall() *call {
	c := &call{index: len(d.calls)}
	d.calls = append(d.calls, c)
	d.lastCall = c
	return c
}

// function takes the name and a piece of the arguments of a call.
func (d *Decoder) function(c *call, v jsonview.View) error {
	if name, _ := v.Get("name").Str(); name != "" && !c.begun {
		if err := d.begin(c, name); err != nil {
			return err
		}
	}
	arguments := v.Get("arguments")
	piece, high, ok := arguments.StrAfter(c.high)
	if c.high = high; !ok && arguments.Kind() == jsonview.Object {
		piece = string(arguments.Raw()) // some upstreams send the object itself
	}
	return d.arguments(c, piece)
}

func (d *Decoder) begin(c *call, name string) error {
	if err := d.flushText(llm.EventText, &d.textHigh); err != nil {
		return err
	}
	id := c.id
	if id == "" {
		id = "call_" + rand.Text() // the client needs one to send the result back
	}
	c.begun = true
	if err := d.send(llm.Event{Kind: llm.EventToolCall, Index: c.index, ID: id, Name: name}); err != nil {
		return err
	}
	return d.arguments(c, string(c.early))
}

func (d *Decoder) arguments(c *call, piece string) error {
	switch {
	case piece == "":
		return nil
	case !c.begun:
		c.early = append(c.early, piece...)
		return nil
	}
	return d.send(llm.Event{Kind: llm.EventToolArguments, Index: c.index, Text: piece})
}

// closeCall completes a call when the reply ends. One that never got a name cannot be made.
func (d *Decoder) closeCall(c *call) error {
	if !c.begun {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent a tool call without a name")
	}
	if c.high == 0 {
		return nil
	}
	return d.arguments(c, string(utf8.RuneError))
}
