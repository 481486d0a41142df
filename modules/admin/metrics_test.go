package admin

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestMetricsOverTCP: as Prometheus asks, with the manual's scrape_config: the bearer token of a file, admin.crt for
// the authority, and localhost for the server's name.
func TestMetricsOverTCP(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	l := &Listener{Listen: freeAddress(t)}
	require.NoError(t, l.Start(e.DataDir(), e, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { require.NoError(t, l.Cleanup()) })
	certificate, err := os.ReadFile(filepath.Join(e.DataDir(), adminCertificateFile))
	require.NoError(t, err)
	authorities := x509.NewCertPool()
	require.True(t, authorities.AppendCertsFromPEM(certificate))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: authorities, ServerName: "localhost"}, DisableKeepAlives: true}}
	ask := func(path, token string) (int, string, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Listen+path, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1")
		r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "10")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body), resp.Header
	}
	token := func(file string) string {
		text, err := os.ReadFile(filepath.Join(e.DataDir(), file))
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(e.DataDir(), file))
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
		return strings.TrimSpace(string(text))
	}
	for _, file := range []string{metricsTokenFile, adminTokenFile} {
		status, body, header := ask("/fareway/metrics", token(file))
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, header.Get("Content-Type"), "text/plain; version=0.0.4")
		require.Contains(t, body, "\nfareway_limited_total{reason=\"tenant_requests_per_minute\"} 0\n")
		require.Contains(t, body, "\nfareway_build_info{")
		require.Contains(t, body, "\nfareway_file_bytes{file=\"database\"} ")
		require.Contains(t, body, "\ngo_goroutines ")
	}
	for _, wrong := range []string{"", "wrong"} {
		status, _, _ := ask("/fareway/metrics", wrong)
		require.Equal(t, http.StatusUnauthorized, status)
	}
	status, _, _ := ask("/fareway/status", token(adminTokenFile))
	require.Equal(t, http.StatusOK, status)
	for _, path := range []string{"/fareway/status", "/fareway/accounts", "/fareway/", "/fareway/metrics/x"} {
		status, _, _ := ask(path, token(metricsTokenFile))
		require.Equal(t, http.StatusUnauthorized, status, path)
	}
}
