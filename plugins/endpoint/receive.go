package endpoint

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

const (
	maxEvent    = 8 << 20  // bytes of one event of a stream, and of those in a row that say nothing
	framing     = 8        // bytes of an event that are not its data, at least
	maxBatch    = 256      // events that Recv returns at once
	batchBytes  = 32 << 10 // of a stream, after which Recv takes no more
	batchFills  = 64       // reads of a stream that Recv makes to see whether there is more
	quietLooks  = 8        // looks at a connection in vain, after which there is one in so many
	nameOfError = "error"
)

// read takes what has come of the reply.
func (c *Call) read() error {
	if c.form == doubtful {
		if c.form, c.resp.Body = detectForm(c.resp.Body); c.form == page {
			return c.endpoint.webPage(c.resp.StatusCode)
		}
		if c.form == doubtful { // its reader says what is wrong with it
			c.form = typeOf(c.resp.Header)
		}
	}
	if c.form == whole {
		return c.takeWholeReply()
	}
	if c.events == nil {
		c.stream(c.resp.Body)
	}
	return c.takeEvents()
}

// stream makes an event stream of the reply.
func (c *Call) stream(body io.Reader) {
	c.ending.body = body
	c.events = sse.NewReader(&c.ending, maxEvent)
}

// takeEvents takes what has come of an event stream, at least one event. Behind that it takes no more than a batch
// has room for, of whatever comes: what says nothing holds up what has been said as long as anything else.
func (c *Call) takeEvents() error {
	c.fills = 0
	for taken, events := 0, 1; ; events++ {
		if c.decoder.Done() {
			return c.end(c.decoder.Close())
		}
		event, err := c.events.Next()
		if errors.Is(err, io.EOF) {
			return c.end(c.decoder.Close())
		}
		if err != nil {
			cause := c.life.why()
			failed := c.endpoint.broke(cause, err)
			if errors.Is(cause, errStopped) {
				failed = stopped()
			}
			return c.cut(failed)
		}
		data := event.Data
		switch {
		case event.Name == nameOfError:
			data = reply.ErrorChunk(data)
		case event.Bare:
			if data = reply.BareChunk(data); data == nil {
				continue
			}
		}
		said := len(c.batch)
		if err := c.decoder.Data(data); err != nil {
			if c.ending.reached && llm.KindOf(err) == llm.ErrProtocol { // it was cut within this chunk
				err = llm.Errorf(llm.ErrBroken, "the upstream's stream ended in the middle of a chunk")
			}
			return c.end(err)
		}
		if c.vacuous += len(event.Data) + framing; len(c.batch) > said {
			c.vacuous = 0
		}
		if c.vacuous > maxEvent {
			return c.end(llm.Errorf(llm.ErrProtocol, "the upstream sent %d bytes of events that say nothing", c.vacuous))
		}
		if c.decoder.Done() {
			continue
		}
		if c.stop.noteEvent(c.decoder) {
			return c.cut(stopped())
		}
		if c.refers {
			c.sendReference(c.decoder.ID())
		}
		taken += len(event.Data)
		if n := len(c.batch); n >= maxBatch || n > 0 && (taken > batchBytes || events >= maxBatch || !c.ready()) {
			return nil
		}
	}
}

// cut ends a stream before its end, with what is known of its usage.
func (c *Call) cut(why *llm.Error) error {
	c.broken = why
	_ = c.decoder.Close() // event keeps its EventFinish back
	return c.end(why)
}

// ready reports whether another event of the stream can be had without waiting for the upstream, as far as it is worth
// a look: where events come one at a time, the connection is rarely looked at.
func (c *Call) ready() bool {
	for !c.events.Ready() {
		if c.arrived == nil || c.fills >= batchFills {
			return false
		}
		look := c.vain < quietLooks || c.vain%quietLooks == 0
		if !look || !c.arrived.Ready() {
			c.vain++
			return false
		}
		c.vain = 0
		c.fills++
		_ = c.events.Fill() // what it returns, Next does
	}
	return true
}

// wholes are the bodies of replies in one piece, until they are decoded, which copies what it keeps.
var wholes = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptWhole is the largest memory of a body that is used again.
const keptWhole = 64 << 10

// takeWholeReply takes a reply in one piece, whether it was asked for or a stream was.
func (c *Call) takeWholeReply() error {
	b := wholes.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= keptWhole {
			b.Reset()
			wholes.Put(b)
		}
	}()
	_, err := b.ReadFrom(io.LimitReader(c.resp.Body, c.most+1))
	switch {
	case err != nil:
		c.referCut(b.Bytes())
		return c.end(c.endpoint.broke(c.life.why(), err))
	case int64(b.Len()) > c.most:
		c.referCut(b.Bytes())
		return c.end(llm.Errorf(llm.ErrUpstream, "the upstream's reply is larger than %d bytes, "+
			"many times what it was allowed to say; it is cut", c.most))
	}
	reply := bytes.TrimPrefix(b.Bytes(), byteOrderMark)
	if !isStream(reply) {
		return c.end(c.decoder.Whole(reply))
	}
	for c.stream(bytes.NewReader(reply)); err == nil; {
		err = c.takeEvents()
	}
	return err
}

// end makes the end of the call. What was produced before a failure was work too.
func (c *Call) end(err error) error {
	if err == nil {
		return io.EOF
	}
	c.sendReference(c.decoder.ID())
	if c.produced.Any() {
		c.count()
	}
	return err
}

// event takes an event of the reply into the batch.
func (c *Call) event(ev llm.Event) error {
	switch ev.Kind {
	case llm.EventUsage:
		if c.counts && c.produced.Any() && ev.Usage.Blank() {
			return nil // it is counted here
		}
		c.usage = ev.Usage.Known()
	case llm.EventToolCall:
		ev = c.names.Client(ev)
	case llm.EventFinish:
		if c.broken != nil {
			return c.broken
		}
		c.sendReference(c.decoder.ID())
		c.count()
		if c.requestID == "" {
			ev.ID = c.name()
		}
	}
	if c.counts {
		c.produced.Add(ev)
	}
	c.add(ev)
	return nil
}

// count adds usage where the upstream reported none and the request says to count for oneself (GAP-108).
func (c *Call) count() {
	if c.usage || !c.counts {
		return
	}
	total, reasoning := c.produced.Count()
	usage := &llm.Usage{Input: &c.estimate, Output: &total, Estimated: true}
	if reasoning > 0 {
		usage.Reasoning = &reasoning
	}
	c.add(llm.Event{Kind: llm.EventUsage, Usage: usage})
}
