package openai

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// maxProps bounds what a server says of itself, in bytes: it repeats the chat template.
	maxProps = 4 << 20
	// maxDescribed is of how many models it is asked. Only one that swaps them has more than one.
	maxDescribed = 16
)

// props is what a llama.cpp server says of itself (ggml-org/llama.cpp, tools/server/README.md, GET /props; the names
// of chat_template_caps are those of common/jinja/caps.h).
type props struct {
	Settings struct {
		Context int64 `json:"n_ctx"` // of a slot: what one request can have
	} `json:"default_generation_settings"`
	Caps *struct {
		Tools bool  `json:"supports_tools"`
		Calls *bool `json:"supports_tool_calls"`
	} `json:"chat_template_caps"`
}

// describe adds what a llama.cpp server says of its models beyond their list. A model of which it does not say that
// stays as it is.
func (o *OpenAI) describe(ctx context.Context, models []llm.Model) {
	for i := range models[:min(len(models), maxDescribed)] {
		m := &models[i]
		// A server with one model reads no query; one with several must not load a model for this.
		query := url.Values{"model": {m.ID}, "autoload": {"false"}}.Encode()
		body, err := o.FetchUpTo(ctx, &o.endpoint, serverOf(&o.endpoint)+"/props?"+query, maxProps)
		var p props
		if err != nil || json.Unmarshal(body, &p) != nil {
			continue
		}
		if p.Settings.Context > 0 {
			m.ContextWindow = p.Settings.Context
		}
		m.Offers = p.offers()
	}
}

// offers are what its model takes; nil where the server is too old to say. It makes a grammar of any schema, and does
// not hold a reply to JSON without one. Tools that a chat template does not know are dropped without a word.
func (p *props) offers() []string {
	switch {
	case p.Caps == nil:
		return nil
	case p.Caps.Tools && (p.Caps.Calls == nil || *p.Caps.Calls):
		return []string{"tools", "json_schema"}
	}
	return []string{"json_schema"}
}

// serverOf is the address of the server whose API an endpoint is of.
func serverOf(e *endpoint.Endpoint) string {
	return strings.TrimSuffix(strings.TrimSuffix(e.URL, "/chat/completions"), "/v1")
}
