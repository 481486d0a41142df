// Package ollama is the provider for Ollama's own API, which, unlike its chat completions, takes the size of the
// context window, refuses a prompt that does not fit it, keeps thoughts apart, and says what a model can do.
//
// Ollama loads a model with as much room as it is asked for (num_ctx), and by default with as little as 4096 tokens;
// of a prompt that is longer it drops the oldest messages, without a word. So each request says how much room the
// route needs, and that nothing may be dropped. A change of num_ctx loads the model anew: of routes that share a model
// the largest window counts.
//
// What the model thinks is hidden, and is part of the output that Ollama counts. It cannot prove what was used after a
// cancel, so this is no provider.CancelProver: the gateway reads abandoned replies to their end.
//
// Facts are from docs.ollama.com (API reference: "Generate a chat message", "Show model details", "Errors"; "Context
// length") and from the sources of Ollama 0.3x (api/types.go, server/routes.go), both of August 2026.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package ollama

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/provider"
)

const (
	// service is where Ollama listens by default.
	service = "http://127.0.0.1:11434"
	forever = "forever"
)

// Settings are what an operator can set.
type Settings struct {
	BaseURL   string `hcl:"base_url,optional"`
	APIKey    string `hcl:"api_key,optional" secret:"true"`
	NumCtx    int64  `hcl:"num_ctx,optional"`
	KeepAlive string `hcl:"keep_alive,optional"`
	Think     string `hcl:"think,optional"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"base_url": "Where Ollama is: its address up to what comes before /api. Over http:// prompts and the key travel in " +
			"clear. Default: \"" + service + "\".",
		"api_key": "The key, sent as a bearer token, that ollama.com or a proxy before Ollama wants. White space around it " +
			"is dropped. Default: none, as local servers have it.",
		"num_ctx": "How much room for prompt and reply to load models with, in tokens. More takes more memory. A prompt " +
			"that does not fit is refused, never cut, and the gateway tries a larger route. Default: the route's " +
			"context_window; the largest, where several routes share a model, for each change loads it anew. Never more " +
			"than the model was trained for.",
		"keep_alive": "How long a model stays loaded after a request: \"30m\", \"0s\" to unload it at once, or \"" + forever +
			"\". Default: what Ollama is set to, usually 5 minutes.",
		"think": "Whether models that can think do: \"on\", \"off\", \"low\", \"medium\" or \"high\". What is thought is " +
			"hidden from clients and charged as output. Default: \"on\".",
	}
}

// Choices implements provider.Choosy.
func (Settings) Choices() map[string][]string {
	return map[string][]string{"think": {"on", "off", "low", "medium", "high"}}
}

// Ollama is the provider.
type Ollama struct {
	settings  Settings
	endpoint  endpoint.Endpoint
	base      *url.URL
	keepAlive string // as JSON, "" for none
	client    endpoint.Client
	models    models
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &Ollama{} }

// Settings implements provider.Configurable.
func (o *Ollama) Settings() any { return &o.settings }

// Start implements provider.Starter: it checks the settings. Ollama is not asked anything, for one that is down now
// must not keep a gateway from starting.
func (o *Ollama) Start(context.Context) error {
	s := &o.settings
	var err error
	if o.base, err = endpoint.Base("base_url", cmp.Or(s.BaseURL, service)); err != nil {
		return err
	}
	for _, path := range []string{"/v1", "/api"} {
		if strings.HasSuffix(o.base.Path, path) {
			return fmt.Errorf("setting base_url must end before %s; write it like %q", path, service)
		}
	}
	key, err := provider.Secret("api_key", s.APIKey)
	switch {
	case err != nil:
		return err
	case s.NumCtx < 0:
		return errors.New("setting num_ctx must be a number of tokens, such as 32768")
	}
	if o.keepAlive, err = keepAlive(s.KeepAlive); err != nil {
		return err
	}
	if _, ok := thinking[s.Think]; !ok {
		return errors.New("setting think must be on, off, low, medium or high")
	}
	o.endpoint = endpoint.Endpoint{URL: o.base.String()}
	if key != "" {
		o.endpoint.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer " + key}}
	}
	return s.Apply(&o.endpoint)
}

// keepAlive is the setting as JSON: a negative number is for ever.
func keepAlive(setting string) (string, error) {
	switch setting {
	case "":
		return "", nil
	case forever:
		return "-1", nil
	}
	if d, err := time.ParseDuration(setting); err != nil || d < 0 {
		return "", fmt.Errorf("setting keep_alive must be a time such as \"30m\", or %q", forever)
	}
	return strconv.Quote(setting), nil
}

var (
	_ provider.Provider     = (*Ollama)(nil)
	_ provider.Configurable = (*Ollama)(nil)
	_ provider.Starter      = (*Ollama)(nil)
)
