package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatComesFromOutsideIsTold: whoever redacts knows each value of env, file and variables, also where the
// configuration is refused.
func TestWhatComesFromOutsideIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("of-a-file\n"), 0o600))
	require.NoError(t, os.WriteFile(path, []byte(`
variable "name" { default = "unused" }
gateway {
  namespace = "${env("ONE")}-${file("key")}-${var.name}"
  keepalive = "nonsense"
}
`), 0o600))
	var told []string
	_, diags := Load(t.Context(), path, Options{
		Env: func(name string) (string, bool) {
			return "of-" + name, name == "ONE" || name == "FAREWAY_VAR_name"
		},
		Outside: func(value string) { told = append(told, value) },
	})
	require.True(t, diags.HasErrors())
	require.Subset(t, told, []string{"of-ONE", "of-a-file", "of-FAREWAY_VAR_name"})
	require.NotContains(t, told, "unused")
}
