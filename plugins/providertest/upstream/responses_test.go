package upstream_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func responsesPrompt(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "m",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

// responsesStream reads a whole stream with the official library and returns its last response, what its deltas add
// up to by item, and the names of its events, which have to be numbered.
func responsesStream(t *testing.T, s *upstream.Server, p responses.ResponseNewParams) (responses.Response,
	map[string]string, []string, error) {
	t.Helper()
	client := official(s)
	var last responses.Response
	deltas := map[string]string{}
	var names []string
	events := client.Responses.NewStreaming(withTimeout(t), p)
	for events.Next() {
		ev := events.Current()
		require.EqualValues(t, len(names), ev.SequenceNumber)
		names = append(names, ev.Type)
		switch ev.Type {
		case "response.output_text.delta", "response.function_call_arguments.delta", "response.reasoning_summary_text.delta":
			deltas[ev.ItemID] += ev.Delta
		case "response.completed", "response.incomplete", "response.failed":
			last = ev.Response
		}
	}
	return last, deltas, names, events.Err()
}

// itemText is what an output item says.
func itemText(item responses.ResponseOutputItemUnion) string {
	switch item.Type {
	case "message":
		return item.Content[0].Text
	case "reasoning":
		return item.Summary[0].Text
	}
	return item.Arguments.OfString
}

// responsesBoth asks for the same reply streamed and not, compares them, and returns it.
func responsesBoth(t *testing.T, reply upstream.Reply, p responses.ResponseNewParams) responses.Response {
	t.Helper()
	s := upstream.Start(t, upstream.Options{Script: func(*upstream.Request) upstream.Reply { return reply }})
	client := official(s)
	whole, err := client.Responses.New(withTimeout(t), p)
	require.NoError(t, err)
	streamed, deltas, _, err := responsesStream(t, s, p)
	require.NoError(t, err)
	var one, other map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(whole.RawJSON(), whole.ID, streamed.ID)), &one))
	require.NoError(t, json.Unmarshal([]byte(streamed.RawJSON()), &other))
	delete(one, "created_at")
	delete(other, "created_at")
	require.Equal(t, one, other)
	for _, item := range streamed.Output {
		require.Equal(t, itemText(item), deltas[item.ID])
	}
	return *whole
}

func TestResponsesText(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	r, _, names, err := responsesStream(t, s, responsesPrompt("what a day"))
	require.NoError(t, err)
	require.Equal(t, "You said: what a day", r.OutputText())
	require.EqualValues(t, "completed", r.Status)
	require.EqualValues(t, 4, r.Usage.InputTokens, "three words and one message")
	require.EqualValues(t, 5, r.Usage.OutputTokens)
	require.EqualValues(t, 9, r.Usage.TotalTokens)
	require.Equal(t, []string{"response.created", "response.in_progress", "response.output_item.added",
		"response.content_part.added",
		"response.output_text.delta", "response.output_text.delta", "response.output_text.delta",
		"response.output_text.delta", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"}, names)
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, "responses", rec.Family)
	require.Equal(t, r.ID, rec.ID)
	require.EqualValues(t, 5, rec.Reported.Completion)
}

func TestResponsesReplies(t *testing.T) {
	t.Parallel()
	cached, written, thinking := int64(600), int64(50), int64(3)
	usage := upstream.Usage{Prompt: 950, Completion: 700, Cached: &cached, Written: &written, Reasoning: &thinking}
	r := responsesBoth(t, upstream.Reply{Steps: []upstream.Step{
		upstream.Reasoning("let me "), upstream.Reasoning("see"), upstream.Text("Two "), upstream.Text("calls."),
		upstream.ToolCall(0, "call_a", "weather"), upstream.ToolCall(1, "call_b", "time"),
		upstream.Arguments(1, `{"zone":`), upstream.Arguments(0, `{"city":`), upstream.Arguments(1, `"CET"}`),
		upstream.Arguments(0, `"Rome"}`),
		upstream.Comment("still here"), upstream.Text("Done."), upstream.Finish("tool_calls"), upstream.ReportTokens(usage),
		upstream.Done()}}, responsesPrompt("x"))
	var items []string
	for _, item := range r.Output {
		items = append(items, item.Type+" "+item.CallID+item.Name+itemText(item))
	}
	require.Equal(t, []string{"reasoning let me see", "message Two calls.", `function_call call_aweather{"city":"Rome"}`,
		`function_call call_btime{"zone":"CET"}`, "message Done."}, items)
	require.EqualValues(t, "completed", r.Status)
	require.EqualValues(t, 950, r.Usage.InputTokens)
	require.EqualValues(t, 600, r.Usage.InputTokensDetails.CachedTokens)
	require.EqualValues(t, 50, r.Usage.InputTokensDetails.CacheWriteTokens)
	require.EqualValues(t, 3, r.Usage.OutputTokensDetails.ReasoningTokens)
}

func TestResponsesEnds(t *testing.T) {
	t.Parallel()
	for finish, want := range map[string]string{
		"stop": "", "tool_calls": "", "length": "max_output_tokens", "content_filter": "content_filter",
	} {
		t.Run(finish, func(t *testing.T) {
			t.Parallel()
			r := responsesBoth(t, upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(finish),
				upstream.ReportUsage(), upstream.Done()}}, responsesPrompt("x"))
			require.Equal(t, want, r.IncompleteDetails.Reason)
			require.Equal(t, want == "", r.Status == "completed")
		})
	}
	t.Run("a limit is honoured when told", func(t *testing.T) {
		t.Parallel()
		reply := upstream.Say(strings.Repeat("a ", 20))
		reply.Honour = upstream.Honour{MaxTokens: true}
		p := responsesPrompt("x")
		p.MaxOutputTokens = openai.Int(16)
		r := responsesBoth(t, reply, p)
		require.Equal(t, strings.Repeat("a ", 16), r.OutputText())
		require.Equal(t, "max_output_tokens", r.IncompleteDetails.Reason)
	})
}

