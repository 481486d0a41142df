// Package responses is the provider for OpenAI's responses API, and for services that speak it.
//
// It says where calls go; package endpoint makes them, in the gateway or in this provider's process. Each call brings
// the whole conversation, and the service is told to keep nothing of it (`store` false). What the model thinks is
// hidden, and is part of the output that the service reports. A call that runs in the foreground cannot be proven
// after a cancel, so it is no provider.CancelProver: the gateway reads abandoned replies to their end.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package responses

import (
	"cmp"
	"context"
	"errors"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// service is OpenAI's own, which needs a key.
const service = "https://api.openai.com/v1"

// Settings are what an operator can set.
type Settings struct {
	BaseURL string `hcl:"base_url,optional"`
	APIKey  string `hcl:"api_key,optional" secret:"true"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"base_url": "Where the service is: its address up to what comes before /responses. An address without a path gets " +
			"/v1. Over http:// prompts and the key travel in clear. Default: \"" + service + "\".",
		"api_key": "The key of the service, sent as a bearer token. White space around it is dropped. Default: none; " +
			"OpenAI's own service needs one.",
	}
}

// Responses is the provider.
type Responses struct {
	provider.Carried
	settings Settings
	endpoint endpoint.Endpoint
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &Responses{} }

// Settings implements provider.Configurable.
func (r *Responses) Settings() any { return &r.settings }

// Start implements provider.Starter: it checks the settings. The service is not asked anything, for one that
// is down now must not keep a gateway from starting.
func (r *Responses) Start(context.Context) error {
	s := &r.settings
	address, err := endpoint.Join("base_url", cmp.Or(s.BaseURL, service), endpoint.Responses)
	if err != nil {
		return err
	}
	key, err := provider.Secret("api_key", s.APIKey)
	switch {
	case err != nil:
		return err
	case key == "" && s.BaseURL == "":
		return errors.New(`setting api_key is needed; write api_key = env("OPENAI_API_KEY")`)
	}
	r.endpoint = endpoint.Endpoint{Dialect: endpoint.Responses, URL: address}
	if key != "" {
		r.endpoint.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer " + key}}
	}
	return s.Apply(&r.endpoint)
}

// Endpoint implements provider.Endpointer.
func (r *Responses) Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error) {
	return &r.endpoint, nil
}

// Models implements provider.ModelLister.
func (r *Responses) Models(ctx context.Context) ([]llm.Model, error) {
	return r.ListModels(ctx, &r.endpoint, "")
}

var (
	_ provider.ModelLister  = (*Responses)(nil)
	_ provider.Provider     = (*Responses)(nil)
	_ provider.Configurable = (*Responses)(nil)
	_ provider.Starter      = (*Responses)(nil)
	_ provider.Endpointer   = (*Responses)(nil)
)
