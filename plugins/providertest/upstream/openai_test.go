package upstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// official is the official client library, set to a fake.
func official(s *upstream.Server, options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(s.BaseURL()), option.WithAPIKey("k"),
		option.WithMaxRetries(0)}, options...)...)
}

func prompt(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

// withTimeout bounds what a test waits for; it is no part of what is tested.
func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// stream reads a whole stream with the official client's own accumulator.
func stream(t *testing.T, s *upstream.Server, p openai.ChatCompletionNewParams) (openai.ChatCompletionAccumulator,
	[]openai.ChatCompletionChunk, error) {
	t.Helper()
	client := official(s)
	var acc openai.ChatCompletionAccumulator
	var chunks []openai.ChatCompletionChunk
	events := client.Chat.Completions.NewStreaming(withTimeout(t), p)
	for events.Next() {
		chunks = append(chunks, events.Current())
		require.True(t, acc.AddChunk(events.Current()), "the accumulator takes the chunk")
	}
	return acc, chunks, events.Err()
}

func TestStreamedAndNotAreTheSameReply(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	client := official(s)
	whole, err := client.Chat.Completions.New(withTimeout(t), prompt("what a day"))
	require.NoError(t, err)
	require.Equal(t, "You said: what a day", whole.Choices[0].Message.Content)
	require.Equal(t, "stop", whole.Choices[0].FinishReason)
	require.EqualValues(t, 4, whole.Usage.PromptTokens, "three words and one message")
	require.EqualValues(t, 5, whole.Usage.CompletionTokens)
	require.EqualValues(t, 9, whole.Usage.TotalTokens)

	p := prompt("what a day")
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	acc, chunks, err := stream(t, s, p)
	require.NoError(t, err)
	require.Equal(t, whole.Choices[0].Message.Content, acc.Choices[0].Message.Content)
	require.Equal(t, whole.Choices[0].FinishReason, acc.Choices[0].FinishReason)
	require.Equal(t, whole.Usage.TotalTokens, acc.Usage.TotalTokens)
	require.Equal(t, "assistant", chunks[0].Choices[0].Delta.Role)
	require.Len(t, chunks, 1+5+1+1, "role, a chunk for each word, finish, usage")
}

func TestUsageModes(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		mode  upstream.UsageMode
		asked *bool
		want  []int64 // completion tokens of the chunks that have usage
		own   bool    // the last of them has no choice
	}{
		"as asked, asked":      {upstream.UsageAsAsked, &yes, []int64{3}, true},
		"as asked, refused":    {upstream.UsageAsAsked, &no, nil, false},
		"as asked, not asked":  {upstream.UsageAsAsked, nil, nil, false},
		"always":               {upstream.UsageAlways, nil, []int64{3}, true},
		"every chunk":          {upstream.UsageEveryChunk, nil, []int64{0, 1, 2, 3, 3, 3}, true},
		"with the finish":      {upstream.UsageWithFinish, nil, []int64{3}, false},
		"never, however asked": {upstream.UsageNever, &yes, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			reply := upstream.Say("one two three")
			reply.Usage = c.mode
			s.Enqueue(reply)
			p := prompt("x")
			if c.asked != nil {
				p.StreamOptions.IncludeUsage = openai.Bool(*c.asked)
			}
			_, chunks, err := stream(t, s, p)
			require.NoError(t, err)
			var got []int64
			var last openai.ChatCompletionChunk
			for _, chunk := range chunks {
				if chunk.JSON.Usage.Valid() {
					got = append(got, chunk.Usage.CompletionTokens)
					last = chunk
				}
			}
			require.Equal(t, c.want, got)
			if c.want != nil {
				require.Equal(t, c.own, len(last.Choices) == 0)
			}
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err)
			require.Equal(t, c.want != nil, rec.Reported != nil, "the record says what was reported")
			require.EqualValues(t, 3, rec.Used.Completion, "and what was used, reported or not")
		})
	}
}

