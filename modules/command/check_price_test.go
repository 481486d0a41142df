package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The price of a model that a preset knows is missing, or in the wrong unit.
func TestCheckKnowsUsualPrices(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	write := func(price string) {
		require.NoError(t, os.WriteFile(path, []byte(`provider "openai" {
  plugin        = "openai"
  start_timeout = "1m"
  config {
    preset   = "openai"
    base_url = "http://127.0.0.1:1/v1"
  }
}
route "mini" {
  provider       = "openai"
  model          = "gpt-5-mini"
  context_window = 272000
  max_output     = 128000
  quality        = 0.8
`+price+"}\n"), 0o600))
	}
	write("  price {\n    input  = 0.00025\n    output = 2\n  }\n")
	out, err := run(t, "check", path)
	require.NoError(t, err, out)
	require.Contains(t, out, "Warning: input is 1/1,000 of what gpt-5-mini usually costs\n  at "+path+":16:14\n")
	require.Contains(t, out, "is fine")

	write("")
	out, err = run(t, "check", path)
	require.Error(t, err)
	require.Contains(t, out, "    input       = 0.25\n    output      = 2.00\n    cache_read  = 0.025\n")
}
