package messages

import (
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Decoder turns an upstream's stream into events. Make one for each reply, hand it the data of each event of
// the stream (its name says nothing that the data does not), and Close it when the stream ends, however it
// ended. It does not send EventAccepted: that is due when the upstream's headers have come.
//
// Usage comes in two parts, before and after the reply; what is known is sent once, before the reply's end or
// its error. Nothing is sent after EventFinish. Blocks of tools that the upstream runs itself are passed over.
type Decoder struct {
	out *reply.Stream

	begun   bool // message_start has come
	done    bool // message_stop has come
	blocks  reply.Blocks
	thought thoughts
}

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method
// that met it returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	return &Decoder{out: reply.New(counting, send)}
}

// counting is how Anthropic counts: the classes of input are disjoint (GAP-109).
var counting = reply.Counting{Input: "input_tokens", Output: "output_tokens", CacheBeside: true}

// Allowance bounds what the total alone says of the output, see reply.Stream.
func (d *Decoder) Allowance(tokens int64) { d.out.Allowance(tokens) }

// Data takes the data of one event of the stream. After an error the stream is over. Errors are *llm.Error,
// or what send returned.
func (d *Decoder) Data(data []byte) error {
	if d.done {
		return d.out.Err()
	}
	return d.out.Take(data, d.event)
}

// Done reports whether message_stop has come, after which nothing of the stream counts.
func (d *Decoder) Done() bool { return d.done }

// ID is what the upstream calls the reply, "" while it has not said.
func (d *Decoder) ID() string { return d.out.ID }

// Close ends the reply: with EventFinish if the upstream has ended it with message_stop, and otherwise with an
// *llm.Error of kind llm.ErrBroken. After an error of Data it returns that error.
func (d *Decoder) Close() error {
	if !d.done {
		return d.out.Broken()
	}
	return d.out.End()
}

// event takes one event. Unknown kinds are passed over, as the family asks of its clients.
func (d *Decoder) event(root jsonview.View) error {
	var kind string
	var index int64
	var message, block, delta, usage, failure jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "type":
			kind, _ = member.Str()
		case "index":
			index, _ = member.Int()
		case "message":
			message = member
		case "content_block":
			block = member
		case "delta":
			delta = member
		case "usage":
			usage = member
		case "error":
			failure = member
		}
	}
	if failure.Set() {
		return reply.Failure(root)
	}
	switch kind {
	case "", "error":
		return reply.Odd(root)
	case "message_start":
		d.begun = true
		d.out.Model, _ = message.Get("model").Str()
		d.out.ID, _ = message.Get("id").Str()
		d.out.Expected(message.Get("usage"))
	case "content_block_start":
		return d.start(index, block)
	case "content_block_delta":
		return d.delta(index, delta)
	case "content_block_stop":
		d.thought.end(index)
		return d.blocks.End(index)
	case "message_delta":
		d.out.Used(usage)
		d.out.Used(delta.Get("usage"))
		if reason, ok := delta.Get("stop_reason").Str(); ok {
			d.out.Finished(reply.Finish(reason))
		}
	case "message_stop":
		if !d.begun {
			return llm.Errorf(llm.ErrProtocol, "the upstream's stream ended a message that it had not begun")
		}
		d.out.Used(usage)
		d.done = true
	case "ping":
	default: // another family's error, perhaps
		return reply.Odd(root)
	}
	return nil
}

func (d *Decoder) start(index int64, block jsonview.View) error {
	kind, _ := block.Get("type").Str()
	if id, name := named(block); kind == "tool_use" && d.blocks.Again(index, id, name) {
		return nil
	}
	if kind == "thinking" {
		d.thought.begin(index, block)
	}
	call, err := d.begin(kind, block)
	if call != nil || strings.HasSuffix(kind, "tool_use") {
		d.blocks.Begin(index, call)
	}
	return err
}

// begin takes what a block begins with; nil when it is no call.
func (d *Decoder) begin(kind string, block jsonview.View) (*reply.Call, error) {
	switch kind {
	case "text":
		return nil, d.text(block.Get("text"))
	case "thinking":
		return nil, d.out.Reasoning(block.Get("thinking"))
	case "redacted_thinking":
		d.thought.Add(block.Raw())
	case "tool_use":
		id, name := named(block)
		call, err := d.out.CallWith(id, name, d.thought.State())
		if err == nil {
			call.Whole(reply.FindArguments(block, "input"))
		}
		return call, err
	}
	return nil, nil
}

// named is how a block names its call.
func named(block jsonview.View) (id, name string) {
	id, _ = block.Get("id").Str()
	name, _ = block.Get("name").Str()
	return id, name
}

func (d *Decoder) text(v jsonview.View) error {
	piece, _ := v.Str()
	d.thought.Text(piece)
	return d.out.Text(v)
}

func (d *Decoder) delta(index int64, delta jsonview.View) error {
	switch kind, _ := delta.Get("type").Str(); kind {
	case "text_delta":
		return d.text(delta.Get("text"))
	case "signature_delta":
		d.thought.piece(index, delta)
	case "thinking_delta":
		d.thought.piece(index, delta)
		return d.out.Reasoning(delta.Get("thinking"))
	case "input_json_delta":
		call, err := d.blocks.Call(index)
		if call != nil {
			return call.Piece(delta.Get("partial_json"))
		}
		return err
	}
	return nil
}
