package openai_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestLlamaSaysWhatItOffers: a llama.cpp server knows whether its model takes tools.
func TestLlamaSaysWhatItOffers(t *testing.T) {
	t.Parallel()
	const list = `{"data":[{"id":"m","meta":{"n_ctx_train":131072}}]}`
	for name, tt := range map[string]struct {
		props  string
		offers []string
		window int64
	}{
		"tools": {`{"default_generation_settings":{"n_ctx":8192},"chat_template_caps":{"supports_tools":true,` +
			`"supports_tool_calls":true}}`, []string{"tools", "json_schema"}, 8192},
		"tools, and nothing said of calls": {`{"default_generation_settings":{"n_ctx":8192},"chat_template_caps":` +
			`{"supports_tools":true}}`, []string{"tools", "json_schema"}, 8192},
		"no tools": {`{"default_generation_settings":{"n_ctx":8192},"chat_template_caps":{"supports_tools":false,` +
			`"supports_tool_calls":true}}`, []string{"json_schema"}, 8192},
		"tools, and no calls": {`{"default_generation_settings":{"n_ctx":8192},"chat_template_caps":{"supports_tools":true,` +
			`"supports_tool_calls":false}}`, []string{"json_schema"}, 8192},
		"an old server": {`{"default_generation_settings":{"n_ctx":4096}}`, nil, 4096},
		"a new form":    {`{"default_generation_settings":{"n_ctx":"many"}}`, nil, 131072},
		"nothing":       {"", nil, 131072},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/api/v1/models":
					_, _ = w.Write([]byte(list))
				case tt.props != "":
					asked <- r.URL.String()
					_, _ = w.Write([]byte(tt.props))
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			t.Cleanup(s.Close)
			p := start(t, map[string]string{"preset": "llamacpp", "base_url": s.URL + "/api/v1"})
			models, err := p.(provider.ModelLister).Models(t.Context())
			require.NoError(t, err)
			require.Equal(t, []llm.Model{{ID: "m", ContextWindow: tt.window, Offers: tt.offers}}, models)
			if tt.props != "" {
				require.Equal(t, "/api/props?autoload=false&model=m", <-asked)
			}
		})
	}
	t.Run("no other service is asked", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Service: "llamacpp", Models: []string{"m"}})
		for preset, offers := range map[string][]string{"llamacpp": {"tools", "json_schema"}, "vllm": nil} {
			p := start(t, map[string]string{"preset": preset, "base_url": s.BaseURL()})
			models, err := p.(provider.ModelLister).Models(t.Context())
			require.NoError(t, err)
			require.Equal(t, offers, models[0].Offers)
		}
	})
	t.Run("it cannot be asked", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Service: "llamacpp", Models: []string{"m"}, APIKey: "another"})
		_, err := start(t, map[string]string{"preset": "llamacpp", "base_url": s.BaseURL()}).(provider.ModelLister).
			Models(t.Context())
		require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	})
}
