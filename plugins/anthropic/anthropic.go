// Package anthropic is the provider for Anthropic's API, and for services that speak its messages.
//
// It says where calls go; package endpoint makes them, in the gateway or in this provider's process. It marks what of
// a prompt is to be kept in the service's cache. What the model thinks is hidden, and is part of the output that the
// service reports. This API cannot prove what was used after a cancel, so it is no provider.CancelProver: the gateway
// reads abandoned replies to their end.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

const (
	// service is where Anthropic's API is, which needs a key (docs.anthropic.com, "API overview").
	service = "https://api.anthropic.com"
	// defaultVersion is the only version that its documentation names since 2023 ("Versions").
	defaultVersion = "2023-06-01"
	defaultCaching = "5m"
	noCaching      = "off"
)

// Settings are what an operator can set.
type Settings struct {
	BaseURL       string   `hcl:"base_url,optional"`
	APIKey        string   `hcl:"api_key,optional" secret:"true"`
	AuthToken     string   `hcl:"auth_token,optional" secret:"true"`
	Version       string   `hcl:"version,optional"`
	Beta          []string `hcl:"beta,optional"`
	PromptCaching string   `hcl:"prompt_caching,optional"`

	ThinkingBudget *int64 `hcl:"thinking_budget,optional"`
	Effort         string `hcl:"effort,optional"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"base_url": "Where the service is: its address up to what comes before /messages. An address without a path gets " +
			"/v1. Over http:// prompts and the key travel in clear. Default: \"" + service + "\".",
		"api_key": "The key of the service, sent as x-api-key. White space around it is dropped. Default: none; " +
			"Anthropic's own service needs one.",
		"auth_token": "A token to send as a bearer token in place of a key, as some services that speak messages want it. " +
			"Default: none.",
		"version": "The version of the API, sent as anthropic-version. Default: \"" + defaultVersion + "\".",
		"beta": "Features to ask for that are not general yet, sent as anthropic-beta: [\"context-1m-2025-08-07\"]. They " +
			"can change what replies hold and cost. Default: none.",
		"prompt_caching": "How long the service is to keep the beginning of a prompt for the next turn: \"5m\", \"1h\", or " +
			"\"off\". Tools, instructions and the last two turns of the user are marked. Writing costs more than input (a " +
			"quarter more, for 1h twice as much) and reading a tenth: off pays where prompts do not come again. Set " +
			"cache_read and cache_write in the route's price. Default: \"" + defaultCaching + "\".",
		"thinking_budget": "How many tokens the model may think for before it answers, which are charged as output and not " +
			"shown: -1 for as many as it wants (\"adaptive\", of models since Claude 4.6), 1024 or more for older ones " +
			"(\"enabled\"; at most half of a request's allowance), 0 for none. Left out of requests that the service " +
			"refuses with it: those that must call a tool or go on with a reply, and those too small. Set reasons = true " +
			"in the route. Default: the model's own way.",
		"effort": "How much the model does for a reply, thinking included: \"low\", \"medium\", \"high\", \"xhigh\" " +
			"or \"max\"; which of them a model has says its documentation. Default: the model's.",
	}
}

// Choices implements provider.Choosy.
func (Settings) Choices() map[string][]string {
	return map[string][]string{"prompt_caching": {defaultCaching, "1h", noCaching}, "effort": messages.Efforts()}
}

// Anthropic is the provider.
type Anthropic struct {
	provider.Carried
	settings Settings
	endpoint endpoint.Endpoint
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &Anthropic{} }

// Settings implements provider.Configurable.
func (a *Anthropic) Settings() any { return &a.settings }

// Start implements provider.Starter: it checks the settings. The service is not asked anything, for one that
// is down now must not keep a gateway from starting.
func (a *Anthropic) Start(context.Context) error {
	s := &a.settings
	address, err := endpoint.Join("base_url", cmp.Or(s.BaseURL, service), endpoint.Messages)
	if err != nil {
		return err
	}
	key, keyErr := provider.Secret("api_key", s.APIKey)
	token, tokenErr := provider.Secret("auth_token", s.AuthToken)
	version, versionErr := provider.Secret("version", s.Version)
	switch err := errors.Join(keyErr, tokenErr, versionErr); {
	case err != nil:
		return err
	case key == "" && token == "" && s.BaseURL == "":
		return errors.New("setting api_key is needed; write api_key = env(\"ANTHROPIC_API_KEY\")")
	case key != "" && token != "":
		return errors.New("settings api_key and auth_token exclude each other; leave one of them out")
	}
	caching := cmp.Or(s.PromptCaching, defaultCaching)
	switch caching {
	case noCaching:
		caching = ""
	case "5m", "1h":
	default:
		return errors.New("setting prompt_caching must be 5m, 1h or off")
	}
	if n := s.ThinkingBudget; n != nil && *n != -1 && *n != 0 && *n < messages.LeastThinking {
		return fmt.Errorf("setting thinking_budget must be at least %d tokens, 0 for none, or -1 for as many as the "+
			"model wants", messages.LeastThinking)
	}
	if s.Effort != "" && !slices.Contains(messages.Efforts(), s.Effort) {
		return fmt.Errorf("setting effort must be one of %s", strings.Join(messages.Efforts(), ", "))
	}
	a.endpoint = endpoint.Endpoint{
		Dialect: endpoint.Messages, URL: address, CacheControl: caching,
		ThinkingBudget: s.ThinkingBudget, ThinkingLevel: s.Effort,
		Headers: []endpoint.Header{{Name: "Anthropic-Version", Value: cmp.Or(version, defaultVersion)}},
	}
	for _, h := range []endpoint.Header{{Name: "X-Api-Key", Value: key}, {Name: "Anthropic-Beta",
		Value: strings.Join(s.Beta, ",")}} {
		if h.Value != "" {
			a.endpoint.Headers = append(a.endpoint.Headers, h)
		}
	}
	if token != "" {
		a.endpoint.Settings.Key = "auth_token"
		a.endpoint.Headers = append(a.endpoint.Headers, endpoint.Header{Name: "Authorization", Value: "Bearer " + token})
	}
	return s.Apply(&a.endpoint)
}

// Endpoint implements provider.Endpointer.
func (a *Anthropic) Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error) {
	return &a.endpoint, nil
}

// KnownModels implements provider.ModelKnower: the usual prices, by platform.claude.com/docs/en/about-claude/pricing.
// What writing to the cache costs depends on how long it is kept.
func (a *Anthropic) KnownModels() (known []llm.Model) {
	for _, id := range []string{"claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7"} {
		for caching, write := range map[string]string{"": "6.25", defaultCaching: "6.25", "1h": "10", noCaching: ""} {
			known = append(known, llm.Model{ID: id, Where: map[string]string{"base_url": "", "prompt_caching": caching},
				Price:  &llm.ModelPrice{Input: "5", Output: "25", CacheRead: "0.50", CacheWrite: write},
				Source: "platform.claude.com/docs/en/about-claude/pricing", Date: "2026-11-22"})
		}
	}
	slices.SortFunc(known, func(a, b llm.Model) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Where["prompt_caching"], b.Where["prompt_caching"]))
	})
	return known
}

// Models implements provider.ModelLister. 1,000 is the most that the service lists at once.
func (a *Anthropic) Models(ctx context.Context) ([]llm.Model, error) {
	return a.ListModels(ctx, &a.endpoint, "?limit=1000")
}

var (
	_ provider.ModelKnower  = (*Anthropic)(nil)
	_ provider.ModelLister  = (*Anthropic)(nil)
	_ provider.Provider     = (*Anthropic)(nil)
	_ provider.Configurable = (*Anthropic)(nil)
	_ provider.Starter      = (*Anthropic)(nil)
	_ provider.Endpointer   = (*Anthropic)(nil)
)
