package endpoint

import (
	"sync"

	"github.com/fareway/fareway/plugins/llm"
)

// roomyBatch is for how many events of a burst there is room at once.
const roomyBatch = 128

// roomy is the memory of batches of several events: a quiet stream has none, and a burst does not grow its own.
var roomy = sync.Pool{New: func() any {
	room := make([]llm.Event, 0, roomyBatch)
	return &room
}}

// clear begins a new batch.
func (c *Call) clear() {
	if c.room != nil {
		clear((*c.room)[:min(len(c.batch), roomyBatch)])
		roomy.Put(c.room)
		c.room = nil
	}
	c.batch = c.first[:0]
}

// add adds an event to the batch.
func (c *Call) add(ev llm.Event) {
	if c.room == nil && len(c.batch) == len(c.first) {
		c.room = roomy.Get().(*[]llm.Event)
		c.batch = append(*c.room, c.batch...)
	}
	c.batch = append(c.batch, ev)
}
