// Package builtin lists the providers that the gateway's executable holds. Each still runs as a process of its own:
// the gateway starts its executable again, with the command `gateway provider NAME`.
package builtin

import (
	"maps"
	"slices"

	"github.com/fareway/fareway/plugins/anthropic"
	"github.com/fareway/fareway/plugins/bedrock"
	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/gemini"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/ollama"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/responses"
)

var providers = map[string]func() provider.Provider{
	"anthropic": anthropic.New,
	"bedrock":   bedrock.New,
	"echo":      echo.New,
	"gemini":    gemini.New,
	"ollama":    ollama.New,
	"openai":    openai.New,
	"responses": responses.New,
}

// New makes the provider of a name; ok is false when there is none.
func New(name string) (p provider.Provider, ok bool) {
	create, ok := providers[name]
	if !ok {
		return nil, false
	}
	return create(), true
}

// Schema is what the provider of a name accepts in its config block.
func Schema(name string) (settings.Schema, error) {
	p, _ := New(name)
	if c, ok := p.(provider.Configurable); ok {
		return provider.SettingsSchema(c.Settings())
	}
	return settings.Schema{}, nil
}

// Has reports whether there is a provider of a name.
func Has(name string) bool { return providers[name] != nil }

// Names lists the providers, in order.
func Names() []string { return slices.Sorted(maps.Keys(providers)) }
