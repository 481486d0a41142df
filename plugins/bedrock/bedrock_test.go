package bedrock_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/bedrock"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const (
	keyID  = "AKIAGEHEIMzq11"
	secret = "geheim/zq11"
	claude = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
)

// at are settings for a service at another address, with an access key where no other credential is among them.
func at(t *testing.T, s *upstream.Server, more map[string]any) json.RawMessage {
	t.Helper()
	values := map[string]any{"region": "eu-central-1", "base_url": s.URL(), "access_key_id": keyID,
		"secret_access_key": secret + "\n"}
	for name, value := range more {
		if values[name] = value; name == "api_key" || name == "profile_file" {
			delete(values, "access_key_id")
			delete(values, "secret_access_key")
		}
	}
	raw, err := json.Marshal(values)
	require.NoError(t, err)
	return raw
}

func fake(t *testing.T) *upstream.Server {
	return upstream.Start(t, upstream.Options{APIKey: keyID, Cache: true})
}

func start(t *testing.T, values json.RawMessage) provider.Provider {
	t.Helper()
	return providertest.Start(t, bedrock.New, values)
}

func ask(texts ...string) *llm.Request {
	req := providertest.Ask(texts...)
	req.Model = claude
	return req
}

func said(role llm.Role, texts ...string) llm.Message {
	m := llm.Message{Role: role}
	for _, text := range texts {
		m.Parts = append(m.Parts, llm.Text(text))
	}
	return m
}

// reply is what an attempt came to.
type reply struct {
	*providertest.Reply
	err *llm.Error
}

// generate makes one attempt, whose error shows no secret.
func generate(t *testing.T, p provider.Provider, req *llm.Request) *reply {
	t.Helper()
	got, err := providertest.Generate(t, p, req)
	r := &reply{Reply: got}
	if err != nil {
		require.ErrorAs(t, err, &r.err)
		require.NotContains(t, err.Error(), "zq11")
	}
	return r
}

