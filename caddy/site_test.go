//go:build linux

package main_test

import (
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestHTTP2 runs a site as the world gets it: TLS, HTTP/2, and Caddy's compression for everything that it serves.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	// up sets the variables.
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": `{
	fareway {
		config "{$FAREWAY_DATA}/gateway.hcl"
		data "{$FAREWAY_DATA}"
	}
	admin "{$FAREWAY_ADMIN}"
	persist_config off
	grace_period 6m
	auto_https disable_redirects
	skip_install_trust
	log {
		output file "{$FAREWAY_DATA}/fareway.log"
	}
	storage file_system "{$FAREWAY_DATA}/caddy"
}

https://localhost:{$FAREWAY_PORT} {
	bind 127.0.0.1
	tls internal
	encode zstd gzip
	fareway
}
`})
	key := g.account(t, 1_000_000)
	client := trusting(t, g)

	for _, s := range shapes {
		t.Run("SSE-21 SSE-43 a stream is neither compressed nor delayed/"+s.name, func(t *testing.T) {
			t.Parallel()
			req := s.request(t, g.URL, key, "wait at "+s.name, true)
			req.Header.Set("Accept-Encoding", "gzip, zstd")
			stream := do(t, client, req)
			require.Equal(t, "HTTP/2.0", stream.Proto)
			require.Empty(t, stream.Header.Get("Content-Encoding"))
			require.Contains(t, stream.Header.Get("Cache-Control"), "no-transform")
			stream.until(t, "one ")
			require.NoError(t, up.AtGate(patient(t), s.name, 1), "the route has not said more")
			up.Open(s.name)
			stream.whole(t, s)
		})
	}
	t.Run("a JSON reply is compressed", func(t *testing.T) {
		t.Parallel()
		text := strings.Repeat("again ", 300)
		req := shapes[0].request(t, g.URL, key, text, false)
		req.Header.Set("Accept-Encoding", "gzip")
		reply := do(t, client, req)
		require.Equal(t, "HTTP/2.0", reply.Proto)
		require.Equal(t, "gzip", reply.Header.Get("Content-Encoding"))
		r, err := gzip.NewReader(reply.Body)
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Contains(t, string(b), strings.TrimSpace(text))
	})
	t.Run("HTTP-11 the official client", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			reply, bill := completion(t, newOpenAI(g.URL, key, option.WithHTTPClient(client)), chatPrompt("hello there"), stream)
			require.Equal(t, "hello there", reply.Choices[0].Message.Content)
			require.Equal(t, billing{Microcents: price(3, 2)}, bill)
		})
	})
}

// trusting is a client that speaks HTTP/2 and trusts the gateway's own authority. It waits until the site has its
// certificate, which Caddy makes while it serves already.
func trusting(t testing.TB, g *gateway) *http.Client {
	t.Helper()
	site, err := url.Parse(g.URL)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	config := &tls.Config{RootCAs: roots, ServerName: site.Hostname()}
	eventually(t, func() (bool, string) {
		pem, err := os.ReadFile(filepath.Join(g.Dir, "caddy/pki/authorities/local/root.crt"))
		if err != nil {
			return false, err.Error()
		}
		roots.AppendCertsFromPEM(pem)
		conn, err := tls.Dial("tcp", "127.0.0.1:"+site.Port(), config)
		if err != nil {
			return false, err.Error()
		}
		return conn.Close() == nil, ""
	})
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestPluginFile runs a provider as the separate binary that its command makes, pinned by its digest.
func TestPluginFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "fareway-provider-openai")
	args := []string{"build", "-o", file}
	if racing() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/fareway/fareway/plugins/openai/cmd/fareway-provider-openai")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(b)

	up := upstream.Start(t, upstream.Options{Script: gated})
	pinned := strings.Replace(hcl(up), `plugin = "openai"`, fmt.Sprintf("plugin = \"openai\"\n  sha256 = %q", hex.EncodeToString(sum[:])), 1)
	g := startGateway(t, files{"gateway.hcl": fmt.Sprintf("gateway {\n  plugin_dir = %q\n}\n", dir) + pinned})
	plugins := g.children(t)
	require.Len(t, plugins, 1)
	require.Equal(t, file, plugins[0].executable(t))
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(2, 1)}, s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s))
	}
	streams := openAll(t, g, up, key)
	g.kill()
	require.True(t, plugins[0].hasEnded(patience), "it does not outlive its gateway either")
	require.NotContains(t, streams["chat"].read.String(), "two")
}

// racing reports whether the tests run under the race detector.
func racing() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
