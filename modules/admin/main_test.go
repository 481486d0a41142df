package admin

import (
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestMain(m *testing.M) {
	caddy.CustomBinaryName = "fareway" // as in package caddy
	os.Exit(m.Run())
}
