// Package openai is the provider for every service that speaks OpenAI's chat completions: OpenAI itself,
// Ollama, vLLM, llama.cpp's server, OpenRouter and many more.
//
// It says where calls go; package endpoint makes them, in the gateway or in this provider's process. A stream with
// usage at its end is asked for, or a reply in one piece where nobody sees it earlier. What comes is taken: a stream
// with usage anywhere or nowhere, or a reply in one piece. This API cannot prove what was used after a cancel, so it is
// no provider.CancelProver: the gateway reads abandoned replies to their end.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package openai

import (
	"context"
	"errors"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are what an operator can set.
type Settings struct {
	BaseURL      string `hcl:"base_url"`
	APIKey       string `hcl:"api_key,optional" secret:"true"`
	AlwaysStream bool   `hcl:"always_stream,optional"`
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"base_url": "Where the service is: its address up to what comes before /chat/completions, such as " +
			"\"https://api.openai.com/v1\" or \"http://127.0.0.1:11434/v1\". An address without a path gets /v1. " +
			"Over http:// prompts and the key travel in clear.",
		"api_key": "The key of the service, sent as a bearer token. White space around it is dropped. " +
			"Default: none, as local services have it.",
		"always_stream": "Ask for a stream also where the client waits for the reply in one piece. Set it when something " +
			"between the gateway and the service drops connections that are silent for a minute or so; it costs more " +
			"CPU time. Default: false.",
	}
}

// OpenAI is the provider.
type OpenAI struct {
	provider.Carried
	settings Settings
	endpoint endpoint.Endpoint
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &OpenAI{} }

// Settings implements provider.Configurable.
func (o *OpenAI) Settings() any { return &o.settings }

// Start implements provider.Starter: it checks the settings. The service is not asked anything, for one that
// is down now must not keep a gateway from starting.
func (o *OpenAI) Start(context.Context) error {
	address, err := endpoint.Join("base_url", o.settings.BaseURL, endpoint.Chat)
	if err != nil {
		return err
	}
	o.endpoint = endpoint.Endpoint{Dialect: endpoint.Chat, URL: address, AlwaysStream: o.settings.AlwaysStream}
	if key := strings.TrimSpace(o.settings.APIKey); key != "" {
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("setting api_key must be one line of visible ASCII characters; check the file or variable it " +
				"comes from")
		}
		o.endpoint.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer " + key}}
	}
	return nil
}

// Endpoint implements provider.Endpointer.
func (o *OpenAI) Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error) {
	return &o.endpoint, nil
}

var (
	_ provider.Provider     = (*OpenAI)(nil)
	_ provider.Configurable = (*OpenAI)(nil)
	_ provider.Starter      = (*OpenAI)(nil)
	_ provider.Endpointer   = (*OpenAI)(nil)
)
