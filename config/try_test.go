package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTry proves the "bad input": what a provider objects to is reported with its place.
func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`provider "a" {
  plugin = "openai"
  config {
    base_url = "http://h"
    api_key  = env("SECRET_TOKEN")
  }
}
provider "b" {
  plugin = "openai"
  config {
    base_ulr = "http://h"
  }
}
provider "c" {
  plugin = "echo"
}
`), 0o600))
	var tried []string
	try := func(_ context.Context, ref PluginRef, p Provider) error {
		tried = append(tried, p.Name)
		require.Equal(t, p.Plugin, ref.Plugin)
		if p.Name == "c" {
			return nil
		}
		return errors.Join(errors.New("setting base_url must be nice"), errors.New("settings api_key and x are at odds"),
			errors.New("setting other is needed"), errors.New("nothing works"))
	}
	_, diags := Load(t.Context(), path, Options{Schema: testSchema, Env: testEnv, Try: try})
	require.Equal(t, []string{"a", "c"}, tried, "what is wrong by the schema is not tried")
	places := map[string][2]int{}
	for _, d := range diags.All() {
		if d.Summary == `Provider "a" does not start` {
			places[d.Detail] = [2]int{d.Line, d.Column}
		}
	}
	require.Equal(t, map[string][2]int{"setting base_url must be nice.": {4, 16},
		"settings api_key and x are at odds.": {5, 16}, "setting other is needed.": {3, 3},
		"nothing works.": {3, 3}}, places)
	requireNoSecret(t, nil, diags)
}

// TestPasswordsInURLsAreNotShown: whoever writes one where none belongs reads it in no diagnostic.
func TestPasswordsInURLsAreNotShown(t *testing.T) {
	t.Parallel()
	for value, shown := range map[string]bool{"http://u:geheim@h": false, "socks5://geheim@h:1/v1": false,
		"http://h/v1": true, "http://h/geheim@x": true} {
		path := filepath.Join(t.TempDir(), "gateway.hcl")
		require.NoError(t, os.WriteFile(path, []byte(`provider "a" {
  plugin = "openai"
  config {
    base_url = "`+value+`"
  }
}
`), 0o600))
		try := func(context.Context, PluginRef, Provider) error { return errors.New("setting base_url is wrong") }
		_, diags := Load(t.Context(), path, Options{Schema: testSchema, Env: testEnv, Try: try})
		text := printed(t, diags)
		require.Contains(t, text, "base_url")
		require.Equal(t, shown, strings.Contains(text, value), text)
		require.Equal(t, shown && strings.Contains(value, "geheim"), strings.Contains(text, "geheim"))
	}
}
