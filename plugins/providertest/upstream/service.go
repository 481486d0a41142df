package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// service is how one service that speaks chat completions differs from OpenAI's first form of it, as its documentation
// says (plugins/openai/presets.go names the pages). What is not documented is left as it is.
type service struct {
	path    string   // of its chat completions, "" for that of the family
	header  string   // of the key, "" for a bearer token
	query   string   // a parameter that the address must have
	refuses []string // fields that it refuses
	// words are what it writes in place of something else, from the opening quote on.
	words map[string]string
	usage func(Usage) any // its usage object, nil for the family's
	mode  UsageMode       // where usage stands in a stream, where a script leaves that open
	first string          // what a stream begins with
	id    string          // the header with the request's name, "" for x-request-id
	named string          // the header with the reply's name, "" for none
	// thinks: what was thought before replies has to come back, where there are tools.
	thinks bool
	// signs: calls are signed, and those of past replies have to be.
	signs bool
	// llama: it is a llama.cpp server, see llamacpp.go.
	llama bool
	knows []string // fields of its own, see ownFields
	// listed: its errors are lists of one.
	listed bool
	// records is where it says later what a reply used, "" for nowhere.
	records string
}

const (
	asReasoning = `"reasoning":`
	asContent   = `"reasoning_content":`
	asAllowance = "max_completion_tokens"
)

var services = map[string]service{
	"openai": {refuses: []string{"max_tokens"}},
	"azure": {path: "/openai/deployments/{model}/chat/completions", header: "Api-Key", query: "api-version",
		refuses: []string{"max_tokens"}, id: "Apim-Request-Id",
		first: `data: {"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,` +
			`"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}` + "\n\n"},
	"openrouter": {path: "/api/v1/chat/completions", words: map[string]string{asContent: asReasoning}, mode: UsageAlways,
		first: ": OPENROUTER PROCESSING\n\n", usage: costed, records: "/api/v1/generation",
		named: "X-Generation-Id"},
	"groq": {path: "/openai/v1/chat/completions", words: map[string]string{asContent: asReasoning}},
	"mistral": {refuses: []string{"stream_options", asAllowance}, mode: UsageWithFinish, id: "Mistral-Correlation-Id",
		words: map[string]string{`"finish_reason":"length"`: `"finish_reason":"model_length"`}},
	"moonshot": {refuses: []string{"max_tokens"}, thinks: true, knows: []string{"thinking"}},
	"deepseek": {thinks: true, refuses: []string{asAllowance}, usage: hitOrMiss, knows: []string{"thinking"}},
	"gemini": {path: "/v1beta/openai/chat/completions", usage: thoughtInTotal, signs: true, listed: true,
		words: map[string]string{`"finish_reason":"tool_calls"`: `"finish_reason":"stop"`}},
	"together": {words: map[string]string{
		asContent: asReasoning, `"finish_reason":"stop"`: `"finish_reason":"eos"`,
	}},
	"fireworks": {path: "/inference/v1/chat/completions"},
	"xai":       {usage: thoughtApart},
	"vllm":      {words: map[string]string{asContent: asReasoning}},
	"llamacpp":  {llama: true, knows: []string{"timings_per_token"}},
	"lmstudio":  {},
	"ollama":    {words: map[string]string{asContent: asReasoning}},
}

// Services lists what Options.Service may be.
func Services() []string { return slices.Sorted(maps.Keys(services)) }

// costed is OpenRouter's usage, which says what a reply cost.
func costed(u Usage) any {
	return struct {
		*chatUsage
		Cost    float64            `json:"cost"`
		Details map[string]float64 `json:"cost_details"`
	}{chatCounts(u), 0.95, map[string]float64{"upstream_inference_cost": 19}}
}

// record serves OpenRouter's record of a reply that has ended, by its id.
func (s *Server) record(w http.ResponseWriter, r *http.Request) {
	if s.options.APIKey != "" && bearer(r.Header) != s.options.APIKey {
		e := InvalidKey()
		e.write(w, chatFailure(&e))
		return
	}
	for _, rec := range s.Records() {
		if rec.ID == r.URL.Query().Get("id") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(mustMarshal(map[string]any{"data": map[string]any{ // the client may be gone
				"id": rec.ID, "total_cost": 0.0015, "native_tokens_prompt": rec.Used.Prompt,
				"native_tokens_completion": rec.Used.Completion, "native_tokens_reasoning": rec.Used.Reasoning,
				"native_tokens_cached": rec.Used.Cached,
			}}))
			return
		}
	}
	notFound(w, r)
}

// hitOrMiss is DeepSeek's usage, which tells apart what was in the cache.
func hitOrMiss(u Usage) any {
	var hit int64
	if u.Cached != nil {
		hit = *u.Cached
	}
	u.Cached = nil
	return struct {
		*chatUsage
		Hit  int64 `json:"prompt_cache_hit_tokens"`
		Miss int64 `json:"prompt_cache_miss_tokens"`
	}{chatCounts(u), hit, u.Prompt - hit}
}

