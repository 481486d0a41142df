package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// llamacpp is how a llama.cpp server (ggml-org/llama.cpp, tools/server) differs from OpenAI: it parses the arguments
// of calls in the history, makes a grammar of the schemas of tools, reads a tool_choice that names a tool as auto,
// says with each chunk what it has done so far where it is asked to, and tells of itself at /props.

// maxRepetition is what its grammars repeat nothing more often than (common/json-schema-to-grammar.cpp and
// llama-grammar.cpp).
const maxRepetition = 2000

// checkLlama refuses what a llama.cpp server does. The error is an *Error.
func checkLlama(body []byte, req *Request) error {
	for i, m := range req.Messages {
		for _, call := range m.Calls {
			var arguments map[string]any
			if json.Unmarshal([]byte(call.Arguments), &arguments) != nil {
				return &Error{Status: http.StatusInternalServerError, Type: "server_error",
					Message: fmt.Sprintf("messages[%d]: Failed to parse tool call arguments as JSON", i)}
			}
		}
	}
	root, err := parseObject(body)
	if err != nil {
		return err
	}
	req.Choice = "auto"
	if word, ok := root.fields["tool_choice"].(string); ok {
		req.Choice = word
	}
	return nil
}

// noGrammar says why no grammar can be made of a schema below root, "" where one can.
func noGrammar(schema, root any) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Sprintf("the schema %v", schema)
	}
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		if n, ok := s[name].(json.Number); ok {
			if count, err := n.Float64(); err != nil || count >= maxRepetition {
				return name
			}
		}
	}
	if pattern, ok := s["pattern"].(string); ok &&
		(!strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$") || strings.Contains(pattern, `\`)) {
		return "pattern"
	}
	if ref, ok := s["$ref"].(string); ok && !resolves(root, ref) {
		return "$ref"
	}
	for _, name := range []string{"properties", "$defs", "definitions"} {
		inner, _ := s[name].(map[string]any)
		for _, one := range inner {
			if why := noGrammar(one, root); why != "" {
				return why
			}
		}
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[name].([]any)
		for _, one := range list {
			if why := noGrammar(one, root); why != "" {
				return why
			}
		}
	}
	items, ok := s["items"]
	if list, isList := items.([]any); isList { // one for each element, which is of JSON Schema before 2020
		for _, one := range list {
			if why := noGrammar(one, root); why != "" {
				return why
			}
		}
		return ""
	}
	if ok {
		return noGrammar(items, root)
	}
	return ""
}

// resolves reports whether a reference is to something within the schema.
func resolves(root any, ref string) bool {
	rest, ok := strings.CutPrefix(ref, "#/")
	for at := root; ok; {
		name, after, more := strings.Cut(rest, "/")
		o, _ := at.(map[string]any)
		if at, ok = o[name]; !more {
			return ok
		}
		rest = after
	}
	return false
}

// timings are what it says it has done so far: what was in the cache stands beside the rest of the prompt.
type timings struct {
	Cache     int64   `json:"cache_n"`
	Prompt    int64   `json:"prompt_n"`
	PromptMs  float64 `json:"prompt_ms"`
	Predicted int64   `json:"predicted_n"`
}

func timingsOf(u Usage) *timings {
	t := &timings{Prompt: u.Prompt, PromptMs: 30.958, Predicted: u.Completion}
	if u.Cached != nil {
		t.Cache, t.Prompt = *u.Cached, u.Prompt-*u.Cached
	}
	return t
}

// props adds what it tells of itself, and of the model that is asked for or, of several, the first one.
func (s *Server) props() {
	s.mux.HandleFunc("GET /props", func(w http.ResponseWriter, r *http.Request) {
		if s.options.APIKey != "" && bearer(r.Header) != s.options.APIKey {
			e := InvalidKey()
			e.write(w, chatFailure(&e))
			return
		}
		names := slices.Concat(slices.Sorted(maps.Keys(s.locals())), s.options.Models, []string{"model"})
		name := cmp.Or(r.URL.Query().Get("model"), names[0])
		known, ok := s.local(name)
		if !ok {
			e := ModelNotFound()
			e.write(w, chatFailure(&e))
			return
		}
		tools := slices.Contains(known.Capabilities, "tools")
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(mustMarshal(map[string]any{ // the client may be gone
			"default_generation_settings": map[string]any{"id": 0, "n_ctx": known.Context}, "total_slots": 1,
			"model_alias": name, "model_path": "/models/" + name + ".gguf",
			"chat_template_caps": map[string]bool{"supports_tools": tools, "supports_tool_calls": tools,
				"supports_parallel_tool_calls": tools, "supports_system_role": true},
			"build_info": "b8681-fake"}))
	})
}
