// Command fareway-provider-hello is a provider plugin that greets. plugins/README.md takes you through it.
package main

import (
	"context"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Config is the `config` block of the operator's file.
type Config struct {
	Greeting string `hcl:"greeting,optional" doc:"What the reply begins with. Default: Hello."`
}

// Hello greets whoever wrote the last message.
type Hello struct{ config Config }

// New makes a provider with its defaults; the gateway fills in the operator's settings.
func New() provider.Provider { return &Hello{Config{Greeting: "Hello"}} }

func (h *Hello) Settings() any { return &h.config }

func (h *Hello) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	// Here a real provider calls its upstream, with ctx, and returns an *llm.Error when that refuses.
	reply := h.config.Greeting + ", " + req.Messages[len(req.Messages)-1].Text()
	usage := &llm.Usage{Input: llm.Count(int64(len(req.Messages))), Output: llm.Count(2)}

	// Accepted goes out as soon as the upstream has taken the request: the client's stream opens on it.
	if err := send(llm.Event{Kind: llm.EventAccepted, Model: req.Model}); err != nil {
		return err
	}
	for word := range strings.SplitAfterSeq(reply, " ") {
		if err := send(llm.Event{Kind: llm.EventText, Text: word}); err != nil {
			return err // the caller has left
		}
	}
	if err := send(llm.Event{Kind: llm.EventUsage, Usage: usage}); err != nil {
		return err
	}
	return send(llm.Event{Kind: llm.EventFinish, Finish: llm.FinishStop})
}

func main() { provider.Serve(New()) }
