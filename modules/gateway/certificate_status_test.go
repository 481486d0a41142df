package gateway

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
)

// TestCertificateFailures: a failure is known until the certificate is there, and what an issuer said of it cannot
// write to a terminal.
func TestCertificateFailures(t *testing.T) {
	t.Parallel()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	const host = "failures.example"
	handle := func(name string, err error) {
		e, made := caddy.NewEvent(ctx, name, map[string]any{"identifier": host, "error": err})
		require.NoError(t, made)
		require.NoError(t, certificateWatch{}.Handle(t.Context(), e))
	}
	failure := func() *engine.CertificateFailure { return failureOf(host, nil) }
	handle("cert_failed", errors.New("no \x1b[2J\nroute\u009b"+strings.Repeat("é", 400)))
	text := failure().Text
	require.True(t, strings.HasPrefix(text, "no  [2J route é"), text)
	require.LessOrEqual(t, len(text), 503)
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u009b")
	handle("cert_obtained", nil)
	require.Nil(t, failure())

	handle("cert_failed", errors.New("busy"))
	require.NotNil(t, failure())
	require.Nil(t, failureOf(host, &x509.Certificate{NotAfter: time.Now()}), "another process has obtained one")
	require.Nil(t, failure(), "it is over")
}

// TestTLSHosts: hosts of servers with TLS, once each, and no placeholders.
func TestTLSHosts(t *testing.T) {
	t.Parallel()
	routes := func(hosts ...string) caddyhttp.RouteList {
		match := caddyhttp.MatchHost(hosts)
		return caddyhttp.RouteList{{MatcherSets: caddyhttp.MatcherSets{{&match}}}, {}}
	}
	require.Equal(t, []string{"*.b.example", "a.example"}, tlsHosts(&caddyhttp.App{Servers: map[string]*caddyhttp.Server{
		"one":   {Routes: routes("a.example", "{env.X}"), TLSConnPolicies: caddytls.ConnectionPolicies{{}}},
		"two":   {Routes: routes("a.example", "*.b.example"), TLSConnPolicies: caddytls.ConnectionPolicies{{}}},
		"plain": {Routes: routes("plain.example")},
	}}))
}
