//go:build linux

package public_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds what a test waits for; it is no part of what is tested.
const patience = time.Minute

// program is the gateway's executable, built as `make build` does.
var program string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fareway-public-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "fareway")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", program, "./caddy")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gateway: %v\n%s", err, out)
		return 1
	}
	// Pebble's own delays and refusals are for testing ACME clients.
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0",
		"PEBBLE_AUTHZREUSE": "0"} {
		if err := os.Setenv(name, value); err != nil {
			return 1
		}
	}
	return m.Run()
}

const domain = "gateway.test"

// gateway is a process on this folder's Caddyfile and gateway.hcl, at ports that a test can have.
type gateway struct {
	dir, data                string
	plain, secure, metricsAt int
	key                      string

	cmd  *exec.Cmd
	logs lockedBuffer
	done chan struct{} // closed when it has ended, err is how
	err  error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// replaceOnce replaces what has to be in a text exactly once.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), old)
	return strings.Replace(text, old, new, 1)
}

// configure writes the Caddyfile and gateway.hcl with the domain, ports and folders of a test, and more options.
func (g *gateway) configure(t *testing.T, options string) {
	t.Helper()
	content, err := os.ReadFile("Caddyfile")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(content), "/var/lib/fareway", g.data)
	text = replaceOnce(t, text, "operator@example.com", "operator@"+domain)
	text = replaceOnce(t, text, "\napi.example.com {", "\n"+domain+" {")
	text = replaceOnce(t, text, "http://127.0.0.1:9180", fmt.Sprintf("http://127.0.0.1:%d", g.metricsAt))
	options = fmt.Sprintf("\n{\n\thttp_port %d\n\thttps_port %d\n%s\n", g.plain, g.secure, options)
	text = replaceOnce(t, text, "\n{\n", options)
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "Caddyfile"), []byte(text), 0o600))

	content, err = os.ReadFile("gateway.hcl")
	require.NoError(t, err)
	text = replaceOnce(t, string(content), `preset              = "openai"`, fmt.Sprintf("base_url = %q", upstream(t)))
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "gateway.hcl"), []byte(text), 0o600))
}

// startGateway starts one with a key that can pay.
func startGateway(t *testing.T, options func(g *gateway) string) *gateway {
	t.Helper()
	g := &gateway{dir: t.TempDir(), plain: freePort(t), secure: freePort(t), metricsAt: freePort(t)}
	g.data = filepath.Join(g.dir, "data")
	g.configure(t, options(g))
	g.run(t)
	g.command(t, "account", "create", "acme", "--plan", "starter")
	g.command(t, "credit", "add", "--account", "acme", "1000")
	var made struct{ Key string }
	out := g.command(t, "key", "create", "--account", "acme", "--name", "laptop", "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	g.key = made.Key
	return g
}

func (g *gateway) run(t *testing.T) {
	t.Helper()
	g.cmd = exec.CommandContext(t.Context(), program, "run", "--config", filepath.Join(g.dir, "Caddyfile"))
	g.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=sk-upstream", "HOME="+g.dir)
	g.cmd.Stdout, g.cmd.Stderr = &g.logs, &g.logs
	g.cmd.Cancel = func() error { return g.cmd.Process.Signal(syscall.SIGTERM) }
	require.NoError(t, g.cmd.Start())
	g.done = make(chan struct{})
	go func() {
		g.err = g.cmd.Wait()
		close(g.done)
	}()
	t.Cleanup(func() { <-g.done })
	client := &http.Client{Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(g.data, "health.sock"))
	}}}
	require.Eventually(t, func() bool {
		select {
		case <-g.done:
			require.FailNow(t, "the gateway ended", "%v\n%s", g.err, g.logs.String())
		default:
		}
		resp, err := client.Get("http://health/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 20*time.Millisecond, "ready")
}

// command runs `fareway gateway`, for this gateway.
func (g *gateway) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(append([]string{"gateway"}, args...), "--data", g.data)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", args, &stderr)
	return string(out)
}

// freePort is one that nobody has, neither for TCP nor for UDP.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", ":0")
		require.NoError(t, err)
		port := ln.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		require.NoError(t, ln.Close())
		if err == nil {
			require.NoError(t, udp.Close())
			return port
		}
	}
}

// upstream is a service in the form of chat completions. It answers the same to everybody.
func upstream(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Stream bool }
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
			http.NotFound(w, r)
			return
		}
		if !request.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"gpt-5-mini","choices":[{"index":0,`+
				`"message":{"role":"assistant","content":"Good day."},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range []string{"Good", " day", "."} {
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5-mini\","+
				"\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", delta)
		}
		fmt.Fprint(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5-mini\","+
			"\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5-mini\",\"choices\":[],"+
			"\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,\"total_tokens\":13}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}
