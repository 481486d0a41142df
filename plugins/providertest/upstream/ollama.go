package upstream

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Local is what a server of local models says of one, in Ollama's own API.
type Local struct {
	// Context is how many tokens the model was trained for. 0: the server does not say.
	Context int64 `json:"context,omitempty"`
	// Output is the longest reply, in lists that say that. 0: the server does not say.
	Output int64 `json:"output,omitempty"`
	// Capabilities are Ollama's words. nil: the server does not say, as old ones do not.
	Capabilities []string `json:"capabilities,omitempty"`
	// Loaded says that the model is in memory.
	Loaded bool `json:"loaded,omitempty"`
}

// anyLocal is what is said of a model of which Options.Local says nothing.
var anyLocal = Local{Context: 131072, Capabilities: []string{"completion", "tools", "thinking"}}

// defaultRoom is how many tokens a model is loaded with where nobody says.
const defaultRoom = 4096

// ollamaVersion is that of a server that takes everything.
const ollamaVersion = "0.33.2"

// SetLocal replaces what Options.Local says.
func (s *Server) SetLocal(models map[string]Local) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Local = models
}

func (s *Server) locals() map[string]Local {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Local
}

func (s *Server) local(model string) (Local, bool) {
	models := s.locals()
	if models == nil {
		return anyLocal, len(s.options.Models) == 0 || slices.Contains(s.options.Models, model)
	}
	known, ok := models[model]
	return known, ok
}

// ollama adds what Ollama's own API has beside chats.
func (s *Server) ollama() {
	answer := func(path string, f func(r *http.Request) (any, *Error)) {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			v, refusal := any(nil), (*Error)(nil)
			if s.options.APIKey != "" && bearer(r.Header) != s.options.APIKey {
				e := InvalidKey()
				refusal = &e
			} else {
				v, refusal = f(r)
			}
			if refusal != nil {
				refusal.write(w, ollamaFailure(refusal))
				return
			}
			_, _ = w.Write(mustMarshal(v)) // the client may be gone
		})
	}
	answer("POST /api/show", func(r *http.Request) (any, *Error) {
		var asked struct {
			Model string `json:"model"`
		}
		if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Model == "" {
			e := BadRequest("model is required", "model")
			return nil, &e
		}
		known, ok := s.local(asked.Model)
		if !ok {
			e := ModelNotFound()
			return nil, &e
		}
		info := map[string]any{"general.architecture": "llama", "llama.embedding_length": 4096}
		if known.Context > 0 {
			info["llama.context_length"] = known.Context
		}
		out := map[string]any{"license": strings.Repeat("Permission is hereby granted. ", 4000), "model_info": info}
		if known.Capabilities != nil {
			out["capabilities"] = known.Capabilities
		}
		return out, nil
	})
	answer("GET /api/version", func(*http.Request) (any, *Error) {
		version := s.options.Version
		if version == "" {
			version = ollamaVersion
		}
		return map[string]string{"version": version}, nil
	})
	list := func(loaded bool) any {
		type entry struct {
			Name  string `json:"name"`
			Model string `json:"model"`
		}
		entries := []entry{}
		for name, known := range s.locals() {
			if known.Loaded || !loaded {
				entries = append(entries, entry{name, name})
			}
		}
		slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
		return map[string][]entry{"models": entries}
	}
	answer("GET /api/ps", func(*http.Request) (any, *Error) { return list(true), nil })
	answer("GET /api/tags", func(*http.Request) (any, *Error) { return list(false), nil })
}

// ollamaFit does what Ollama does with a prompt that is longer than its room: it refuses it where the request says so
// and its version knows that, and drops the oldest messages otherwise.
func (s *Server) ollamaFit(req *Request) error {
	if _, ok := s.local(req.Model); !ok {
		e := ModelNotFound()
		return &e
	}
	room := req.Room
	if room == 0 {
		room = defaultRoom
	}
	if !req.Cuts && s.options.Version == "" && promptTokens(req) > room {
		e := ContextLength()
		return &e
	}
	for promptTokens(req) > room && len(req.Messages) > 1 {
		req.Messages = req.Messages[1:]
	}
	return nil
}

