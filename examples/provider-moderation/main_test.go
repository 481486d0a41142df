package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
)

// TestMain makes this test binary the plugin when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run-plugin" {
		main()
		return
	}
	os.Exit(m.Run())
}

// endpoint flags what has a bomb in it.
func endpoint(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model string   `json:"model"`
			Input []string `json:"input"`
		}
		if r.Header.Get("Authorization") != "Bearer key" || json.NewDecoder(r.Body).Decode(&asked) != nil ||
			asked.Model != "omni-moderation-latest" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		results := make([]string, len(asked.Input))
		for i, text := range asked.Input {
			bad := strings.Contains(text, "bomb")
			results[i] = fmt.Sprintf(`{"flagged":%v,"categories":{"violence":%v,"illicit/violent":%v,"hate":false}}`,
				bad, bad, bad)
		}
		if len(asked.Input) > 2 {
			results = results[1:]
		}
		fmt.Fprintf(w, `{"id":"m1","results":[%s]}`, strings.Join(results, ","))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestContract(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	values := fmt.Appendf(nil, `{"url": %q, "api_key": "key"}`, endpoint(t))
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, New, providertest.Options{Settings: values})
	})
	t.Run("as a process", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, New, providertest.Options{Settings: values, Command: []string{self, "run-plugin"}})
	})
}

// TestVerdicts: a provider with the capability screens.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	ask := func(key string, texts ...string) (llm.Verdict, error) {
		p := New()
		values := fmt.Appendf(nil, `{"url": %q, "api_key": %q}`, endpoint(t), key)
		require.NoError(t, provider.Configure(t.Context(), p, values))
		list := make([]llm.ScreenText, len(texts))
		for i, text := range texts {
			list[i] = llm.ScreenText{Role: "user", Text: text}
		}
		return p.(provider.Screener).Screen(t.Context(), list)
	}
	verdict, err := ask("key", "a cake", "tea")
	require.NoError(t, err)
	require.Equal(t, llm.VerdictAllow, verdict.Action)
	verdict, err = ask("key", "a cake", "a bomb")
	require.NoError(t, err)
	require.Equal(t, llm.Verdict{Action: llm.VerdictBlock, Categories: []string{"illicit/violent", "violence"}}, verdict)
	_, err = ask("key", "one", "two", "three")
	require.ErrorContains(t, err, "did not judge each text")
	_, err = ask("other", "a cake")
	require.ErrorContains(t, err, "check url, api_key and model")
	require.NotContains(t, err.Error(), "other")
}
