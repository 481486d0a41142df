package verify

import (
	"flag"
	"os"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/fareway/fareway/modules/auth"
	_ "github.com/fareway/fareway/modules/entry"
	_ "github.com/fareway/fareway/modules/exchange"
	_ "github.com/fareway/fareway/modules/families"
	_ "github.com/fareway/fareway/modules/limits"
	_ "github.com/fareway/fareway/modules/portal"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain makes the test binary a gateway's executable, too: the suite starts itself as one, and the gateway
// starts itself as a provider.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "gateway" {
		caddycmd.Main()
		return
	}
	carriedBy = os.Getenv("FAREWAY_TEST_CARRY")
	os.Exit(m.Run())
}
