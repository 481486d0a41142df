package main

import (
	"context"
	"errors"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
)

// prover is a provider openai that proves what a cancelled attempt used: always the same, and on the route "mute"
// never.
type prover struct {
	openai.OpenAI
	models sync.Map // by attempt
}

func newProver() provider.Provider { return new(prover) }

func (p *prover) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	p.models.Store(req.Attempt, req.Model)
	return p.OpenAI.Generate(ctx, req, send)
}

func (p *prover) CancelUsage(ctx context.Context, attempt string) (*llm.Usage, error) {
	if model, _ := p.models.Load(attempt); model == "mute" {
		<-ctx.Done()
		return nil, errors.New("mute")
	}
	return &llm.Usage{Input: llm.Count(10), Output: llm.Count(7)}, nil
}

var _ provider.CancelProver = (*prover)(nil)
