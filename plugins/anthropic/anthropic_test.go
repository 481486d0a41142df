package anthropic_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/anthropic"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const key = "sk-ant-zq11"

// at are settings for a service at another host.
func at(t *testing.T, s *upstream.Server, more map[string]any) json.RawMessage {
	t.Helper()
	return providertest.Settings(t, map[string]any{"base_url": s.BaseURL(), "api_key": key + "\n"}, more)
}

func fake(t *testing.T) *upstream.Server {
	return upstream.Start(t, upstream.Options{APIKey: key, Cache: true})
}

func start(t *testing.T, values json.RawMessage) provider.Provider {
	t.Helper()
	return providertest.Start(t, anthropic.New, values)
}

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, anthropic.New, providertest.Options{Settings: at(t, fake(t), nil)})
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]any{"5m": {"prompt_caching": "5m"}, "1h": {"prompt_caching": "1h"},
		"thinking": {"thinking_budget": -1, "effort": "low"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			providertest.RunConversations(t, anthropic.New, at(t, s, more), s)
		})
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	req := providertest.Ask("one", "two", "three", "four", "five")
	req.Messages = append([]llm.Message{{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("a"), llm.Text("b")}}},
		req.Messages...)
	req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "g", Schema: json.RawMessage(`{"type":"object"}`)}}
	said := func(role, text, mark string) string {
		return `{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"` + mark + `}]}`
	}
	changing := *req
	changing.Messages = append([]llm.Message{{Role: llm.RoleSystem, Changing: 1, Parts: []llm.Part{llm.Text("a"),
		{Text: llm.Quoted(`b\nDate: 1`)}}}}, req.Messages[1:]...)
	for caching, mark := range map[string]string{
		"off": "", "5m": `,"cache_control":{"type":"ephemeral"}`, "1h": `,"cache_control":{"type":"ephemeral","ttl":"1h"}`,
	} {
		t.Run(caching, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			_, err := providertest.Generate(t, start(t, at(t, s, map[string]any{"prompt_caching": caching})), req)
			require.NoError(t, err)
			got, err := s.Request(providertest.Context(t), 1)
			require.NoError(t, err)
			require.Equal(t, `{"model":"m","max_tokens":100,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"`+
				mark+`}],"messages":[`+said("user", "one", "")+","+said("assistant", "two", "")+","+said("user", "three", mark)+
				","+said("assistant", "four", "")+","+said("user", "five", mark)+`],"stream":true,"tools":[{"name":"f",`+
				`"input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}`+mark+`}]}`, string(got.Body))

			_, err = providertest.Generate(t, start(t, at(t, s, map[string]any{"prompt_caching": caching})), &changing)
			require.NoError(t, err)
			got, err = s.Request(providertest.Context(t), 2)
			require.NoError(t, err)
			last := `{"type":"text","text":"b"` + mark + `},{"type":"text","text":"\nDate: 1"}`
			if mark == "" {
				last = `{"type":"text","text":"b\nDate: 1"}`
			}
			require.Contains(t, string(got.Body), `"system":[{"type":"text","text":"a"},`+last+`],`, "GAP-134")
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := fake(t)
	p := start(t, at(t, s, map[string]any{"beta": []string{"a-1", "b-2"}, "version": "2024-01-01",
		"headers": map[string]string{"x-team": "blue"}}))
	_, err := providertest.Generate(t, p, providertest.Ask("x"))
	require.NoError(t, err)
	got, err := s.Request(providertest.Context(t), 1)
	require.NoError(t, err)
	require.Equal(t, "a-1,b-2", got.Header.Get("Anthropic-Beta"))
	require.Equal(t, "2024-01-01", got.Header.Get("Anthropic-Version"))
	require.Equal(t, "blue", got.Header.Get("X-Team"))

	bearer := upstream.Start(t, upstream.Options{APIKey: "token"})
	p = start(t, at(t, bearer, map[string]any{"auth_token": "token", "api_key": ""}))
	_, err = providertest.Generate(t, p, providertest.Ask("x"))
	require.NoError(t, err)
	got, err = bearer.Request(providertest.Context(t), 1)
	require.NoError(t, err)
	require.Equal(t, "2023-06-01", got.Header.Get("Anthropic-Version"))
	require.Empty(t, got.Header.Get("Anthropic-Beta"))
}

// TestThinkingIsHiddenAndMetered: what is thought is in the output that is charged, and nowhere else.
func TestThinkingIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
			upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
				Cached: llm.Count(40), Written: llm.Count(20), Reasoning: llm.Count(10)}), upstream.Done()}})
		req := providertest.Ask("hello")
		req.Whole = whole
		reply, err := providertest.Generate(t, start(t, at(t, s, nil)), req)
		require.NoError(t, err)
		require.Equal(t, "42", reply.Text())
		require.Equal(t, "let me see", reply.Thought)
		require.Equal(t, &llm.Usage{Input: llm.Count(40), CacheRead: llm.Count(40), CacheWrite: llm.Count(20),
			Output: llm.Count(30), Reasoning: llm.Count(10)}, reply.Usage, "GAP-109")
	}
}