// sent is the n-th request.
func sent(t *testing.T, s *upstream.Server, n int64) *upstream.Request {
	t.Helper()
	req, err := s.Request(providertest.Context(t), n)
	require.NoError(t, err)
	return req
}

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, bedrock.New, providertest.Options{Settings: at(t, fake(t), nil)})
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	for _, caching := range []string{"5m", "1h"} {
		t.Run(caching, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			providertest.RunConversations(t, bedrock.New, at(t, s, map[string]any{"prompt_caching": caching}), s)
		})
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	temperature, hot := 0.5, 1.5
	full := ask("one", "two", "three")
	full.Messages = append([]llm.Message{said(llm.RoleSystem, "a", " ", "b")}, full.Messages...)
	full.Messages = append(full.Messages,
		llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("so"),
			{Call: &llm.ToolCall{ID: "c|1", Name: "f", Arguments: llm.Plain(`{"b": 12345678901234567890, "a": [1.50, {}]}`)}},
			{Call: &llm.ToolCall{ID: "c2", Name: "g", Arguments: llm.Plain(`{"cut`)}}}},
		llm.Message{Role: llm.RoleTool, CallID: "c2", IsError: true, Parts: []llm.Part{llm.Text("r2")}},
		llm.Message{Role: llm.RoleTool, CallID: "c|1"}, said(llm.RoleUser, "four"))
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	full.Tools = []llm.Tool{{Name: "f", Description: "d", Schema: schema}, {Name: "g", Schema: schema}}
	full.Stop, full.Temperature = []string{"X", " "}, &temperature
	const mark = `{"cachePoint":{"type":"default"}}`
	const f = `{"toolSpec":{"inputSchema":{"json":{"properties":{"a":{"type":"string"}},"type":"object"}},"name":"f",` +
		`"description":"d"}}`
	const g = `{"toolSpec":{"inputSchema":{"json":{"properties":{"a":{"type":"string"}},"type":"object"}},"name":"g"}}`
	messages := func(mark string) string {
		return `[{"role":"user","content":[{"text":"one"}]},{"role":"assistant","content":[{"text":"two"}]},` +
			`{"role":"user","content":[{"text":"three"}` + mark + `]},{"role":"assistant","content":[{"text":"so"},` +
			`{"toolUse":{"toolUseId":"c_1_f5d246190cd69b01","name":"f","input":{"a":[1.50,{}],"b":12345678901234567890}}},` +
			`{"toolUse":{"toolUseId":"c2","name":"g","input":{}}}]},{"role":"user","content":[` +
			`{"toolResult":{"toolUseId":"c2","content":[{"text":"r2"}],"status":"error"}},` +
			`{"toolResult":{"toolUseId":"c_1_f5d246190cd69b01","content":[]}},{"text":"four"}` + mark + `]}]`
	}
	for name, c := range map[string]struct {
		settings map[string]any
		change   func(*llm.Request)
		want     string
	}{
		"everything": {nil, func(*llm.Request) {}, `{"inferenceConfig":{"maxTokens":100,"stopSequences":["X"],` +
			`"temperature":0.5},"messages":` + messages(","+mark) + `,"system":[{"text":"a"},{"text":"b"},` + mark +
			`],"toolConfig":{"tools":[` + f + "," + g + "," + mark + `]}}`},
		"no marks": {map[string]any{"prompt_caching": "off"}, func(r *llm.Request) {
			r.Unsupported, r.ToolChoice = []string{"stop", "temperature"}, llm.ToolChoice{Mode: llm.ToolNamed, Name: "g"}
			r.Format = &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Schema: json.RawMessage(`{"type":"object"}`)}
		}, `{"inferenceConfig":{"maxTokens":100},"messages":` + messages("") + `,"outputConfig":{"textFormat":{` +
			`"structure":{"jsonSchema":{"name":"n","schema":"{\"type\":\"object\"}"}},"type":"json_schema"}},` +
			`"system":[{"text":"a"},{"text":"b"}],"toolConfig":{"toolChoice":{"tool":{"name":"g"}},"tools":[` + f + "," + g +
			`]}}`},
		"an hour, and no choice to call nothing": {map[string]any{"prompt_caching": "1h"}, func(r *llm.Request) {
			r.Messages, r.Tools, r.Stop, r.Temperature = r.Messages[4:], nil, nil, &hot
			r.Messages = append([]llm.Message{said(llm.RoleUser, "x")}, r.Messages[:3]...)
			r.ToolChoice.Mode, r.Format = llm.ToolNone, &llm.Format{Kind: llm.FormatJSONObject}
		}, `{"inferenceConfig":{"maxTokens":100},"messages":[{"role":"user","content":[{"text":"x"},{"cachePoint":{` +
			`"type":"default","ttl":"1h"}}]},{"role":"assistant","content":[{"text":"so"},{"toolUse":{"toolUseId":` +
			`"c_1_f5d246190cd69b01","name":"f","input":{"a":[1.50,{}],"b":12345678901234567890}}},{"toolUse":{` +
			`"toolUseId":"c2","name":"g","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c2",` +
			`"content":[{"text":"r2"}],"status":"error"}},{"toolResult":{"toolUseId":"c_1_f5d246190cd69b01","content":[]}},` +
			`{"cachePoint":{"type":"default","ttl":"1h"}}]}],"toolConfig":{"tools":[` +
			`{"toolSpec":{"inputSchema":{"json":{"type":"object","properties":{}}},"name":"f"}},` +
			`{"toolSpec":{"inputSchema":{"json":{"type":"object","properties":{}}},"name":"g"}},` +
			`{"cachePoint":{"type":"default","ttl":"1h"}}]}}`},
		"a reply to go on with": {nil, func(r *llm.Request) {
			r.Messages, r.Stop, r.Temperature = []llm.Message{said(llm.RoleUser, "x", "y"), said(llm.RoleAssistant, " "),
				said(llm.RoleUser, "z"), said(llm.RoleAssistant, "go \n")}, nil, nil
			r.Tools, r.ToolChoice.Mode = nil, llm.ToolNone
		}, `{"inferenceConfig":{"maxTokens":100},"messages":[{"role":"user","content":[{"text":"x"},{"text":"y"},` +
			`{"text":"z"},` + mark + `]},{"role":"assistant","content":[{"text":"go"}]}]}`},
		"a user who says nothing": {map[string]any{"prompt_caching": "off"}, func(r *llm.Request) {
			r.Messages, r.Stop, r.Temperature = []llm.Message{said(llm.RoleSystem, "s"), said(llm.RoleUser, " ")}, nil, nil
			r.Tools, r.ToolChoice.Mode = nil, llm.ToolAuto
		}, `{"inferenceConfig":{"maxTokens":100},"messages":[{"role":"user","content":[{"text":"."}]}],` +
			`"system":[{"text":"s"}]}`},
		"a user who said nothing at first": {map[string]any{"prompt_caching": "off"}, func(r *llm.Request) {
			r.Messages, r.Stop, r.Temperature = []llm.Message{said(llm.RoleUser, ""), said(llm.RoleAssistant, " "),
				said(llm.RoleAssistant, "x"), said(llm.RoleUser, "y")}, nil, nil
			r.Tools, r.ToolChoice.Mode = nil, llm.ToolAuto
		}, `{"inferenceConfig":{"maxTokens":100},"messages":[{"role":"user","content":[{"text":"."}]},{"role":"assistant",` +
			`"content":[{"text":"x"}]},{"role":"user","content":[{"text":"y"}]}]}`},
		"GAP-134 lines that change": {nil, func(r *llm.Request) {
			r.Messages, r.Stop, r.Temperature = []llm.Message{said(llm.RoleSystem, "a", "b\n\nToday"), said(llm.RoleUser, "x")},
				nil, nil
			r.Messages[0].Changing = 2
			r.Tools, r.ToolChoice.Mode = nil, llm.ToolAuto
		}, `{"inferenceConfig":{"maxTokens":100},"messages":[{"role":"user","content":[{"text":"x"},` + mark + `]}],` +
			`"system":[{"text":"a"},{"text":"b"},` + mark + `,{"text":"\n\nToday"}]}`},
		"instructions alone": {nil, func(r *llm.Request) {
			r.Messages, r.Stop, r.Temperature = r.Messages[:1], nil, nil
			r.Tools, r.ToolChoice.Mode, r.MaxTokens = r.Tools[:1], llm.ToolRequired, 1<<40
		}, `{"inferenceConfig":{"maxTokens":2147483647},"messages":[{"role":"user","content":[{"text":"a"},{"text":"b"},` +
			mark + `]}],"toolConfig":{"toolChoice":{"any":{}},"tools":[` + f + "," + mark + `]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			req := *full
			c.change(&req)
			require.Nil(t, generate(t, start(t, at(t, s, c.settings)), &req).err)
			got := sent(t, s, 1)
			require.JSONEq(t, c.want, string(got.Body))
			require.Equal(t, claude, got.Model)
			if strings.Contains(c.want, "1.50") {
				require.Contains(t, string(got.Body), `{"a":[1.50,{}],"b":12345678901234567890}`, "digits stay")
			}
		})
	}
	s := fake(t)
	for _, wrong := range []func(*llm.Request){
		func(r *llm.Request) { r.Messages[0].Role = "robot" },
		func(r *llm.Request) { r.Messages[0] = said(llm.RoleAssistant, " ") },
		func(r *llm.Request) { r.ToolChoice.Mode = "sometimes" },
		func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{} {}`)}} },
		func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`[]`)}} },
	} {
		req := ask("x")
		wrong(req)
		require.Equal(t, llm.ErrRejected, generate(t, start(t, at(t, s, nil)), req).err.Kind)
	}
}

