package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestFailedLoad: operators see why nothing has changed, until something has.
func TestFailedLoad(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	require.Nil(t, o.FailedLoad())
	o.NoteFailedLoad(FailedLoad{Path: "gateway.hcl", Problem: "of the test"})
	require.Equal(t, &FailedLoad{At: o.turned.Now(), Path: "gateway.hcl", Problem: "of the test"}, o.FailedLoad())
	require.NotNil(t, o.FailedLoad(), "and whoever looks again, too")
	o.load(t, o.config())
	require.Nil(t, o.FailedLoad())
	o.close(t)
}

// TestProviderThatDoesNotStart: the configuration is not taken, the error names the provider, and the others of it do
// not stay behind.
func TestProviderThatDoesNotStart(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	serving := o.Current()
	cfg := o.config()
	other := cfg.Providers[0]
	other.Name, other.Plugin = "broken", "none"
	another := cfg.Providers[0]
	another.Name = "another"
	cfg.Providers = append(cfg.Providers, another, other)
	require.NoError(t, o.Ready())
	_, err := o.Prepare(t.Context(), cfg)
	require.ErrorContains(t, err, `starting provider "broken"`)
	require.NotContains(t, err.Error(), `"another"`)
	require.Same(t, serving, o.Current())
	require.NoError(t, o.Ready(), "the old one serves")
	o.close(t)
}

// TestReady: a gateway takes requests while one of its providers does.
func TestReady(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	require.NoError(t, o.Ready())
	cfg := o.config()
	cfg.Providers, cfg.Routes = nil, []config.Route{}
	o.load(t, cfg)
	require.ErrorContains(t, o.Ready(), "no provider is ready")
	require.False(t, o.Current().Ready("upstream"))
	o.Retire(o.Current())
	require.ErrorContains(t, o.Ready(), "no configuration is active")
	require.NoError(t, o.Engine.Close())
	require.ErrorIs(t, o.Ready(), ErrShutdown)
}
