package gemini_test

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

// By the Gemini API's list, with a prompt's limit as the window.
func TestModels(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: key, Local: map[string]upstream.Local{
		"gemini-2.5-pro": {Context: 1048576, Output: 65536}, "gemma": {}}})
	list, err := models(t, start(t, at(t, s, nil)))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{{ID: "gemini-2.5-pro", ContextWindow: 1048576, MaxOutput: 65536}, {ID: "gemma"}}, list)

	_, err = models(t, start(t, at(t, s, map[string]any{"api_key": "another"})))
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	require.NotContains(t, err.Error(), "another")
}

func TestModelsByPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pages map[string]string // by token
		want  []string
		err   string
	}{
		"two pages": {map[string]string{
			"": `{"models":[{"name":"models/a","supportedGenerationMethods":["generateContent"]},
				{"name":"models/embed","supportedGenerationMethods":["embedContent"]}],"nextPageToken":"n"}`,
			"n": `{"models":[{"name":"models/b","inputTokenLimit":-1,"outputTokenLimit":7,
				"supportedGenerationMethods":["generateContent"]},{"name":"models/",
				"supportedGenerationMethods":["generateContent"]}]}`,
		}, []string{"a", "b"}, ""},
		"an empty page before another": {map[string]string{"": `{"nextPageToken":"n"}`,
			"n": `{"models":[{"name":"models/b","supportedGenerationMethods":["generateContent"]}]}`}, []string{"b"}, ""},
		"no end":  {map[string]string{"": `{"nextPageToken":"n"}`, "n": `{"models":[],"nextPageToken":"n"}`}, nil, ""},
		"no list": {map[string]string{"": `{"what":7}`}, nil, "could not be read"},
		"no JSON": {map[string]string{"": `what?`}, nil, "could not be read"},
		"a page":  {map[string]string{"": `<html>`}, nil, "answered with a web page; check that base_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/v1beta/models" || r.URL.Query().Get("pageSize") != "1000" ||
					r.Header.Get("X-Goog-Api-Key") != key {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write([]byte(c.pages[r.URL.Query().Get("pageToken")]))
			}))
			t.Cleanup(s.Close)
			list, err := models(t, start(t, []byte(`{"base_url":"`+s.URL+`","api_key":"`+key+`"}`)))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var ids []string
			for _, m := range list {
				ids = append(ids, m.ID)
				require.Zero(t, m.ContextWindow)
			}
			require.Equal(t, c.want, ids)
		})
	}
}
