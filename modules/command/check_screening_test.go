package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A provider without the capability cannot screen.
func TestCheckKnowsWhoScreens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`provider "local" {
  plugin        = "echo"
  start_timeout = "1m"
}
route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
screening {
  mode     = "enforce"
  provider = "local"
}
`), 0o600))
	out, err := run(t, "check", path)
	require.Error(t, err)
	require.Contains(t, out, "Error: Provider \"local\" does not screen\n  at "+path+":18:14\n")
	require.Contains(t, out, "Its plugin \"echo\" does not have the capability screen.")
}
