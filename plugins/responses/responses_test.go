package responses_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/responses"
)

const key = "sk-zq11"

func fake(t *testing.T) *upstream.Server {
	return upstream.Start(t, upstream.Options{APIKey: key, Cache: true})
}

func at(s *upstream.Server) json.RawMessage {
	return json.RawMessage(`{"base_url": "` + s.BaseURL() + `", "api_key": "` + key + `"}`)
}

// generate makes one attempt of a service.
func generate(t *testing.T, s *upstream.Server, whole bool) (*providertest.Reply, error) {
	t.Helper()
	req := providertest.Ask("x")
	req.Whole = whole
	return providertest.Generate(t, providertest.Start(t, responses.New, at(s)), req)
}

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, responses.New, providertest.Options{Settings: at(fake(t))})
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	s := fake(t)
	providertest.RunConversations(t, responses.New, at(s), s)
}

// TestReasoningIsHiddenAndMetered: what is thought is in the output that is charged, and nowhere else; and nothing is
// kept by the service.
func TestReasoningIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
			upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
				Cached: llm.Count(40), Reasoning: llm.Count(10)}), upstream.Done()}})
		reply, err := generate(t, s, whole)
		require.NoError(t, err)
		require.Equal(t, "42", reply.Text())
		require.Equal(t, "let me see", reply.Thought)
		require.Equal(t, &llm.Usage{Input: llm.Count(60), CacheRead: llm.Count(40), CacheWrite: llm.Count(0),
			Output: llm.Count(30), Reasoning: llm.Count(10)}, reply.Usage, "GAP-109")
		sent, err := s.Request(t.Context(), 1)
		require.NoError(t, err)
		require.Contains(t, string(sent.Body), `"store":false`)
		require.NotContains(t, string(sent.Body), "previous_response_id")
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply upstream.Reply
		kind  llm.ErrorKind
	}{
		"a limit": {upstream.Refuse(upstream.RateLimited("3")), llm.ErrCapacity},
		"policy":  {upstream.Refuse(upstream.ContentFilter()), llm.ErrPolicy},
		"length":  {upstream.Refuse(upstream.ContextLength()), llm.ErrContext},
		"a key":   {upstream.Refuse(upstream.InvalidKey()), llm.ErrCredentials},
		"the end": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}}, llm.ErrBroken},
		"its own": {upstream.Refuse(upstream.ServerError()), llm.ErrUpstream},
		"half way": {upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Fail(upstream.ServerError())}},
			llm.ErrUpstream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t)
			s.Enqueue(c.reply)
			_, err := generate(t, s, false)
			require.Equal(t, c.kind, llm.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), "zq11")
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, values := range map[string]string{
		`api_key = env("OPENAI_API_KEY")`:        `{}`,
		"setting base_url":                       `{"base_url": "zq11"}`,
		"setting api_key must be one line":       `{"api_key": "zq11\nzq11"}`,
		"setting connect_timeout must be at lea": `{"api_key": "k", "connect_timeout": "-1s"}`,
	} {
		err := provider.Configure(t.Context(), responses.New(), json.RawMessage(values))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "zq11")
	}
	p := responses.New()
	require.NoError(t, provider.Configure(t.Context(), p, json.RawMessage(`{"api_key": "k"}`)))
	e, err := p.(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, "https://api.openai.com/v1/responses", e.URL)
}
