//go:build clients && linux

package clients_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// startForPages runs a gateway on the Caddyfile of examples/browser, for pages of one origin, and returns its URL.
func startForPages(t *testing.T, origin string) (g *gateway, url string) {
	t.Helper()
	g = configureGateway(t, func(*upstream.Request) upstream.Reply {
		return upstream.Say("Good day.")
	}, 200_000)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	url = "https://api.localhost:" + port

	text, err := os.ReadFile(filepath.Join(root(t), "examples/browser/Caddyfile"))
	require.NoError(t, err)
	file := filepath.Join(g.Data, "Caddyfile")
	// For a name below .localhost Caddy has an authority of its own, which is not to become the machine's.
	text = bytes.Replace(text, []byte("\n{\n"), []byte("\n{\n\tskip_install_trust\n"), 1)
	require.Contains(t, string(text), "skip_install_trust")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	cmd := exec.Command(filepath.Join(root(t), "bin/fareway"), "run", "--config", file)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "HOME="+g.Data, "CONFIG="+filepath.Join(g.Data, "gateway.hcl"), "DATA="+g.Data,
		"API="+url, "APP="+origin, "OTHERS=https://:"+port)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		resp, err := pageClient.Get(url + "/v1/models")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusUnauthorized
	}, patience, patience/600)
	return g, url
}

// pageClient takes the certificate of Caddy's own authority, and knows where api.localhost is.
var pageClient = &http.Client{Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	},
}}

// servePage serves examples/browser/index.html with its form filled in and sent.
func servePage(t *testing.T) (page *httptest.Server, fill func(url, key string)) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "examples/browser/index.html"))
	require.NoError(t, err)
	var script string
	page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "%s<script type=module>%s</script>", b, script)
	}))
	t.Cleanup(page.Close)
	return page, func(url, key string) {
		script = fmt.Sprintf(`document.getElementById('gateway').value = %q
document.getElementById('key').value = %q
document.getElementById('form').requestSubmit()`, url, key)
	}
}

// open opens a page in Chromium and returns what it shows as the reply when it is done.
func open(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--ignore-certificate-errors", "--user-data-dir="+folder(t), "--virtual-time-budget=20000", "--dump-dom", url)
	cmd.Env = append(os.Environ(), "HOME="+folder(t))
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), `data-done="yes"`)
	m := regexp.MustCompile(`(?s)<output id="reply"[^>]*>(.*?)</output>`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	return html.UnescapeString(string(m[1]))
}

// A page of the site that the Caddyfile names reads replies and refusals, in a real browser; pages of others do not.
func TestPages(t *testing.T) {
	t.Parallel()
	page, fill := servePage(t)
	g, url := startForPages(t, page.URL)
	key := g.account(t, "reader")

	fill(url, key)
	require.Equal(t, "Good day.", open(t, page.URL))
	fill(url, "fwk_wrong")
	require.Regexp(t, `^401: .+ \(request [A-Za-z0-9_-]{10,}\)$`, open(t, page.URL))
	fill(url, g.brokeAccount(t, "poor"))
	require.Regexp(t, `^402: .+ \(request [A-Za-z0-9_-]{10,}\)$`, open(t, page.URL))

	other, fill := servePage(t)
	fill(url, key)
	require.Equal(t, "Failed to fetch", open(t, other.URL))
}

// The browser's own question is answered for what client libraries send, and only to pages of that site; another host
// within the same TLS session is told that it is not here.
func TestPreflightAndForeignHosts(t *testing.T) {
	t.Parallel()
	const app = "https://app.example.com"
	_, url := startForPages(t, app)
	do := func(method, host, origin, wants string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/messages", nil)
		require.NoError(t, err)
		req.Host = host
		for name, value := range map[string]string{"Origin": origin, "Access-Control-Request-Method": wants,
			"Access-Control-Request-Headers": "anthropic-dangerous-direct-browser-access,x-api-key,x-stainless-os"} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := pageClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		require.NoError(t, err)
		return resp, body.String()
	}
	resp, _ := do("OPTIONS", "", app, "POST")
	require.Equal(t, 204, resp.StatusCode)
	require.Equal(t, app, resp.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "anthropic-dangerous-direct-browser-access,x-api-key,x-stainless-os",
		resp.Header.Get("Access-Control-Allow-Headers"))
	require.Contains(t, strings.Join(resp.Header.Values("Vary"), ","), "Origin")
	resp, _ = do("POST", "", app, "")
	require.Equal(t, 401, resp.StatusCode)
	require.Equal(t, app, resp.Header.Get("Access-Control-Allow-Origin"), "the page reads the refusal")
	for _, origin := range []string{"https://evil.example.com", "https://app.example.com.evil.example", "null"} {
		for method, wants := range map[string]string{"OPTIONS": "POST", "POST": ""} {
			resp, _ = do(method, "", origin, wants)
			require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), "%s %s", method, origin)
			require.Empty(t, resp.Header.Get("Access-Control-Allow-Headers"))
		}
	}
	resp, body := do("POST", "another.example.com", "", "")
	require.Equal(t, 421, resp.StatusCode)
	require.Contains(t, body, "There is no gateway of this name here")
}
