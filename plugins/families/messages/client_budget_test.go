package messages_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
)

// TestThinkingIsAskedFor proves the "thinking hidden but metered": it can be turned on, and is left out where
// the API would refuse the request with it.
func TestThinkingIsAskedFor(t *testing.T) {
	t.Parallel()
	const enabled = `,"thinking":{"type":"enabled","budget_tokens":2048}`
	const adaptive, disabled = `,"thinking":{"type":"adaptive"}`, `,"thinking":{"type":"disabled"}`
	user := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}
	said := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("well")}}
	calls := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "t1", Name: "f"}}}}
	result := llm.Message{Role: llm.RoleTool, CallID: "t1", Parts: []llm.Part{llm.Text("r")}}
	thought := map[string][]byte{"t1": []byte(`{"first":[{"signature":"s","type":"thinking","thinking":"a"}],"then":[]}`)}
	hidden := map[string][]byte{"t1": []byte(`{"first":[{"data":"d","type":"redacted_thinking"}],"then":[]}`)}
	later := map[string][]byte{"t1": []byte(`{"first":[],"then":[{"type":"thinking","thinking":"a","signature":"s"}]}`)}
	tools := []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
	for name, c := range map[string]struct {
		budget   int64
		change   func(*llm.Request)
		want     string
		adaptive bool // it is the same with as many tokens as the model wants
	}{
		"a budget":                 {2048, func(*llm.Request) {}, enabled, true},
		"none":                     {0, func(*llm.Request) {}, disabled, false},
		"an allowance of the half": {9999, func(r *llm.Request) { r.MaxTokens = 4096 }, enabled, true},
		"an allowance just large enough": {9999, func(r *llm.Request) { r.MaxTokens = 2048 },
			`,"thinking":{"type":"enabled","budget_tokens":1024}`, true},
		"too small an allowance": {2048, func(r *llm.Request) { r.MaxTokens = 2047 }, "", false},
		"an allowance of one":    {2048, func(r *llm.Request) { r.MaxTokens = 1 }, "", false},
		"tools":                  {2048, func(r *llm.Request) { r.Tools = tools }, enabled, true},
		"a tool that must be called": {2048, func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode = tools, llm.ToolRequired
		}, "", true},
		"this tool": {2048, func(r *llm.Request) {
			r.Tools, r.ToolChoice = tools, llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}
		}, "", true},
		"a choice of nothing": {2048, func(r *llm.Request) { r.ToolChoice.Mode = llm.ToolRequired }, enabled, true},
		"no tool": {2048, func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode = tools, llm.ToolNone
		}, enabled, true},
		"none for a forced tool": {0, func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode = tools, llm.ToolRequired
		}, disabled, false},
		"a reply to go on with": {2048, func(r *llm.Request) { r.Messages = []llm.Message{user, said} }, "", true},
		"a conversation": {2048, func(r *llm.Request) {
			r.Messages = []llm.Message{user, said, user}
		}, enabled, true},
		"results": {2048, func(r *llm.Request) {
			r.Messages, r.States = []llm.Message{user, calls, result}, thought
		}, enabled, true},
		"results of a hidden thought": {2048, func(r *llm.Request) {
			r.Messages, r.States = []llm.Message{user, calls, result}, hidden
		}, enabled, true},
		"results and more": {2048, func(r *llm.Request) {
			r.Messages, r.States = []llm.Message{user, calls, result, user}, thought
		}, enabled, true},
		"results without their thought": {2048, func(r *llm.Request) {
			r.Messages = []llm.Message{user, calls, result}
		}, "", false},
		"results of a thought behind text": {2048, func(r *llm.Request) {
			r.Messages, r.States = []llm.Message{user, said, calls, result}, later
		}, "", false},
		"results without their calls": {2048, func(r *llm.Request) { r.Messages = []llm.Message{result} }, "", false},
		"results that were answered": {2048, func(r *llm.Request) {
			r.Messages = []llm.Message{user, calls, result, said, user}
		}, enabled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &llm.Request{Model: "m", MaxTokens: 8000, Messages: []llm.Message{user}}
			c.change(req)
			encoded := func(budget *int64) string {
				b, err := messages.EncodeWith(nil, req, messages.Options{ThinkingBudget: budget})
				require.NoError(t, err)
				require.True(t, json.Valid(b), string(b))
				return string(b)
			}
			none := encoded(nil)
			require.NotContains(t, none, `"thinking":{`)
			got := encoded(&c.budget)
			require.Contains(t, got, c.want)
			require.Len(t, got, len(none)+len(c.want), "nothing else is different")
			if c.adaptive {
				most, want := int64(-1), adaptive
				if c.want == "" {
					want = ""
				}
				got = encoded(&most)
				require.Contains(t, got, want)
				require.Len(t, got, len(none)+len(want))
			}
		})
	}
}

// TestTemperatureAndEffort: a model that thinks takes no temperature but its own; effort and a schema are one member.
func TestTemperatureAndEffort(t *testing.T) {
	t.Parallel()
	half := 0.5
	req := &llm.Request{Model: "m", MaxTokens: 8000, Temperature: &half,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	for budget, want := range map[int64]bool{-1: false, 1024: false, 0: true, 5000: false} {
		b, err := messages.EncodeWith(nil, req, messages.Options{ThinkingBudget: &budget})
		require.NoError(t, err)
		if want {
			require.Contains(t, string(b), `"temperature":0.5`)
		} else {
			require.NotContains(t, string(b), "temperature")
		}
	}
	schema := &llm.Format{Kind: llm.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`)}
	const format = `"format":{"type":"json_schema","schema":{"type":"object"}}`
	for want, c := range map[string]struct {
		effort string
		format *llm.Format
	}{
		`,"output_config":{"effort":"xhigh"}`:              {"xhigh", nil},
		`,"output_config":{` + format + `}`:                {"", schema},
		`,"output_config":{"effort":"low",` + format + `}`: {"low", schema},
		`,"output_config":{"effort":"max"}`:                {"max", &llm.Format{Kind: llm.FormatJSONObject}},
	} {
		req.Format = c.format
		b, err := messages.EncodeWith(nil, req, messages.Options{Effort: c.effort})
		require.NoError(t, err)
		require.Contains(t, string(b), want+"}")
		require.True(t, json.Valid(b), string(b))
	}
}
