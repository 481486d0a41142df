package entry

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/provider"
)

// TestMain makes the test binary the provider that the configuration has, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		provider.Serve(echo.New())
		return
	}
	os.Exit(m.Run())
}

// chatModule is the chat family as Caddy loads it; modules/families has the real one.
type chatModule struct{ chat.Server }

func (chatModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.families.chat", New: func() caddy.Module { return new(chatModule) }}
}

// stranger is a module in the place of a request family.
type stranger struct{}

func (stranger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.families.stranger", New: func() caddy.Module { return new(stranger) }}
}

// TestProvision: the handler of a configuration knows its paths, and one that cannot is refused at load.
func TestProvision(t *testing.T) {
	t.Parallel()
	provision := func(app bool) (*Handler, error) {
		cfg := &caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}}
		if app {
			hcl, err := filepath.Abs("../command/starter/gateway.hcl")
			require.NoError(t, err)
			settings, err := json.Marshal(map[string]string{"config": hcl, "data": t.TempDir()})
			require.NoError(t, err)
			cfg.AppsRaw = caddy.ModuleMap{"fareway": settings}
		}
		ctx, err := caddy.ProvisionContext(cfg)
		require.NoError(t, err)
		h := new(Handler)
		return h, h.Provision(ctx)
	}
	_, err := provision(false)
	require.ErrorContains(t, err, "fareway is not configured: add the global option")

	_, err = provision(true)
	require.ErrorContains(t, err, "the chat family is not built in")

	caddy.RegisterModule(chatModule{})
	h, err := provision(true)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := request(t, "POST", "/v1/chat/completions", "{}")
	require.NoError(t, h.ServeHTTP(w, r, nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code, "the app has not started")

	caddy.RegisterModule(stranger{})
	_, err = provision(true)
	require.ErrorContains(t, err, "module fareway.families.stranger is not a request family")
}
