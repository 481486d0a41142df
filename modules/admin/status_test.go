package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/stores"
)

// exampleHCL is a configuration of one route.
const exampleHCL = `
provider "echo" {
  plugin = "echo"
}

route "only" {
  provider       = "echo"
  model          = "echo"
  context_window = 8000
  max_output     = 1000
  quality        = 0.5
  price {
    input  = 1
    output = 2
  }
}
`

// TestAdminReload: the saved file is loaded at once, in the name of the command that asked, and one that is refused
// leaves the one before, and says why.
func TestAdminReload(t *testing.T) {
	t.Parallel()
	data, log := t.TempDir(), slog.New(slog.DiscardHandler)
	path := filepath.Join(data, "gateway.hcl")
	save := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	plan := func(name string) string {
		return fmt.Sprintf("%s\nplan %q {\n  token_budget = 5\n}\n", exampleHCL, name)
	}
	save(plan("p0"))
	cfg, diags := engine.CheckConfig(t.Context(), path, log)
	require.False(t, diags.HasErrors(), diags)
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: log}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	serveUnix(t, e)
	c, err := NewClient(data, "")
	require.NoError(t, err)
	reload := func(by string) (v Reloaded, err error) {
		return v, c.Call(t.Context(), "POST", "/fareway/reload?by="+by, nil, &v)
	}
	status := func() (v Status) {
		require.NoError(t, c.Call(t.Context(), "GET", "/fareway/status", nil, &v))
		return v
	}
	require.Zero(t, status().Number, "nothing serves yet")
	_, err = reload("apply")
	require.ErrorContains(t, err, "another configuration of the gateway is being loaded")
	live, err := e.Live(t.Context(), cfg)
	require.NoError(t, err)
	live.Start()
	t.Cleanup(live.Retire)

	for i, c := range []struct{ by, want string }{{"apply", "apply by "}, {"rollback", "rollback by "},
		{"init", "init by "}, {"reload", "reload by "}, {"a%20stranger", "reload by "}, {"", "reload by "}} {
		name := fmt.Sprint("p", i+1)
		save(plan(name))
		v, err := reload(c.by)
		require.NoError(t, err)
		now := status()
		require.Equal(t, []string{name}, now.Plans)
		require.True(t, strings.HasPrefix(now.By, c.want), "%q: %s", c.by, now.By)
		require.Equal(t, []any{now.Number, now.ConfigHash, now.InForce.UTC()},
			[]any{v.Number, v.ConfigHash, v.InForce.UTC()})
		require.True(t, now.Kept, "for a rollback")
		require.Equal(t, []string{path}, now.Files)
		require.Nil(t, now.FailedLoad)
	}
	save(plan("p9") + "nonsense = 1\n")
	_, err = reload("apply")
	require.ErrorContains(t, err, "the saved configuration is refused, and the one before serves on:")
	require.ErrorContains(t, err, "nonsense")
	now := status()
	require.Equal(t, []string{"p6"}, now.Plans)
	require.Equal(t, path, now.FailedLoad.Config)
	require.True(t, now.FailedLoad.InFile)
	require.Len(t, now.FailedLoad.Diagnostics, 1)
	require.Contains(t, now.FailedLoad.Text, "nonsense")
}

// TestAdminListsAreOfLines: each list is JSON in lines, which nobody keeps.
func TestAdminListsAreOfLines(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	enginetest.NewCustomer(t, e, "ann")
	api := adminOf(t, e)
	w := httptest.NewRecorder()
	require.NoError(t, list(api.books.listAccounts).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)))
	require.Equal(t, []string{"application/jsonl", "no-store"},
		[]string{w.Header().Get("Content-Type"), w.Header().Get("Cache-Control")})
	require.Equal(t, 1, strings.Count(w.Body.String(), "\n"))
}
