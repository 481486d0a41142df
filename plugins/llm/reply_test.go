package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// What the gateway withheld is added when the reply is already closed for judging it.
func TestReplyGoesOnAfterClose(t *testing.T) {
	t.Parallel()
	var r llm.Reply
	r.Add(llm.Event{Kind: llm.EventText, Text: "a"})
	r.Add(llm.Event{Kind: llm.EventToolCall, ID: "call_1", Name: "f"})
	r.Add(llm.Event{Kind: llm.EventToolArguments, Text: "{"})
	r.Add(llm.Event{Kind: llm.EventText, Text: "b"})
	r.Close()
	r.Add(llm.Event{Kind: llm.EventText, Text: "c"})
	r.Add(llm.Event{Kind: llm.EventToolArguments, Text: "}"})
	r.Close()
	require.Equal(t, []llm.Item{
		{Text: "a"}, {Call: &llm.ToolCall{ID: "call_1", Name: "f", Arguments: llm.Plain("{}")}}, {Text: "bc"},
	}, r.Items)
}
