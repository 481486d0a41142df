package responses

import (
	"bytes"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Decoder turns an upstream's stream into events. Make one for each reply, hand it the data of each event of
// the stream (its name says nothing that the data does not), and Close it when the stream ends, however it
// ended. It does not send EventAccepted: that is due when the upstream's headers have come.
//
// The family says everything several times: in deltas, where a part and an item end, and where the response
// does. Deltas count; what is said later counts for what had none. Usage comes with the response's end and is
// sent before the reply's end or its error. Nothing is sent after EventFinish.
type Decoder struct {
	out *reply.Stream

	ended bool // the response has: nothing but usage counts, where it did not tell that
	done  bool // nothing counts any more
	items items
}

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method
// that met it returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	d := &Decoder{out: reply.New(counting, send)}
	d.out.HidesLength() // llama.cpp's server says "completed" of every reply
	return d
}

// counting is how OpenAI counts: what came from a cache is a part of the input, reasoning one of the output.
var counting = reply.Counting{Input: "input_tokens", Output: "output_tokens"}

// Allowance bounds what the total alone says of the output, see reply.Stream.
func (d *Decoder) Allowance(tokens int64) { d.out.Allowance(tokens) }

// Data takes the data of one event of the stream. After an error the stream is over. Errors are *llm.Error,
// or what send returned.
func (d *Decoder) Data(data []byte) error {
	if d.done {
		return d.out.Err()
	}
	if d.ended {
		d.trailer(data)
		return nil
	}
	return d.out.Take(data, d.event)
}

// trailer takes what follows a response that ended without its usage.
func (d *Decoder) trailer(data []byte) {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		d.done = true
		return
	}
	root, _ := reply.Parse(data) // what cannot be read says nothing
	d.used(root)
	d.used(root.Get("response"))
}

// Done reports whether the response has ended and its usage was told, after which nothing of the stream counts.
func (d *Decoder) Done() bool { return d.done }

// ID is what the upstream calls the reply, "" while it has not said.
func (d *Decoder) ID() string { return d.out.ID }

// Close ends the reply: with EventFinish if the upstream has ended the response, and otherwise with an
// *llm.Error of kind llm.ErrBroken. After an error of Data it returns that error.
func (d *Decoder) Close() error {
	if !d.ended {
		return d.out.Broken()
	}
	return d.out.End()
}

// event takes one event. Unknown kinds are passed over.
func (d *Decoder) event(root jsonview.View) error {
	var kind string
	var at place
	var response, item, delta, text, whole, usage, failure jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "type":
			kind, _ = member.Str()
		case "output_index":
			at.index, at.indexed = member.Int()
		case "item_id":
			at.id = member
		case "response":
			response = member
		case "item":
			item = member
		case "delta":
			delta = member
		case "text", "refusal":
			text = member
		case "arguments":
			whole = member
		case "usage":
			usage = member
		case "error":
			failure = member
		}
	}
	d.out.Used(usage)
	switch kind {
	case "":
		return reply.Odd(root)
	case "response.created", "response.in_progress", "response.queued":
		d.model(response)
	case "response.output_item.added":
		return d.begin(at, item)
	case "response.output_text.delta", "response.refusal.delta":
		it := d.items.find(at, message)
		it.text = it.text || delta.Set()
		return d.out.TextOf(delta, &it.spoken)
	case "response.output_text.done", "response.refusal.done":
		if it := d.items.find(at, message); !it.text {
			it.text = text.Set()
			return d.out.TextOf(text, &it.spoken)
		}
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		it := d.items.find(at, reasoning)
		it.text = true
		return d.out.ReasoningOf(delta, &it.spoken)
	case "response.function_call_arguments.delta":
		// Not of a call that the upstream makes itself.
		if it := d.items.find(at, functionCall); it.call != nil && !it.closed {
			return it.call.Piece(delta)
		}
	case "response.function_call_arguments.done":
		return d.endCall(d.items.find(at, functionCall), whole)
	case "response.output_item.done":
		return d.end(at, item, false)
	case "response.completed", "response.incomplete", "response.done": // the last as in the realtime API
		return d.takeFinalResponse(response)
	case "response.failed":
		return d.failure(response)
	case "error":
		return reply.Failure(root)
	}
	if failure.Set() {
		return reply.Failure(root)
	}
	if !strings.HasPrefix(kind, "response.") { // another family's error, perhaps
		return reply.Odd(root)
	}
	return nil
}

func (d *Decoder) model(response jsonview.View) {
	if model, _ := response.Get("model").Str(); model != "" {
		d.out.Model = model
	}
	if d.out.ID == "" {
		d.out.ID, _ = response.Get("id").Str()
	}
}

// begin takes the beginning of an item, where calls say their name.
func (d *Decoder) begin(at place, v jsonview.View) error {
	if d.items.findRestarted(at, v) != nil {
		return nil
	}
	it := d.items.add(at, v)
	if it.kind != functionCall {
		return nil
	}
	name, _ := v.Get("name").Str()
	var err error
	if it.call, err = d.out.Call(it.callID, name); err == nil {
		it.call.Whole(reply.FindArguments(v, "arguments"))
	}
	return err
}

// endCall takes the end of a call and its whole arguments.
func (d *Decoder) endCall(it *said, whole jsonview.View) error {
	if it.call == nil {
		return nil
	}
	if whole.Set() {
		it.call.Whole(whole)
	}
	it.closed = true
	return it.call.End()
}

// end takes a whole item: all of it where nothing of it has come, and else, of a call, that it has ended. last is
// where the response repeats it at its end.
func (d *Decoder) end(at place, v jsonview.View, last bool) error {
	it := d.items.findRepeated(at, v, last)
	if it == nil {
		it = d.items.add(at, v)
	}
	it.over, it.repeated = true, it.repeated || last
	switch {
	case it.call != nil:
		return d.endCall(it, reply.FindArguments(v, "arguments"))
	case it.text && it.kind == message:
		rest, _ := it.spoken.Rest(textOf(v))
		it.spoken.Add(rest)
		return d.out.Said(rest)
	case it.text:
		return nil
	}
	it.text = true
	if it.callID == "" {
		it.callID, _ = v.Get("call_id").Str()
	}
	return d.takeItem(it, v)
}

// takeFinalResponse takes the whole response with which the stream ends. What stands only in its output is part of
// the reply, too.
func (d *Decoder) takeFinalResponse(response jsonview.View) error {
	if len(d.items.all) == 0 || hasFailed(response) {
		return d.response(response)
	}
	output := response.Get("output")
	for _, item := range output.Elems() {
		if it := d.items.known(item.Get("id")); it != nil {
			it.repeated = true
		}
	}
	for i, item := range output.Elems() {
		if err := d.end(place{index: int64(i), indexed: true}, item, true); err != nil {
			return err
		}
	}
	for _, it := range d.items.all {
		if it.kind == functionCall && it.call == nil {
			return llm.Errorf(llm.ErrProtocol, "the upstream sent arguments of a call that it had not begun")
		}
	}
	return d.ending(response)
}
