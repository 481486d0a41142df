package upstream

import (
	"encoding/json"
	"fmt"
)

// responsesObject is a response, running or ended.
type responsesObject struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Background   bool              `json:"background"`
	Error        *responsesError   `json:"error"`
	Incomplete   *responsesReason  `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	MaxTokens    *int64            `json:"max_output_tokens"`
	Model        string            `json:"model"`
	Output       []map[string]any  `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Temperature  float64           `json:"temperature"`
	Text         json.RawMessage   `json:"text"`
	ToolChoice   string            `json:"tool_choice"`
	Tools        []string          `json:"tools"`
	TopP         float64           `json:"top_p"`
	Truncation   string            `json:"truncation"`
	Usage        any               `json:"usage"`
	Metadata     map[string]string `json:"metadata"`
}

type responsesError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responsesReason struct {
	Reason string `json:"reason"`
}

type responsesInput struct {
	Cached  int64 `json:"cached_tokens"`
	Written int64 `json:"cache_write_tokens"`
}

type responsesOutput struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

type responsesUsage struct {
	Input         int64           `json:"input_tokens"`
	InputDetails  responsesInput  `json:"input_tokens_details"`
	Output        int64           `json:"output_tokens"`
	OutputDetails responsesOutput `json:"output_tokens_details"`
	Total         int64           `json:"total_tokens"`
}

// responsesUsageOf writes what is not known as zero, as this family does.
func responsesUsageOf(u Usage) any {
	if u.Raw != "" {
		return json.RawMessage(u.Raw)
	}
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	return &responsesUsage{Input: u.Prompt, InputDetails: responsesInput{value(u.Cached), value(u.Written)},
		Output: u.Completion, OutputDetails: responsesOutput{value(u.Reasoning)}, Total: u.Prompt + u.Completion}
}

func renderResponses(req *Request, reply Reply, h head) renderer {
	r := responsesReply{parts: parts{mode: reply.Usage},
		object: responsesObject{ID: h.ID, Object: "response", Created: h.Created,
			Status: "in_progress", Model: h.Model, Output: []map[string]any{}, Parallel: true, Temperature: 1, TopP: 1,
			Text: json.RawMessage(`{"format":{"type":"text"}}`), ToolChoice: "auto", Tools: []string{}, Truncation: "disabled",
			Metadata: map[string]string{}}}
	if req.MaxTokens > 0 {
		r.object.MaxTokens = &req.MaxTokens
	}
	if req.Stream {
		return &responsesStream{responsesReply: r}
	}
	return &responsesJSON{responsesReply: r}
}

// responsesReply is a response in the making.
type responsesReply struct {
	object responsesObject
	parts
}

// ended is the response when it has ended, with all of its output.
func (r *responsesReply) ended() responsesObject {
	o := r.object
	o.Status = "completed"
	finish := "stop"
	if r.finish != nil {
		finish = r.finish.Text
	}
	switch finish {
	case "", "stop", "tool_calls":
	case "failed", "cancelled", "incomplete": // in the family's own words, without a reason
		o.Status = finish
	case "length":
		o.Status, o.Incomplete = "incomplete", &responsesReason{"max_output_tokens"}
	default: // content_filter among them
		o.Status, o.Incomplete = "incomplete", &responsesReason{finish}
	}
	for i, b := range r.blocks {
		o.Output = append(o.Output, b.item(r.object.ID, i, o.Status))
	}
	if r.used != nil {
		r.told, o.Usage = r.used, responsesUsageOf(*r.used)
	}
	return o
}

// itemID is the id of the output item at that place.
func (b *block) itemID(response string, at int) string {
	prefix := map[StepKind]string{StepText: "msg", StepReasoning: "rs", StepToolCall: "fc"}[b.kind]
	return fmt.Sprintf("%s_%s_%d", prefix, response, at)
}

// item is the output item at that place, as it begins when it is in progress, and else whole.
func (b *block) item(response string, at int, status string) map[string]any {
	running := status == "in_progress"
	item := map[string]any{"id": b.itemID(response, at), "status": status}
	text := b.text
	if running {
		text = ""
	}
	switch b.kind {
	case StepToolCall:
		item["type"], item["call_id"], item["name"], item["arguments"] = "function_call", b.id, b.name, text
	case StepReasoning:
		delete(item, "status")
		item["type"], item["summary"] = "reasoning", []any{}
		if !running {
			item["summary"] = []any{b.part()}
		}
	default:
		item["type"], item["role"], item["content"] = "message", "assistant", []any{}
		if !running {
			item["content"] = []any{b.part()}
		}
	}
	return item
}

// part is the one part of a message or of a summary.
func (b *block) part() map[string]any {
	if b.kind == StepReasoning {
		return map[string]any{"type": "summary_text", "text": b.text}
	}
	return map[string]any{"type": "output_text", "text": b.text, "annotations": []any{}, "logprobs": []any{}}
}

// responsesJSON renders a reply as one response.
type responsesJSON struct{ responsesReply }

func (r *responsesJSON) contentType() string { return "application/json" }

func (r *responsesJSON) append(b []byte, s Step, used Usage) []byte {
	r.take(s, used)
	if s.Do != StepDone {
		return b
	}
	return append(b, mustMarshal(r.ended())...)
}

func (r *responsesJSON) fail(b []byte, e *Error) []byte { return append(b, chatFailure(e)...) }
