package responses

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Whole takes a reply in one piece (a 200 that is not a stream) instead, and sends the events that its stream would
// have been. Its errors are those of Data.
func (d *Decoder) Whole(body []byte) error { return d.out.Whole(body, d.response) }

// DecodeReply turns a reply in one piece into events, see Decoder.Whole.
func DecodeReply(body []byte, send func(llm.Event) error) error { return NewDecoder(send).Whole(body) }

// response takes a whole response object.
func (d *Decoder) response(root jsonview.View) error {
	if hasFailed(root) {
		return d.failure(root)
	}
	output := root.Get("output")
	if output.Kind() != jsonview.Array {
		if err := reply.Odd(root); err != nil {
			return err
		}
		return llm.Errorf(llm.ErrProtocol, "the upstream's reply holds no output")
	}
	for _, item := range output.Elems() {
		if err := d.takeItem(d.items.add(place{}, item), item); err != nil {
			return err
		}
	}
	return d.ending(root)
}

func hasFailed(root jsonview.View) bool {
	status, _ := root.Get("status").Str()
	return root.Get("error").Set() || status == string(failed) || status == "cancelled"
}

// takeItem takes a whole output item. Items of tools that the upstream runs itself are passed over.
func (d *Decoder) takeItem(it *said, item jsonview.View) error {
	switch it.kind {
	case message:
		for _, part := range item.Get("content").Elems() {
			if err := d.out.TextOf(textIn(part), &it.spoken); err != nil {
				return err
			}
		}
	case reasoning:
		for _, member := range []string{"summary", "content"} {
			for _, part := range item.Get(member).Elems() {
				if err := d.out.ReasoningOf(part.Get("text"), &it.spoken); err != nil {
					return err
				}
			}
		}
	case functionCall:
		name, _ := item.Get("name").Str()
		var err error
		if it.call, err = d.out.Call(it.callID, name); err != nil {
			return err
		}
		if err := it.call.Piece(reply.FindArguments(item, "arguments")); err != nil {
			return err
		}
		return it.call.End()
	}
	return nil
}

// failure takes a response object that failed, or one that is nothing but an error. Usage in it counts.
func (d *Decoder) failure(root jsonview.View) error {
	d.out.Used(root.Get("usage"))
	return reply.Failure(root.Get("error"))
}

// ending takes what a response object says of its end: model, usage, and why it ended.
func (d *Decoder) ending(root jsonview.View) error {
	d.model(root)
	d.used(root)
	status, _ := root.Get("status").Str()
	if status == string(inProgress) || status == "queued" {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent a response that has not ended")
	}
	reason, _ := root.Get("incomplete_details").Get("reason").Str()
	d.ended = true
	d.out.Finished(readFinish(status, reason, d.out.Calls() > 0))
	return nil
}

// used takes the usage of a response object that has ended.
func (d *Decoder) used(root jsonview.View) {
	d.out.Used(root.Get("usage"))
	d.done = d.out.Metered()
}

// readFinish reads why a response ended. One that is complete and made calls ends in them (GAP-82); one that is not
// says what kept it from that, and otherwise only that it is not.
func readFinish(status, reason string, calls bool) llm.FinishReason {
	switch {
	case status == string(incomplete) || reason != "":
		finish := reply.Finish(reason)
		if finish == llm.FinishLength || finish == llm.FinishPolicy || !finish.Known() {
			return finish
		}
		return llm.FinishReason(incomplete)
	case status != "" && status != string(completed):
		return llm.FinishReason(status)
	case calls:
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}