func TestResponsesUsageModes(t *testing.T) {
	t.Parallel()
	for mode, reports := range map[upstream.UsageMode]bool{
		upstream.UsageAsAsked: true, upstream.UsageAlways: true, upstream.UsageEveryChunk: true,
		upstream.UsageWithFinish: true, upstream.UsageNever: false,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			reply := upstream.Say("one two three")
			reply.Usage = mode
			r := responsesBoth(t, reply, responsesPrompt("x"))
			require.Equal(t, reports, r.JSON.Usage.Valid())
			require.Equal(t, reports, r.Usage.OutputTokens == 3)
		})
	}
}

func TestResponsesErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    upstream.Error
		status int
		code   string
	}{
		"too long":       {upstream.ContextLength(), 400, "context_length_exceeded"},
		"key":            {upstream.InvalidKey(), 401, "invalid_api_key"},
		"rate limit":     {upstream.RateLimited("7"), 429, "rate_limit_exceeded"},
		"overloaded":     {upstream.Overloaded(), 503, "overloaded"},
		"a proxy's page": {upstream.BadGateway(), 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			s.Enqueue(upstream.Refuse(c.err))
			client := official(s)
			_, err := client.Responses.New(withTimeout(t), responsesPrompt("x"))
			var failed *openai.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.status, failed.StatusCode)
			require.Equal(t, c.code, failed.Code)
		})
	}
	t.Run("in mid-stream", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.ServerError())}})
		body, err := read(postTo(withTimeout(t), t, s, "/responses", `{"model":"m","stream":true,"input":"x"}`))
		require.NoError(t, err)
		require.Contains(t, body, `event: error`+"\n"+
			`data: {"code":"server_error","message":"The server had an error.","param":null,"sequence_number":5,"type":"error"}`)
		frames := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		_, data, _ := strings.Cut(frames[len(frames)-1], "data: ")
		var last responses.ResponseStreamEventUnion
		require.NoError(t, json.Unmarshal([]byte(data), &last))
		require.Equal(t, "response.failed", last.Type)
		require.EqualValues(t, "failed", last.Response.Status)
		require.EqualValues(t, "server_error", last.Response.Error.Code)
	})
}

func TestResponsesToolConversation(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "k", Models: []string{"m"}})
	client := official(s)
	p := responses.ResponseNewParams{Model: "m", Instructions: openai.String("be brief"), Store: openai.Bool(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage("weather?", responses.EasyInputMessageRoleUser),
			responses.ResponseInputItemParamOfFunctionCall(`{"city":"Rome"}`, "call_1", "weather"),
			{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String("call_1"),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("sunny")}}},
			responses.ResponseInputItemParamOfMessage("and?", responses.EasyInputMessageRoleUser)}},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "weather",
			Strict:     param.NewOpt(false),
			Parameters: map[string]any{"type": "object", "properties": map[string]any{}}}}}}
	reply, err := client.Responses.New(withTimeout(t), p)
	require.NoError(t, err)
	require.Equal(t, "You said: and?", reply.OutputText())
	req, err := s.Request(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, []upstream.Message{{Role: "system", Text: "be brief"}, {Role: "user", Text: "weather?"},
		{Role: "assistant", Calls: []upstream.PastCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Rome"}`}}},
		{Role: "tool", ToolCallID: "call_1", Text: "sunny"}, {Role: "user", Text: "and?"}}, req.Messages)
}

