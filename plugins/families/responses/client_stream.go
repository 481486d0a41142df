package responses

import (
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

	done  bool // the response has ended
	items map[int64]*outputItem
}

// outputItem is an item of the response's output of which something has come.
type outputItem struct {
	call *reply.Call // nil for one that is no call
	said bool        // arguments have come
	over bool        // the call has ended
}

// NewDecoder makes a Decoder that hands its events to send. An error of send ends the decoding; the method
// that met it returns it.
func NewDecoder(send func(llm.Event) error) *Decoder {
	return &Decoder{out: reply.New(mainCounts, send), items: make(map[int64]*outputItem)}
}

// Data takes the data of one event of the stream. After an error the stream is over. Errors are *llm.Error,
// or what send returned.
func (d *Decoder) Data(data []byte) error {
	if d.done {
		return d.out.Err()
	}
	return d.out.Take(data, d.event)
}

// Done reports whether the response has ended, after which nothing of the stream counts.
func (d *Decoder) Done() bool { return d.done }

// ID is what the upstream calls the reply, "" while it has not said.
func (d *Decoder) ID() string { return d.out.ID }

// Close ends the reply: with EventFinish if the upstream has ended the response, and otherwise with an
// *llm.Error of kind llm.ErrBroken. After an error of Data it returns that error.
func (d *Decoder) Close() error {
	if !d.done {
		return d.out.Broken()
	}
	return d.out.End()
}

// event takes one event. Unknown kinds are passed over.
func (d *Decoder) event(root jsonview.View) error {
	var kind string
	var at int64
	var response, item, delta, whole, failure jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "type":
			kind, _ = member.Str()
		case "output_index":
			at, _ = member.Int()
		case "response":
			response = member
		case "item":
			item = member
		case "delta":
			delta = member
		case "arguments":
			whole = member
		case "error":
			failure = member
		}
	}
	switch kind {
	case "":
		return reply.Odd(root)
	case "response.created", "response.in_progress", "response.queued":
		d.model(response)
	case "response.output_item.added":
		return d.begin(at, item)
	case "response.output_text.delta", "response.refusal.delta":
		d.seen(at)
		return d.out.Text(delta)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		d.seen(at)
		return d.out.Reasoning(delta)
	case "response.function_call_arguments.delta":
		return d.arguments(at, delta)
	case "response.function_call_arguments.done":
		return d.endCall(at, whole)
	case "response.output_item.done":
		return d.end(at, item)
	case "response.completed", "response.incomplete":
		return d.last(response)
	case "response.failed":
		return d.failure(response)
	case "error":
		return reply.Failure(root)
	}
	if failure.Set() {
		return reply.Failure(root)
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

// seen notes that something of the item at that place has come.
func (d *Decoder) seen(at int64) {
	if d.items[at] == nil {
		d.items[at] = &outputItem{}
	}
}

// begin takes the beginning of an item, where calls say their name.
func (d *Decoder) begin(at int64, v jsonview.View) error {
	if kind, _ := v.Get("type").Str(); kind != "function_call" {
		return nil
	}
	id, _ := v.Get("call_id").Str()
	name, _ := v.Get("name").Str()
	call, err := d.out.Call(id, name)
	d.items[at] = &outputItem{call: call}
	return err
}

func (d *Decoder) arguments(at int64, delta jsonview.View) error {
	it := d.items[at]
	if it == nil || it.call == nil || it.over {
		return nil // of a call that the upstream makes itself
	}
	if piece, _ := delta.Str(); piece != "" {
		it.said = true
	}
	return it.call.Piece(delta)
}

// endCall takes the end of a call and its whole arguments.
func (d *Decoder) endCall(at int64, whole jsonview.View) error {
	it := d.items[at]
	if it == nil || it.call == nil || it.over {
		return nil
	}
	it.over = true
	if !it.said {
		if err := it.call.Piece(whole); err != nil {
			return err
		}
	}
	return it.call.End()
}

// end takes a whole item: all of it where nothing of it has come, and else, of a call, that it has ended.
func (d *Decoder) end(at int64, v jsonview.View) error {
	it := d.items[at]
	switch {
	case it == nil:
		d.seen(at)
		return d.whole(v)
	case it.call != nil:
		return d.endCall(at, v.Get("arguments"))
	}
	return nil
}

// last takes the whole response with which the stream ends. Its output counts where the stream had none.
func (d *Decoder) last(response jsonview.View) error {
	if len(d.items) == 0 || hasFailed(response) {
		return d.response(response)
	}
	return d.ending(response)
}
