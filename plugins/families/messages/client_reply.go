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
			d.out.Used(readUsage(member))
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
	if kind, _ := block.Get("type").Str(); kind == "thinking" {
		d.thought.Add(block.Raw())
	}
	call, err := d.begin(block)
	if err != nil || call == nil {
		return err
	}
	if err := call.Piece(clone(block.Get("input"))); err != nil {
		return err
	}
	return call.End()
}

var mainCounts = reply.Main{Input: "input_tokens", Output: "output_tokens"}

// readUsage reads a usage object: the classes of input are disjoint on this wire (GAP-109). A count that is missing
// stays nil; nil comes back when there is no usage at all.
func readUsage(v jsonview.View) *llm.Usage {
	var counts reply.Counts
	if !counts.Object(v) {
		return nil
	}
	var u llm.Usage
	for name, member := range v.Members() {
		switch name {
		case mainCounts.Input:
			u.Input = counts.Read(name, member)
		case "cache_read_input_tokens":
			u.CacheRead = counts.Read(name, member)
		case "cache_creation_input_tokens":
			u.CacheWrite = counts.Read(name, member)
		case mainCounts.Output:
			u.Output = counts.Read(name, member)
		case "output_tokens_details":
			u.Reasoning = counts.Read("output_tokens_details.thinking_tokens", member.Get("thinking_tokens"))
		}
	}
	return counts.Usage(u)
}
