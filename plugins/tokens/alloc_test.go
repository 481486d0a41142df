//go:build !race

package tokens_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// Not parallel: allocations are counted for the whole process. Not with the race detector: under it a sync.Pool
// drops what it is given now and then.
func TestCountingAllocatesNothing(t *testing.T) {
	req := &llm.Request{
		Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("How warm is it in Graz, à peu près?")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{{Text: llm.Quoted(`I look.\n`),
				Call: &llm.ToolCall{ID: "c", Name: "f", Arguments: llm.Quoted(`{\"city\":\"Graz\"}`)}}}},
		},
		Tools: []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object"}`)}},
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { tokens.Estimate(req) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { tokens.Bound(req) }))
}
