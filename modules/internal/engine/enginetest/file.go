package enginetest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/stores"
)

// StartFile runs an engine on a configuration file, which is loaded again when somebody asks for it. Its providers are
// built in: the test's executable has to serve them. Of the options, nothing need be given.
func StartFile(t testing.TB, hcl string, o engine.Options) (e *engine.Engine, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(hcl), 0o600))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg, diags := engine.CheckConfig(t.Context(), path, o.Logger)
	require.NoError(t, diags.Err())
	o.OpenPeople, o.DataDir = stores.OpenPeople, t.TempDir()
	if o.OpenStore == nil {
		o.OpenStore = stores.Open
	}
	e, err := engine.Open(o, cfg)
	require.NoError(t, err)
	live, err := e.Live(t.Context(), cfg)
	require.NoError(t, err)
	live.Start()
	t.Cleanup(func() {
		live.Retire()
		require.NoError(t, e.Close())
	})
	return e, path
}