// TestMarksByModel: what a model does not take is not sent unless the operator says so.
func TestMarksByModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model, caching string
		marks          int
	}{
		{claude, "", 3}, {claude, "auto", 3}, {claude, "off", 0}, {"anthropic.claude-3-7-sonnet-20250219-v1:0", "auto", 3},
		{"anthropic.claude-3-5-sonnet-20240620-v1:0", "auto", 0}, {"us.amazon.nova-pro-v1:0", "auto", 2},
		{"meta.llama3-70b-instruct-v1:0", "auto", 0}, {"meta.llama3-70b-instruct-v1:0", "5m", 3},
		{"arn:aws:bedrock:eu-central-1:1:application-inference-profile/x", "", 0},
	} {
		s := fake(t)
		req := ask("x")
		req.Model = c.model
		req.Messages = append(req.Messages, said(llm.RoleSystem, "a"))
		req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
		require.Nil(t, generate(t, start(t, at(t, s, map[string]any{"prompt_caching": c.caching})), req).err)
		got := sent(t, s, 1)
		require.Equal(t, c.marks, strings.Count(string(got.Body), "cachePoint"), c.model)
		require.Equal(t, c.model, got.Model)
	}
}

// TestThinkingIsHiddenAndMetered: what is thought is in the output that is charged, and nowhere else.
func TestThinkingIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	s := fake(t)
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
		upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
			Cached: llm.Count(40), Written: llm.Count(20)}), upstream.Done()}})
	got := generate(t, start(t, at(t, s, nil)), ask("x"))
	require.Nil(t, got.err)
	require.Equal(t, "42", got.Text())
	require.Equal(t, "let me see", got.Thought)
	require.Equal(t, &llm.Usage{Input: llm.Count(40), CacheRead: llm.Count(40), CacheWrite: llm.Count(20),
		Output: llm.Count(30)}, got.Usage, "GAP-109")
}

