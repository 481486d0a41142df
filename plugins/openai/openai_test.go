package openai_test

import (
	"encoding/json"
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

// start makes a started provider with these settings.
func start(t *testing.T, values any) provider.Provider {
	t.Helper()
	p := openai.New()
	raw, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, provider.Configure(t.Context(), p, raw))
	return p
}

func TestKeyIsSent(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "sk-correct"})
	p := start(t, map[string]string{"base_url": s.BaseURL(), "api_key": "sk-correct\n"})
	_, err := providertest.Generate(t, p, providertest.Ask("x"))
	require.NoError(t, err, "white space around a key from a file does not count")

	for name, values := range map[string]map[string]string{
		"set api_key":   {"base_url": s.BaseURL()},
		"check api_key": {"base_url": s.BaseURL(), "api_key": "sk-wrong-zq11"},
	} {
		_, err := providertest.Generate(t, start(t, values), providertest.Ask("x"))
		require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "zq11")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	schema, err := provider.SettingsSchema(openai.New().(provider.Configurable).Settings())
	require.NoError(t, err)
	require.Len(t, schema.Attributes, 17)
	for _, a := range schema.Attributes {
		require.NotEmpty(t, a.Doc)
		require.Equal(t, slices.Contains([]string{"api_key", "client_key", "proxy_credentials"}, a.Name), a.Secret, a.Name)
		require.False(t, a.Required, "a preset alone is enough")
		require.Equal(t, strings.HasSuffix(a.Name, "_timeout"), a.Duration, a.Name)
		if a.Name == "preset" {
			require.Equal(t, openai.Presets(), a.OneOf)
		}
	}
	for name, c := range map[string]struct{ base, key, want string }{
		"not a URL":       {"http://[", "", "not a URL"},
		"no scheme":       {"127.0.0.1:11434/v1", "", "not a URL"},
		"a name alone":    {"localhost", "", "must begin with http"},
		"another scheme":  {"ftp://h/v1", "", "must begin with http"},
		"no host":         {"http:///v1", "", "names no host"},
		"a port alone":    {"http://:80/v1", "", "names no host"},
		"a password":      {"http://u:geheim@h/v1", "", "user name or password"},
		"a query":         {"http://h/v1?geheim=1", "", "query"},
		"a fragment":      {"http://h/v1#x", "", "fragment"},
		"too far":         {"http://h/v1/chat/completions/", "", "end before"},
		"key of two rows": {"http://h/v1", "geheim\ngeheim", "one line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openai.New()
			*p.(provider.Configurable).Settings().(*openai.Settings) = openai.Settings{BaseURL: c.base, APIKey: c.key}
			err := p.(provider.Starter).Start(t.Context())
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "geheim")
		})
	}
}

func TestBaseURLMayBeShort(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	for _, base := range []string{s.URL(), s.URL() + "/", s.URL() + "/v1", s.URL() + "/v1//", " " + s.URL() + "/v1\n"} {
		_, err := providertest.Generate(t, start(t, map[string]string{"base_url": base}), providertest.Ask("x"))
		require.NoError(t, err, base)
	}
	_, err := providertest.Generate(t, start(t, map[string]string{"base_url": s.URL() + "/api"}), providertest.Ask("x"))
	require.ErrorContains(t, err, "check base_url", "a path that is given is kept")
}
