//go:build linux

package public_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
)

// protocols are clients of each version of HTTP, by what replies say.
func (g *gateway) protocols(t *testing.T, roots *x509.CertPool) map[string]*http.Client {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", g.secure)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	config := &tls.Config{RootCAs: roots, ServerName: domain}
	one := &http.Transport{DialContext: dial, TLSClientConfig: config, TLSNextProto: map[string]func(string,
		*tls.Conn) http.RoundTripper{}}
	two := &http.Transport{DialContext: dial, TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}
	three := &http3.Transport{TLSClientConfig: config.Clone(), Dial: func(ctx context.Context, _ string, c *tls.Config,
		q *quic.Config) (*quic.Conn, error) {
		return quic.DialAddr(ctx, address, c, q)
	}}
	t.Cleanup(func() {
		one.CloseIdleConnections()
		two.CloseIdleConnections()
		_ = three.Close()
	})
	return map[string]*http.Client{"HTTP/1.1": {Transport: one}, "HTTP/2.0": {Transport: two},
		"HTTP/3.0": {Transport: three}}
}

// ask sends a chat request; body is what came of it.
func (g *gateway) ask(t *testing.T, client *http.Client, stream bool) (resp *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+domain+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"service/auto","stream":%t,"messages":[{"role":"user","content":"hello"}]}`,
			stream)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+g.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err = client.Do(req)
	require.NoError(t, err)
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(content)
}

// isServed: a reply and a stream come by each version of HTTP, with a certificate that these roots vouch for.
func (g *gateway) isServed(t *testing.T, roots *x509.CertPool) {
	t.Helper()
	for version, client := range g.protocols(t, roots) {
		for _, stream := range []bool{false, true} {
			resp, body := g.ask(t, client, stream)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", version, body)
			require.Equal(t, version, resp.Proto)
			if stream {
				require.Contains(t, body, "data: [DONE]", version)
			} else {
				require.Contains(t, body, "Good day.", version)
			}
			for name, want := range map[string]string{"Strict-Transport-Security": "max-age=31536000",
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Server": ""} {
				require.Equal(t, want, resp.Header.Get(name), "%s: %s", version, name)
			}
		}
	}
}

// waitForCertificate waits until there is one that these roots vouch for.
func (g *gateway) waitForCertificate(t *testing.T, roots *x509.CertPool) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	var err error
	defer func() {
		if leaf == nil {
			t.Log(err, "\n", g.logs.String())
		}
	}()
	require.Eventually(t, func() bool {
		var conn *tls.Conn
		conn, err = tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.secure), &tls.Config{RootCAs: roots, ServerName: domain})
		if err != nil {
			return false
		}
		leaf = conn.ConnectionState().PeerCertificates[0]
		return conn.Close() == nil
	}, patience, 50*time.Millisecond, "a certificate")
	return leaf
}

// TestInternalCertificates: Caddy's own authority, through each version of HTTP, and whoever does not know it refuses.
func TestInternalCertificates(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(*gateway) string { return "\tlocal_certs\n\tskip_install_trust" })
	roots := x509.NewCertPool()
	root, err := os.ReadFile(filepath.Join(g.data, "caddy", "pki", "authorities", "local", "root.crt"))
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(root))
	g.waitForCertificate(t, roots)
	g.isServed(t, roots)
	require.Regexp(t, `certificate +gateway\.test: valid until .*, from "Caddy Local Authority`, g.command(t, "status"))

	for version, client := range g.protocols(t, x509.NewCertPool()) {
		_, err := client.Get("https://" + domain + "/v1/models")
		require.ErrorContains(t, err, "x509", version)
	}
	t.Run("plain HTTP", func(t *testing.T) { plainHTTP(t, g) })
	t.Run("administration", func(t *testing.T) { administration(t, g, roots) })
	t.Run("what listens", func(t *testing.T) { whatListens(t, g) })
}

// plainHTTP: nothing that has a key, or could have one, is redirected.
func plainHTTP(t *testing.T, g *gateway) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct {
		method, path, header string
		status               int
	}{
		{"GET", "/", "", 308},
		{"HEAD", "/docs?x=1", "", 308},
		{"GET", "/.well-known/acme-challenge/unknown", "", 308},
		{"GET", "/", "Authorization", 403},
		{"GET", "/docs", "X-Api-Key", 403},
		{"GET", "/", "Cookie", 403},
		{"GET", "/v1/models", "", 403},
		{"GET", "/v1/models", "Authorization", 403},
		{"POST", "/v1/chat/completions", "Authorization", 403},
		{"POST", "/v1/messages", "X-Api-Key", 403},
		{"POST", "/", "", 403},
		{"OPTIONS", "/v1/messages", "", 403},
	} {
		name := fmt.Sprintf("%s %s %s", c.method, c.path, c.header)
		req, err := http.NewRequestWithContext(t.Context(), c.method, fmt.Sprintf("http://127.0.0.1:%d%s", g.plain, c.path),
			nil)
		require.NoError(t, err)
		req.Host = domain
		if c.header != "" {
			req.Header.Set(c.header, "Bearer "+g.key)
		}
		resp, err := client.Do(req)
		require.NoError(t, err, name)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, name)
		if c.status == http.StatusForbidden {
			require.Empty(t, resp.Header.Get("Location"), name)
			require.Contains(t, string(body), "https_required", name)
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"), name)
			require.True(t, resp.Close, name)
			require.NotContains(t, string(body), g.key, name)
		} else {
			require.Equal(t, "https://"+domain+c.path, resp.Header.Get("Location"), name)
		}
	}
	logged, err := os.ReadFile(filepath.Join(g.data, "fareway.log"))
	require.NoError(t, err)
	require.NotContains(t, string(logged), g.key)
}

// administration: the admin API, health and metrics are not on the public address.
func administration(t *testing.T, g *gateway, roots *x509.CertPool) {
	token, err := os.ReadFile(filepath.Join(g.data, "admin.token"))
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	for version, client := range g.protocols(t, roots) {
		for _, path := range []string{"/fareway/status", "/config/", "/load", "/metrics", "/fareway/metrics", "/readyz"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+domain+path, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token))+"x")
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusNotFound, resp.StatusCode, "%s %s", version, path)
		}
	}
}

// whatListens: the process has the public ports, and metrics for this machine, and nothing else.
func whatListens(t *testing.T, g *gateway) {
	own := make(map[string]bool) // inodes of its sockets
	folder := fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var found []string
	for _, kind := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", g.cmd.Process.Pid, kind))
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" || !own[fields[9]] { // 0A: listens
				continue
			}
			address, hexPort, _ := strings.Cut(fields[1], ":")
			var port int
			_, err := fmt.Sscanf(hexPort, "%x", &port)
			require.NoError(t, err)
			where := "all"
			if strings.HasSuffix(address, "0100007F") {
				where = "loopback"
			}
			found = append(found, fmt.Sprintf("%s %d", where, port))
		}
	}
	slices.Sort(found)
	want := []string{fmt.Sprintf("all %d", g.plain), fmt.Sprintf("all %d", g.secure),
		fmt.Sprintf("loopback %d", g.metricsAt)}
	slices.Sort(want)
	require.Equal(t, want, slices.Compact(found))
}
