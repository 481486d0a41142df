//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// model is the mind of the fake service in these tests. Asked "weather in A and B" with a tool at hand, it calls
// the tool for all of them at once; given results, it tells them; otherwise it says the prompt again. It ignores
// stop sequences, as some services do.
func model(req *upstream.Request) upstream.Reply {
	if results := toolResults(req); results != nil {
		return upstream.Say(strings.Join(results, ", "))
	}
	asked, ok := strings.CutPrefix(req.LastUser(), "weather in ")
	if !ok || len(req.Tools) == 0 {
		return upstream.Say(req.LastUser())
	}
	var begin, middle, end []upstream.Step
	for i, city := range strings.Split(asked, " and ") {
		begin = append(begin, upstream.ToolCall(i, "call_"+city, req.Tools[0].Name))
		middle = append(middle, upstream.Arguments(i, `{"city":`))
		end = append(end, upstream.Arguments(i, fmt.Sprintf("%q}", city)))
	}
	return upstream.Reply{Steps: slices.Concat(begin, middle, end,
		[]upstream.Step{upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()})}
}

// toolResults are the tool results that the conversation ends with.
func toolResults(req *upstream.Request) []string {
	var results []string
	for _, m := range slices.Backward(req.Messages) {
		if m.Role != "tool" {
			break
		}
		results = append([]string{m.Text}, results...)
	}
	return results
}

// weather is the tool on the client's side; it runs here, and nowhere else.
func weather(t testing.TB, name, arguments string) string {
	t.Helper()
	require.Equal(t, "get_weather", name)
	var in struct{ City string }
	require.NoError(t, json.Unmarshal([]byte(arguments), &in), "%s", arguments)
	return "sunny in " + in.City
}

// weatherSchema are the tool's parameters.
var weatherSchema = map[string]any{
	"type":       "object",
	"properties": map[string]any{"city": map[string]any{"type": "string"}},
	"required":   []string{"city"},
}

// said is one message as the route got it.
type said struct{ Role, Text, CallID string }

// received finds what the route got of the conversation whose last user message is prompt: its last request.
func received(t testing.TB, up *upstream.Server, prompt string) (messages []said, calls []upstream.PastCall) {
	t.Helper()
	ctx := withTimeout(t)
	require.NoError(t, up.Idle(ctx))
	for _, rec := range slices.Backward(up.Records()) {
		req, err := up.Request(ctx, rec.N)
		require.NoError(t, err)
		if req.LastUser() != prompt {
			continue
		}
		for _, m := range req.Messages {
			messages = append(messages, said{m.Role, m.Text, m.ToolCallID})
			calls = append(calls, m.Calls...)
		}
		return messages, calls
	}
	require.Fail(t, "the route got no such request", prompt)
	return nil, nil
}

// requests counts those that reached the route with this last user message.
func requests(t testing.TB, up *upstream.Server, prompt string) int {
	t.Helper()
	ctx := withTimeout(t)
	n := 0
	for _, rec := range up.Records() {
		req, err := up.Request(ctx, rec.N)
		require.NoError(t, err)
		if req.LastUser() == prompt {
			n++
		}
	}
	return n
}

// price is what hcl's route costs for a usage, in microcents.
func price(input, output int64) int64 { return 300*input + 1500*output }

// modes runs a test for plain and for streamed replies.
func modes(t *testing.T, test func(t *testing.T, stream bool)) {
	t.Run("plain", func(t *testing.T) { t.Parallel(); test(t, false) })
	t.Run("streamed", func(t *testing.T) { t.Parallel(); test(t, true) })
}

// conversation is ten turns with a system prompt before them, each a user's and a model's but the last.
func conversation(family string) []said {
	all := []said{{Role: "system", Text: "You are terse. " + family}}
	for i := range 10 {
		all = append(all, said{Role: "user", Text: fmt.Sprintf("%s question %d", family, i)})
		if i < 9 {
			all = append(all, said{Role: "assistant", Text: fmt.Sprintf("answer %d", i)})
		}
	}
	return all
}

// longPrompt has 150,000 words, which are as many tokens by the fake's count, and more by ours.
func longPrompt(mark string) string {
	return mark + strings.Repeat(" lorem ipsum dolor sit amet", 30_000)
}
