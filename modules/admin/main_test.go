package admin

import (
	"fmt"
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/provider"
)

// TestMain makes the test binary the provider of the configurations that are loaded, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		provider.Serve(echo.New())
		return
	}
	caddy.CustomBinaryName = "fareway" // as in package caddy
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
