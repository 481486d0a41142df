package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// TestWeightOfAKey: it is the key's own, also where the plugin has a setting of that name.
func TestWeightOfAKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`
provider "scales" {
  plugin = "scales"
  config {
    weight = 7
  }
  key "a" {
    api_key = env("SECRET_TOKEN")
    weight  = 3
  }
}
`+minimal), 0o600))
	schema := func(ctx context.Context, ref PluginRef) (settings.Schema, error) {
		if ref.Plugin != "scales" {
			return testSchema(ctx, ref)
		}
		return settings.Schema{Attributes: []settings.Attribute{{Name: "api_key", Type: settings.String, Secret: true},
			{Name: "weight", Type: settings.Number}}}, nil
	}
	config, diags := Load(t.Context(), path, Options{Schema: schema, Env: testEnv})
	require.NoError(t, diags.Err())
	require.Equal(t, int64(3), config.Providers[0].Keys[0].Weight)
	require.Contains(t, string(config.Providers[0].Keys[0].Settings), `"weight":7`)
}
