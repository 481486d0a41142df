package main

import (
	"context"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/later"
)

// laterProvider is the command fareway-provider-later: a provider whose service tells afterwards only what a reply
// used.
func laterProvider() {
	provider.Serve(later.New(func(baseURL string) provider.Provider {
		n := new(naming)
		n.Settings().(*openai.Settings).BaseURL = baseURL
		return n
	}))
}

// naming is the provider openai that tells the service the attempt's id, behind the model's name. So the service can
// be asked about an attempt whose provider has died.
type naming struct{ openai.OpenAI }

// Generate implements provider.Provider.
func (n *naming) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	named := *req
	named.Model += "@" + req.Attempt
	return n.OpenAI.Generate(ctx, &named, send)
}

var (
	_ provider.Provider = (*naming)(nil)
	_ provider.Starter  = (*naming)(nil)
)
