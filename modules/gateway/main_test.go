package gateway

import (
	"os"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/provider"
)

// exampleHCL is a configuration of one route.
const exampleHCL = `
provider "echo" {
  plugin = "echo"
}

route "only" {
  provider       = "echo"
  model          = "echo"
  context_window = 8000
  max_output     = 1000
  quality        = 0.5
  price {
    input  = 1
    output = 2
  }
}
`

// TestMain makes the test binary the provider that the configuration has, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		provider.Serve(echo.New())
		return
	}
	os.Exit(m.Run())
}
