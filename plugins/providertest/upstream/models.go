package upstream

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// lists adds the lists of models that services have. A server on which every name is a model has none.
func (s *Server) lists() {
	for _, f := range families {
		var list func(id string, known Local) (string, any)
		path := strings.TrimSuffix(s.service.address(f), "/chat/completions") + "/models"
		switch f.name {
		case "chat":
			if s.service.header != "" {
				continue // Azure's models are not what is called
			}
			list = func(id string, known Local) (string, any) {
				return "data", struct {
					ID      string `json:"id"`
					Object  string `json:"object"`
					Context int64  `json:"max_model_len,omitempty"` // vLLM
				}{id, "model", known.Context}
			}
		case "gemini":
			path = "/v1beta/models"
			list = func(id string, known Local) (string, any) {
				return "models", struct {
					Name    string   `json:"name"`
					Input   int64    `json:"inputTokenLimit,omitempty"`
					Output  int64    `json:"outputTokenLimit,omitempty"`
					Methods []string `json:"supportedGenerationMethods"`
				}{"models/" + id, known.Context, known.Output, []string{"generateContent", "countTokens"}}
			}
		default:
			continue
		}
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.list(w, r, f, list) })
	}
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, f *family, entry func(id string, known Local) (string,
	any)) {
	locals := s.locals()
	names := slices.Sorted(maps.Keys(locals))
	if locals == nil {
		names = s.options.Models
	}
	key := s.options.APIKey
	if key != "" && s.service.credential(r.Header, f) != key && messagesCredential(r.Header) != key {
		e := InvalidKey()
		f.refuse(w, &e, s.service)
		return
	}
	if len(names) == 0 {
		notFound(w, r)
		return
	}
	out := map[string][]any{}
	for _, name := range names {
		key, v := entry(name, locals[name])
		out[key] = append(out[key], v)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustMarshal(out)) // the client may be gone
}
