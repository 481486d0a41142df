//go:build linux

package main_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
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
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// site is a Caddyfile as the world gets a gateway: TLS, all three versions of HTTP, and Caddy's compression for
// everything that it serves. `gateway up` sets the variables.
const site = `{
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
	servers {
		timeouts {
			read_body_idle 30s 1024
		}
	}
}

https://localhost:{$FAREWAY_PORT} {
	bind 127.0.0.1
	tls internal
	encode zstd gzip
	fareway
}
`

// quiet lets the service say nothing before a gate opens where the prompt is "be quiet until GATE", break off
// where it is "break", and do as gated does otherwise.
func quiet(req *upstream.Request) upstream.Reply {
	if gate, ok := strings.CutPrefix(req.LastUser(), "be quiet until "); ok {
		return upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait(gate), upstream.Text("at last"),
			upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}}
	}
	if req.LastUser() == "break" {
		return upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Cut()}}
	}
	return gated(req)
}

// quietCost is what a quiet reply costs.
var quietCost = billing{Microcents: price(5, 2)}

// keepAlive is the line by which a keep-alive of the shape is known, and its clause.
func (s shape) keepAlive() (line, clause string) {
	if s.name == "messages" {
		return "event: ping", "SSE-27"
	}
	return ": keepalive", "SSE-26"
}

func TestTransports(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  keepalive = \"50ms\"\n}\n" + hcl(up), "Caddyfile": site})
	key := g.account(t, 1_000_000)
	for proto, client := range g.clients(t, nil) {
		for _, s := range shapes {
			name := s.name + " " + proto
			gate := s.name + proto
			line, clause := s.keepAlive()
			t.Run("SSE-21 SSE-43 a stream is neither compressed nor delayed/"+name, func(t *testing.T) {
				t.Parallel()
				req := s.request(t, g.URL, key, "wait at "+gate, true)
				req.Header.Set("Accept-Encoding", "gzip, zstd")
				stream := do(t, client, req)
				require.Equal(t, proto, stream.Proto)
				require.Empty(t, stream.Header.Get("Content-Encoding"))
				require.Contains(t, stream.Header.Get("Cache-Control"), "no-transform")
				stream.until(t, "one ")
				require.NoError(t, up.AtGate(withTimeout(t), gate, 1), "the route has not said more")
				up.Open(gate)
				stream.whole(t, s)
			})
			t.Run(clause+" SSE-28 a stream that is quiet at first/"+name, func(t *testing.T) {
				t.Parallel()
				stream := s.send(t, client, g.URL, key, "be quiet until "+gate+"-quiet", true)
				for range 5 {
					stream.until(t, line)
				}
				require.NotContains(t, stream.read.String(), "at last")
				up.Open(gate + "-quiet")
				require.Equal(t, quietCost, stream.whole(t, s))
				require.Contains(t, stream.read.String(), "at last")
			})
			t.Run("SSE-29 SSE-36 a stream that breaks off/"+name, func(t *testing.T) {
				t.Parallel()
				reply := s.send(t, client, g.URL, key, "break", true).all(t)
				require.Contains(t, reply, "one ")
				require.Contains(t, reply, `"billing_pending":true`)
				require.NotContains(t, reply, s.end)
			})
			t.Run("a JSON reply is compressed/"+name, func(t *testing.T) {
				t.Parallel()
				text := strings.Repeat("again ", 300)
				req := s.request(t, g.URL, key, text, false)
				req.Header.Set("Accept-Encoding", "gzip")
				reply := do(t, client, req)
				require.Equal(t, proto, reply.Proto)
				require.Equal(t, "gzip", reply.Header.Get("Content-Encoding"))
				r, err := gzip.NewReader(reply.Body)
				require.NoError(t, err)
				b, err := io.ReadAll(r)
				require.NoError(t, err)
				require.Contains(t, string(b), strings.TrimSpace(text))
			})
		}
		t.Run("HTTP-11 the official client/"+proto, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, stream bool) {
				reply, bill := completion(t, newOpenAI(g.URL, key, option.WithHTTPClient(client)), chatPrompt("hello there"),
					stream)
				require.Equal(t, "hello there", reply.Choices[0].Message.Content)
				require.Equal(t, billing{Microcents: price(3, 2)}, bill)
			})
		})
	}
}

// clients makes a client for each version of HTTP, by the name of the version. They trust the gateway's own
// authority. It waits until the site has its certificate, which Caddy makes while it serves already. dial opens
// the TCP connections, as net.Dialer's DialContext does when it is nil.
func (g *gateway) clients(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn,
	error)) map[string]*http.Client {
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
	one := &http.Transport{TLSClientConfig: config.Clone(), DisableCompression: true, DialContext: dial}
	two := &http.Transport{TLSClientConfig: config.Clone(), DisableCompression: true, DialContext: dial,
		ForceAttemptHTTP2: true}
	three := &http3.Transport{TLSClientConfig: config.Clone(), DisableCompression: true}
	t.Cleanup(func() {
		one.CloseIdleConnections()
		two.CloseIdleConnections()
		_ = three.Close()
	})
	return map[string]*http.Client{"HTTP/1.1": {Transport: one}, "HTTP/2.0": {Transport: two},
		"HTTP/3.0": {Transport: three}}
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
	out,
		err := exec.Command("go",
		append(args, "github.com/fareway/fareway/plugins/openai/cmd/fareway-provider-openai")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(b)

	up := upstream.Start(t, upstream.Options{Script: gated})
	pinned := strings.Replace(hcl(up), `plugin = "openai"`,
		fmt.Sprintf("plugin = \"openai\"\n  sha256 = %q", hex.EncodeToString(sum[:])), 1)
	g := startGateway(t, files{"gateway.hcl": fmt.Sprintf("gateway {\n  plugin_dir = %q\n}\n", dir) + pinned})
	plugins := g.children(t)
	require.Len(t, plugins, 1)
	require.Equal(t, file, plugins[0].executable(t))
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(2, 1)},
			s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s))
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
