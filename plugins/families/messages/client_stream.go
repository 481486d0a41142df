package messages

import (
	"bytes"

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
	blocks  map[int64]*toolUse
	thought thoughts
}

// toolUse is a tool call that is being made.
type toolUse struct {
	call *reply.Call
	// input is what the start of the block says; the pieces after it are the arguments, unless there are none.
	input  jsonview.View
	pieces bool
}

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method
// that met it returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	return &Decoder{out: reply.New(mainCounts, send)}
}

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
		d.out.Expected(readUsage(message.Get("usage")))
	case "content_block_start":
		return d.start(index, block)
	case "content_block_delta":
		return d.delta(index, delta)
	case "content_block_stop":
		return d.stop(index)
	case "message_delta":
		d.out.Used(readUsage(usage))
		if reason, ok := delta.Get("stop_reason").Str(); ok {
			d.out.Finished(reply.Finish(reason))
		}
	case "message_stop":
		if !d.begun {
			return llm.Errorf(llm.ErrProtocol, "the upstream's stream ended a message that it had not begun")
		}
		d.done = true
	}
	return nil
}

func (d *Decoder) start(index int64, block jsonview.View) error {
	if kind, _ := block.Get("type").Str(); kind == "thinking" {
		d.thought.begin(index, block)
	}
	call, err := d.begin(block)
	if err != nil || call == nil {
		return err
	}
	if d.blocks == nil {
		d.blocks = make(map[int64]*toolUse)
	}
	d.blocks[index] = &toolUse{call: call, input: clone(block.Get("input"))}
	return nil
}

// begin takes what a block begins with; nil when it is no call.
func (d *Decoder) begin(block jsonview.View) (*reply.Call, error) {
	switch kind, _ := block.Get("type").Str(); kind {
	case "text":
		return nil, d.text(block.Get("text"))
	case "thinking":
		return nil, d.out.Reasoning(block.Get("thinking"))
	case "redacted_thinking":
		d.thought.Add(block.Raw())
	case "tool_use":
		id, _ := block.Get("id").Str()
		name, _ := block.Get("name").Str()
		return d.out.CallWith(id, name, d.thought.State())
	}
	return nil, nil
}

func (d *Decoder) text(v jsonview.View) error {
	piece, _ := v.Str()
	d.thought.Text(piece)
	return d.out.Text(v)
}

// clone returns an object that outlives the event it stands in; one without members, which only holds the
// place of the pieces to come, is as good as none.
func clone(v jsonview.View) jsonview.View {
	for range v.Members() {
		view, _ := jsonview.Parse(bytes.Clone(v.Raw()), maxArgumentDepth) // deeper ones are no arguments (GAP-33)
		return view
	}
	return jsonview.View{}
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
		use := d.blocks[index]
		if use == nil {
			return nil // of a tool that the upstream runs itself
		}
		piece := delta.Get("partial_json")
		if text, _ := piece.Str(); text != "" {
			use.pieces = true
		}
		return use.call.Piece(piece)
	}
	return nil
}

func (d *Decoder) stop(index int64) error {
	d.thought.end(index)
	use := d.blocks[index]
	if use == nil {
		return nil
	}
	delete(d.blocks, index)
	if !use.pieces {
		if err := use.call.Piece(use.input); err != nil {
			return err
		}
	}
	return use.call.End()
}
