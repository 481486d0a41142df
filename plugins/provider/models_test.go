package provider_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// What each service's list says, by its published documentation.
func TestListModels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want []llm.Model
	}{
		"openai": {`{"object":"list","data":[{"id":"b","object":"model"},{"id":"a","object":"model","owned_by":"openai"}]}`,
			[]llm.Model{{ID: "a"}, {ID: "b"}}},
		"openrouter": {`{"data":[{"id":"x/y","context_length":400000,"pricing":{"prompt":"0.00000025","completion":"0.000002",
			"request":"0","input_cache_read":"0.000000025"},"top_provider":{"context_length":272000,
			"max_completion_tokens":128000},"supported_parameters":["tools","response_format","structured_outputs"]},
			{"id":"openrouter/auto","pricing":{"prompt":"-1","completion":"-1"},"top_provider":{"context_length":null}}]}`,
			[]llm.Model{{ID: "openrouter/auto"}, {ID: "x/y", ContextWindow: 272000, MaxOutput: 128000,
				Offers: []string{"tools", "json_object", "json_schema"},
				Price:  &llm.ModelPrice{Input: "0.25", Output: "2", CacheRead: "0.025"}}}},
		"groq": {`{"data":[{"id":"g","context_window":131072,"max_completion_tokens":32768}]}`,
			[]llm.Model{{ID: "g", ContextWindow: 131072, MaxOutput: 32768}}},
		"mistral": {`{"data":[{"id":"m","max_context_length":32768,"capabilities":{"function_calling":true}}]}`,
			[]llm.Model{{ID: "m", ContextWindow: 32768, Offers: []string{"tools"}}}},
		"vllm": {`{"data":[{"id":"v","max_model_len":8192}]}`, []llm.Model{{ID: "v", ContextWindow: 8192}}},
		"llama.cpp": {`{"data":[{"id":"l","meta":{"n_ctx_train":131072}}]}`,
			[]llm.Model{{ID: "l", ContextWindow: 131072}}},
		"together": {`[{"id":"t","context_length":4096,"pricing":{"input":0.18,"output":0.3}}]`,
			[]llm.Model{{ID: "t", ContextWindow: 4096, Price: &llm.ModelPrice{Input: "0.18", Output: "0.3"}}}},
		"anthropic": {`{"data":[{"type":"model","id":"c","max_input_tokens":200000,"max_tokens":64000}],"has_more":false}`,
			[]llm.Model{{ID: "c", ContextWindow: 200000, MaxOutput: 64000}}},
		"odd": {`{"data":[{"id":"a","context_length":"many","pricing":{"prompt":"free","completion":"1e-1x"}},{"id":"a"},{},7,
			{"id":"n","context_length":-1,"pricing":[]}]}`, []llm.Model{{ID: "a"}, {ID: "n"}}},
		"none":       {`{"data":[]}`, []llm.Model{}},
		"no list":    {`{"error":"what?"}`, nil},
		"no array":   {`[`, nil},
		"not a list": {`{"data":7}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan *http.Request, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(s.Close)
			e := &endpoint.Endpoint{Dialect: endpoint.Chat, URL: s.URL + "/v1/chat/completions",
				Headers: []endpoint.Header{{Name: "Authorization", Value: "Bearer k"}}}
			models, err := new(provider.Carried).ListModels(t.Context(), e, "?limit=7")
			r := <-asked
			require.Equal(t, "GET /v1/models?limit=7", r.Method+" "+r.URL.String())
			require.Equal(t, "Bearer k", r.Header.Get("Authorization"))
			if c.want == nil {
				require.ErrorContains(t, err, "list of models could not be read")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, models)
		})
	}
}

func TestListModelsIsRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	_, err := new(provider.Carried).ListModels(t.Context(),
		&endpoint.Endpoint{Dialect: endpoint.Messages, URL: s.URL + "/v1/messages"}, "")
	require.ErrorContains(t, err, "status 404")
}
