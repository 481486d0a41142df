package upstream

import (
	"encoding/json"
	"net/http"
	"strings"
)

// geminiPart is a part of a content.
type geminiPart struct {
	Text      *string     `json:"text,omitempty"`
	Thought   bool        `json:"thought,omitempty"`
	Call      *geminiCall `json:"functionCall,omitempty"`
	Signature string      `json:"thoughtSignature,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiCandidate struct {
	Content *geminiContent `json:"content,omitempty"`
	Finish  string         `json:"finishReason,omitempty"`
	Index   int            `json:"index"`
}

// geminiChunk is a GenerateContentResponse: the whole reply, or what is new of it.
type geminiChunk struct {
	Candidates []geminiCandidate `json:"candidates,omitempty"`
	Usage      any               `json:"usageMetadata,omitempty"`
	Model      string            `json:"modelVersion"`
	ID         string            `json:"responseId"`
}

// geminiUsage leaves counts of zero out, as all of Google's JSON does.
type geminiUsage struct {
	Prompt     int64 `json:"promptTokenCount,omitempty"`
	Cached     int64 `json:"cachedContentTokenCount,omitempty"`
	Candidates int64 `json:"candidatesTokenCount,omitempty"`
	Thoughts   int64 `json:"thoughtsTokenCount,omitempty"`
	Total      int64 `json:"totalTokenCount,omitempty"`
}

// geminiUsageOf counts thoughts beside the candidates.
func geminiUsageOf(u Usage) any {
	if u.Raw != "" {
		return json.RawMessage(u.Raw)
	}
	out := geminiUsage{Prompt: u.Prompt, Candidates: u.Completion, Total: u.Prompt + u.Completion}
	if u.Reasoning != nil {
		out.Thoughts = *u.Reasoning
		out.Candidates -= *u.Reasoning
	}
	if u.Cached != nil {
		out.Cached = *u.Cached
	}
	return out
}

// geminiSignature is what proves a call to the service that made it.
const geminiSignature = "c2lnbmF0dXJlIG9mIHRoZSBmYWtl"

// goodSignatures are what it takes for one; the latter two are documented stand-ins.
var goodSignatures = []any{geminiSignature, "skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}

func renderGemini(req *Request, reply Reply, h head) renderer {
	return &geminiReply{head: geminiChunk{Model: h.Model, ID: h.ID}, mode: reply.Usage, stream: req.Stream,
		thoughts: req.Thoughts, calls: map[int]*geminiCall{}}
}

// geminiReply renders a reply as chunks, or as one. A call comes whole, when the script has ended it. There is no end
// marker: the chunk that says why the reply ends is the last one but for usage, which stands in every chunk.
type geminiReply struct {
	head     geminiChunk
	mode     UsageMode
	stream   bool
	thoughts bool
	calls    map[int]*geminiCall
	signed   bool
	told     *Usage

	parts  []geminiPart // of a reply in one piece
	finish string
}

func (g *geminiReply) contentType() string {
	if g.stream {
		return "text/event-stream"
	}
	return "application/json; charset=UTF-8"
}

func (g *geminiReply) append(b []byte, s Step, used Usage) []byte {
	switch s.Do {
	case StepText:
		return g.part(b, geminiPart{Text: &s.Text}, used)
	case StepReasoning:
		if g.thoughts {
			return g.part(b, geminiPart{Text: &s.Text, Thought: true}, used)
		}
	case StepToolCall:
		g.calls[s.Index] = &geminiCall{ID: s.ID, Name: s.Name}
	case StepArguments:
		if call := g.calls[s.Index]; call != nil {
			call.Args = append(call.Args, s.Text...)
		}
	case stepCallEnd:
		if call := g.calls[s.Index]; call != nil {
			var args map[string]any
			if json.Unmarshal(call.Args, &args) != nil || args == nil {
				call.Args = json.RawMessage("{}")
			}
			part := geminiPart{Call: call}
			if !g.signed { // the first of calls that are made together
				part.Signature = geminiSignature
			}
			g.signed = true
			return g.part(b, part, used)
		}
	case StepFinish:
		g.finish = geminiFinish(s.Text)
		if g.stream {
			return g.chunk(b, geminiCandidate{Finish: g.finish, Content: &geminiContent{Role: "model",
				Parts: []geminiPart{{Text: new(string)}}}}, used, g.mode == UsageWithFinish)
		}
	case StepUsage:
		if g.stream && g.mode != UsageNever && g.mode != UsageWithFinish {
			return g.event(b, g.with(nil, used))
		}
	case StepComment:
		if g.stream {
			return append(append(append(b, ": "...), strings.ReplaceAll(s.Text, "\n", " ")...), "\n\n"...)
		}
	case StepDone:
		if !g.stream {
			candidate := geminiCandidate{Finish: g.finish, Content: &geminiContent{Role: "model", Parts: g.parts}}
			return append(b, mustMarshal(g.with(&candidate, used))...)
		}
	}
	return b
}

func (g *geminiReply) part(b []byte, p geminiPart, used Usage) []byte {
	if !g.stream {
		g.parts = append(g.parts, p)
		return b
	}
	return g.chunk(b, geminiCandidate{Content: &geminiContent{Role: "model", Parts: []geminiPart{p}}}, used,
		g.mode != UsageWithFinish)
}

func (g *geminiReply) chunk(b []byte, candidate geminiCandidate, used Usage, usage bool) []byte {
	chunk := g.with(&candidate, used)
	if !usage && g.mode == UsageWithFinish {
		chunk.Usage = nil
	}
	return g.event(b, chunk)
}

// with is a chunk with usage, where the mode has any.
func (g *geminiReply) with(candidate *geminiCandidate, used Usage) geminiChunk {
	chunk := g.head
	if candidate != nil {
		chunk.Candidates = []geminiCandidate{*candidate}
	}
	if g.mode != UsageNever {
		g.told, chunk.Usage = &used, geminiUsageOf(used)
	}
	return chunk
}

func (g *geminiReply) event(b []byte, v any) []byte {
	return append(append(append(b, "data: "...), mustMarshal(v)...), "\r\n\r\n"...)
}

func (g *geminiReply) reported() *Usage { return g.told }

func (g *geminiReply) fail(b []byte, e *Error) []byte {
	if !g.stream {
		return append(b, geminiFailure(e)...)
	}
	return append(append(append(b, "data: "...), geminiFailure(e)...), "\r\n\r\n"...)
}

// geminiFinish is the service's word for the end of a reply; calls have none of their own.
func geminiFinish(reason string) string {
	switch reason {
	case "stop", "tool_calls":
		return "STOP"
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	}
	return reason
}

// geminiFailure is the error body: a google.rpc.Status. A Type that is one of its codes stands as it is.
func geminiFailure(e *Error) []byte {
	if e.Body != "" {
		return []byte(e.Body)
	}
	type status struct {
		Code    int              `json:"code"`
		Message string           `json:"message"`
		Status  string           `json:"status"`
		Details []map[string]any `json:"details,omitempty"`
	}
	out := status{Code: e.Status, Message: e.Message, Status: geminiCode(e)}
	detail := func(kind, name string, value any) {
		out.Details = append(out.Details, map[string]any{"@type": "type.googleapis.com/google.rpc." + kind, name: value})
	}
	if e.Param != "" {
		detail("BadRequest", "fieldViolations", []map[string]string{{"field": e.Param, "description": e.Message}})
	}
	switch e.Code {
	case "context_length_exceeded":
		out.Message = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
	case "invalid_api_key": // which is no 401 here
		out.Code, out.Message = http.StatusBadRequest, "API key not valid. Please pass a valid API key."
		detail("ErrorInfo", "reason", "API_KEY_INVALID")
	case "insufficient_quota":
		detail("QuotaFailure", "violations", []map[string]string{
			{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"}})
	}
	if e.RetryAfter != "" {
		detail("RetryInfo", "retryDelay", e.RetryAfter+"s")
	}
	return mustMarshal(map[string]status{"error": out})
}

func geminiCode(e *Error) string {
	if strings.ToUpper(e.Type) == e.Type && e.Type != "" {
		return e.Type
	}
	switch e.Status {
	case http.StatusUnauthorized:
		if e.Code == "invalid_api_key" {
			return "INVALID_ARGUMENT"
		}
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if e.Status >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}
