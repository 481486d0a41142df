package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	// llama: it is a llama.cpp server, see llamacpp.go.
	llama bool
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
	"moonshot": {refuses: []string{"max_tokens"}, thinks: true},
	"deepseek": {thinks: true, refuses: []string{asAllowance}, usage: hitOrMiss},
	"together": {words: map[string]string{
		asContent: asReasoning, `"finish_reason":"stop"`: `"finish_reason":"eos"`,
	}},
	"fireworks": {path: "/inference/v1/chat/completions"},
	"xai":       {usage: thoughtApart},
	"vllm":      {words: map[string]string{asContent: asReasoning}},
	"llamacpp":  {llama: true},
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

// check refuses what the service does not take. The error is an *Error.
func (s service) check(r *http.Request, body []byte) error {
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
	return nil
}

// rendered is a reply in the words of a service.
type rendered struct {
	renderer
	service service
	streams bool
	begun   bool
}

func (r *rendered) append(b []byte, s Step, used Usage) []byte {
	if r.service.usage != nil && used.Raw == "" {
		used.Raw = string(mustMarshal(r.service.usage(used)))
	}
	piece := r.renderer.append(nil, s, used)
	if len(piece) > 0 && r.streams && !r.begun {
		r.begun = true
		b = append(b, r.service.first...)
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

// thoughts checks what is said to have been thought: all replies have it, or it is no field of the service's.
func (s *service) thoughts(req *Request) error {
	for i, m := range req.Messages {
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
