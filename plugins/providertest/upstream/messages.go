package upstream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
)

// messagesHead is what a message begins with.
type messagesHead struct {
	ID      string  `json:"id"`
	Type    string  `json:"type"`
	Role    string  `json:"role"`
	Model   string  `json:"model"`
	Content []any   `json:"content"`
	Reason  *string `json:"stop_reason"`
	Stop    *string `json:"stop_sequence"`
	Usage   any     `json:"usage,omitempty"`
}

// messagesBlock is a content block of any type.
type messagesBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

type messagesUsage struct {
	Input   int64             `json:"input_tokens"`
	Written *int64            `json:"cache_creation_input_tokens,omitempty"`
	Read    *int64            `json:"cache_read_input_tokens,omitempty"`
	Output  int64             `json:"output_tokens"`
	Details *messagesThinking `json:"output_tokens_details,omitempty"`
}

type messagesThinking struct {
	Tokens int64 `json:"thinking_tokens"`
}

// messagesUsageOf writes the classes of input apart, as this family does.
func messagesUsageOf(u Usage) any {
	if u.Raw != "" {
		return json.RawMessage(u.Raw)
	}
	out := &messagesUsage{Input: u.Prompt, Written: u.Written, Read: u.Cached, Output: u.Completion}
	for _, part := range []*int64{u.Written, u.Cached} {
		if part != nil {
			out.Input -= *part
		}
	}
	if u.Reasoning != nil {
		out.Details = &messagesThinking{*u.Reasoning}
	}
	return out
}

// signed is what proves a thinking block to the service that thought it.
func signed(thinking string) string {
	sum := sha256.Sum256([]byte(thinking))
	return base64.StdEncoding.EncodeToString(sum[:12])
}

func renderMessages(req *Request, reply Reply, h head) renderer {
	m := messagesReply{head: messagesHead{ID: h.ID, Type: "message", Role: "assistant", Model: h.Model, Content: []any{}},
		parts: parts{mode: reply.Usage}}
	if req.Stream {
		return &messagesStream{messagesReply: m}
	}
	return &messagesJSON{messagesReply: m}
}

// messagesReply is a message in the making.
type messagesReply struct {
	head messagesHead
	parts
}

// usage is what the reply tells at its end, nil for nothing.
func (m *messagesReply) usage() any {
	if m.used == nil {
		return nil
	}
	m.told = m.used
	return messagesUsageOf(*m.used)
}

// stop is the reply's stop_reason and stop_sequence, nil while it has not finished.
func (m *messagesReply) stop() (reason, sequence *string) {
	if m.finish == nil {
		return nil, nil
	}
	text := m.finish.Text
	switch text {
	case "stop":
		text = "end_turn"
	case "length":
		text = "max_tokens"
	case "tool_calls":
		text = "tool_use"
	case "content_filter":
		text = "refusal"
	}
	if m.finish.Stop != "" {
		text, sequence = "stop_sequence", &m.finish.Stop
	}
	return &text, sequence
}

// start is a block as it begins.
func (b *block) start() messagesBlock {
	empty := ""
	switch b.kind {
	case StepReasoning:
		return messagesBlock{Type: "thinking", Thinking: &empty, Signature: &empty}
	case StepToolCall:
		return messagesBlock{Type: "tool_use", ID: b.id, Name: b.name, Input: json.RawMessage("{}")}
	}
	return messagesBlock{Type: "text", Text: &empty}
}

// whole is a block when it is whole. Arguments that are no object, as a limit leaves them, are an empty one.
func (b *block) whole() messagesBlock {
	out := b.start()
	switch b.kind {
	case StepReasoning:
		proof := signed(b.text)
		out.Thinking, out.Signature = &b.text, &proof
	case StepToolCall:
		var input map[string]any
		if json.Unmarshal([]byte(b.text), &input) == nil && input != nil {
			out.Input = json.RawMessage(b.text)
		}
	default:
		out.Text = &b.text
	}
	return out
}

// messagesJSON renders a reply as one message.
type messagesJSON struct{ messagesReply }

func (m *messagesJSON) contentType() string { return "application/json" }

func (m *messagesJSON) append(b []byte, s Step, used Usage) []byte {
	m.take(s, used)
	if s.Do != StepDone {
		return b
	}
	for _, block := range m.blocks {
		m.head.Content = append(m.head.Content, block.whole())
	}
	m.head.Reason, m.head.Stop = m.stop()
	m.head.Usage = m.usage()
	return append(b, mustMarshal(m.head)...)
}

func (m *messagesJSON) fail(b []byte, e *Error) []byte { return append(b, messagesFailure(e)...) }

// messagesFailure is the error body of this family. It has no codes: a type for each status, and for what several
// failures share one, the words by which the service tells them apart.
func messagesFailure(e *Error) []byte {
	if e.Body != "" {
		return []byte(e.Body)
	}
	type object struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	failure := object{messagesErrorType(e), e.Message}
	switch e.Code {
	case "context_length_exceeded":
		failure.Message = "prompt is too long: 9 tokens > 8 maximum"
	case "content_filter":
		failure.Message = "Output blocked by content filtering policy"
	}
	return mustMarshal(struct {
		Type    string  `json:"type"`
		Error   object  `json:"error"`
		Request *string `json:"request_id"`
	}{"error", failure, nil})
}

func messagesErrorType(e *Error) string {
	own := []string{"authentication_error", "billing_error", "permission_error", "not_found_error", "request_too_large",
		"rate_limit_error", "timeout_error", "api_error", "overloaded_error"}
	if slices.Contains(own, e.Type) {
		return e.Type
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable, statusOverloaded:
		return "overloaded_error"
	}
	if e.Status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// statusOverloaded is what services of this family answer when they are too busy.
const statusOverloaded = 529
