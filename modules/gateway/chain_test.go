package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
)

// stub stands for a handler of the gateway whose package this one does not import.
type stub struct{ name string }

func (s stub) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID("http.handlers." + s.name),
		New: func() caddy.Module { return &stub{s.name} }}
}

func (s *stub) ServeHTTP(http.ResponseWriter, *http.Request, caddyhttp.Handler) error { return nil }

func (s *stub) Provision(ctx caddy.Context) error {
	_, err := FindApp(ctx)
	return err
}

func init() {
	for s := LinkEntry; s <= LinkExchange; s++ {
		caddy.RegisterModule(stub{links[s].module})
	}
	caddy.RegisterModule(stub{"fareway_portal"})
}

// validating is held because Caddy has globals: its certificate cache, and our default of the admin endpoint.
var validating sync.Mutex

// TestHandlersPlacedByHand validates a site with these directives in it.
func TestHandlersPlacedByHand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gateway.hcl"), []byte(exampleHCL), 0o600))
	validate := func(t *testing.T, site string) error {
		t.Helper()
		validating.Lock()
		defer validating.Unlock()
		text := fmt.Sprintf("{\n admin off\n fareway {\n config %s/gateway.hcl\n data %s/data\n }\n}\n%s\n", dir, dir, site)
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		require.NoError(t, err)
		cfg := new(caddy.Config)
		require.NoError(t, json.Unmarshal(adapted, cfg))
		return caddy.Validate(cfg)
	}
	const all = "fareway_entry\n fareway_auth\n fareway_limits\n fareway_exchange\n"
	for name, site := range map[string]string{
		"the directive of all": ":1 {\n fareway\n}",
		"one by one":           ":1 {\n fareway_exchange\n fareway_limits\n fareway_auth\n fareway_entry\n}",
		"with others between": ":1 {\n route {\n fareway_entry\n header x y\n fareway_auth\n vars a b\n " +
			"fareway_limits\n fareway_exchange\n }\n}",
		"with a matcher": ":1 {\n fareway_entry /v1/*\n fareway_auth /v1/*\n fareway_limits /v1/*\n " +
			"fareway_exchange /v1/*\n}",
		"for different requests":  ":1 {\n handle /a/* {\n " + all + " }\n handle /b/* {\n " + all + " }\n}",
		"all beside one by one":   ":1 {\n route {\n fareway /a/*\n " + all + " }\n}",
		"in a named route":        "&(gw) {\n route {\n " + all + " }\n}\n:1 {\n invoke gw\n}",
		"in a site that has none": ":1 {\n respond hello\n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, validate(t, site))
		})
	}
	for name, tc := range map[string]struct{ site, want string }{
		"limits before auth": {":1 {\n route {\n fareway_entry\n fareway_limits\n fareway_auth\n fareway_exchange\n }\n}",
			"fareway_auth is missing between fareway_entry and fareway_limits"},
		"auth before entry": {":1 {\n route {\n fareway_auth\n fareway_entry\n fareway_limits\n fareway_exchange\n }\n}",
			"fareway_auth comes without fareway_entry before it"},
		"no auth":   {":1 {\n fareway_entry\n fareway_limits\n fareway_exchange\n}", "fareway_auth is missing"},
		"no limits": {":1 {\n fareway_entry\n fareway_auth\n fareway_exchange\n}", "fareway_limits is missing"},
		"no entry":  {":1 {\n fareway_auth\n fareway_limits\n fareway_exchange\n}", "without fareway_entry"},
		"no exchange": {":1 {\n fareway_entry\n fareway_auth\n fareway_limits\n}",
			"fareway_exchange is missing behind fareway_limits"},
		"only entry": {":1 {\n fareway_entry\n}", "fareway_auth is missing behind fareway_entry"},
		"twice": {":1 {\n route {\n fareway_entry\n fareway_auth\n fareway_auth\n fareway_limits\n fareway_exchange\n " +
			"}\n}", "fareway_auth is there twice"},
		"back again": {":1 {\n route {\n fareway_entry\n fareway_auth\n fareway_entry\n fareway_limits\n " +
			"fareway_exchange\n }\n}",
			"fareway_entry comes behind fareway_auth"},
		"exchange again": {":1 {\n route {\n fareway\n fareway_exchange\n }\n}",
			"fareway_exchange comes without fareway_limits"},
		"other requests": {":1 {\n fareway_entry\n fareway_auth /v1/chat/*\n fareway_limits\n fareway_exchange\n}",
			"fareway_auth has another matcher than fareway_entry"},
		"torn apart": {":1 {\n fareway_entry\n handle /v1/* {\n fareway_auth\n fareway_limits\n fareway_exchange\n }\n}",
			"fareway_auth is missing behind fareway_entry"},
		"in a named route": {"&(gw) {\n fareway_exchange\n}\n:1 {\n invoke gw\n}", "without fareway_limits"},
		"for errors":       {":1 {\n handle_errors {\n fareway_exchange\n }\n}", "without fareway_limits"},
		"in the second":    {":1 {\n fareway\n}\n:2 {\n fareway_entry\n}", "server srv1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := validate(t, tc.site)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "the directive `fareway` places all four")
		})
	}
}