// TestThinkingIsTurnedOn: by the operator's word, in conversations with calls, too.
func TestThinkingIsTurnedOn(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int]string{-1: `{"type":"adaptive"}`, 0: `{"type":"disabled"}`,
		2000: `{"type":"enabled","budget_tokens":2000}`} {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("hm"), upstream.ToolCall(0, "c1", "f"),
			upstream.Arguments(0, "{}"), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
		p := start(t, at(t, s, map[string]any{"thinking_budget": budget, "effort": "high"}))
		req := providertest.Ask("x")
		req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
		cold := 0.0
		req.MaxTokens, req.Temperature = 8000, &cold
		first, err := providertest.Generate(t, p, req)
		require.NoError(t, err)
		require.Len(t, first.States, 1)
		req.States = first.States
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "c1", Name: "f"}}}},
			llm.Message{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("r")}})
		_, err = providertest.Generate(t, p, req)
		require.NoError(t, err)
		for n := range int64(2) {
			got, err := s.Request(providertest.Context(t), n+1)
			require.NoError(t, err)
			require.Contains(t, string(got.Body), `,"thinking":`+want)
			require.Contains(t, string(got.Body), `,"output_config":{"effort":"high"}`)
		}
		req.States = nil // forgotten, as after a restart
		_, err = providertest.Generate(t, p, req)
		require.NoError(t, err)
	}
}

// TestRefusals: the forms that this service has for failures.
func TestRefusals(t *testing.T) {
	t.Parallel()
	overloaded := upstream.Error{Status: 529, Type: "overloaded_error", Message: "Overloaded"}
	limited := upstream.Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "sk-ant-zq11"}
	for name, c := range map[string]struct {
		reply upstream.Reply
		kind  llm.ErrorKind
		wait  time.Duration
	}{
		"overloaded": {upstream.Refuse(overloaded), llm.ErrCapacity, 0},
		"overloaded, for so long": {upstream.Reply{Header: map[string]string{"Retry-After": "4"},
			Steps: []upstream.Step{upstream.Fail(overloaded)}}, llm.ErrCapacity, 4 * time.Second},
		"overloaded in mid-stream": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(overloaded)}},
			llm.ErrCapacity, 0},
		"a limit": {upstream.Reply{Header: map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0",
			"Anthropic-Ratelimit-Tokens-Reset": "2999-01-01T00:00:00Z"}, Steps: []upstream.Step{upstream.Fail(limited)}},
			llm.ErrCapacity, 24 * time.Hour},
		"policy": {upstream.Refuse(upstream.ContentFilter()), llm.ErrPolicy, 0},
		"length": {upstream.Refuse(upstream.ContextLength()), llm.ErrContext, 0},
		"no funds": {upstream.Refuse(upstream.BadRequest("Your credit balance is too low to access the API.", "")),
			llm.ErrQuota, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			s.Enqueue(c.reply)
			_, err := providertest.Generate(t, start(t, at(t, s, nil)), providertest.Ask("x"))
			var failed *llm.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind)
			require.Equal(t, c.wait, failed.RetryAfter)
			require.NotContains(t, err.Error(), "zq11")
			require.Equal(t, "req-fake-1", failed.RequestID)
		})
	}
	t.Run("a refusal in the reply is a policy's end", func(t *testing.T) {
		t.Parallel()
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("no"), upstream.Finish("refusal"),
			upstream.ReportUsage(), upstream.Done()}})
		reply, err := providertest.Generate(t, start(t, at(t, s, nil)), providertest.Ask("x"))
		require.NoError(t, err)
		require.Equal(t, llm.FinishPolicy, reply.Finish)
	})
}

func TestWrongCredentialsNameTheirSetting(t *testing.T) {
	t.Parallel()
	for setting, values := range map[string]map[string]any{
		"check api_key": {"api_key": "wrong-zq11"}, "check auth_token": {"api_key": "", "auth_token": "wrong-zq11"},
	} {
		_, err := providertest.Generate(t, start(t, at(t, fake(t), values)), providertest.Ask("x"))
		require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
		require.ErrorContains(t, err, setting)
		require.NotContains(t, err.Error(), "zq11")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, values := range map[string]string{
		`api_key = env("ANTHROPIC_API_KEY")`:      `{}`,
		"exclude each other":                      `{"api_key": "zq11", "auth_token": "zq11"}`,
		"prompt_caching must be 5m, 1h or off":    `{"api_key": "zq11", "prompt_caching": "2h"}`,
		"setting base_url":                        `{"base_url": "zq11"}`,
		"setting api_key must be one line":        `{"api_key": "zq11\nzq11"}`,
		"setting auth_token must be one line":     `{"auth_token": "zq11\nzq11"}`,
		"setting version must be one line":        `{"api_key": "k", "version": "zq11\nzq11"}`,
		"thinking_budget must be at least 1024":   `{"api_key": "zq11", "thinking_budget": 1023}`,
		"0 for none, or -1 for as many":           `{"api_key": "zq11", "thinking_budget": -2}`,
		"effort must be one of low, medium,":      `{"api_key": "zq11", "effort": "zq11"}`,
		"setting idle_timeout must be at least":   `{"api_key": "k", "idle_timeout": "1us"}`,
		"the value of its header Anthropic-Beta ": `{"api_key": "k", "beta": ["zq11\n"]}`,
	} {
		err := provider.Configure(t.Context(), anthropic.New(), json.RawMessage(values))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "zq11")
	}
	p := start(t, json.RawMessage(`{"api_key": "k"}`))
	e, err := p.(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, "https://api.anthropic.com/v1/messages", e.URL)
	require.Equal(t, "5m", e.CacheControl)
}
