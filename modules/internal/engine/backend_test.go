package engine

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
)

// signpost is a provider that says where calls go.
type signpost struct{ provider.Carried }

func (*signpost) Settings() any { return new(struct{}) }

func (*signpost) Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error) {
	return &endpoint.Endpoint{Dialect: endpoint.Chat, URL: "http://127.0.0.1:1/v1/chat/completions"}, nil
}

// TestWhoCarriesCalls: the gateway where it can, the provider's process where it cannot or the operator says so.
func TestWhoCarriesCalls(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	builtin := func(plugin string) ([]string, bool) { return []string{self, "provider", plugin}, true }
	cfg := &config.Config{Store: sqliteStore}
	for _, p := range []config.Provider{
		{Name: "gateway", Plugin: "signpost", Carry: config.CarryHost},
		{Name: "process", Plugin: "signpost", Carry: config.CarryProcess},
		{Name: "unable", Plugin: "archivist", Carry: config.CarryHost, Settings: settings.Values(`{"dir": "/none"}`)},
	} {
		p.StartTimeout = time.Minute
		cfg.Providers = append(cfg.Providers, p)
	}
	e, err := Open(Options{OpenStore: stores.Open, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Builtin: builtin}, cfg)
	require.NoError(t, err)
	g, err := e.Prepare(t.Context(), cfg)
	require.NoError(t, err)
	e.Activate(g)
	require.IsType(t, carried{}, g.Backend("gateway"))
	require.IsType(t, hosted{}, g.Backend("process"))
	require.IsType(t, hosted{}, g.Backend("unable"))
	e.Retire(g)
	require.NoError(t, e.Close())
}