func TestScriptedUsageHasAllClasses(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	cached, reasoning := int64(600), int64(0)
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("ok"), upstream.Finish("stop"),
		upstream.ReportTokens(upstream.Usage{Prompt: 950, Completion: 700, Cached: &cached, Reasoning: &reasoning}),
		upstream.Done()}})
	client := official(s)
	reply, err := client.Chat.Completions.New(withTimeout(t), prompt("x"))
	require.NoError(t, err)
	require.EqualValues(t, 950, reply.Usage.PromptTokens)
	require.EqualValues(t, 700, reply.Usage.CompletionTokens)
	require.EqualValues(t, 600, reply.Usage.PromptTokensDetails.CachedTokens)
	require.True(t, reply.Usage.CompletionTokensDetails.JSON.ReasoningTokens.Valid(), "an explicit zero is there")
}

func TestInterleavedToolCalls(t *testing.T) {
	t.Parallel()
	reply := upstream.Reply{Steps: []upstream.Step{
		upstream.ToolCall(0, "call_a", "weather"), upstream.ToolCall(1, "call_b", "time"),
		upstream.Arguments(0, `{"city":`), upstream.Arguments(1, `{"zone":`),
		upstream.Arguments(0, `"Rome"}`), upstream.Arguments(1, `"CET"}`),
		upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done(),
	}}
	s := upstream.Start(t, upstream.Options{Script: func(*upstream.Request) upstream.Reply { return reply }})
	_, chunks, err := stream(t, s, prompt("x"))
	require.NoError(t, err)
	var ids []string
	arguments := map[int64]string{}
	for _, chunk := range chunks {
		for _, choice := range chunk.Choices {
			for _, call := range choice.Delta.ToolCalls {
				ids = append(ids, call.ID)
				arguments[call.Index] += call.Function.Arguments
			}
		}
	}
	require.Equal(t, []string{"call_a", "call_b", "", "", "", ""}, ids, "ids stand on the first pieces only")
	require.Equal(t, map[int64]string{0: `{"city":"Rome"}`, 1: `{"zone":"CET"}`}, arguments)

	client := official(s)
	whole, err := client.Chat.Completions.New(withTimeout(t), prompt("x"))
	require.NoError(t, err)
	calls := whole.Choices[0].Message.ToolCalls
	require.Len(t, calls, 2)
	require.Equal(t, "call_b", calls[1].ID)
	require.Equal(t, `{"zone":"CET"}`, calls[1].Function.Arguments)
	require.False(t, whole.Choices[0].Message.JSON.Content.Valid(), "content is null beside calls")
}

func TestReasoningIsBesideTheText(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	reply := upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
		upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}}
	s.SetModel("m", reply)
	client := official(s)
	whole, err := client.Chat.Completions.New(withTimeout(t), prompt("x"))
	require.NoError(t, err)
	require.Equal(t, "42", whole.Choices[0].Message.Content)
	require.Equal(t, `"let me see"`, whole.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw())
	require.EqualValues(t, 4, whole.Usage.CompletionTokens, "reasoning is a part of the completion")
	require.EqualValues(t, 3, whole.Usage.CompletionTokensDetails.ReasoningTokens)
}

