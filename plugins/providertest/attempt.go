package providertest

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are settings by their names, with more of them over the base.
func Settings(t testing.TB, base, more map[string]any) settings.Values {
	t.Helper()
	all := maps.Clone(base)
	maps.Copy(all, more)
	raw, err := json.Marshal(all)
	require.NoError(t, err)
	return raw
}

// Start makes a provider with these settings, ready to generate.
func Start(t testing.TB, fresh func() provider.Provider, values settings.Values) provider.Provider {
	t.Helper()
	p := fresh()
	require.NoError(t, provider.Configure(t.Context(), p, values))
	return p
}

// patience is far more than anything here takes, on a busy machine, too.
const patience = 2 * time.Minute

// Context ends with the test, or when it hangs; it is no part of what is tested.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Ask is a request in which user and assistant take turns, the user first: to the model "m", for 100 tokens.
func Ask(texts ...string) *llm.Request {
	req := &llm.Request{Attempt: "att-1", Model: "m", MaxTokens: 100, Window: 8192}
	for i, text := range texts {
		req.Messages = append(req.Messages, said([]llm.Role{llm.RoleUser, llm.RoleAssistant}[i%2], text))
	}
	return req
}

// Reply is what an attempt came to, as far as it came.
type Reply struct {
	llm.Reply
	Thought string            // all of what was thought
	States  map[string][]byte // for llm.Request.States of the requests that follow; nil for none
	Events  []llm.Event
}

// Generate makes one attempt.
func Generate(t testing.TB, p provider.Provider, req *llm.Request) (*Reply, error) {
	t.Helper()
	r := &Reply{}
	err := p.Generate(Context(t), req, func(ev llm.Event) error {
		r.Events = append(r.Events, ev)
		r.Add(ev)
		if ev.Kind == llm.EventReasoning {
			r.Thought += ev.Text
		}
		if ev.State != nil {
			if r.States == nil {
				r.States = make(map[string][]byte)
			}
			r.States[ev.ID] = ev.State
		}
		return nil
	})
	r.Close()
	return r, err
}
