//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// patience bounds what a test waits for. It is generous, for the tests share few cores, and no part of what is
// tested.
const patience = 3 * time.Minute

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// gateway is a process of the real command (see TestMain) on a data folder of its own.
type gateway struct {
	Dir string   // its data folder
	URL string   // where it listens
	Key string   // of the account "trial"
	Env []string // beside that of the test

	cmd    *exec.Cmd
	stdout lockedBuffer
	stderr lockedBuffer
	admin  *http.Client
	ended  chan struct{} // closed when it has been waited for
	err    error         // how it ended; read after ended is closed
	says   string        // what it is to write on stderr, as a regular expression; "" for nothing
}

// files are what a gateway finds in its data folder, by name.
type files map[string]string

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, content := range f {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// startGateway runs `fareway gateway up` on a new data folder with these files, until the test ends. Then it must
// end well: with status 0, nothing on stderr, no process left and a clean ledger.
func startGateway(t testing.TB, f files) *gateway {
	t.Helper()
	dir := t.TempDir()
	f.write(t, dir)
	g := runGateway(t, dir)
	t.Cleanup(func() {
		if !g.hasEnded() && !t.Failed() {
			g.stop(t)
			require.True(t, verifyOffline(t, dir).OK)
		}
	})
	return g
}

// runGateway runs `fareway gateway up` on a data folder and waits until it listens. A process that the test has not
// ended is killed with it.
func runGateway(t testing.TB, dir string) *gateway {
	t.Helper()
	g := launchGateway(t, dir)
	g.awaitStart(t)
	return g
}

// awaitStart waits until a gateway serves.
func (g *gateway) awaitStart(t testing.TB) {
	t.Helper()
	require.NoError(t, g.listening(withTimeout(t)))
	key, err := os.ReadFile(filepath.Join(g.Dir, "trial.key"))
	require.NoError(t, err)
	g.Key = strings.TrimSpace(string(key))
}

// launchGateway starts the process and waits for nothing.
func launchGateway(t testing.TB, dir string) *gateway {
	t.Helper()
	g := &gateway{Dir: dir, ended: make(chan struct{})}
	g.launch(t, "")
	return g
}

// launch starts the process of a program; "" is the command itself.
func (g *gateway) launch(t testing.TB, program string) {
	t.Helper()
	g.launchIn(t, g.Dir, program)
}

// launchIn is launch in another folder, which the process has for its home.
func (g *gateway) launchIn(t testing.TB, home, program string) {
	t.Helper()
	dir := g.Dir
	g.admin = unixClient(filepath.Join(dir, "admin.sock"))
	g.cmd = fareway(home, "gateway", "up", "--no-selftest", "--listen", "127.0.0.1:0", "--data", dir)
	g.cmd.Env = append(g.cmd.Env, g.Env...)
	if program != "" {
		g.cmd.Path, g.cmd.Args[0], g.cmd.Err = program, program, nil
	}
	g.cmd.Stdout, g.cmd.Stderr = &g.stdout, &g.stderr
	require.NoError(t, g.cmd.Start())
	go func() {
		g.err = g.cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		alive := !g.hasEnded()
		if alive {
			g.kill()
		}
		status := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
		killed := status.Signaled() && status.Signal() == syscall.SIGKILL
		if !killed && g.err != nil || strings.Contains(g.stderr.String(), "DATA RACE") {
			t.Errorf("the gateway has ended by itself (%v), or there was a data race", g.err)
		}
		if t.Failed() && (alive || !killed) {
			t.Logf("stderr:\n%s\nend of the log:\n%s", g.stderr.String(), tail(filepath.Join(dir, "fareway.log"), 20))
		}
	})
}

// fareway is the command with an environment of its own in dir.
func fareway(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("fareway", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "XDG_") })
	cmd.Env = append(cmd.Env, "HOME="+filepath.Join(dir, "home"))
	return cmd
}

// listening waits for the line that says where the gateway listens.
func (g *gateway) listening(ctx context.Context) error {
	for {
		line, changed := g.stdout.line()
		if _, url, ok := strings.Cut(line, "listening on "); ok {
			g.URL = url
			return nil
		}
		select {
		case <-changed:
		case <-g.ended:
			return fmt.Errorf("the gateway has ended (%w): %s", g.err, g.stderr.String())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the gateway to listen: %w: %s", ctx.Err(), g.stderr.String())
		}
	}
}

// mistyped is a key that nobody has: this one with its last character changed.
func mistyped(key string) string {
	last := "A"
	if strings.HasSuffix(key, last) {
		last = "B"
	}
	return key[:len(key)-1] + last
}

func (g *gateway) hasEnded() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// kill ends the gateway with SIGKILL and waits for its end.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill() // it may have ended by itself
	<-g.ended
}

// terminate asks the gateway to end.
func (g *gateway) terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
}

