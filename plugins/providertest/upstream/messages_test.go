package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// anthropicClient is the official client library of the messages family, set to a fake.
func anthropicClient(s *upstream.Server, options ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(s.URL()), option.WithAPIKey("k"),
		option.WithMaxRetries(0)}, options...)...)
}

func messagesPrompt(text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: "m", MaxTokens: 99,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}}
}

// messagesStream reads a whole stream with the official library's own accumulator, and the names of its events.
func messagesStream(t *testing.T, s *upstream.Server, p anthropic.MessageNewParams) (anthropic.Message, []string,
	error) {
	t.Helper()
	client := anthropicClient(s)
	var m anthropic.Message
	var names []string
	events := client.Messages.NewStreaming(withTimeout(t), p)
	for events.Next() {
		ev := events.Current()
		names = append(names, ev.Type)
		require.NoError(t, m.Accumulate(ev))
	}
	return m, names, events.Err()
}

// messagesBoth asks for the same reply streamed and not, has the official library compare them, and returns it.
func messagesBoth(t *testing.T, reply upstream.Reply, p anthropic.MessageNewParams) anthropic.Message {
	t.Helper()
	s := upstream.Start(t, upstream.Options{Script: func(*upstream.Request) upstream.Reply { return reply }})
	client := anthropicClient(s)
	whole, err := client.Messages.New(withTimeout(t), p)
	require.NoError(t, err)
	streamed, _, err := messagesStream(t, s, p)
	require.NoError(t, err)
	require.Len(t, streamed.Content, len(whole.Content))
	for i, want := range whole.Content {
		got := streamed.Content[i]
		require.Equal(t, want.Type, got.Type)
		require.Equal(t, want.Text, got.Text)
		require.Equal(t, want.Thinking, got.Thinking)
		require.Equal(t, want.Signature, got.Signature)
		require.Equal(t, want.ID, got.ID)
		require.Equal(t, want.Name, got.Name)
		if want.Type == "tool_use" {
			require.JSONEq(t, string(want.Input), string(got.Input))
		}
	}
	require.Equal(t, whole.StopReason, streamed.StopReason)
	require.Equal(t, whole.StopSequence, streamed.StopSequence)
	require.Equal(t, whole.Usage.InputTokens, streamed.Usage.InputTokens)
	require.Equal(t, whole.Usage.CacheReadInputTokens, streamed.Usage.CacheReadInputTokens)
	require.Equal(t, whole.Usage.OutputTokens, streamed.Usage.OutputTokens)
	return *whole
}

func TestMessagesText(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	m, names, err := messagesStream(t, s, messagesPrompt("what a day"))
	require.NoError(t, err)
	require.Equal(t, "You said: what a day", m.Content[0].Text)
	require.Equal(t, anthropic.StopReasonEndTurn, m.StopReason)
	require.EqualValues(t, 4, m.Usage.InputTokens, "three words and one message")
	require.EqualValues(t, 5, m.Usage.OutputTokens)
	require.Equal(t, []string{"message_start", "content_block_start", "content_block_delta", "content_block_delta",
		"content_block_delta", "content_block_delta",
		"content_block_delta", "content_block_stop", "message_delta", "message_stop"}, names)
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, "messages", rec.Family)
	require.Equal(t, m.ID, rec.ID)
	require.Equal(t, "[redacted]", rec.Header.Get("X-Api-Key"), "keys are not written down")
	require.EqualValues(t, 5, rec.Reported.Completion)
}

