//go:build clients && linux

package clients_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// shownPage is examples/browser/index.html on a server of its own, which fills the form in, sends it, and says what
// the page then shows.
type shownPage struct {
	*httptest.Server
	fill  string      // a script
	shown chan string // the text of the reply, when the page is done
}

func servePage(t *testing.T) *shownPage {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "examples/browser/index.html"))
	require.NoError(t, err)
	p := &shownPage{shown: make(chan string, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "%s<script type=module>%s</script>", b, p.fill)
	})
	mux.HandleFunc("POST /shown", func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			p.shown <- string(text)
		}
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// ask opens the page in Chromium with a URL and a key filled in, sends the form, and returns what the page shows when
// it is done.
func (p *shownPage) ask(t *testing.T, url, key string) string {
	t.Helper()
	p.fill = fmt.Sprintf(`new MutationObserver(() => {
  fetch('/shown', {method: 'POST', body: document.getElementById('reply').textContent})
}).observe(document.body, {attributeFilter: ['data-done']})
document.getElementById('gateway').value = %q
document.getElementById('key').value = %q
document.getElementById('form').requestSubmit()`, url, key)
	var log bytes.Buffer
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--ignore-certificate-errors", "--user-data-dir="+folder(t), "--remote-debugging-port=0", p.URL)
	cmd.Env = append(os.Environ(), "HOME="+folder(t))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it does not end by itself
		_ = cmd.Wait()
	}()
	select {
	case text := <-p.shown:
		return text
	case <-time.After(clientTime):
		require.Fail(t, "the page is never done", "%s", &log)
		return ""
	}
}

// A page of the site that the Caddyfile names reads replies and refusals, in a real browser; pages of others do not.
func TestPages(t *testing.T) {
	t.Parallel()
	page := servePage(t)
	g, url := startForPages(t, page.URL)
	key := g.account(t, "reader")

	require.Equal(t, "Good day.", page.ask(t, url, key))
	require.Regexp(t, `^401: .+ \(request [A-Za-z0-9_-]{10,}\)$`, page.ask(t, url, "fwk_wrong"))
	require.Regexp(t, `^402: .+ \(request [A-Za-z0-9_-]{10,}\)$`, page.ask(t, url, g.brokeAccount(t, "poor")))
	require.Equal(t, "Failed to fetch", servePage(t).ask(t, url, key))
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
