package exchange

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
	"github.com/stretchr/testify/require"
)

// TestALoneHandlerIsNeverLoaded: Caddy loads apps in the order of a map, which is another each time, and what comes
// later cannot see the site any more.
func TestALoneHandlerIsNeverLoaded(t *testing.T) {
	t.Parallel()
	hcl, err := filepath.Abs("../command/starter/gateway.hcl")
	require.NoError(t, err)
	option := fmt.Sprintf("fareway {\n config %s\n data %s\n }\n", hcl, t.TempDir())
	for name, tc := range map[string]struct{ option, site, want string }{
		"for errors":       {option, ":1 {\n handle_errors {\n fareway_exchange\n }\n}", "comes without fareway_limits"},
		"in a named route": {option, "&(gw) {\n fareway_exchange\n}\n:1 {\n invoke gw\n}", "comes without fareway_limits"},
		"without an app":   {"", ":1 {\n fareway_exchange\n}", "fareway is not configured"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: Caddy stops its one certificate cache without a lock
			text := fmt.Sprintf("{\n admin off\n %s}\n%s\n", tc.option, tc.site)
			adapt := caddyconfig.GetAdapter("caddyfile").Adapt
			adapted, _, err := adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			require.NoError(t, err)
			for range 16 {
				cfg := new(caddy.Config)
				require.NoError(t, json.Unmarshal(adapted, cfg))
				require.ErrorContains(t, caddy.Validate(cfg), tc.want)
			}
		})
	}
}