func TestMessagesReplies(t *testing.T) {
	t.Parallel()
	cached, written, thinking := int64(600), int64(50), int64(3)
	usage := upstream.Usage{Prompt: 950, Completion: 700, Cached: &cached, Written: &written, Reasoning: &thinking}
	m := messagesBoth(t, upstream.Reply{Steps: []upstream.Step{
		upstream.Reasoning("let me "), upstream.Reasoning("see"), upstream.Text("Two "), upstream.Text("calls."),
		upstream.ToolCall(0, "toolu_a", "weather"), upstream.ToolCall(1, "toolu_b", "time"),
		upstream.Arguments(1, `{"zone":`), upstream.Arguments(0, `{"city":`), upstream.Arguments(1, `"CET"}`),
		upstream.Arguments(0, `"Rome"}`),
		upstream.ToolCall(2, "toolu_c", "now"),
		upstream.Comment("still here"), upstream.Text("Done."), upstream.Finish("tool_calls"), upstream.ReportTokens(usage),
		upstream.Done()}}, messagesPrompt("x"))
	var kinds []string
	for _, block := range m.Content {
		kinds = append(kinds, block.Type+" "+block.Thinking+block.Text+block.Name+string(block.Input))
	}
	require.Equal(t, []string{"thinking let me see", "text Two calls.", `tool_use weather{"city":"Rome"}`,
		`tool_use time{"zone":"CET"}`, "tool_use now{}", "text Done."}, kinds)
	require.Equal(t, anthropic.StopReasonToolUse, m.StopReason)
	require.EqualValues(t, 300, m.Usage.InputTokens, "the classes of input stand apart")
	require.EqualValues(t, 600, m.Usage.CacheReadInputTokens)
	require.EqualValues(t, 50, m.Usage.CacheCreationInputTokens)
	require.EqualValues(t, 700, m.Usage.OutputTokens)
	require.EqualValues(t, 3, m.Usage.OutputTokensDetails.ThinkingTokens)
}

func TestMessagesEnds(t *testing.T) {
	t.Parallel()
	for finish, want := range map[string]anthropic.StopReason{
		"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal",
		"pause_turn": "pause_turn",
	} {
		t.Run(finish, func(t *testing.T) {
			t.Parallel()
			m := messagesBoth(t, upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(finish),
				upstream.ReportUsage(), upstream.Done()}}, messagesPrompt("x"))
			require.Equal(t, want, m.StopReason)
		})
	}
	t.Run("a stop sequence and a limit are honoured when told", func(t *testing.T) {
		t.Parallel()
		reply := upstream.Say("a b END c")
		reply.Honour = upstream.Honour{Stop: true, MaxTokens: true}
		p := messagesPrompt("x")
		p.StopSequences = []string{"END"}
		m := messagesBoth(t, reply, p)
		require.Equal(t, "a b ", m.Content[0].Text)
		require.Equal(t, anthropic.StopReasonStopSequence, m.StopReason)
		require.Equal(t, "END", m.StopSequence)
		p.MaxTokens = 1
		m = messagesBoth(t, reply, p)
		require.Equal(t, "a ", m.Content[0].Text)
		require.Equal(t, anthropic.StopReasonMaxTokens, m.StopReason)
	})
}

func TestMessagesUsageModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[upstream.UsageMode][]string{
		upstream.UsageAsAsked:    {`"input_tokens":2,"output_tokens":0`, `"input_tokens":2,"output_tokens":3`},
		upstream.UsageAlways:     {`"input_tokens":2,"output_tokens":0`, `"input_tokens":2,"output_tokens":3`},
		upstream.UsageWithFinish: {`"input_tokens":2,"output_tokens":3`},
		upstream.UsageNever:      nil,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			reply := upstream.Say("one two three")
			reply.Usage = mode
			s.Enqueue(reply)
			body,
				err := read(messagesPost(t, s,
				`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`))
			require.NoError(t, err)
			require.Equal(t, len(want), strings.Count(body, `"usage"`), body)
			for _, usage := range want {
				require.Contains(t, body, `"usage":{`+usage+`}`)
			}
			require.True(t, strings.HasSuffix(body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err)
			require.Equal(t, want != nil, rec.Reported != nil)
		})
	}
}

func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    upstream.Error
		status int
		kind   anthropic.ErrorType
		text   string
	}{
		"bad request": {upstream.BadRequest("no", "messages"), 400, "invalid_request_error", "no"},
		"too long":    {upstream.ContextLength(), 400, "invalid_request_error", "prompt is too long"},
		"policy":      {upstream.ContentFilter(), 400, "invalid_request_error", "content filtering policy"},
		"key":         {upstream.InvalidKey(), 401, "authentication_error", "key"},
		"forbidden":   {upstream.Forbidden(), 403, "permission_error", "key"},
		"no model":    {upstream.ModelNotFound(), 404, "not_found_error", "model"},
		"rate limit":  {upstream.RateLimited("7"), 429, "rate_limit_error", "requests"},
		"internal":    {upstream.ServerError(), 500, "api_error", "error"},
		"overloaded":  {upstream.Error{Status: 529, Message: "Overloaded"}, 529, "overloaded_error", "Overloaded"},
		"a type of its own": {upstream.Error{Status: 400, Type: "billing_error", Message: "low"}, 400, "billing_error",
			"low"},
		"a proxy's page": {upstream.BadGateway(), 502, "", "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			s.Enqueue(upstream.Refuse(c.err))
			client := anthropicClient(s)
			_, err := client.Messages.New(withTimeout(t), messagesPrompt("x"))
			var failed *anthropic.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.status, failed.StatusCode)
			require.Equal(t, c.kind, failed.Type())
			require.Contains(t, failed.Error(), c.text)
			require.Equal(t, c.err.RetryAfter, failed.Response.Header.Get("Retry-After"))
		})
	}
	t.Run("in mid-stream", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.Overloaded())}})
		m, _, err := messagesStream(t, s, messagesPrompt("x"))
		require.ErrorContains(t, err, "overloaded_error")
		require.Equal(t, "half", m.Content[0].Text)
	})
}

