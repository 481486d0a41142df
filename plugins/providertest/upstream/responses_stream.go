package upstream

import (
	"cmp"
	"maps"
	"strings"
)

// responsesStream renders a reply as the numbered events of a response. Its output items may be open side by side.
// What it used is a part of the last event, which stands where the script is done.
type responsesStream struct {
	responsesReply
	number int // of the next event
}

func (r *responsesStream) contentType() string { return "text/event-stream; charset=utf-8" }

func (r *responsesStream) append(b []byte, s Step, used Usage) []byte {
	if s.Do == StepComment {
		return append(append(append(b, ": "...), strings.ReplaceAll(s.Text, "\n", " ")...), "\n\n"...)
	}
	if r.number == 0 {
		b = r.event(b, "response.created", map[string]any{"response": r.object})
		b = r.event(b, "response.in_progress", map[string]any{"response": r.object})
	}
	r.take(s, used)
	for i, block := range r.blocks {
		b = r.advance(b, i, block)
	}
	if s.Do == StepDone {
		ended := r.ended()
		b = r.event(b, "response."+ended.Status, map[string]any{"response": ended})
	}
	return b
}

// advance tells of a block as much as can be told by now.
func (r *responsesStream) advance(b []byte, at int, block *block) []byte {
	names := map[StepKind]struct{ delta, done, part string }{
		StepText:      {"response.output_text", "text", "response.content_part"},
		StepReasoning: {"response.reasoning_summary_text", "text", "response.reasoning_summary_part"},
		StepToolCall:  {"response.function_call_arguments", "arguments", ""},
	}[block.kind]
	if !block.opened {
		block.opened = true
		b = r.item(b, "response.output_item.added", at, "in_progress")
		if names.part != "" {
			empty := *block
			empty.text = ""
			b = r.about(b, names.part+".added", at, map[string]any{"part": empty.part()})
		}
	}
	if piece := block.text[block.sent:]; piece != "" {
		block.sent = len(block.text)
		b = r.about(b, names.delta+".delta", at, map[string]any{"delta": piece})
	}
	if !block.ended || block.closed {
		return b
	}
	block.closed = true
	b = r.about(b, names.delta+".done", at, map[string]any{names.done: block.text})
	if names.part != "" {
		b = r.about(b, names.part+".done", at, map[string]any{"part": block.part()})
	}
	return r.item(b, "response.output_item.done", at, "completed")
}

// item appends an event that shows the item at that place.
func (r *responsesStream) item(b []byte, name string, at int, status string) []byte {
	return r.event(b, name, map[string]any{"output_index": at, "item": r.blocks[at].item(r.object.ID, at, status)})
}

// about appends an event about the item at that place.
func (r *responsesStream) about(b []byte, name string, at int, members map[string]any) []byte {
	block := r.blocks[at]
	members["item_id"], members["output_index"] = block.itemID(r.object.ID, at), at
	switch block.kind {
	case StepText:
		members["content_index"] = 0
		if strings.HasPrefix(name, "response.output_text.") {
			members["logprobs"] = []any{}
		}
	case StepReasoning:
		members["summary_index"] = 0
	case StepToolCall:
		if strings.HasSuffix(name, ".done") {
			members["name"] = block.name
		}
	}
	return r.event(b, name, members)
}

func (r *responsesStream) event(b []byte, name string, members map[string]any) []byte {
	members = maps.Clone(members)
	members["type"], members["sequence_number"] = name, r.number
	r.number++
	return namedEvent(b, name, mustMarshal(members))
}

// fail says the error twice, as the service does: as an event, and as the end of the response.
func (r *responsesStream) fail(b []byte, e *Error) []byte {
	code := cmp.Or(e.Code, e.Type, "server_error") // events of the family have no type beside the code
	b = r.event(b, "error", map[string]any{"code": code, "message": e.Message, "param": optional(e.Param)})
	failed := r.object
	failed.Status, failed.Error = "failed", &responsesError{code, e.Message}
	return r.event(b, "response.failed", map[string]any{"response": failed})
}
