package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestReasoningIsReturned proves GAP-117 for services that demand what was thought before their calls: the first call
// brings it, and its result takes it back; where it is forgotten, it is said to be empty.
func TestReasoningIsReturned(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"deepseek", "moonshot"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{Service: service})
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me "), upstream.Reasoning("see"),
				upstream.ToolCall(0, "c0", "f"), upstream.Arguments(0, "{}"), upstream.ToolCall(1, "c1", "f"),
				upstream.Arguments(1, "{}"), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
			values, err := json.Marshal(map[string]string{"preset": service, "base_url": s.BaseURL()})
			require.NoError(t, err)
			p := openai.New()
			require.NoError(t, provider.Configure(t.Context(), p, values))
			req := &llm.Request{Model: "m", MaxTokens: 9, States: map[string][]byte{},
				Tools:    []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}},
				Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
			var reply llm.Reply
			require.NoError(t, p.Generate(t.Context(), req, func(ev llm.Event) error {
				reply.Add(ev)
				if ev.Kind == llm.EventToolCall && ev.State != nil {
					req.States[ev.ID] = ev.State
				}
				return nil
			}))
			require.Len(t, req.States, 1, "of the first call")
			require.Contains(t, string(req.States["c0"]), "let me see")
			reply.Close()
			said := llm.Message{Role: llm.RoleAssistant}
			for _, call := range reply.Calls() {
				said.Parts = append(said.Parts, llm.Part{Call: call})
			}
			req.Messages = append(req.Messages, said,
				llm.Message{Role: llm.RoleTool, CallID: "c0", Parts: []llm.Part{llm.Text("x")}},
				llm.Message{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("y")}})
			for n, want := range []string{"let me see", ""} {
				require.NoError(t, p.Generate(t.Context(), req, func(llm.Event) error { return nil }))
				sent, err := s.Request(t.Context(), int64(n+2))
				require.NoError(t, err)
				require.Equal(t, want, *sent.Messages[1].Reasoning)
				req.States = nil
			}
		})
	}
}
