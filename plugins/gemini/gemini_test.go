package gemini_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/gemini"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const key = "AIza-zq11-key"

func fake(t *testing.T) *upstream.Server {
	return upstream.Start(t, upstream.Options{APIKey: key, Cache: true})
}

// at are settings for a service at another host.
func at(t *testing.T, s *upstream.Server, more map[string]any) json.RawMessage {
	t.Helper()
	return providertest.Settings(t, map[string]any{"base_url": s.URL() + "/v1beta/", "api_key": key + "\n"}, more)
}

func start(t *testing.T, values json.RawMessage) provider.Provider {
	t.Helper()
	return providertest.Start(t, gemini.New, values)
}

func ask(text string) *llm.Request {
	req := providertest.Ask(text)
	req.Model = "gemini-3-pro-preview"
	return req
}

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, gemini.New, providertest.Options{Settings: at(t, fake(t), nil)})
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	s := fake(t)
	providertest.RunConversations(t, gemini.New, at(t, s, nil), s)
}

// TestThinkingIsHiddenAndMetered: what is thought is in the output that is charged, and nowhere else.
func TestThinkingIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
			upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
				Cached: llm.Count(40), Reasoning: llm.Count(10)}), upstream.Done()}})
		req := ask("hello")
		req.Whole = whole
		reply, err := providertest.Generate(t, start(t, at(t, s, map[string]any{"thinking_level": "low"})), req)
		require.NoError(t, err)
		require.Equal(t, "42", reply.Text())
		require.Equal(t, "gemini-3-pro-preview", reply.Model)
		require.Equal(t, &llm.Usage{Input: llm.Count(60), CacheRead: llm.Count(40), Output: llm.Count(30),
			Reasoning: llm.Count(10)}, reply.Usage, "GAP-109")
		require.Empty(t, reply.Thought)
		require.Equal(t, "gemini-fake-1", reply.Events[len(reply.Events)-1].ID, "what the service calls its reply")
		sent, err := s.Request(providertest.Context(t), 1)
		require.NoError(t, err)
		require.True(t, sent.Stream, "there is always a stream")
		require.Contains(t, string(sent.Body), `"thinkingConfig":{"thinkingLevel":"LOW"}`)
		require.Equal(t, "[redacted]", sent.Header.Get("X-Goog-Api-Key"))
		require.Empty(t, sent.Header.Get("Authorization"))
	}
}