func TestMessagesToolConversation(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "k", Models: []string{"m"}})
	client := anthropicClient(s)
	p := messagesPrompt("weather?")
	p.System = []anthropic.TextBlockParam{{Text: "be brief"}}
	p.Temperature = param.NewOpt(0.5)
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather",
		InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}}}}}
	p.Messages = append(p.Messages,
		anthropic.NewAssistantMessage(anthropic.NewTextBlock("Let me look."),
			anthropic.NewToolUseBlock("toolu_1", map[string]any{"city": "Rome"}, "weather")),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock("toolu_1", "sunny", false), anthropic.NewTextBlock("and?")))
	reply, err := client.Messages.New(withTimeout(t), p)
	require.NoError(t, err)
	require.Equal(t, "You said: and?", reply.Content[0].Text)
	req, err := s.Request(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, []upstream.Message{{Role: "system", Text: "be brief"}, {Role: "user", Text: "weather?"},
		{Role: "assistant", Text: "Let me look.", Calls: []upstream.PastCall{{ID: "toolu_1", Name: "weather",
			Arguments: `{"city":"Rome"}`}}},
		{Role: "tool", ToolCallID: "toolu_1", Text: "sunny"}, {Role: "user", Text: "and?"}}, req.Messages)

	for name, keyed := range map[string]option.RequestOption{"other": option.WithAPIKey("other"),
		"none": option.WithHeaderDel("X-Api-Key")} {
		intruder := anthropicClient(s, keyed)
		_, err = intruder.Messages.New(withTimeout(t), p)
		var failed *anthropic.Error
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, 401, failed.StatusCode)
	}
	subscriber := anthropicClient(s, option.WithHeaderDel("X-Api-Key"), option.WithHeader("Authorization", "Bearer k"))
	_, err = subscriber.Messages.New(withTimeout(t), p)
	require.NoError(t, err)
}

// messagesPost sends a body as it is.
func messagesPost(t *testing.T, s *upstream.Server, body string) *http.Response {
	t.Helper()
	return postTo(withTimeout(t), t, s, "/messages", body)
}

