package command

import (
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// TestMain makes the test binary a gateway's executable, too: the engine starts it again as a provider.
func TestMain(m *testing.M) {
	caddy.CustomBinaryName = "fareway" // as in package caddy
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		cmd := &cobra.Command{Use: "fareway"}
		gateway := &cobra.Command{}
		setUpCommand(gateway)
		cmd.AddCommand(gateway)
		if cmd.Execute() != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(runWithHome(m))
}

// ownHome are the variables of whoever runs the tests that say where the home folder is: the Go toolchain's caches are
// there.
var ownHome []string

// runWithHome runs the tests with a home of their own: whoever runs them may have a gateway, and clients.
func runWithHome(m *testing.M) int {
	home, err := os.MkdirTemp("", "fareway-home-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		ownHome = append(ownHome, name+"="+os.Getenv(name))
		if err := os.Setenv(name, home); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		panic(err)
	}
	return code
}
