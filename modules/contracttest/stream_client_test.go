package contracttest

import (
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	openairesponses "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// read is a stream as an official client library reads it. Failed is the error frame's code.
type read struct {
	Text, Finish  string
	Calls         []toolCall
	Input, Output int64
	Failed        string
}

// clients read a stream to its end with the official library of a shape. Whether the end marker came is not
// to be seen through them, but what stands before it is (SSE-38).
var clients = map[string]func(testing.TB, *caller) read{
	"chat": readChat, "responses": readResponses, "messages": readMessages,
}

func openAI(c *caller) openai.Client {
	return openai.NewClient(option.WithBaseURL(c.URL+"/v1"), option.WithAPIKey(c.Key), option.WithMaxRetries(0))
}

func readChat(t testing.TB, c *caller) read {
	client := openAI(c)
	events := client.Chat.Completions.NewStreaming(within(t), openai.ChatCompletionNewParams{
		Model:         "service/auto",
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Mark)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}, option.WithJSONSet("tools", []any{chatFunction("f"), chatFunction("g")}))
	var acc openai.ChatCompletionAccumulator
	for events.Next() {
		require.True(t, acc.AddChunk(events.Current()))
	}
	r := read{Input: acc.Usage.PromptTokens, Output: acc.Usage.CompletionTokens}
	if err := events.Err(); err != nil {
		var failed *ssestream.StreamError
		require.ErrorAs(t, err, &failed)
		var body struct{ Error openai.ErrorObject }
		require.NoError(t, json.Unmarshal(failed.Event.Data, &body))
		r.Failed = body.Error.Code
	}
	require.Len(t, acc.Choices, 1)
	choice := acc.Choices[0]
	r.Text, r.Finish = choice.Message.Content, choice.FinishReason
	for _, call := range choice.Message.ToolCalls {
		r.Calls = append(r.Calls, toolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return r
}

func chatFunction(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{"name": name}}
}

func readResponses(t testing.TB, c *caller) read {
	client := openAI(c)
	events := client.Responses.NewStreaming(within(t), openairesponses.ResponseNewParams{
		Model: "service/auto",
		Input: openairesponses.ResponseNewParamsInputUnion{OfString: openai.String(c.Mark)},
	}, option.WithJSONSet("tools", []any{map[string]any{"type": "function", "name": "f"},
		map[string]any{"type": "function", "name": "g"}}))
	var r read
	take := func(response openairesponses.Response) {
		r.Finish = string(response.Status)
		r.Input, r.Output = response.Usage.InputTokens, response.Usage.OutputTokens
		require.Equal(t, r.Text, response.OutputText(), "the deltas add up to the response")
		for _, item := range response.Output {
			if call, ok := item.AsAny().(openairesponses.ResponseFunctionToolCall); ok {
				r.Calls = append(r.Calls, toolCall{ID: call.CallID, Name: call.Name, Arguments: call.Arguments})
			}
		}
	}
	for events.Next() {
		switch ev := events.Current().AsAny().(type) {
		case openairesponses.ResponseTextDeltaEvent:
			r.Text += ev.Delta
		case openairesponses.ResponseCompletedEvent:
			take(ev.Response)
		case openairesponses.ResponseIncompleteEvent:
			take(ev.Response)
		case openairesponses.ResponseErrorEvent:
			r.Failed = ev.Code
		case openairesponses.ResponseFailedEvent:
			require.Equal(t, r.Failed, string(ev.Response.Error.Code))
			r.Finish = string(ev.Response.Status)
		}
	}
	require.NoError(t, events.Err())
	return r
}

func readMessages(t testing.TB, c *caller) read {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(c.URL), anthropicoption.WithAPIKey(c.Key),
		anthropicoption.WithMaxRetries(0))
	tool := func(name string) anthropic.ToolUnionParam {
		return anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{Name: name}}
	}
	events := client.Messages.NewStreaming(within(t), anthropic.MessageNewParams{
		Model: "service/auto", MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.Mark))},
		Tools:    []anthropic.ToolUnionParam{tool("f"), tool("g")},
	})
	var m anthropic.Message
	for events.Next() {
		require.NoError(t, m.Accumulate(events.Current()))
	}
	r := read{Finish: string(m.StopReason), Input: m.Usage.InputTokens, Output: m.Usage.OutputTokens}
	if err := events.Err(); err != nil {
		var failed *anthropic.Error
		require.ErrorAs(t, err, &failed)
		var body struct {
			Error struct{ Type string }
		}
		require.NoError(t, json.Unmarshal([]byte(failed.RawJSON()), &body))
		r.Failed = body.Error.Type
	}
	for _, block := range m.Content { // not AsAny, which does not know of blocks that are open
		switch block.Type {
		case "text":
			r.Text += block.Text
		case "tool_use":
			r.Calls = append(r.Calls, toolCall{ID: block.ID, Name: block.Name, Arguments: string(block.Input)})
		}
	}
	return r
}