// TestMessagesBadRequests: each body has one mistake that the real service refuses.
func TestMessagesBadRequests(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"role":"user","content":"x"}`
		call   = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
		result = `{"type":"tool_result","tool_use_id":"c1","content":"ok"}`
		tool   = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
	)
	with := func(members string) string {
		return `{"model":"m","max_tokens":9,"messages":[` + user + `],` + members + `}`
	}
	turns := func(list string) string { return `{"model":"m","max_tokens":9,"messages":[` + list + `]}` }
	said := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	s := upstream.Start(t, upstream.Options{})
	for name, c := range map[string]struct{ body, text string }{
		"not JSON":      {`{`, "not JSON"},
		"no model":      {`{"max_tokens":9,"messages":[` + user + `]}`, "model"},
		"no allowance":  {`{"model":"m","messages":[` + user + `]}`, "max_tokens"},
		"allowance 0":   {`{"model":"m","max_tokens":0,"messages":[` + user + `]}`, "max_tokens"},
		"unknown field": {with(`"stop":["a"]`), "stop"},
		"no messages":   {`{"model":"m","max_tokens":9}`, "messages"},
		"system turn":   {turns(`{"role":"system","content":"x"}`), "messages[0].role"},
		"blank content": {turns(`{"role":"user","content":" "}`), "messages[0].content"},
		"empty content": {turns(said("")), "messages[0].content"},
		"no content":    {turns(`{"role":"user"}`), "messages[0].content"},
		"blank block":   {turns(said(`{"type":"text","text":"\n"}`)), "messages[0].content[0].text"},
		"block with more fields": {turns(said(`{"type":"text","text":"x","name":"y"}`)),
			"messages[0].content[0].name"},
		"block of another family": {turns(said(`{"type":"input_text","text":"x"}`)), "messages[0].content[0].type"},
		"call of a user": {turns(said(`{"type":"tool_use","id":"a","name":"f","input":{}}`)),
			"messages[0].content[0].type"},
		"blank system":           {with(`"system":" "`), "system"},
		"system of another kind": {with(`"system":[{"type":"image"}]`), "system[0].type"},
		"result without a call":  {turns(said(result)), "tool_use_id"},
		"call without a result":  {turns(user + "," + call), "c1"},
		"call overtaken":         {turns(user + "," + call + "," + user), "c1"},
		"result after text": {turns(user + "," + call + "," + said(`{"type":"text","text":"x"},`+result)),
			"before all others"},
		"two results": {turns(user + "," + call + "," + said(result+","+result)), "tool_use_id"},
		"blank text in a result": {turns(user + "," + call + "," +
			said(`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":""}]}`)), "content[0].text"},
		"call with a bad id": {turns(user + "," + strings.ReplaceAll(call, "c1", "c:1")),
			"messages[1].content[0].id"},
		"call with a bad name": {turns(user + "," + strings.ReplaceAll(call, `"f"`, `"f.g"`)),
			"messages[1].content[0].name"},
		"input that is text": {turns(user + "," + strings.ReplaceAll(call, `{}`, `"{}"`)),
			"messages[1].content[0].input"},
		"thinking without a signature": {turns(user +
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}`), "signature"},
		"a beginning that ends in a blank": {turns(user + `,{"role":"assistant","content":"{ "}`), "trailing whitespace"},
		"temperature over 1":               {with(`"temperature":1.1`), "temperature"},
		"blank stop sequence":              {with(`"stop_sequences":["\n"]`), "stop_sequences[0]"},
		"stop sequence that is text":       {with(`"stop_sequences":"a"`), "stop_sequences"},
		"stream not a boolean":             {with(`"stream":"yes"`), "stream"},
		"no tools":                         {with(`"tools":[]`), "tools"},
		"tool of another family": {with(`"tools":[{"type":"function","function":{"name":"f"}}]`),
			"tools[0].function"},
		"hosted tool": {with(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`),
			"tools[0].type"},
		"bad tool name": {with(`"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`),
			"tools[0].name"},
		"two tools of one name": {with(
			`"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`),
			"tools[1].name"},
		"no schema":              {with(`"tools":[{"name":"f"}]`), "tools[0].input_schema"},
		"schema without a type":  {with(`"tools":[{"name":"f","input_schema":{}}]`), "tools[0].input_schema.type"},
		"choice without tools":   {with(`"tool_choice":{"type":"auto"}`), "tool_choice"},
		"choice that is text":    {with(tool + `,"tool_choice":"auto"`), "tool_choice"},
		"unknown choice":         {with(tool + `,"tool_choice":{"type":"required"}`), "tool_choice.type"},
		"choice of another tool": {with(tool + `,"tool_choice":{"type":"tool","name":"g"}`), "tool_choice"},
		"unknown format": {with(`"output_config":{"format":{"type":"json_object"}}`),
			"output_config.format.type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := messagesPost(t, s, c.body)
			body, err := read(resp)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
			require.Contains(t, body, `{"type":"error","error":{"type":"invalid_request_error","message":"`)
			require.Contains(t, body, c.text)
		})
	}
	t.Run("no version", func(t *testing.T) {
		t.Parallel()
		client := anthropicClient(s, option.WithHeaderDel("anthropic-version"))
		_, err := client.Messages.New(withTimeout(t), messagesPrompt("x"))
		require.ErrorContains(t, err, "anthropic-version")
	})
	for name, body := range map[string]string{
		"turns of one role are joined": turns(user + "," + call + "," + said(result) + "," + user),
		"all fields": with(tool +
			`,"tool_choice":{"type":"any","disable_parallel_tool_use":true},"system":[{"type":"text","text":"x",` +
			`"cache_control":{"type":"ephemeral"}}],"top_p":1,"top_k":1,"metadata":{},"thinking":{"type":"disabled"},` +
			`"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}`),
		"null is absent": with(
			`"system":null,"tools":null,"stop_sequences":null,"stream":null,"temperature":null`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := messagesPost(t, s, body)
			reply, err := read(resp)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, reply)
		})
	}
}
