package admin

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// TestNoPlanOverANetwork: who has the token of an address may see and change accounts, not read this machine's files.
func TestNoPlanOverANetwork(t *testing.T) {
	t.Parallel()
	_, err := new(API).plan(&http.Request{TLS: new(tls.ConnectionState)})
	var refused caddy.APIError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusForbidden, refused.HTTPStatus)
	require.ErrorContains(t, refused.Err, "use the gateway's socket")
}
