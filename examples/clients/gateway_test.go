//go:build clients && linux

package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// patience bounds the start of a gateway, and clientTime one run of a client. They are generous, for what a client
// does in a second takes it ten on a busy machine.
const (
	patience   = time.Minute
	clientTime = 3 * time.Minute
)

// root is the checkout.
func root(t testing.TB) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// gateway is bin/fareway over a fake upstream, with a wire before it that writes down what clients send.
type gateway struct {
	URL  string // the wire's
	Key  string
	Data string
	Wire *wire
	// Upstream is the fake service behind it.
	Upstream *upstream.Server
}

// startGateway runs a gateway until the test ends. Its account can pay for the largest allowances that clients
// ask for.
func startGateway(t testing.TB, script func(*upstream.Request) upstream.Reply) *gateway {
	t.Helper()
	return startGatewayWith(t, script, 1_000_000)
}

// startGatewayWith is startGateway with another context window, in tokens. The plan "slow" allows one request a
// minute.
func startGatewayWith(t testing.TB, script func(*upstream.Request) upstream.Reply, window int) *gateway {
	t.Helper()
	g := configureGateway(t, script, window)
	g.start(t)
	return g
}

// configureGateway is a gateway that does not run yet.
func configureGateway(t testing.TB, script func(*upstream.Request) upstream.Reply, window int) *gateway {
	t.Helper()
	up := upstream.Start(t, upstream.Options{Script: script})
	g := &gateway{Data: t.TempDir(), Upstream: up}
	require.NoError(t, os.WriteFile(filepath.Join(g.Data, "gateway.hcl"), fmt.Appendf(nil, `
provider "up" {
  plugin = "openai"
  config {
    base_url = %q
  }
}

route "standard" {
  provider       = "up"
  model          = "standard"
  context_window = %d
  max_output     = %d
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}

plan "slow" {
  requests_per_minute {
    key = 1
  }
}
`, up.BaseURL(), window, window/5), 0o600))
	return g
}

// start runs the gateway on its data folder, whose configuration is written.
func (g *gateway) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(filepath.Join(root(t), "bin/fareway"), "gateway", "up", "--no-selftest",
		"--listen", "127.0.0.1:0", "--data", g.Data)
	cmd.Env = append(os.Environ(), "HOME="+g.Data)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start(), "build it first: make build")
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
	})
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the gateway does not start: %s", &stderr)
	timer.Stop()
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	require.True(t, ok, line)

	key, err := os.ReadFile(filepath.Join(g.Data, "trial.key"))
	require.NoError(t, err)
	g.Key = strings.TrimSpace(string(key))
	g.fareway(t, "credit", "add", "--account", "trial", "10000000", "--yes")
	g.Wire = startWire(t, url)
	g.URL = g.Wire.URL
}

// account makes an account that can pay for anything, and returns a key of it. flags are of `account create`.
func (g *gateway) account(t testing.TB, name string, flags ...string) (key string) {
	t.Helper()
	key = g.brokeAccount(t, name, flags...)
	g.fareway(t, "credit", "add", "--account", name, "10000000", "--yes")
	return key
}

// brokeAccount makes an account without credits, and returns a key of it.
func (g *gateway) brokeAccount(t testing.TB, name string, flags ...string) (key string) {
	t.Helper()
	g.fareway(t, append([]string{"account", "create", name}, flags...)...)
	out := g.fareway(t, "key", "create", "--account", name, "--name", "k")
	_, key, ok := strings.Cut(out, "fwk_")
	require.True(t, ok, out)
	return "fwk_" + strings.Fields(key)[0]
}

// fareway runs `fareway gateway ...` on the gateway's data folder and returns what it printed.
func (g *gateway) fareway(t testing.TB, args ...string) string {
	t.Helper()
	return g.run(t, append(args, "--data", g.Data)...)
}

// run is fareway for a command that needs no gateway.
func (*gateway) run(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root(t), "bin/fareway"), append([]string{"gateway"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// logged is the line that the gateway's log has of a request. It is written when the request has been settled.
func (g *gateway) logged(t testing.TB, id string) (line logLine) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(g.Data, "fareway.log"))
		require.NoError(t, err)
		for text := range bytes.Lines(b) {
			if bytes.Contains(text, []byte(id)) && json.Unmarshal(text, &line) == nil && line.Message == "request" {
				return true
			}
		}
		return false
	}, patience, 50*time.Millisecond, "nothing is logged of %s", id)
	return line
}

// logLine is what the log says of a request.
type logLine struct {
	Message    string `json:"msg"`
	Reason     string
	Microcents int64
	Pending    bool
}