// TestToolLoop: calls come whole, with the service's ids or ours, and results find their calls.
func TestToolLoop(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "fc-7"} {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.ToolCall(0, id, "f"), upstream.Arguments(0, `{"q":`),
			upstream.Arguments(0, `1}`), upstream.ToolCall(1, "", "f"), upstream.Finish("tool_calls"), upstream.ReportUsage(),
			upstream.Done()}})
		p := start(t, at(t, s, map[string]any{"thinking_budget": 0}))
		req := ask("hello")
		req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
		reply, err := providertest.Generate(t, p, req)
		require.NoError(t, err)
		require.Equal(t, llm.FinishToolCalls, reply.Finish)
		calls := reply.Calls()
		require.Len(t, calls, 2)
		require.Equal(t, `{"q":1}`, calls[0].Arguments.String())
		if id != "" {
			require.Equal(t, id, calls[0].ID)
		}
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: calls[0]}, {Call: calls[1]}}},
			llm.Message{Role: llm.RoleTool, CallID: calls[1].ID, IsError: true, Parts: []llm.Part{llm.Text("broken")}},
			llm.Message{Role: llm.RoleTool, CallID: calls[0].ID, Parts: []llm.Part{llm.Text("fine")}})
		_, err = providertest.Generate(t, p, req)
		require.NoError(t, err)
		sent, err := s.Request(providertest.Context(t), 2)
		require.NoError(t, err)
		require.Contains(t, string(sent.Body), `"response":{"error":"broken"}`)
		require.Contains(t, string(sent.Body), `"thinkingConfig":{"thinkingBudget":0}`)
		require.Equal(t, []upstream.PastCall{{ID: id, Name: "f", Arguments: `{"q":1}`}, {Name: "f", Arguments: "{}"}},
			sent.Messages[1].Calls, "an id that the service did not give is not sent to it")
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	daily := upstream.QuotaExceeded()
	daily.RetryAfter = "36"
	for name, c := range map[string]struct {
		reply upstream.Reply
		kind  llm.ErrorKind
		wait  time.Duration
		says  string
	}{
		"a limit":         {upstream.Refuse(upstream.RateLimited("3")), llm.ErrCapacity, 3 * time.Second, "EXHAUSTED"},
		"the day's quota": {upstream.Refuse(daily), llm.ErrQuota, 0, "RESOURCE_EXHAUSTED"},
		"policy": {upstream.Reply{Steps: []upstream.Step{upstream.Raw(
			"data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\r\n\r\n")}}, llm.ErrPolicy, 0, "SAFETY"},
		"length": {upstream.Refuse(upstream.ContextLength()), llm.ErrContext, 0, "INVALID_ARGUMENT"},
		"a model": {upstream.Refuse(upstream.ModelNotFound()), llm.ErrRejected, 0,
			"check base_url and the route's model"},
		"a right": {upstream.Refuse(upstream.Forbidden()), llm.ErrCredentials, 0, "check api_key"},
		"the end": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}}, llm.ErrBroken, 0, "broke"},
		"no end":  {upstream.Reply{Steps: []upstream.Step{upstream.Text("half")}}, llm.ErrBroken, 0, "before its reply did"},
		"its own": {upstream.Refuse(upstream.ServerError()), llm.ErrUpstream, 0, "INTERNAL"},
		"a page":  {upstream.Refuse(upstream.BadGateway()), llm.ErrUpstream, 0, "an error"},
		"half way": {upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Fail(upstream.Overloaded())}},
			llm.ErrCapacity, 0, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			s.Enqueue(c.reply)
			_, err := providertest.Generate(t, start(t, at(t, s, nil)), ask("x"))
			var failed *llm.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "zq11")
			require.Equal(t, c.wait, failed.RetryAfter)
		})
	}
	t.Run("a wrong key", func(t *testing.T) {
		t.Parallel()
		_, err := providertest.Generate(t, start(t, at(t, fake(t), map[string]any{"api_key": "wrong-zq11"})), ask("x"))
		require.EqualError(t, err, "credentials: the upstream answered with an error (INVALID_ARGUMENT, API_KEY_INVALID); "+
			"check api_key (status 401)")
	})
	t.Run("the reply's name in the log", func(t *testing.T) {
		t.Parallel()
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Fail(upstream.Overloaded())}})
		_, err := providertest.Generate(t, start(t, at(t, s, nil)), ask("x"))
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "gemini-fake-1", failed.RequestID)
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	const account = `{\"type\":\"service_account\",\"client_email\":\"zq11\"}`
	for values, want := range map[string]string{
		`{}`: `api_key = env("GEMINI_API_KEY")`,
		`{"api_key": "zq11", "service_account": "zq11"}`:                     "exclude each other",
		`{"api_key": "zq11", "location": "zq11"}`:                            "project and location need service_account",
		`{"api_key": "zq11", "thinking_budget": 0, "thinking_level": "low"}`: "thinking_budget and thinking_level exclude",
		`{"api_key": "zq11", "thinking_budget": -2}`:                         "thinking_budget must be",
		`{"api_key": "zq11", "thinking_level": "zq11"}`:                      "level is not one of minimal, low, medium,",
		`{"api_key": "zq11\nzq11"}`:                                          "setting api_key must be one line",
		`{"api_key": "zq11", "base_url": "zq11"}`:                            "setting base_url",
		`{"api_key": "zq11", "idle_timeout": "1us"}`:                         "setting idle_timeout must be at least",
		`{"service_account": "zq11"}`:                                        "service_account is not a JSON object",
		`{"service_account": "{\"type\": \"zq11\"}"}`:                        "not the key of a service account",
		`{"service_account": "` + account + `"}`:                             "no private_key",
	} {
		err := provider.Configure(t.Context(), gemini.New(), json.RawMessage(values))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "zq11")
	}
}

// address is where the calls of a model go.
func address(t *testing.T, p provider.Provider, model string) string {
	t.Helper()
	e, err := p.(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: model})
	require.NoError(t, err)
	require.NoError(t, e.Check(time.Now()))
	require.Equal(t, endpoint.Gemini, e.Dialect)
	return e.URL
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	p := start(t, json.RawMessage(`{"api_key": "k"}`))
	const base = "https://generativelanguage.googleapis.com/v1beta/"
	require.Equal(t, base+"models/gemini-3-pro:streamGenerateContent?alt=sse", address(t, p, "gemini-3-pro"))
	require.Equal(t, base+"tunedModels/a%20b:streamGenerateContent?alt=sse", address(t, p, "tunedModels/a b"))
	require.Equal(t, base+"models/a%3Fb:streamGenerateContent?alt=sse", address(t, p, "a?b"))
	p = start(t, json.RawMessage(`{"api_key": "k", "base_url": "https://proxy.example"}`))
	require.Equal(t, "https://proxy.example/v1beta/models/m:streamGenerateContent?alt=sse", address(t, p, "m"))
}

// TestCancelReachesTheUpstream: who leaves takes the connection along.
func TestCancelReachesTheUpstream(t *testing.T) {
	t.Parallel()
	s := fake(t)
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Silence()}})
	ctx, leave := context.WithCancel(providertest.Context(t))
	err := start(t, at(t, s, nil)).Generate(ctx, ask("x"), func(ev llm.Event) error {
		if ev.Kind == llm.EventText {
			leave()
		}
		return ctx.Err()
	})
	require.Error(t, err)
	ended, err := s.Ended(providertest.Context(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeLeft, ended.Outcome)
	require.Equal(t, http.StatusOK, ended.Status)
}