func TestErrorsAreTheOnesTheOfficialClientKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    upstream.Error
		status int
		code   string
	}{
		"bad request":    {upstream.BadRequest("no", "messages"), 400, ""},
		"too long":       {upstream.ContextLength(), 400, "context_length_exceeded"},
		"policy":         {upstream.ContentFilter(), 400, "content_filter"},
		"key":            {upstream.InvalidKey(), 401, "invalid_api_key"},
		"forbidden":      {upstream.Forbidden(), 403, "model_not_allowed"},
		"no model":       {upstream.ModelNotFound(), 404, "model_not_found"},
		"rate limit":     {upstream.RateLimited("7"), 429, "rate_limit_exceeded"},
		"no funds":       {upstream.QuotaExceeded(), 429, "insufficient_quota"},
		"internal":       {upstream.ServerError(), 500, ""},
		"overloaded":     {upstream.Overloaded(), 503, "overloaded"},
		"a proxy's page": {upstream.BadGateway(), 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			s.Enqueue(upstream.Refuse(c.err))
			client := official(s)
			_, err := client.Chat.Completions.New(withTimeout(t), prompt("x"))
			var failed *openai.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.status, failed.StatusCode)
			require.Equal(t, c.code, failed.Code)
			require.Equal(t, c.err.RetryAfter, failed.Response.Header.Get("Retry-After"))
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeFailed, rec.Outcome)
			require.Equal(t, c.status, rec.Status)
		})
	}
}

func TestErrorInMidStream(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.ServerError())}})
	acc, _, err := stream(t, s, prompt("x"))
	require.ErrorContains(t, err, "The server had an error")
	require.Equal(t, "half", acc.Choices[0].Message.Content)
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeFailed, rec.Outcome)
	require.Equal(t, 200, rec.Status)
}

func TestLimitsAreHonouredWhenTold(t *testing.T) {
	t.Parallel()
	p := prompt("x")
	p.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"later", "END"}}
	p.MaxTokens = openai.Int(3)
	for name, c := range map[string]struct {
		text         string
		honour       upstream.Honour
		want, finish string
	}{
		"neither":           {"a b END c d", upstream.Honour{}, "a b END c d", "stop"},
		"stop":              {"a b END c d", upstream.Honour{Stop: true}, "a b ", "stop"},
		"stop within words": {"aEN DaENDb", upstream.Honour{Stop: true}, "aEN Da", "stop"},
		"max_tokens":        {"a b c d", upstream.Honour{MaxTokens: true}, "a b c ", "length"},
		"just enough":       {"a b c", upstream.Honour{MaxTokens: true}, "a b c", "stop"},
		"both, stop first":  {"a END c d e", upstream.Honour{Stop: true, MaxTokens: true}, "a ", "stop"},
		"both, limit first": {"a b c d END", upstream.Honour{Stop: true, MaxTokens: true}, "a b c ", "length"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			reply := upstream.Say(c.text)
			reply.Honour = c.honour
			s.SetModel("m", reply)
			client := official(s)
			whole, err := client.Chat.Completions.New(withTimeout(t), p)
			require.NoError(t, err)
			require.Equal(t, c.want, whole.Choices[0].Message.Content)
			require.Equal(t, c.finish, whole.Choices[0].FinishReason)
			acc, _, err := stream(t, s, p)
			require.NoError(t, err)
			require.Equal(t, c.want, acc.Choices[0].Message.Content)
			require.Equal(t, c.finish, acc.Choices[0].FinishReason)
		})
	}
}

func TestToolConversationIsAccepted(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "k", Models: []string{"m"}})
	client := official(s)
	reply, err := client.Chat.Completions.New(withTimeout(t), openai.ChatCompletionNewParams{Model: "m",
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("be brief"), openai.UserMessage("weather?"),
			{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
				ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{
					{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: "call_1",
						Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
							Name: "weather", Arguments: "{}"}}}}}},
			openai.ToolMessage("sunny", "call_1"),
		},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "weather", Parameters: shared.FunctionParameters{"type": "object"}})},
		Temperature: openai.Float(0.5),
	})
	require.NoError(t, err)
	require.Equal(t, "You said: weather?", reply.Choices[0].Message.Content)
	req, err := s.Request(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, "call_1", req.Messages[3].ToolCallID)
	require.Equal(t, "[redacted]", req.Header.Get("Authorization"), "keys are not written down")

	intruder := official(s, option.WithAPIKey("other"))
	_, err = intruder.Chat.Completions.New(withTimeout(t), prompt("x"))
	var failed *openai.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 401, failed.StatusCode)
}
