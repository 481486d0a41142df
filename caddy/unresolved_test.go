package main_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestNameGone: where a service's name does not resolve, another route answers, and the operator is told what is wrong.
func TestNameGone(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up) + `
provider "gone" {
  plugin = "openai"
  config {
    base_url = "https://models.invalid/v1"
  }
}
route "gone" {
  provider       = "gone"
  model          = "small"
  context_window = 32768
  max_output     = 8192
  quality        = 0.99
  price {
    input  = 0.0001
    output = 0.0001
  }
}
`})
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		reply := s.send(t, http.DefaultClient, g.URL, key, "hello", false)
		require.Equal(t, http.StatusOK, reply.StatusCode, s.name)
		require.NotContains(t, reply.all(t), "invalid", s.name)
	}
	require.Positive(t, g.metrics(t)[`fareway_upstream_errors_total{kind="upstream",route="gone"}`])
	said := string(g.cli(t, "status"))
	require.Contains(t, said, "last attempt failed")
	require.Contains(t, said, "finding the upstream's host")
	require.Contains(t, said, "check base_url")
}
