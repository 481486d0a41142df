package command

import (
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/spf13/cobra"
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
	os.Exit(m.Run())
}