// TestResponsesBadRequests: each body has one mistake that the real service refuses.
func TestResponsesBadRequests(t *testing.T) {
	t.Parallel()
	const (
		call   = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"c1","output":"ok"}`
		tool   = `"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}]`
	)
	with := func(members string) string { return `{"model":"m","input":"x",` + members + `}` }
	items := func(list string) string { return `{"model":"m","input":[` + list + `]}` }
	function := func(members string) string { return with(`"tools":[{"type":"function",` + members + `}]`) }
	s := upstream.Start(t, upstream.Options{})
	for name, c := range map[string]struct{ body, param string }{
		"not JSON":                   {`{`, ""},
		"no model":                   {`{"input":"x"}`, "model"},
		"no input":                   {`{"model":"m"}`, "input"},
		"empty input":                {items(""), "input"},
		"messages":                   {`{"model":"m","messages":[{"role":"user","content":"x"}]}`, "messages"},
		"stop sequences":             {with(`"stop":["a"]`), "stop"},
		"another family's allowance": {with(`"max_tokens":99`), "max_tokens"},
		"allowance under 16":         {with(`"max_output_tokens":15`), "max_output_tokens"},
		"kept responses":             {with(`"previous_response_id":"resp_1"`), "previous_response_id"},
		"background":                 {with(`"background":true`), "background"},
		"store not a boolean":        {with(`"store":"no"`), "store"},
		"temperature over 2":         {with(`"temperature":2.1`), "temperature"},
		"unknown role":               {items(`{"role":"tool","content":"x"}`), "input[0].role"},
		"no content":                 {items(`{"role":"user"}`), "input[0].content"},
		"output of a user": {items(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`),
			"input[0].content[0].type"},
		"input of an assistant": {items(`{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`),
			"input[0].content[0].type"},
		"calls in a message":            {items(`{"role":"assistant","content":"x","tool_calls":[]}`), "input[0].tool_calls"},
		"unknown item":                  {items(`{"type":"item_reference","id":"msg_1"}`), "input[0].type"},
		"reasoning without a summary":   {items(`{"type":"reasoning","id":"rs_1"}`), "input[0].summary"},
		"output without a call":         {items(output), "input[0].call_id"},
		"call without an output":        {items(call), "input"},
		"two outputs":                   {items(call + "," + output + "," + output), "input[2].call_id"},
		"two calls of one id":           {items(call + "," + call), "input[1].call_id"},
		"call without arguments":        {items(strings.Replace(call, `,"arguments":"{}"`, "", 1)), "input[0].arguments"},
		"call with a bad name":          {items(strings.Replace(call, `"f"`, `"f.g"`, 1)), "input[0].name"},
		"call with a long id":           {items(strings.Replace(call, "c1", strings.Repeat("c", 65), 1)), "input[0].call_id"},
		"nested tool":                   {function(`"function":{"name":"f"}`), "tools[0].function"},
		"hosted tool":                   {with(`"tools":[{"type":"web_search"}]`), "tools[0].type"},
		"no parameters":                 {function(`"name":"f"`), "tools[0].parameters"},
		"parameters without properties": {function(`"name":"f","parameters":{"type":"object"}`), "tools[0].parameters"},
		"strict, but open": {function(`"name":"f","strict":true,"parameters":{"type":"object","properties":{}}`),
			"tools[0].parameters"},
		"bad function name":          {function(`"name":"a b","parameters":null`), "tools[0].name"},
		"required without tools":     {with(`"tool_choice":"required"`), "tool_choice"},
		"unknown choice":             {with(tool + `,"tool_choice":"any"`), "tool_choice"},
		"choice of another function": {with(tool + `,"tool_choice":{"type":"function","name":"g"}`), "tool_choice"},
		"nested choice": {with(tool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`),
			"tool_choice.function"},
		"unknown format":                {with(`"text":{"format":{"type":"xml"}}`), "text.format.type"},
		"format without a name":         {with(`"text":{"format":{"type":"json_schema","schema":{}}}`), "text.format.name"},
		"another family's format":       {with(`"response_format":{"type":"json_object"}`), "response_format"},
		"stream_options without stream": {with(`"stream_options":{"include_obfuscation":false}`), "stream_options"},
		"unknown stream option": {with(`"stream":true,"stream_options":{"include_usage":true}`),
			"stream_options.include_usage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := postTo(withTimeout(t), t, s, "/responses", c.body)
			body, err := read(resp)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
			if c.param == "" {
				require.Contains(t, body, `"param":null`)
			} else {
				require.Contains(t, body, `"param":"`+c.param+`"`)
			}
		})
	}
	for name, body := range map[string]string{
		"all items": items(
			`{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"x"}]},` +
				`{"role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]},{"type":"refusal",` +
				`"refusal":"no"}]},` +
				`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},` + call + "," + output +
				`,{"role":"user","content":"x"}`),
		"all fields": with(tool +
			`,"tool_choice":"auto","instructions":"x","store":false,"stream":true,` +
			`"stream_options":{"include_obfuscation":false},"max_output_tokens":16,"temperature":2,"top_p":1,` +
			`"parallel_tool_calls":true,"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{}}},` +
			`"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"],"prompt_cache_key":"k"`),
		"null is absent": with(
			`"instructions":null,"tools":null,"max_output_tokens":null,"stream":null,"temperature":null,"text":null`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := postTo(withTimeout(t), t, s, "/responses", body)
			reply, err := read(resp)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, reply)
		})
	}
}
