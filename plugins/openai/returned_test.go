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

// TestSignaturesAreReturned proves GAP-117 for Google's chat endpoint: calls come back with the signatures that they
// came with, and a reply of elsewhere with what the service documents for that.
func TestSignaturesAreReturned(t *testing.T) {
	t.Parallel()
	const unsigned = "skip_thought_signature_validator"
	s := fake(t, "gemini")
	p := start(t, at(t, "gemini", s))
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.ToolCall(0, "c0", "f"), upstream.Arguments(0, "{}"),
		upstream.ToolCall(1, "c1", "f"), upstream.Arguments(1, "{}"), upstream.Finish("tool_calls"),
		upstream.ReportUsage(), upstream.Done()}})
	req := &llm.Request{Model: "gemini-3-pro", MaxTokens: 9, States: map[string][]byte{},
		Tools:    []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	var reply llm.Reply
	require.NoError(t, p.Generate(t.Context(), req, func(ev llm.Event) error {
		reply.Add(ev)
		if ev.State != nil {
			req.States[ev.ID] = ev.State
		}
		return nil
	}))
	require.Len(t, req.States, 1, "of the first call")
	reply.Close()
	said := llm.Message{Role: llm.RoleAssistant}
	for _, call := range reply.Calls() {
		said.Parts = append(said.Parts, llm.Part{Call: call})
	}
	req.Messages = append(req.Messages, said,
		llm.Message{Role: llm.RoleTool, CallID: "c0", Parts: []llm.Part{llm.Text("x")}},
		llm.Message{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("y")}})
	kept := req.States
	for n, c := range []struct {
		model  string
		states map[string][]byte
		want   []string // signatures of the calls, "" for none
	}{
		{"gemini-3-pro", kept, []string{"c2lnbmF0dXJlIG9mIHRoZSBmYWtl", ""}},
		{"gemini-3-pro", nil, []string{unsigned, ""}},
		{"models/gemini-3-flash", map[string][]byte{"c0": []byte(`no state of this`)}, []string{unsigned, ""}},
		{"gemini-3-pro", map[string][]byte{"c1": kept["c0"]}, []string{unsigned, "c2lnbmF0dXJlIG9mIHRoZSBmYWtl"}},
		{"gemini-2.5-flash", nil, []string{"", ""}},
	} {
		req.Model, req.States = c.model, c.states
		require.NoError(t, p.Generate(t.Context(), req, func(llm.Event) error { return nil }))
		sent, err := s.Request(t.Context(), int64(n+2))
		require.NoError(t, err)
		require.Equal(t, c.want, signatures(t, sent.Body), "%s", sent.Body)
	}
}

// signatures are those of the calls of the second message.
func signatures(t *testing.T, body []byte) (list []string) {
	var sent struct {
		Messages []struct {
			Calls []struct {
				Extra struct {
					Google struct {
						Signature string `json:"thought_signature"`
					} `json:"google"`
				} `json:"extra_content"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(body, &sent))
	for _, call := range sent.Messages[1].Calls {
		list = append(list, call.Extra.Google.Signature)
	}
	return list
}
