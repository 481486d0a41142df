//go:build linux

package main_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// vacant is an address of this machine that nobody listens at, below the ports that systems choose.
func vacant(t *testing.T) string {
	t.Helper()
	for {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 5000+rand.IntN(5000)))
		if err == nil {
			require.NoError(t, ln.Close())
			return ln.Addr().String()
		}
	}
}

// scrape asks for metrics as Prometheus does.
func scrape(ctx context.Context, t *testing.T, c *http.Client, url, token string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestScraping: in each of the manual's three ways, with what a request has left, and what a reload
// has removed.
func TestScraping(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	config := hcl(up)
	g := startGateway(t, files{"gateway.hcl": config})
	key := g.account(t, 100_000_000)
	require.Equal(t, http.StatusOK, g.status(t, key))

	site, admin := vacant(t), vacant(t)
	files{"admin.caddy": "admin " + admin + "\n"}.write(t, g.Dir)
	caddyfile, err := os.ReadFile(filepath.Join(g.Dir, "Caddyfile"))
	require.NoError(t, err)
	files{"Caddyfile": string(caddyfile) + "\nhttp://" + site + " {\n\tmetrics /metrics\n}\n"}.write(t, g.Dir)
	out, err := fareway(g.Dir, "reload", "--config", filepath.Join(g.Dir, "Caddyfile")).CombinedOutput()
	require.NoError(t, err, "%s", out)

	certificate, err := os.ReadFile(filepath.Join(g.Dir, "admin.crt"))
	require.NoError(t, err)
	token, err := os.ReadFile(filepath.Join(g.Dir, "metrics.token"))
	require.NoError(t, err)
	authorities := x509.NewCertPool()
	require.True(t, authorities.AppendCertsFromPEM(certificate))
	overTLS := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: authorities, ServerName: "localhost"}}}
	ways := map[string]func() (int, string){
		"the socket": func() (int, string) {
			return scrape(withTimeout(t), t, g.admin, "http://localhost/metrics", "")
		},
		"the gateway's part of the socket": func() (int, string) {
			return scrape(withTimeout(t), t, g.admin, "http://localhost/fareway/metrics", "")
		},
		"a site": func() (int, string) {
			return scrape(withTimeout(t), t, http.DefaultClient, "http://"+site+"/metrics", "")
		},
		"over TCP": func() (int, string) {
			return scrape(withTimeout(t), t, overTLS, "https://"+admin+"/fareway/metrics",
				strings.TrimSpace(string(token)))
		},
	}
	for name, way := range ways {
		status, text := way()
		require.Equal(t, http.StatusOK, status, name)
		for _, line := range []string{
			`fareway_requests_total{endpoint="chat",status="200"} 1`,
			`fareway_requests_total{endpoint="responses",status="502"} 0`,
			`fareway_attempt_duration_seconds_count{route="standard"} 1`,
			`fareway_time_to_first_token_seconds_count{route="standard"} 1`,
			`fareway_upstream_errors_total{kind="capacity",route="standard"} 0`,
		} {
			require.Regexp(t, `(?m)^`+strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)+`(\.0)?$`, text, name)
		}
		require.Contains(t, text, `fareway_build_info{`, name)
		require.Contains(t, text, `fareway_file_bytes{file="spool"}`, name)
	}
	status, _ := scrape(withTimeout(t), t, overTLS, "https://"+admin+"/fareway/status", strings.TrimSpace(string(token)))
	require.Equal(t, http.StatusUnauthorized, status, "the token opens nothing else")

	g.save(t, strings.ReplaceAll(config, `route "standard"`, `route "renamed"`))
	for name, way := range ways {
		_, text := way()
		require.NotContains(t, text, `route="standard"`, name)
		require.Contains(t, text, `fareway_attempt_duration_seconds_count{route="renamed"} 0`, name)
	}
	require.Equal(t, http.StatusOK, g.status(t, key))
	_, text := ways["over TCP"]()
	require.Contains(t, text, `fareway_attempt_duration_seconds_count{route="renamed"} 1`)
}
