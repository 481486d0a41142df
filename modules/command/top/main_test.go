package top

import (
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestMain(m *testing.M) {
	caddy.CustomBinaryName = "fareway" // as hints call it
	os.Exit(m.Run())
}
