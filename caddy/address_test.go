//go:build linux

package main_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// proxiedSite is a Caddyfile behind proxies on the same machine, on every loopback address that there is.
func proxiedSite(servers string, addresses []string) string {
	return `{
	fareway {
		config "{$FAREWAY_DATA}/gateway.hcl"
		data "{$FAREWAY_DATA}"
	}
	admin "{$FAREWAY_ADMIN}"
	persist_config off
	grace_period 6m
	auto_https off
	log {
		output file "{$FAREWAY_DATA}/fareway.log"
	}
	storage file_system "{$FAREWAY_DATA}/caddy"
	` + servers + `
}

http://:{$FAREWAY_PORT} {
	bind ` + strings.Join(addresses, " ") + `
	fareway
}
`
}

const byAddress = `
plan "by_address" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 2
  }
}
pre_auth {
  failures_per_minute = 2
}
`

// loopbacks are this machine's loopback addresses: IPv4, and IPv6 where there is one.
func loopbacks(t testing.TB) []string {
	t.Helper()
	all := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		require.NoError(t, l.Close())
		all = append(all, "::1")
	}
	return all
}

// TestClientAddress proves what an address is: the peer, or what a trusted proxy says, and of IPv6 a whole /64.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	addresses := loopbacks(t)
	ask := func(t *testing.T, url, key string, forwarded ...string) (status int, reason string) {
		t.Helper()
		req, err := http.NewRequestWithContext(withTimeout(t), "GET", url+"/v1/account", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header["X-Forwarded-For"] = forwarded
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, resp.Header.Get("X-RateLimit-Reason")
	}
	const tooMany = "ip_requests_per_minute"
	served := func(t *testing.T, url, key string, forwarded ...string) {
		t.Helper()
		status, _ := ask(t, url, key, forwarded...)
		require.Equal(t, 200, status, forwarded)
	}
	refused := func(t *testing.T, why, url, key string, forwarded ...string) {
		t.Helper()
		status, reason := ask(t, url, key, forwarded...)
		require.Equal(t, 429, status, forwarded)
		require.Equal(t, why, reason)
	}

	t.Run("LIM-03 GAP-88 behind trusted proxies", func(t *testing.T) {
		t.Parallel()
		trusted := "servers {\n trusted_proxies static 127.0.0.0/8 ::1/128\n trusted_proxies_strict\n }"
		g := startGateway(t, files{"gateway.hcl": hcl(up) + byAddress, "Caddyfile": proxiedSite(trusted, addresses)})
		key := g.accountOn(t, "by_address", 1)

		served(t, g.URL, key, "2001:db8:1:2::1")
		served(t, g.URL, key, "2001:db8:1:2:ffff::2")
		refused(t, tooMany, g.URL, key, "2001:db8:1:2:3:4:5:6")
		served(t, g.URL, key, "2001:db8:1:3::1")

		served(t, g.URL, key, "203.0.113.9")
		served(t, g.URL, key, "::ffff:203.0.113.9")
		refused(t, tooMany, g.URL, key, "203.0.113.9")
		served(t, g.URL, key, "203.0.113.10")
		refused(t, tooMany, g.URL, key, "198.51.100.7, 203.0.113.9, 127.0.0.5") // what the client made up comes first

		// The proxy itself.
		served(t, g.URL, key)
		served(t, g.URL, key)
		refused(t, tooMany, g.URL, key)

		for range 2 {
			status, _ := ask(t, g.URL, "nonsense", "2001:db8:7:7::1")
			require.Equal(t, 401, status)
		}
		refused(t, "pre_auth_ip_requests_per_minute", g.URL, key, "2001:db8:7:7:8::")
		served(t, g.URL, key, "2001:db8:7:8::")
	})
	t.Run("LIM-03 GAP-88 nobody is trusted", func(t *testing.T) {
		t.Parallel()
		g := startGateway(t, files{"gateway.hcl": hcl(up) + byAddress, "Caddyfile": proxiedSite("", addresses)})
		key := g.accountOn(t, "by_address", 1)
		_, port, err := net.SplitHostPort(strings.TrimPrefix(g.URL, "http://"))
		require.NoError(t, err)
		for _, address := range addresses { // each counts alone
			url := "http://" + net.JoinHostPort(address, port)
			served(t, url, key, "203.0.113.1")
			served(t, url, key, "203.0.113.2")
			refused(t, tooMany, url, key, "203.0.113.3")
			refused(t, tooMany, url, key)
		}
	})
}
