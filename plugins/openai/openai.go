// Package openai is the provider for every service that speaks OpenAI's chat completions: OpenAI itself,
// Ollama, vLLM, llama.cpp's server, OpenRouter and many more. How they differ is data, see presets.
//
// It says where calls go; package endpoint makes them, in the gateway or in this provider's process. A stream with
// usage at its end is asked for, or a reply in one piece where nobody sees it earlier. What comes is taken: a stream
// with usage anywhere or nowhere, or a reply in one piece. This API cannot prove what was used after a cancel, so it
// is no provider.CancelProver: the gateway reads abandoned replies to their end. That of llama.cpp can, see
// endpoint.Endpoint.Timings.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are what an operator can set.
type Settings struct {
	Preset     string `hcl:"preset,optional"`
	BaseURL    string `hcl:"base_url,optional"`
	APIKey     string `hcl:"api_key,optional" secret:"true"`
	APIVersion string `hcl:"api_version,optional"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"preset": "The service: its address, and how it differs from OpenAI's own. One of " + strings.Join(Presets(), ", ") +
			". Default: none, which is a service that takes what OpenAI took at first (max_tokens, stream_options).",
		"base_url": "Where the service is: its address up to what comes before /chat/completions, such as " +
			"\"https://api.openai.com/v1\" or \"http://127.0.0.1:11434/v1\". An address without a path gets /v1. " +
			"Of azure it is the resource's, \"https://NAME.openai.azure.com\". " +
			"Over http:// prompts and the key travel in clear. Default: the preset's.",
		"api_key": "The key of the service, sent as a bearer token (azure: in the header api-key). White space around it " +
			"is dropped. Default: none, as local services have it.",
		"api_version": "Of azure: the version of its API, as its documentation names it, or \"v1\". Default: \"" +
			azureVersion + "\".",
	}
}

// Choices implements provider.Choosy.
func (Settings) Choices() map[string][]string { return map[string][]string{"preset": Presets()} }

// azureVersion is the latest dated release of Azure's API.
const azureVersion = "2024-10-21"

// OpenAI is the provider.
type OpenAI struct {
	provider.Carried
	settings Settings
	endpoint endpoint.Endpoint
	// deployments is the address above those of the models, nil where all have one address.
	deployments *url.URL
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &OpenAI{} }

// Settings implements provider.Configurable.
func (o *OpenAI) Settings() any { return &o.settings }

// Start implements provider.Starter: it checks the settings. The service is not asked anything, for one that
// is down now must not keep a gateway from starting.
func (o *OpenAI) Start(context.Context) error {
	s := &o.settings
	service, known := presets[s.Preset]
	switch {
	case s.Preset != "" && !known:
		return fmt.Errorf("setting preset must be one of %s", strings.Join(Presets(), ", "))
	case s.BaseURL == "" && service.base == "":
		return fmt.Errorf("setting base_url is needed: write the address of the service%s",
			map[bool]string{true: ", or set preset to its name"}[!known])
	case known && !service.keyless && s.APIKey == "" && s.BaseURL == "":
		return fmt.Errorf("setting api_key is needed for %s; write api_key = env(\"%s_API_KEY\")", s.Preset,
			strings.ToUpper(s.Preset))
	case s.APIVersion != "" && !service.deployments:
		return fmt.Errorf("setting api_version is of preset \"azure\" only; leave it out")
	}
	o.endpoint = endpoint.Endpoint{Dialect: endpoint.Chat, Refuses: service.refuses,
		ReturnReasoning: service.returns, StrictTools: service.strict, References: service.generations,
		Timings: service.timings}
	if service.generations {
		o.endpoint.ReferenceHeader = generationHeader
	}
	if err := o.address(service); err != nil {
		return err
	}
	key, err := provider.Secret("api_key", s.APIKey)
	switch {
	case err != nil:
		return err
	case key != "" && service.header != "":
		o.endpoint.Headers = []endpoint.Header{{Name: service.header, Value: key}}
	case key != "":
		o.endpoint.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer " + key}}
	}
	return s.Apply(&o.endpoint)
}

// address sets where calls go.
func (o *OpenAI) address(service preset) (err error) {
	base := cmp.Or(o.settings.BaseURL, service.base)
	version := cmp.Or(o.settings.APIVersion, azureVersion)
	if service.deployments {
		base = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(base), "/"), "/openai/v1") + "/openai/v1"
	}
	if o.endpoint.URL, err = endpoint.Join("base_url", base, endpoint.Chat); err != nil {
		return err
	}
	if service.deployments && version != "v1" {
		o.deployments, err = url.Parse(strings.TrimSuffix(o.endpoint.URL, "v1/chat/completions") + "deployments")
		if err != nil {
			return err
		}
		o.deployments.RawQuery = url.Values{"api-version": {version}}.Encode()
	}
	return nil
}

// Endpoint implements provider.Endpointer.
func (o *OpenAI) Endpoint(_ context.Context, target provider.Target) (*endpoint.Endpoint, error) {
	ofModel := presets[o.settings.Preset].ofModel
	if o.deployments == nil && ofModel == nil {
		return &o.endpoint, nil
	}
	e := o.endpoint
	if ofModel != nil {
		ofModel(&e, target.Model)
	}
	if o.deployments != nil {
		e.URL = o.deployments.JoinPath(url.PathEscape(target.Model), "chat/completions").String()
	}
	return &e, nil
}

// KnownModels implements provider.ModelKnower: the usual prices of services that have a preset.
func (o *OpenAI) KnownModels() []llm.Model {
	return []llm.Model{{ID: "gpt-5-mini", Where: map[string]string{"preset": "openai"}, ContextWindow: 400_000,
		MaxOutput: 128_000, Price: &llm.ModelPrice{Input: "0.25", Output: "2.00", CacheRead: "0.025"},
		Source: "developers.openai.com/api/docs/models/gpt-5-mini", Date: "2026-11-22"}}
}

// Models implements provider.ModelLister.
func (o *OpenAI) Models(ctx context.Context) ([]llm.Model, error) {
	if presets[o.settings.Preset].deployments {
		return nil, llm.Errorf(llm.ErrRejected, "Azure lists models, and a route names a deployment of one; write the "+
			"routes by hand, with the names of your deployments")
	}
	models, err := o.ListModels(ctx, &o.endpoint, "")
	if presets[o.settings.Preset].timings {
		o.describe(ctx, models)
	}
	return models, err
}

var (
	_ provider.ModelKnower  = (*OpenAI)(nil)
	_ provider.ModelLister  = (*OpenAI)(nil)
	_ provider.Provider     = (*OpenAI)(nil)
	_ provider.Configurable = (*OpenAI)(nil)
	_ provider.Starter      = (*OpenAI)(nil)
	_ provider.Endpointer   = (*OpenAI)(nil)
)
