package messages

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Whole takes a reply in one piece (a 200 that is not a stream) instead, and sends the events that its stream would
// have been. Its errors are those of Data.
func (d *Decoder) Whole(body []byte) error { return d.out.Whole(body, d.message) }

// DecodeReply turns a reply in one piece into events, see Decoder.Whole.
func DecodeReply(body []byte, send func(llm.Event) error) error { return NewDecoder(send).Whole(body) }

// message takes a whole message.
func (d *Decoder) message(root jsonview.View) error {
	var content jsonview.View
	for name, member := range root.Members() {
		switch name {
		case "model":
			d.out.Model, _ = member.Str()
		case "id":
			d.out.ID, _ = member.Str()
		case "content":
			content = member
		case "stop_reason":
			reason, _ := member.Str()
			d.out.Finished(reply.Finish(reason))
		case "usage":
			d.out.Used(member)
		case "error":
			if member.Set() {
				return reply.Failure(root)
			}
		}
	}
	if content.Kind() != jsonview.Array {
		if err := reply.Odd(root); err != nil {
			return err
		}
		return llm.Errorf(llm.ErrProtocol, "the upstream's reply holds no content")
	}
	for _, block := range content.Elems() {
		if err := d.block(block); err != nil {
			return err
		}
	}
	return nil
}

// block takes a whole block.
func (d *Decoder) block(block jsonview.View) error {
	kind, _ := block.Get("type").Str()
	if kind == "thinking" {
		d.thought.Add(block.Raw())
	}
	call, err := d.begin(kind, block)
	if err != nil || call == nil {
		return err
	}
	return call.End()
}
