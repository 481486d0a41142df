//go:build linux

package main_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// serviceCaddyfile is the manual's for a service, at ports that a test can have and with certificates of its own.
func serviceCaddyfile(t *testing.T, plain, secure int, more string) string {
	t.Helper()
	chapter, err := os.ReadFile(filepath.Join("..", "modules", "manual", "operating.md"))
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindSubmatch(chapter)
	require.NotNil(t, shown)
	text := strings.Replace(string(shown[1]), "/var/lib/fareway", ".", 1)
	require.NotContains(t, text, "auto_https")
	require.NotContains(t, text, "storage")
	options := fmt.Sprintf("{\n\thttp_port %d\n\thttps_port %d\n\tlocal_certs\n\tskip_install_trust\n", plain, secure)
	return strings.Replace(text, "{\n", options, 1) + more
}

// freePort is one that nobody listens at, of those that nobody gets by chance.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 5000 + os.Getpid()%4000; ; port++ {
		if ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			require.NoError(t, ln.Close())
			return port
		}
	}
}

// TestServiceIsSafeByItself: what the starter's Caddyfile says for safety, a Caddyfile with nothing but the directive
// has, too.
func TestServiceIsSafeByItself(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	plain := freePort(t)
	secure := plain + 1000
	start := func(t *testing.T, caddyfile string) *gateway {
		g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": caddyfile})
		g.says = "(?s).*" // it has no other log
		return g
	}
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	get := func(scheme, host string, port int) (*http.Response, error) {
		url := fmt.Sprintf("%s://%s:%d/v1/models", scheme, host, port)
		req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return resp, err
	}
	served := func() {
		eventually(t, func() (bool, string) {
			resp, err := get("https", "api.example.com", secure)
			if err != nil {
				return false, err.Error() // its certificate is being made
			}
			return resp.StatusCode == http.StatusUnauthorized, resp.Status
		})
	}
	t.Run("alone", func(t *testing.T) {
		g := start(t, serviceCaddyfile(t, plain, secure, ""))
		served()
		_, err := get("http", "api.example.com", plain)
		require.True(t, errors.Is(err, syscall.ECONNREFUSED), "nobody takes a key in clear: %v", err)
		require.DirExists(t, filepath.Join(g.Dir, "caddy", "certificates"))
		require.NoDirExists(t, filepath.Join(g.Dir, "home", ".local", "share", "caddy", "certificates"))
	})
	t.Run("beside another site", func(t *testing.T) {
		start(t, serviceCaddyfile(t, plain, secure,
			"\nwww.example.com {\n\trespond hello\n}\n"))
		served()
		resp, err := get("http", "api.example.com", plain)
		require.NoError(t, err)
		require.Empty(t, resp.Header.Get("Location"))
		require.NotEqual(t, http.StatusOK, resp.StatusCode)
		resp, err = get("http", "www.example.com", plain)
		require.NoError(t, err)
		require.Contains(t, resp.Header.Get("Location"), "https://www.example.com", "others are redirected as ever")
	})
	t.Run("with settings of the operator's own", func(t *testing.T) {
		g := start(t, strings.Replace(serviceCaddyfile(t, plain, secure,
			"\nhttp://api.example.com {\n\tredir https://elsewhere.example.com\n}\n"), "{\n",
			"{\n\tstorage file_system \"{$FAREWAY_DATA}/elsewhere\"\n", 1))
		served()
		resp, err := get("http", "api.example.com", plain)
		require.NoError(t, err)
		require.Equal(t, "https://elsewhere.example.com", resp.Header.Get("Location"))
		require.DirExists(t, filepath.Join(g.Dir, "elsewhere", "certificates"))
	})
}
