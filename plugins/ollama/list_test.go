package ollama_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func models(t *testing.T, p provider.Provider) ([]llm.Model, error) {
	t.Helper()
	return p.(interface {
		Models(ctx context.Context) ([]llm.Model, error)
	}).Models(providertest.Context(t))
}

// What is pulled, with the window that each was trained for.
func TestModels(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{
		"big:7b": {Context: 131072, Capabilities: []string{"completion", "tools"}},
		"embed":  {Context: 512, Capabilities: []string{"embedding"}},
		"mute":   {},
		"small":  {Context: 4096, Capabilities: []string{"completion"}},
	}})
	forms := []string{"json_object", "json_schema"}
	list, err := models(t, start(t, at(t, s.URL(), nil)))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{
		{ID: "big:7b", ContextWindow: 131072, Offers: []string{"tools", "json_object", "json_schema"}},
		{ID: "mute", Offers: forms}, {ID: "small", ContextWindow: 4096, Offers: forms},
	}, list)

	list, err = models(t, start(t, at(t, s.URL(), map[string]any{"num_ctx": 8192})))
	require.NoError(t, err)
	windows := map[string]int64{}
	for _, m := range list {
		windows[m.ID] = m.ContextWindow
	}
	require.Equal(t, map[string]int64{"big:7b": 8192, "mute": 8192, "small": 4096}, windows)

	s.Close()
	_, err = models(t, start(t, at(t, s.URL(), nil)))
	require.ErrorContains(t, err, "check that it is running")
}

// A description that is missing leaves the model in the list.
func TestModelsWithoutADescription(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET/api/tags":
			_, _ = w.Write([]byte(`{"models":[{"name":"gone"},{"model":"unnamed"},7]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"model 'gone' not found"}`))
		}
	}))
	t.Cleanup(s.Close)
	list, err := models(t, start(t, at(t, s.URL, nil)))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{{ID: "gone"}}, list)
}
