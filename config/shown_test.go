package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// TestShownFiles: what nobody has said to be harmless is hidden, also where the file is refused, and lines keep their
// numbers.
func TestShownFiles(t *testing.T) {
	t.Parallel()
	const planted = "planted-secret"
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	text := `# an old key: planted-secret
route "small" {
  provider = "echo" # planted-secret
  model    = "mini"
  api_kye  = "planted-secret"
  /* planted-secret
     planted-secret */ context_window = 2
}

provider "echo" {
  plugin = "echo"
  config {
    api_key = "planted-secret"
    base_url = "https://u:planted-secret@example.com/v1"
  }
}

nobody_knows "planted-secret" {
  token = <<EOT
planted-secret
EOT
}
locals {
  x = "planted-secret"
}
`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, content := range []string{text, text[:strings.LastIndex(text, "}")], text + "\x00\xff planted-secret \""} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		cfg, diags := Load(context.Background(), path, Options{})
		require.Nil(t, cfg)
		shown := diags.Shown()
		require.Len(t, shown, 1)
		require.NotContains(t, shown[0].Text, planted)
		require.NotZero(t, shown[0].Hidden)
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, diags := Load(context.Background(), path, Options{})
	lines := strings.Split(diags.Shown()[0].Text, "\n")
	require.Len(t, lines, strings.Count(text, "\n")+1)
	require.Equal(t, `  provider = "echo"`, lines[2])
	require.Contains(t, lines[6], "context_window = 2")

	_, diags = Load(context.Background(), filepath.Join(t.TempDir(), "none.hcl"), Options{})
	require.Empty(t, diags.Shown())
}

// What stands behind the names of a map of texts is hidden, wherever a configuration is shown: the values of headers
// are keys as often as not.
func TestValuesInMapsAreHidden(t *testing.T) {
	t.Parallel()
	schema := settings.Schema{Attributes: []settings.Attribute{{Name: "headers", Type: settings.MapString}}}
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	for _, headers := range []string{`{ "X-Api-Key" = "planted-secret", Title = "planted-secret" }`,
		`merge({ X-Api-Key = "planted-secret" }, local.more)`, `{ "X-Api-Key" = "a${local.more.x}planted-secret" }`} {
		require.NoError(t, os.WriteFile(path, []byte("locals {\n  more = { x = \"planted-secret\" }\n}\n"+
			"provider \"p\" {\n  plugin = \"p\"\n  config {\n    headers = "+headers+"\n  }\n}\n"), 0o600))
		_, diags := Load(context.Background(), path, Options{
			Schema: func(context.Context, PluginRef) (settings.Schema, error) { return schema, nil }})
		require.Len(t, diags.Shown(), 1)
		text := diags.Shown()[0].Text
		require.NotContains(t, text, "planted")
		require.Contains(t, text, "headers =")
		if strings.HasPrefix(headers, "{") {
			require.Contains(t, text, "X-Api-Key", "a name is no secret")
		}
		require.NotContains(t, diags.Err().Error(), "planted") // it has no route
	}
}
