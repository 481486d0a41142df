package wire

import (
	"encoding/json"
	"strings"
)

// Shape is one of the three families as a client sees it.
type Shape struct {
	Name, Path string
	Input      string   // the member that holds the conversation
	Allowance  string   // the member that bounds the reply
	Stop       string   // the member that holds stop sequences
	Tokens     []string // the counts that its usage always has
}

// The three shapes, and what is asked as they are.
var (
	Chat = Shape{Name: "chat", Path: "/v1/chat/completions", Input: "messages", Allowance: "max_tokens", Stop: "stop",
		Tokens: []string{"prompt_tokens", "completion_tokens", "total_tokens"}}
	Responses = Shape{Name: "responses", Path: "/v1/responses", Input: "input", Allowance: "max_output_tokens",
		Stop: "stop", Tokens: []string{"input_tokens", "output_tokens", "total_tokens"}}
	Messages = Shape{Name: "messages", Path: "/v1/messages", Input: "messages", Allowance: "max_tokens",
		Stop: "stop_sequences", Tokens: []string{"input_tokens", "output_tokens"}}
	// Count is the token count: requests and errors as on messages.
	Count = Shape{Name: "messages", Path: "/v1/messages/count_tokens", Input: "messages", Allowance: "max_tokens",
		Stop: "stop_sequences"}

	Shapes = []Shape{Chat, Responses, Messages}
	Posts  = []Shape{Chat, Responses, Messages, Count}
)

// ShapeOf is the shape of a family.
func ShapeOf(name string) Shape {
	for _, s := range Shapes {
		if s.Name == name {
			return s
		}
	}
	panic("no such shape: " + name)
}

// Said is the conversation that is one user's text, as the value of the shape's input.
func (s Shape) Said(text string) string {
	if s.Name == "responses" {
		return Quote(text)
	}
	return `[{"role":"user","content":` + Quote(text) + `}]`
}

// Body is the smallest request that says text, with members, an object's inside each. A later member replaces an
// earlier one of its name, as duplicates do (HTTP-04).
func (s Shape) Body(text string, members ...string) string {
	list := append([]string{`"model":"service/auto"`, Quote(s.Input) + ":" + s.Said(text)}, members...)
	return "{" + strings.Join(list, ",") + "}"
}

// Text is the visible text of a reply.
func (s Shape) Text(v map[string]any) string {
	var b strings.Builder
	switch s.Name {
	case "chat":
		b.WriteString(Str(At(v, "choices", 0, "message", "content")))
	case "responses":
		for _, item := range List(At(v, "output")) {
			for _, part := range List(At(item, "content")) {
				b.WriteString(Str(At(part, "text")))
			}
		}
	default:
		for _, block := range List(At(v, "content")) {
			b.WriteString(Str(At(block, "text")))
		}
	}
	return b.String()
}

// Finish is why a reply ended; on responses the status, with the reason after a slash when it is incomplete.
func (s Shape) Finish(v map[string]any) string {
	switch s.Name {
	case "chat":
		return Str(At(v, "choices", 0, "finish_reason"))
	case "responses":
		if reason := Str(At(v, "incomplete_details", "reason")); reason != "" {
			return Str(At(v, "status")) + "/" + reason
		}
		return Str(At(v, "status"))
	}
	return Str(At(v, "stop_reason"))
}

// ToolCall is a call of a tool as a reply brings it; of one that was not streamed, the arguments are compact JSON.
type ToolCall struct{ ID, Name, Arguments string }

// Calls are the tool calls of a reply, in native form (TOOL-01).
func (s Shape) Calls(v map[string]any) []ToolCall {
	var all []ToolCall
	switch s.Name {
	case "chat":
		for _, c := range List(At(v, "choices", 0, "message", "tool_calls")) {
			if At(c, "type") == "function" {
				all = append(all, ToolCall{Str(At(c, "id")), Str(At(c, "function", "name")), Str(At(c, "function", "arguments"))})
			}
		}
	case "responses":
		for _, item := range List(At(v, "output")) {
			if At(item, "type") == "function_call" {
				all = append(all, ToolCall{Str(At(item, "call_id")), Str(At(item, "name")), Str(At(item, "arguments"))})
			}
		}
	default:
		for _, block := range List(At(v, "content")) {
			if input, ok := At(block, "input").(map[string]any); ok && At(block, "type") == "tool_use" {
				arguments, err := json.Marshal(input)
				if err != nil {
					panic(err) // it was decoded from JSON
				}
				all = append(all, ToolCall{Str(At(block, "id")), Str(At(block, "name")), string(arguments)})
			}
		}
	}
	return all
}

// Finishes are how the ends of a reply read in each shape: by itself, at a stop sequence that the service found, at a
// tool call, at the allowance, by the content policy. A route that stops by itself ends by itself (STOP-24).
var Finishes = map[string]map[string]string{
	"natural":    {"chat": "stop", "responses": "completed", "messages": "end_turn"},
	"matched":    {"chat": "stop", "responses": "completed", "messages": "stop_sequence"},
	"tool_calls": {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"},
	"length":     {"chat": "length", "responses": "incomplete/max_output_tokens", "messages": "max_tokens"},
	"policy":     {"chat": "content_filter", "responses": "incomplete/content_filter", "messages": "refusal"},
}

// Ended is how an end of Finishes reads in the shape.
func (s Shape) Ended(how string) string { return Finishes[how][s.Name] }
