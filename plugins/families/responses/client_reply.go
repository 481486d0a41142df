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
		if err := d.whole(item); err != nil {
			return err
		}
	}
	return d.ending(root)
}

func hasFailed(root jsonview.View) bool {
	status, _ := root.Get("status").Str()
	return root.Get("error").Set() || status == string(failed) || status == "cancelled"
}

// whole takes a whole output item. Items of tools that the upstream runs itself are passed over.
func (d *Decoder) whole(item jsonview.View) error {
	switch kind, _ := item.Get("type").Str(); kind {
	case "message":
		for _, part := range item.Get("content").Elems() {
			text := part.Get("text")
			if !text.Set() {
				text = part.Get("refusal")
			}
			if err := d.out.Text(text); err != nil {
				return err
			}
		}
	case "reasoning":
		for _, member := range []string{"summary", "content"} {
			for _, part := range item.Get(member).Elems() {
				if err := d.out.Reasoning(part.Get("text")); err != nil {
					return err
				}
			}
		}
	case "function_call":
		id, _ := item.Get("call_id").Str()
		name, _ := item.Get("name").Str()
		call, err := d.out.Call(id, name)
		if err != nil {
			return err
		}
		if err := call.Piece(item.Get("arguments")); err != nil {
			return err
		}
		return call.End()
	}
	return nil
}

// failure takes a response object that failed, or one that is nothing but an error. Usage in it counts.
func (d *Decoder) failure(root jsonview.View) error {
	d.out.Used(readUsage(root.Get("usage")))
	return reply.Failure(root.Get("error"))
}

// ending takes what a response object says of its end: model, usage, and why it ended.
func (d *Decoder) ending(root jsonview.View) error {
	d.model(root)
	d.out.Used(readUsage(root.Get("usage")))
	status, _ := root.Get("status").Str()
	if status == string(inProgress) || status == "queued" {
		return llm.Errorf(llm.ErrProtocol, "the upstream sent a response that has not ended")
	}
	reason, _ := root.Get("incomplete_details").Get("reason").Str()
	d.done = true
	d.out.Finished(readFinish(status, reason, d.out.Calls() > 0))
	return nil
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

var mainCounts = reply.Main{Input: "input_tokens", Output: "output_tokens"}

// readUsage reads a usage object into disjoint classes: what was read from a cache or written to one is a part
// of input_tokens on the wire, and here no longer a part of Input (GAP-109). A count that is missing stays nil; nil
// comes back when there is no usage at all.
func readUsage(v jsonview.View) *llm.Usage {
	var counts reply.Counts
	if !counts.Object(v) {
		return nil
	}
	var input, read, written, output, reasoning *int64
	for name, member := range v.Members() {
		switch name {
		case mainCounts.Input:
			input = counts.Read(name, member)
		case "input_tokens_details":
			read = counts.Read("input_tokens_details.cached_tokens", member.Get("cached_tokens"))
			written = counts.Read("input_tokens_details.cache_write_tokens", member.Get("cache_write_tokens"))
		case mainCounts.Output:
			output = counts.Read(name, member)
		case "output_tokens_details":
			reasoning = counts.Read("output_tokens_details.reasoning_tokens", member.Get("reasoning_tokens"))
		}
	}
	return counts.Usage(reply.Classes(input, read, written, output, reasoning))
}