// stop ends the gateway with SIGTERM and sees that it ends well.
func (g *gateway) stop(t testing.TB) {
	t.Helper()
	left := g.children(t)
	g.terminate(t)
	g.endedWell(t)
	for _, p := range left {
		require.True(t, p.hasEnded(0), "process %d is left", p.pid)
	}
}

// endedWell waits for the end of a gateway that has been asked to end.
func (g *gateway) endedWell(t testing.TB) {
	t.Helper()
	select {
	case <-g.ended:
	case <-time.After(patience):
		require.Fail(t, "the gateway does not end")
	}
	require.NoError(t, g.err, "its exit status")
	require.Regexp(t, "^(?:"+g.says+")$", g.stderr.String(), "what it wrote on stderr")
}

// call does a request of the admin API and decodes the reply into out, unless that is nil.
func (g *gateway) call(t testing.TB, method, path string, in, out any) {
	t.Helper()
	b, err := json.Marshal(in)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(withTimeout(t), method, "http://localhost"+path, bytes.NewReader(b))
	require.NoError(t, err)
	resp, err := g.admin.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s %s: %s", method, path, body)
	if out != nil {
		require.NoError(t, json.Unmarshal(body, out), "%s", body)
	}
}

// account makes an account with credits, on the plan that hcl has, and returns its key.
func (g *gateway) account(t testing.TB, credits int64) string {
	t.Helper()
	return g.accountOn(t, "trial", credits)
}

// accountOn makes an account on a plan.
func (g *gateway) accountOn(t testing.TB, plan string, credits int64) string {
	t.Helper()
	name := rand.Text()
	g.call(t, "POST", "/fareway/accounts", map[string]any{"name": name, "plan": plan}, nil)
	g.call(t, "POST", "/fareway/credits", map[string]any{"account": name, "credits": credits}, nil)
	return g.key(t, name)
}

// key makes a key of an account.
func (g *gateway) key(t testing.TB, account string) string {
	t.Helper()
	var key struct{ Key string }
	g.call(t, "POST", "/fareway/keys", map[string]any{"account": account, "name": rand.Text()}, &key)
	return key.Key
}

// readiness waits until GET /readyz answers with a status.
func (g *gateway) readiness(t testing.TB, status int) {
	t.Helper()
	health := unixClient(filepath.Join(g.Dir, "health.sock"))
	eventually(t, func() (bool, string) {
		resp, err := health.Get("http://localhost/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode == status, resp.Status
	})
}

// eventually waits for what no event tells of; it asks often, and says what it saw last when it gives up.
func eventually(t testing.TB, done func() (ok bool, saw string)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for {
		ok, saw := done()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			require.Fail(t, "it does not happen", saw)
		}
	}
}

// unixClient speaks HTTP over a unix socket, each request on a connection of its own.
func unixClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

// lockedBuffer collects what a process prints while a test looks at it.
type lockedBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// line is the first whole line, "" while there is none, and a channel that is closed when more comes.
func (l *lockedBuffer) line() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	line, _, whole := strings.Cut(l.b.String(), "\n")
	if !whole {
		return "", l.changed
	}
	return line, l.changed
}

// tail is the end of a text file.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var last []string
	for s := bufio.NewScanner(f); s.Scan(); {
		last = append(last, s.Text())
		last = last[max(0, len(last)-lines):]
	}
	return strings.Join(last, "\n")
}

// hcl is a configuration with one provider of the fake service and one route. It costs 300 microcents a token
// of input and 1,500 a token of output (the examples' $3 and $15 for a million). Its plan, which the account
// "trial" is on, too, is as fast as the machine.
func hcl(up *upstream.Server) string {
	return fmt.Sprintf(`
plan "trial" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  concurrent_requests = 0
  max_streams         = 0
}

provider "up" {
  plugin = "openai"
  start_timeout = "1m"
  carry  = "host"
  config {
    base_url = %q
  }
}

route "standard" {
  provider       = "up"
  model          = "standard"
  context_window = 1000000
  max_output     = 64000
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}
`, up.BaseURL())
}

// report is what `ledger verify` prints.
type report struct {
	OK       bool   `json:"ok"`
	Accounts int64  `json:"accounts"`
	Requests int64  `json:"requests"`
	Holds    int64  `json:"holds"`
	Problem  string `json:"problem"`
	Entry    string `json:"entry"`
	Spool    struct {
		Waiting int `json:"waiting"` // settlements that the ledger has not taken up
	} `json:"spool"`
}

// verifyOffline runs `fareway gateway ledger verify` on a data folder that no gateway has.
func verifyOffline(t testing.TB, dir string) (r report) {
	t.Helper()
	cmd := fareway(dir, "gateway", "ledger", "verify", "--data", dir, "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "stdout: %s\nstderr: %s", out, &stderr)
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	return r
}

// verify asks the running gateway.
func (g *gateway) verify(t testing.TB) (r report) {
	t.Helper()
	g.call(t, "POST", "/fareway/ledger/verify", nil, &r)
	return r
}
