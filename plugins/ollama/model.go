package ollama

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// models is what is known of models, by name. The zero value is ready.
type models struct {
	mu    sync.Mutex
	known map[string]model
	rooms map[string]int64 // the largest window that was asked for
}

// model is what Ollama says of a model.
type model struct {
	limit  int64 // the tokens that it was trained for, 0 if it does not say
	told   bool  // what it can do is known
	thinks bool
	can    []string // Ollama's words, nil if it does not say
	cuts   bool     // its server is too old to refuse what does not fit
}

// maxShow bounds what is read of a description: it repeats the licence and the template.
const maxShow = 8 << 20

// model returns what is known of a model, and asks where nothing is. The error is one of Generate.
func (o *Ollama) model(ctx context.Context, name string) (model, error) {
	o.models.mu.Lock()
	m, ok := o.models.known[name]
	o.models.mu.Unlock()
	if ok {
		return m, nil
	}
	m, err := o.show(ctx, name)
	if err != nil {
		return model{}, err
	}
	o.models.mu.Lock()
	defer o.models.mu.Unlock()
	if o.models.known == nil {
		o.models.known = make(map[string]model)
	}
	o.models.known[name] = m
	return m, nil
}

// forget makes the next request ask again: the model may have been replaced.
func (o *Ollama) forget(name string) {
	o.models.mu.Lock()
	defer o.models.mu.Unlock()
	delete(o.models.known, name)
}

// show asks for a model's description and the server's version. A server that has nothing but chats, or a proxy that
// lets nothing else pass, leaves the model as one of which nothing is known.
func (o *Ollama) show(ctx context.Context, name string) (model, error) {
	m, known, err := o.describe(ctx, name)
	if err != nil || !known {
		return model{}, err
	}
	if root, err := o.ask(ctx, http.MethodGet, "/api/version", "", name); err == nil {
		version, _ := root.Get("version").Str()
		m.cuts = before(version, refusing)
	}
	return m, nil
}

// describe asks for a model's description. known is false where the server does not say.
func (o *Ollama) describe(ctx context.Context, name string) (m model, known bool, err error) {
	body := append(jsonview.AppendString([]byte(`{"model":`), name), '}')
	root, err := o.ask(ctx, http.MethodPost, "/api/show", string(body), name)
	failed, ok := errors.AsType[*llm.Error](err)
	if ok && (failed.Kind == llm.ErrRejected || failed.Status == http.StatusNotImplemented) {
		return model{}, false, nil // there is no such path; a model that is missing is told as such, or by the chat
	}
	if err != nil {
		return model{}, false, err
	}
	for key, value := range root.Get("model_info").Members() {
		if n, ok := value.Int(); ok && strings.HasSuffix(key, ".context_length") {
			m.limit = max(m.limit, n)
		}
	}
	for _, capability := range root.Get("capabilities").Elems() {
		m.told = true
		word, _ := capability.Str()
		m.thinks = m.thinks || word == "thinking"
		m.can = append(m.can, word)
	}
	return m, true, nil
}

// refusing is the first version that can be told to refuse a prompt that does not fit (`truncate`; commit 6544e1473,
// October 2025).
var refusing = [3]int{0, 12, 6}

// before reports whether a version such as "0.11.4-rc1" is an earlier one. What is no version is none, and neither is
// that of a server somebody built (0.0.0).
func before(version string, other [3]int) bool {
	var own [3]int
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(own) {
		return false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		own[i] = n
	}
	if own == [3]int{} {
		return false
	}
	for i := range own {
		if own[i] != other[i] {
			return own[i] < other[i]
		}
	}
	return false
}

// room is how many tokens to load a model with, 0 where nobody says. It only grows: each change loads the model anew.
func (o *Ollama) room(req *llm.Request, m model) int64 {
	room := o.settings.NumCtx
	if room == 0 {
		o.models.mu.Lock()
		defer o.models.mu.Unlock()
		room = o.models.rooms[req.Model]
		if req.Window > room {
			if o.models.rooms == nil {
				o.models.rooms = make(map[string]int64)
			}
			o.models.rooms[req.Model], room = req.Window, req.Window
			if m.limit > 0 && room > m.limit {
				slog.Warn("the route's context_window is larger than the model's; set it to that", "model", req.Model,
					"context_window", room, "context_length", m.limit)
			}
		}
	}
	if m.limit > 0 {
		room = min(room, m.limit)
	}
	return room
}

// ask makes a small request and reads its answer. Errors are those of Generate.
func (o *Ollama) ask(ctx context.Context, method, path, body, model string) (jsonview.View, error) {
	resp, err := o.call(ctx, o.client.Do, method, path, []byte(body), "application/json", model)
	if err != nil {
		return jsonview.View{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxShow))
	if err != nil {
		return jsonview.View{}, err
	}
	const depth = 100
	root, err := jsonview.Parse(raw, depth)
	if err != nil || root.Kind() != jsonview.Object {
		return jsonview.View{}, llm.Errorf(llm.ErrUpstream,
			"what answers at %s is not Ollama: it sent no JSON object; check base_url", path)
	}
	return root, nil
}