func TestCalls(t *testing.T) {
	t.Parallel()
	s := fake(t)
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("so"), upstream.ToolCall(0, "call_1", "f"),
		upstream.Arguments(0, `{"a":`), upstream.Arguments(0, `1}`), upstream.ToolCall(1, "", "g"),
		upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
	req := ask("x")
	req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{}`)}, {Name: "g", Schema: json.RawMessage(`{}`)}}
	got := generate(t, start(t, at(t, s, nil)), req)
	require.Nil(t, got.err)
	calls := got.Calls()
	require.Len(t, calls, 2)
	require.Equal(t, &llm.ToolCall{ID: "call_1", Name: "f", Arguments: llm.Plain(`{"a":1}`)}, calls[0])
	require.Equal(t, "g", calls[1].Name)
	require.NotEmpty(t, calls[1].ID)
	require.Equal(t, llm.FinishToolCalls, got.Finish)
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]llm.FinishReason{
		"stop": llm.FinishStop, "stop_sequence": llm.FinishStop, "length": llm.FinishLength,
		"model_context_window_exceeded": llm.FinishLength, "content_filter": llm.FinishPolicy,
		"guardrail_intervened": llm.FinishPolicy, "malformed_tool_use": "malformed_tool_use",
		"malformed_model_output": "malformed_model_output",
	} {
		t.Run("GAP-114 "+word, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(word), upstream.ReportUsage(),
				upstream.Done()}})
			require.Equal(t, want, generate(t, start(t, at(t, s, nil)), ask("x")).Finish)
		})
	}
	t.Run("GAP-111 usage that is none", func(t *testing.T) {
		t.Parallel()
		for usage, want := range map[string]string{`{"inputTokens":-1,"outputTokens":2}`: "inputTokens is negative",
			`{"inputTokens":1}`: "outputTokens is missing", `{"outputTokens":1}`: "inputTokens is missing"} {
			s := fake(t)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish("stop"),
				upstream.ReportRaw(usage), upstream.Done()}})
			require.Equal(t, &llm.Usage{Flaw: want}, generate(t, start(t, at(t, s, nil)), ask("x")).Usage)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	exception := func(status int, name, message string) upstream.Error {
		return upstream.Error{Status: status, Type: name, Message: message}
	}
	half := func(steps ...upstream.Step) upstream.Reply {
		return upstream.Reply{Steps: append([]upstream.Step{upstream.Text("half")}, steps...)}
	}
	stream := exception(0, "ModelStreamErrorException", "zq11")
	throttled := exception(429, "ThrottlingException", "Too many requests, please wait before trying again.")
	event := upstream.EventStreamMessage("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"b"}}`)
	for name, c := range map[string]struct {
		reply upstream.Reply
		kind  llm.ErrorKind
		says  string
		wait  time.Duration
	}{
		"throttled": {upstream.Refuse(throttled), llm.ErrCapacity, "(ThrottlingException)", 0},
		"throttled, for so long": {upstream.Reply{Header: map[string]string{"Retry-After": "4"},
			Steps: []upstream.Step{upstream.Fail(throttled)}}, llm.ErrCapacity, "Throttling", 4 * time.Second},
		"a day's quota": {upstream.Refuse(exception(429, "ThrottlingException", "Too many tokens per day, please wait")),
			llm.ErrQuota, "Throttling", 0},
		"quota": {upstream.Refuse(exception(400, "ServiceQuotaExceededException", "zq11")), llm.ErrQuota,
			"(ServiceQuotaExceededException)", 0},
		"not ready": {upstream.Refuse(exception(429, "ModelNotReadyException", "zq11")), llm.ErrCapacity, "minutes", 0},
		"length":    {upstream.Refuse(upstream.ContextLength()), llm.ErrContext, "(ValidationException)", 0},
		"length, as others say it": {upstream.Refuse(exception(400, "ValidationException",
			"Input is too long for requested model.")), llm.ErrContext, "Validation", 0},
		"policy": {upstream.Refuse(upstream.ContentFilter()), llm.ErrPolicy, "Validation", 0},
		"form":   {upstream.Refuse(exception(400, "ValidationException", "zq11")), llm.ErrRejected, "Validation", 0},
		"no on-demand throughput": {upstream.Refuse(exception(400, "ValidationException",
			"Invocation of model ID x with on-demand throughput isn’t supported.")), llm.ErrRejected, "inference profile", 0},
		"no model": {upstream.Refuse(upstream.ModelNotFound()), llm.ErrRejected, "the route's model", 0},
		"no access": {upstream.Refuse(exception(403, "AccessDeniedException", "zq11")), llm.ErrCredentials,
			"bedrock:InvokeModelWithResponseStream; check access_key_id", 0},
		"expired": {upstream.Refuse(exception(403, "ExpiredTokenException", "zq11")), llm.ErrCredentials,
			"check access_key_id", 0},
		"time-out": {upstream.Refuse(exception(408, "ModelTimeoutException", "zq11")), llm.ErrUpstream, "Timeout", 0},
		"the model": {upstream.Refuse(exception(424, "ModelErrorException", "zq11")), llm.ErrUpstream,
			"(ModelErrorException)", 0},
		"internal":          {upstream.Refuse(upstream.ServerError()), llm.ErrUpstream, "(InternalServerException)", 0},
		"unknown":           {upstream.Refuse(exception(418, "TeapotException", "zq11")), llm.ErrRejected, "(Teapot", 0},
		"a web page":        {upstream.Refuse(upstream.BadGateway()), llm.ErrUpstream, "an error", 0},
		"in mid-stream":     {half(upstream.Fail(stream)), llm.ErrUpstream, "(ModelStreamErrorException)", 0},
		"mid-stream limit":  {half(upstream.Fail(throttled)), llm.ErrCapacity, "(ThrottlingException)", 0},
		"mid-stream length": {half(upstream.Fail(upstream.ContextLength())), llm.ErrContext, "Validation", 0},
		"cut":               {half(upstream.Cut()), llm.ErrBroken, "broke", 0},
		"no end":            {half(), llm.ErrBroken, "ended before", 0},
		"half a head":       {half(upstream.Raw(event[:8])), llm.ErrBroken, "ended before", 0},
		"half an event":     {half(upstream.Raw(event[:len(event)-8])), llm.ErrBroken, "ended", 0},
		"a wrong sum": {half(upstream.Raw(strings.Replace(event, `"b"`, `"c"`, 1))), llm.ErrProtocol,
			"could not be read", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			s.Enqueue(c.reply)
			got := generate(t, start(t, at(t, s, nil)), ask("x"))
			require.NotNil(t, got.err)
			require.Equal(t, c.kind, got.err.Kind, got.err.Message)
			require.Contains(t, got.err.Message, c.says)
			require.Equal(t, c.wait, got.err.RetryAfter)
			require.Equal(t, "req-fake-1", got.err.RequestID)
			require.NoError(t, s.Idle(providertest.Context(t)))
			require.Len(t, s.Records(), 1, "the gateway is who tries again")
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = other\n\n[profile  team]\n# aws_x = 1\n"+
		"aws_access_key_id="+keyID+"\n aws_secret_access_key = "+secret+"\naws_session_token=tokenzq11\n[last]\n"), 0o600))
	t.Run("of a file", func(t *testing.T) {
		t.Parallel()
		s := fake(t)
		p := start(t, at(t, s, map[string]any{"profile_file": file, "profile": "team"}))
		require.Nil(t, generate(t, p, ask("x")).err)
		require.Equal(t, "[redacted]", sent(t, s, 1).Header.Get("X-Amz-Security-Token"))
	})
	t.Run("a bearer key", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{APIKey: "bedrock-zq11"})
		require.Nil(t, generate(t, start(t, at(t, s, map[string]any{"api_key": " bedrock-zq11\n"})), ask("x")).err)
		require.Empty(t, sent(t, s, 1).Header.Get("X-Amz-Date"), "it is not signed")
	})
	t.Run("a session, and more headers", func(t *testing.T) {
		t.Parallel()
		s := fake(t)
		p := start(t, at(t, s, map[string]any{"session_token": "tokenzq11", "headers": map[string]string{"x-team": "blue"}}))
		require.Nil(t, generate(t, p, ask("x")).err)
		got := sent(t, s, 1)
		require.Equal(t, "[redacted]", got.Header.Get("X-Amz-Security-Token"))
		require.Equal(t, "blue", got.Header.Get("X-Team"))
	})
	t.Run("wrong ones name their setting", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{APIKey: "another"})
		for want, more := range map[string]map[string]any{"check access_key_id": nil,
			"check api_key": {"api_key": "zq11"}, "check profile_file": {"profile_file": file, "profile": "team"}} {
			got := generate(t, start(t, at(t, s, more)), ask("x"))
			require.Equal(t, llm.ErrCredentials, got.err.Kind)
			require.Contains(t, got.err.Message, want)
		}
	})
	t.Run("a file that is gone", func(t *testing.T) {
		t.Parallel()
		gone := filepath.Join(t.TempDir(), "credentials")
		require.NoError(t, os.WriteFile(gone, []byte("[default]\naws_access_key_id=zq11\n"+
			"aws_secret_access_key=zq11\n"), 0o600))
		p := start(t, at(t, fake(t), map[string]any{"profile_file": gone}))
		require.NoError(t, os.Remove(gone))
		got := generate(t, p, ask("x"))
		require.Equal(t, llm.ErrCredentials, got.err.Kind)
		require.Contains(t, got.err.Message, "check profile_file")
	})
}