// ollamaFailure is Ollama's error: a text.
func ollamaFailure(e *Error) []byte {
	if e.Body != "" {
		return []byte(e.Body)
	}
	message := e.Message
	switch e.Code {
	case "context_length_exceeded":
		message = "the prompt is longer than the context length currently available to the model; shorten the prompt"
	case "model_not_found":
		message = "model 'such' not found"
	}
	return mustMarshal(map[string]string{"error": message})
}

// ollamaCall is a call in a reply. It comes whole.
type ollamaCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type ollamaMessage struct {
	Role     string       `json:"role"`
	Content  string       `json:"content"`
	Thinking string       `json:"thinking,omitempty"`
	Calls    []ollamaCall `json:"tool_calls,omitempty"`
}

// ollamaLine is a line of a stream, or a whole reply.
type ollamaLine struct {
	Model   string        `json:"model"`
	Created string        `json:"created_at"`
	Message ollamaMessage `json:"message"`
	Done    bool          `json:"done"`
	Reason  string        `json:"done_reason,omitempty"`
	Total   int64         `json:"total_duration,omitempty"`
}

func renderOllama(req *Request, reply Reply, h head) renderer {
	return &ollamaReply{parts: parts{mode: reply.Usage}, streams: req.Stream, line: ollamaLine{Model: h.Model,
		Created: time.Unix(h.Created, 0).UTC().Format(time.RFC3339Nano), Message: ollamaMessage{Role: "assistant"}}}
}

// ollamaReply renders a reply as lines, or as the sum of them. Counts and the reason for the end are in the last.
type ollamaReply struct {
	parts
	line    ollamaLine
	streams bool
	whole   ollamaMessage
}

func (o *ollamaReply) contentType() string {
	if o.streams {
		return "application/x-ndjson"
	}
	return "application/json; charset=utf-8"
}

func (o *ollamaReply) append(b []byte, s Step, used Usage) []byte {
	o.take(s, used)
	switch s.Do {
	case StepText:
		return o.piece(b, ollamaMessage{Content: s.Text})
	case StepReasoning:
		return o.piece(b, ollamaMessage{Thinking: s.Text})
	case stepCallEnd:
		call := o.blocks.call(s.Index)
		if call == nil {
			return b
		}
		out := ollamaCall{ID: call.id}
		out.Function.Index, out.Function.Name, out.Function.Arguments = call.index, call.name, json.RawMessage("{}")
		if json.Valid([]byte(call.text)) {
			out.Function.Arguments = json.RawMessage(call.text)
		}
		return o.piece(b, ollamaMessage{Calls: []ollamaCall{out}})
	case StepDone:
		return o.end(b)
	}
	return b
}

func (o *ollamaReply) piece(b []byte, m ollamaMessage) []byte {
	m.Role = o.line.Message.Role
	if o.streams {
		line := o.line
		line.Message = m
		return append(append(b, mustMarshal(line)...), '\n')
	}
	o.whole.Content += m.Content
	o.whole.Thinking += m.Thinking
	o.whole.Calls = append(o.whole.Calls, m.Calls...)
	return b
}

// end appends the last line, or the whole reply.
func (o *ollamaReply) end(b []byte) []byte {
	last := o.line
	last.Done, last.Total = true, 1
	if o.finish != nil {
		if last.Reason = o.finish.Text; last.Reason == "tool_calls" {
			last.Reason = "stop"
		}
	}
	if !o.streams {
		last.Message = o.whole
		last.Message.Role = o.line.Message.Role
	}
	line := mustMarshal(last)
	if o.used != nil {
		o.told = o.used
		counts := string(ollamaCounts(*o.used))
		if counts != "{}" {
			line = append(append(line[:len(line)-1], ','), counts[1:]...)
		}
	}
	b = append(b, line...)
	if o.streams {
		b = append(b, '\n')
	}
	return b
}

// ollamaCounts are the counts of a reply; those that are zero are left out.
func ollamaCounts(u Usage) []byte {
	if u.Raw != "" {
		return []byte(u.Raw)
	}
	return mustMarshal(struct {
		Prompt int64  `json:"prompt_eval_count,omitempty"`
		Cached *int64 `json:"prompt_eval_cached_count,omitempty"`
		Output int64  `json:"eval_count,omitempty"`
	}{u.Prompt, u.Cached, u.Completion})
}

func (o *ollamaReply) fail(b []byte, e *Error) []byte {
	return append(append(b, ollamaFailure(e)...), '\n')
}
