// Package enginetest runs engines for the tests of the handlers: real ones, with a ledger, and without any provider.
package enginetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

// Start runs an engine until the test ends, on a data folder of its own where o has none. Of cfg, the store need not be
// given; of the options, nothing need. At the end nothing may be left of a request.
func Start(t testing.TB, cfg *config.Config, o engine.Options) *engine.Engine {
	t.Helper()
	cfg.Store = config.DefaultStore()
	o.OpenStore, o.DataDir = stores.Open, cmp.Or(o.DataDir, t.TempDir())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	e, err := engine.Open(o, cfg)
	require.NoError(t, err)
	gen, err := e.Prepare(context.Background(), cfg)
	require.NoError(t, err)
	e.Activate(gen)
	t.Cleanup(func() {
		requests, _ := e.InProgress()
		require.Zero(t, requests, "requests that take a place of their account")
		require.False(t, e.AcquireBody(cfg.Gateway.MaxBodyMemory+1), "more memory was given back than taken")
		require.True(t, e.AcquireBody(cfg.Gateway.MaxBodyMemory), "memory for bodies was not given back")
		e.Drain()
		e.Retire(gen)
		require.NoError(t, e.Close())
	})
	return e
}

// Account makes an account with a key, and returns the key's text.
func Account(t testing.TB, e *engine.Engine, name string) (ledger.Principal, string) {
	t.Helper()
	return account(context.Background(), t, e, name)
}

func account(ctx context.Context, t testing.TB, e *engine.Engine, name string) (ledger.Principal, string) {
	t.Helper()
	account, err := e.Store().CreateAccount(ctx, name, "")
	require.NoError(t, err)
	text, hash, err := ledger.NewKey(rand.Reader)
	require.NoError(t, err)
	key, err := e.Store().CreateKey(ctx, account.ID, "first", hash, ledger.Last4(text), ledger.KeyChange{})
	require.NoError(t, err)
	return ledger.Principal{Account: account, Key: key}, text
}
