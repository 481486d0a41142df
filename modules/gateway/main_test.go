package gateway

import (
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// newEngine runs an engine on an empty ledger, with the plans "trial" and "starter" and no providers.
func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	return newEngineAt(t, nil)
}

// newEngineAt is newEngine with a clock; nil for the real one.
func newEngineAt(t *testing.T, now func() time.Time) *engine.Engine {
	t.Helper()
	return newEngineOn(t, t.TempDir(), now)
}

// newEngineOn is newEngineAt on a data folder that is there.
func newEngineOn(t *testing.T, data string, now func() time.Time) *engine.Engine {
	t.Helper()
	cfg := &config.Config{
		Store: config.DefaultStore(), Path: data + "/gateway.hcl",
		Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced},
		Plans:   []config.Plan{{Name: "trial"}, {Name: "starter"}},
	}
	e, err := engine.Open(engine.Options{DataDir: data, Logger: slog.New(slog.DiscardHandler), Now: now}, cfg)
	require.NoError(t, err)
	g, err := e.Prepare(t.Context(), cfg)
	require.NoError(t, err)
	e.Activate(g)
	t.Cleanup(func() {
		e.Retire(g)
		require.NoError(t, e.Close())
	})
	return e
}