// thoughtApart is xAI's usage, in which reasoning is no part of the completion.
func thoughtApart(u Usage) any {
	out := chatCounts(u)
	if u.Reasoning != nil {
		out.Completion -= *u.Reasoning
	}
	return out
}

// thoughtInTotal is Google's usage, in which what was thought is in the total alone.
func thoughtInTotal(u Usage) any {
	out := chatCounts(u)
	if u.Reasoning != nil {
		out.Completion -= *u.Reasoning
		out.CompletionDetails = nil
	}
	return out
}

// failure is the body of an error.
func (s service) failure(f *family, e *Error) []byte {
	if s.listed && f.name == "chat" && e.Body == "" {
		return append(append([]byte("["), geminiFailure(e)...), ']')
	}
	return f.failure(e)
}

// address is where the service takes requests of a family.
func (s service) address(f *family) string {
	if f.name == "chat" && s.path != "" {
		return s.path
	}
	return f.path
}

// credential is the key that a request shows.
func (s service) credential(h http.Header, f *family) string {
	if s.header != "" {
		return h.Get(s.header)
	}
	return f.credential(h)
}

// ownFields are fields of the family that only some services know.
var ownFields = []string{"thinking", "timings_per_token"}

// check refuses what the service does not take. The error is an *Error.
func (s service) check(r *http.Request, f *family, body []byte) error {
	if s.query != "" && r.URL.Query().Get(s.query) == "" {
		return invalid("", "the parameter %s is required", s.query)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // whoever decodes it says more
	}
	for _, name := range s.refuses {
		if fields[name] != nil {
			return invalid(name, "extra inputs are not permitted")
		}
	}
	for _, name := range ownFields {
		if fields[name] != nil && f.name == "chat" && !slices.Contains(s.knows, name) {
			return invalid(name, "is not a known field")
		}
	}
	return nil
}

// rendered is a reply in the words of a service.
type rendered struct {
	renderer
	service service
	streams bool
	begun   bool
	signed  bool // the first call
}

// signature is what Google's calls come with.
const signature = `"extra_content":{"google":{"thought_signature":"` + geminiSignature + `"}},`

func (r *rendered) append(b []byte, s Step, used Usage) []byte {
	if r.service.usage != nil && used.Raw == "" {
		used.Raw = string(mustMarshal(r.service.usage(used)))
	}
	piece := r.renderer.append(nil, s, used)
	if len(piece) > 0 && r.streams && !r.begun {
		r.begun = true
		b = append(b, r.service.first...)
	}
	if at := bytes.Index(piece, []byte(`"type":"function"`)); r.service.signs && !r.signed && at >= 0 {
		r.signed = true
		piece = slices.Insert(piece, at, []byte(signature)...)
	}
	for from, to := range r.service.words {
		piece = bytes.ReplaceAll(piece, []byte(from), []byte(to))
	}
	return append(b, piece...)
}

func (r *rendered) reported() *Usage {
	told := r.renderer.reported()
	if told == nil || r.service.usage == nil {
		return told
	}
	counted := *told
	counted.Raw = ""
	return &counted
}

// in puts a renderer into the words of the service.
func (s service) in(inner renderer, req *Request) renderer {
	if req.Family != "chat" {
		return inner
	}
	if stream, ok := inner.(*chatStream); ok {
		stream.timed = req.Timings
	}
	return &rendered{renderer: inner, service: s, streams: req.Stream}
}

// returned checks what is to come back with past replies. What was thought all have, or it is no field of the
// service's; the first call of each since the user spoke last is signed, or a signature is no field.
func (s *service) returned(req *Request) error {
	last := 0
	for i, m := range req.Messages {
		if m.Role == "user" {
			last = i
		}
	}
	for i, m := range req.Messages {
		for n, call := range m.Calls {
			switch {
			case call.extra != nil && !s.signs:
				return invalid(fmt.Sprintf("messages[%d].tool_calls[%d].extra_content", i, n), "is no field here")
			case s.signs && strings.Contains(req.Model, "gemini-3") && n == 0 && i > last && !call.signed():
				return invalid("", "Function call is missing a thought_signature in functionCall parts.")
			}
		}
		if m.Role != "assistant" || s.thinks == (m.Reasoning != nil) {
			continue
		}
		if s.thinks && len(req.Tools) > 0 {
			return invalid("messages", "thinking is enabled but reasoning_content is missing in assistant message at "+
				"index %d", i)
		}
		if !s.thinks {
			return invalid(fmt.Sprintf("messages[%d].reasoning_content", i), "is no field here")
		}
	}
	return nil
}
