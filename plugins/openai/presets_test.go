package openai_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// at are the settings of a preset, with the service at another host.
func at(t *testing.T, name string, s *upstream.Server) map[string]string {
	t.Helper()
	base, err := url.Parse(openai.Base(name))
	require.NoError(t, err)
	return map[string]string{"preset": name, "base_url": s.URL() + base.Path, "api_key": "sk-preset-zq11"}
}

// fake is the service of a preset.
func fake(t *testing.T, name string) *upstream.Server {
	return upstream.Start(t, upstream.Options{Service: name, APIKey: "sk-preset-zq11"})
}

func TestEveryPresetHasAService(t *testing.T) {
	t.Parallel()
	require.Equal(t, upstream.Services(), openai.Presets(), "each is tested against what its service documents")
}

func TestPresetsAreProviders(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings, err := json.Marshal(at(t, name, fake(t, name)))
			require.NoError(t, err)
			providertest.Run(t, openai.New, providertest.Options{Settings: settings})
		})
	}
}

// TestPresetsMeterTheSame: the same work costs the same, whatever words the service has for it.
func TestPresetsMeterTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		for how, whole := range map[string]bool{"streamed": false, "in one piece": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				s := fake(t, name)
				p := start(t, at(t, name, s))
				for finish, want := range map[string]llm.FinishReason{
					"stop": llm.FinishStop, "length": llm.FinishLength, "content_filter": llm.FinishPolicy,
				} {
					s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
						upstream.Finish(finish), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
							Cached: llm.Count(40), Reasoning: llm.Count(10)}), upstream.Done()}})
					req := providertest.Ask("hello")
					req.Whole = whole
					reply, err := providertest.Generate(t, p, req)
					require.NoError(t, err)
					require.Equal(t, "42", reply.Text(), "reasoning is hidden")
					require.Equal(t, "let me see", reply.Thought)
					require.Equal(t, want, reply.Finish)
					require.Equal(t, &llm.Usage{Input: llm.Count(60), CacheRead: llm.Count(40), Output: llm.Count(30),
						Reasoning: llm.Count(10)}, reply.Usage, "GAP-109")
					require.Contains(t, reply.Events[0].ID, "req-fake-", "the request's name is for the log")
				}
			})
		}
	}
}

// TestPresetsAsk: a request has what its service takes, and nothing that it does not.
func TestPresetsAsk(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fake(t, name)
			_, err := providertest.Generate(t, start(t, at(t, name, s)), providertest.Ask("hello"))
			require.NoError(t, err)
			got, err := s.Request(providertest.Context(t), 1)
			require.NoError(t, err)
			require.Equal(t, "m", got.Model)
			require.EqualValues(t, 100, got.MaxTokens, "whatever it is called")
		})
	}
}

func TestPresetsNeedNoAddress(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		if openai.Base(name) == "" {
			continue
		}
		p := start(t, map[string]string{"preset": name, "api_key": "sk-x"})
		e, err := p.(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: "m"})
		require.NoError(t, err)
		require.Equal(t, openai.Base(name)+"/chat/completions", e.URL)
	}
}

func TestAzure(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"":           "https://a.openai.azure.com/openai/deployments/gpt%2F5/chat/completions?api-version=2024-10-21",
		"2025-01-01": "https://a.openai.azure.com/openai/deployments/gpt%2F5/chat/completions?api-version=2025-01-01",
		"v1":         "https://a.openai.azure.com/openai/v1/chat/completions",
	} {
		for _, base := range []string{"https://a.openai.azure.com", "https://a.openai.azure.com/",
			"https://a.openai.azure.com/openai/v1/"} {
			values := map[string]string{"preset": "azure", "base_url": base, "api_key": "k"}
			if version != "" {
				values["api_version"] = version
			}
			e, err := start(t, values).(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: "gpt/5"})
			require.NoError(t, err)
			require.Equal(t, want, e.URL)
			require.Equal(t, "Api-Key", e.Headers[0].Name)
		}
	}
}

func TestPresetsAreRefused(t *testing.T) {
	t.Parallel()
	for want, values := range map[string]map[string]string{
		"preset must be one of azure, deepseek":                {"preset": "grok"},
		"or set preset to its name":                            {},
		"base_url is needed: write the address of the service": {"preset": "azure", "api_key": "sk-zq11"},
		`api_key = env("GROQ_API_KEY")`:                        {"preset": "groq"},
		"api_version is of preset":                             {"preset": "vllm", "api_version": "v1"},
		"connect_timeout":                                      {"preset": "vllm", "connect_timeout": "-1s"},
		"proxy must be a URL":                                  {"preset": "vllm", "proxy": "sk-zq11"},
		"use proxy_credentials":                                {"preset": "vllm", "proxy": "http://a:zq11@h"},
		"proxy_credentials needs proxy":                        {"preset": "vllm", "proxy_credentials": "a:zq11"},
		"must be USER:PASSWORD": {"preset": "vllm", "proxy": "http://h",
			"proxy_credentials": "zq11"},
		"belong together": {"preset": "vllm", "client_key": "zq11"},
		"no pair in PEM": {"preset": "vllm", "client_key": "zq11",
			"client_certificate": "zq11"},
		"no certificate in PEM": {"preset": "vllm", "ca": "zq11"},
	} {
		raw, err := json.Marshal(values)
		require.NoError(t, err)
		err = provider.Configure(t.Context(), openai.New(), raw)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "zq11")
	}
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai", "deepseek", "moonshot"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{Service: name, Cache: true})
			settings, err := json.Marshal(at(t, name, s))
			require.NoError(t, err)
			providertest.RunConversations(t, openai.New, settings, s)
		})
	}
}

// Each preset lists what its service has, where that is what a route names.
func TestPresetsListModels(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{Service: name, APIKey: "sk-preset-zq11",
				Local: map[string]upstream.Local{"b": {Context: 8192}, "a": {}}})
			list, err := start(t, at(t, name, s)).(provider.ModelLister).Models(t.Context())
			if name == "azure" {
				require.ErrorContains(t, err, "names of your deployments")
				return
			}
			require.NoError(t, err)
			if name == "llamacpp" { // it tells of the model that it has
				for i := range list {
					require.Equal(t, []string{"json_schema"}, list[i].Offers)
					list[i].Offers = nil
				}
			}
			require.Equal(t, []llm.Model{{ID: "a"}, {ID: "b", ContextWindow: 8192}}, list)
		})
	}
}

// Services differ in it: the wish for strict arguments goes to those that know it.
func TestPresetsOfStrictTools(t *testing.T) {
	t.Parallel()
	know := []string{"openai", "azure", "openrouter", "mistral"}
	for _, name := range openai.Presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{Service: name, APIKey: "sk-preset-zq11"})
			closed := json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
			require.NoError(t, start(t, at(t, name, s)).Generate(t.Context(), &llm.Request{Model: "m", MaxTokens: 20,
				Tools:    []llm.Tool{{Name: "f", Schema: closed, Strict: true}},
				Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}}},
				func(llm.Event) error { return nil }))
			sent, err := s.Request(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, slices.Contains(know, name), strings.Contains(string(sent.Body), `"strict":true`), "%s", sent.Body)
		})
	}
}