// TestOfficialClients has the official libraries read every kind of stream.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	finishes := map[string]map[string]string{
		"stop":       {"chat": "stop", "responses": "completed", "messages": "end_turn"},
		"tool_calls": {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"},
		"length":     {"chat": "length", "responses": "incomplete", "messages": "max_tokens"},
		"error":      {"chat": "", "responses": "failed", "messages": ""},
	}
	f := toolCall{ID: "call_1", Name: "f", Arguments: `{"q":1}`}
	h := toolCall{ID: "call_2", Name: "g", Arguments: `{"r":[2,"é\n"]}`}
	for _, tt := range []struct {
		name   string
		reply  upstream.Reply
		text   string
		calls  []toolCall
		finish string
		failed string
	}{
		{name: "text", reply: hello, text: "Hello", finish: "stop"},
		{name: "text of every sort", reply: script(used(10, 2), "stop", upstream.Text("\"quoted\"\\ \n\t"),
			upstream.Text("日本 é 😀\u2028</script>")),
			text: "\"quoted\"\\ \n\t日本 é 😀\u2028</script>", finish: "stop"},
		{name: "out of room", reply: script(used(10, 2), "length", upstream.Text("Hel")), text: "Hel", finish: "length"},
		{name: "tool call", finish: "tool_calls", calls: []toolCall{f},
			reply: script(used(10, 2), "tool_calls", upstream.ToolCall(0, f.ID, f.Name), upstream.Arguments(0, `{"q"`),
				upstream.Arguments(0, `:1}`))},
		{name: "tool call without arguments", finish: "tool_calls",
			calls: []toolCall{{ID: "call_1", Name: "f", Arguments: "{}"}},
			reply: script(used(10, 2), "tool_calls", upstream.ToolCall(0, f.ID, f.Name))},
		{name: "parallel calls, one after the other", text: "Both. ", finish: "tool_calls", calls: []toolCall{f, h},
			reply: script(used(10, 2), "tool_calls", upstream.Text("Both. "),
				upstream.ToolCall(0, f.ID, f.Name), upstream.Arguments(0, f.Arguments),
				upstream.ToolCall(1, h.ID, h.Name), upstream.Arguments(1, h.Arguments))},
		{name: "parallel calls, interleaved", finish: "tool_calls", calls: []toolCall{f, h},
			reply: script(used(10, 2), "tool_calls", upstream.ToolCall(0, f.ID, f.Name), upstream.ToolCall(1, h.ID, h.Name),
				upstream.Arguments(1, `{"r":[2,`), upstream.Arguments(0, `{"q"`), upstream.Arguments(1, `"é\n"]}`),
				upstream.Arguments(0, `:1}`))},
		{name: "failure after text", text: "Hel", finish: "error", failed: "upstream_error",
			reply: upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Fail(upstream.ServerError())}}},
		{name: "failure at the last moment", text: "Hel", finish: "error", failed: "stream_error",
			reply: upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Finish("stop"), upstream.ReportUsage(),
				upstream.Cut()}}},
		{name: "upstream cut off", text: "Hel", finish: "error", failed: "stream_error",
			reply: upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Cut()}}},
	} {
		for _, sh := range shapes {
			t.Run("SSE-38 "+sh.Name+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(tt.reply)
				want := read{Text: tt.text, Finish: finishes[tt.finish][sh.Name], Calls: tt.calls, Failed: tt.failed}
				if tt.failed == "" {
					want.Input, want.Output = 10, 2
				}
				got := clients[sh.Name](t, c)
				if tt.failed != "" {
					got.Input, got.Output = 0, 0 // messages: the estimate, which nothing corrects
				}
				require.Equal(t, want, got)
			})
		}
	}
}
