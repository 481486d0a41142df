// Command fareway-provider-token is a provider plugin for a service that speaks chat completions and takes tokens
// which another program renews in a file, as Kubernetes does. plugins/README.md takes you through it.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Config is the `config` block of the operator's file.
type Config struct {
	BaseURL   string `hcl:"base_url" doc:"The address of the API, up to what comes before /chat/completions."`
	TokenFile string `hcl:"token_file" doc:"The file with the token of the service."`
}

// Token says where calls go; the gateway makes them.
type Token struct {
	provider.Carried
	config Config
}

// New makes a provider; the gateway fills in the operator's settings.
func New() provider.Provider { return &Token{} }

func (p *Token) Settings() any { return &p.config }

func (p *Token) Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error) {
	address, err := endpoint.Join("base_url", p.config.BaseURL, endpoint.Chat)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(p.config.TokenFile)
	if err != nil {
		return nil, llm.Errorf(llm.ErrCredentials, "reading token_file: %v", err)
	}
	return &endpoint.Endpoint{
		Dialect:  endpoint.Chat,
		URL:      address,
		Headers:  []endpoint.Header{{Name: "Authorization", Value: "Bearer " + strings.TrimSpace(string(token))}},
		Expires:  time.Now().Add(time.Minute),
		Settings: endpoint.Settings{Key: "token_file"},
	}, nil
}

func main() { provider.Serve(New()) }