// TestCallerLeaves: the upstream is told.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	s := fake(t)
	gone := errors.New("gone")
	p := start(t, at(t, s, nil))
	for n, reply := range []upstream.Reply{
		{Steps: []upstream.Step{upstream.Text("half"), upstream.Wait("never")}},
		{Steps: []upstream.Step{upstream.Wait("never")}},
	} {
		s.Enqueue(reply)
		ctx, leave := context.WithCancelCause(providertest.Context(t))
		ended := make(chan error, 1)
		go func() { ended <- p.Generate(ctx, ask("x"), func(llm.Event) error { return nil }) }()
		require.NoError(t, s.AtGate(providertest.Context(t), "never", 1))
		leave(gone)
		require.ErrorIs(t, <-ended, gone)
		rec, err := s.Ended(providertest.Context(t), int64(n+1))
		require.NoError(t, err)
		require.Equal(t, upstream.OutcomeLeft, rec.Outcome)
	}
	for _, kind := range []llm.EventKind{llm.EventAccepted, llm.EventText, llm.EventFinish} {
		err := p.Generate(providertest.Context(t), ask("x"), func(ev llm.Event) error {
			if ev.Kind == kind {
				return gone
			}
			return nil
		})
		require.ErrorIs(t, err, gone)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	s := fake(t)
	p := start(t, at(t, s, map[string]any{"base_url": "http://127.0.0.1:1"}))
	got := generate(t, p, ask("x"))
	require.Equal(t, llm.ErrUpstream, got.err.Kind)
	require.Contains(t, got.err.Message, "region and base_url")
	got = generate(t, start(t, at(t, s, map[string]any{"base_url": s.URL() + "/other"})), ask("x"))
	require.Equal(t, llm.ErrRejected, got.err.Kind)
	require.Equal(t, http.StatusNotFound, got.err.Status)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "zq11")
	require.NoError(t, os.WriteFile(empty, []byte("[default]\naws_access_key_id=zq11\n"), 0o600))
	const key = `"region": "eu-central-1", "access_key_id": "zq11", "secret_access_key": "zq11"`
	for want, values := range map[string]string{
		"setting region must be":                    `{"region": "zq11"}`,
		"credentials are needed":                    `{"region": "us-gov-west-1"}`,
		"belong together":                           `{"region": "eu-central-1", "access_key_id": "zq11"}`,
		"session_token needs":                       `{"region": "eu-central-1", "session_token": "zq11"}`,
		"profile needs profile_file":                `{` + key + `, "profile": "zq11"}`,
		"exclude each other":                        `{` + key + `, "api_key": "zq11"}`,
		"setting api_key must be one line":          `{"region": "eu-central-1", "api_key": "zq11\nzq11"}`,
		"prompt_caching must be":                    `{` + key + `, "prompt_caching": "zq11"}`,
		"setting base_url must begin":               `{` + key + `, "base_url": "zq11"}`,
		"setting control_url must begin":            `{` + key + `, "control_url": "zq11"}`,
		"setting idle_timeout must be":              `{` + key + `, "idle_timeout": "1us"}`,
		"reading /nowhere: no such file":            `{"region": "eu-central-1", "profile_file": "/nowhere"}`,
		"no aws_access_key_id with aws_secret_acce": `{"region": "eu-central-1", "profile_file": "` + empty + `"}`,
	} {
		err := provider.Configure(t.Context(), bedrock.New(), json.RawMessage(values))
		require.ErrorContains(t, err, want)
		require.NotContains(t, strings.ReplaceAll(err.Error(), empty, ""), "zq11")
	}
	start(t, json.RawMessage(`{`+key+`}`))
}
