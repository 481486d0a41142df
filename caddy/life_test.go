//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// running is a part of what `gateway status` tells.
type running struct {
	Number    int64 `json:"config_number"`
	Providers []struct {
		Name  string
		Ready bool
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s)
	}
	plugins := pids(g.children(t))
	require.Len(t, plugins, 1)
	before := g.metrics(t)
	streams := openAll(t, g, up, key)

	caddyfile := filepath.Join(g.Dir, "Caddyfile")
	b, err := os.ReadFile(caddyfile)
	require.NoError(t, err)
	changed := strings.Replace(string(b), "\n\tfareway\n", "\n\theader X-Site changed\n\tfareway\n", 1)
	require.NotEqual(t, string(b), changed)
	require.NoError(t, os.WriteFile(caddyfile, []byte(changed), 0o600))
	reload := func(args ...string) (string, error) {
		cmd := fareway(g.Dir, append([]string{"reload", "--config", caddyfile, "--address",
			"unix/" + filepath.Join(g.Dir, "admin.sock")}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := reload()
	require.NoError(t, err, out)

	var status running
	g.call(t, "GET", "/fareway/status", nil, &status)
	require.EqualValues(t, 1, status.Number)
	after := shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", true)
	after.whole(t, shapes[0])
	require.Equal(t, "changed", after.Header.Get("X-Site"), "the new configuration serves")
	require.Equal(t, plugins, pids(g.children(t)), "a provider that has not changed stays")

	counted := g.metrics(t)
	for name, n := range before {
		if strings.Contains(name, "_total") || strings.Contains(name, "_count") || strings.Contains(name, "_sum") {
			require.GreaterOrEqual(t, counted[name], n, name)
		}
	}
	const chats = `fareway_requests_total{endpoint="chat",status="200"}`
	require.Equal(t, before[chats]+1, counted[chats])
	require.Positive(t, counted["fareway_held_microcents"], "the live streams' holds")

	// One with a mistake is refused, and the one before it serves.
	good := hcl(up) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(g.Dir, "gateway.hcl"), []byte(good+"rout \"small\" {}\n"), 0o600))
	out, err = reload("--force")
	require.Error(t, err)
	require.Contains(t, out, fmt.Sprintf("gateway.hcl:%d:1", strings.Count(good, "\n")+1), "%s", out)
	require.Contains(t, out, "Did you mean")
	// The gateway finds it by itself, too, within two seconds.
	g.says = `(?:\{"level":"error",[^\n]*"(?:the saved configuration is refused; the one before serves on|` +
		`found in the configuration: Unknown block \\"rout\\")"[^\n]*\}\n)+`
	g.call(t, "GET", "/fareway/status", nil, &status)
	require.EqualValues(t, 1, status.Number)
	shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, shapes[0])

	// And all that time the streams from before are as they were.
	up.Open("go")
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(4, 2)}, streams[s.name].whole(t, s), s.name)
	}
	g.settled(t)
	require.Equal(t, before[chats]+3, g.metrics(t)[chats])
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	streams := openAll(t, g, up, key)
	plugins := g.children(t)
	require.Len(t, plugins, 1)

	g.terminate(t)
	g.readiness(t, http.StatusServiceUnavailable)
	require.False(t, g.hasEnded(), "it waits for the streams")
	require.False(t, plugins[0].hasEnded(0))
	up.Open("go")
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(4, 2)}, streams[s.name].whole(t, s), s.name)
	}
	g.endedWell(t)
	require.True(t, plugins[0].hasEnded(0), "the plugin is left")

	report := verifyOffline(t, g.Dir)
	require.True(t, report.OK, report.Problem)
	require.Zero(t, report.Holds)
	b := readBook(t, g.Dir)
	for _, s := range shapes {
		r := b.requests[streams[s.name].Header.Get("X-Request-Id")]
		require.False(t, r.running)
		require.Equal(t, []int64{-price(4, 2)}, r.entries)
	}
}

// interrupt is Ctrl-C.
func (g *gateway) interrupt(t testing.TB) {
	t.Helper()
	require.NoError(t, g.cmd.Process.Signal(os.Interrupt))
}

// prints waits until the gateway has printed a text that matches.
func (g *gateway) prints(t testing.TB, pattern string) {
	t.Helper()
	for ctx := withTimeout(t); ; {
		_, changed := g.stdout.line()
		if regexp.MustCompile(pattern).MatchString(g.stdout.String()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(t, "it does not say so", g.stdout.String())
		}
	}
}

// TestInterrupt: Ctrl-C says what it waits for; a second one ends that, and all of it settles.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	streams := openAll(t, g, up, g.account(t, 1_000_000))
	plugins := g.children(t)

	g.interrupt(t)
	g.prints(t, `Stopping: waiting for 3 running requests, until [0-9:]{8} at most\.`)
	g.readiness(t, http.StatusServiceUnavailable)
	require.False(t, g.hasEnded(), "it waits for the streams")
	g.interrupt(t)
	for _, s := range shapes {
		rest, err := io.ReadAll(streams[s.name].r)
		require.NoError(t, err, "it has an end")
		require.NotContains(t, streams[s.name].read.String()+string(rest), s.end, "and does not look complete")
		require.Contains(t, string(rest), "error")
	}
	g.endedWell(t)
	require.True(t, plugins[0].hasEnded(0), "the plugin is left")
	report := verifyOffline(t, g.Dir)
	require.True(t, report.OK, report.Problem)
	require.Zero(t, report.Holds)
	b := readBook(t, g.Dir)
	for _, s := range shapes {
		r := b.requests[streams[s.name].Header.Get("X-Request-Id")]
		require.False(t, r.running)
		require.Len(t, r.entries, 1, "what it has come to is charged, once")
	}
}

// TestThirdInterrupt waits for nothing, though Caddy would go on listening for a while.
func TestThirdInterrupt(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	delayed := strings.NewReplacer("grace_period 6m", "grace_period 6m\n\tshutdown_delay 10m",
		"https://localhost", "http://127.0.0.1", "\ttls internal\n", "").Replace(site)
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": delayed})
	streams := openAll(t, g, up, g.account(t, 1_000_000))
	g.interrupt(t)
	g.prints(t, "Stopping: waiting for 3 running requests")
	g.interrupt(t)
	for _, s := range shapes {
		_, err := io.ReadAll(streams[s.name].r)
		require.NoError(t, err)
	}
	require.False(t, g.hasEnded())
	g.interrupt(t)
	<-g.ended
	var exit *exec.ExitError
	require.ErrorAs(t, g.err, &exit)
	require.Equal(t, 2, exit.ExitCode())
	g.err = nil // it was to end like that
	require.True(t, verifyOffline(t, g.Dir).OK)
}

// TestUpJSON: what `up` says for programs is one object, when it serves; errors are as without.
func TestUpJSON(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data := filepath.Join(home, "data")
	cmd := fareway(home, "gateway", "up", "--json", "--listen", "127.0.0.1:0", "--data", data)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var v struct {
		PID      int      `json:"pid"`
		URLs     []string `json:"urls"`
		KeyFile  string   `json:"key_file"`
		NewFiles []string `json:"new_files"`
		Selftest []struct {
			Path       string `json:"path"`
			Stream     bool   `json:"stream"`
			OK         bool   `json:"ok"`
			Microcents int64  `json:"microcents"`
		} `json:"selftest"`
	}
	require.NoError(t, json.NewDecoder(stdout).Decode(&v))
	require.Equal(t, cmd.Process.Pid, v.PID)
	require.Equal(t, []string{"gateway.hcl", "Caddyfile"}, v.NewFiles)
	require.Len(t, v.Selftest, 4)
	for _, s := range v.Selftest {
		require.True(t, s.OK)
		require.Positive(t, s.Microcents)
		require.Regexp(t, "^/v1/", s.Path)
	}
	require.True(t, v.Selftest[3].Stream)
	key, err := os.ReadFile(v.KeyFile)
	require.NoError(t, err)
	shapes[0].send(t, http.DefaultClient, v.URLs[0], strings.TrimSpace(string(key)), "hello", true).whole(t, shapes[0])

	again := fareway(home, "gateway", "up", "--json", "--listen", "127.0.0.1:0", "--data", data)
	var words bytes.Buffer
	again.Stderr = &words
	out, err := again.Output()
	require.Error(t, err)
	require.Empty(t, out)
	require.Regexp(t, "^Error: a gateway runs on [^\\n]+\\n$", words.String())

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(stdout)
	require.NoError(t, err)
	require.Empty(t, strings.TrimSpace(string(rest)), "nothing else is on stdout")
	require.NoError(t, cmd.Wait())
}

// TestShutdownDelay: while Caddy still listens (shutdown_delay), readiness says that the gateway shuts down, and what
// comes nevertheless is served, however short drain_timeout is. Then the process ends.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	// The delay is several times what the requests take on a busy machine: it is the time itself that is tried.
	delayed := strings.NewReplacer("grace_period 6m", "grace_period 6m\n\tshutdown_delay 15s",
		"https://localhost", "http://127.0.0.1", "\ttls internal\n", "").Replace(site)
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  drain_timeout = \"1ms\"\n}\n" + hcl(up), "Caddyfile": delayed})
	key := g.account(t, 1_000_000)
	g.readiness(t, http.StatusOK)

	g.terminate(t)
	g.readiness(t, http.StatusServiceUnavailable)
	health := unixClient(filepath.Join(g.Dir, "health.sock"))
	require.Equal(t, "the gateway is shutting down\n", body(t, health, "http://localhost/readyz"))
	require.Equal(t, "ok\n", body(t, health, "http://localhost/healthz"))
	shapes[0].send(t, http.DefaultClient, g.URL, "", "hello", false).all(t) // a request without a key
	for _, s := range shapes {
		s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s)
	}
	require.False(t, g.hasEnded())
	g.endedWell(t)
	require.True(t, verifyOffline(t, g.Dir).OK)
}

// body is what a GET answers.
func body(t testing.TB, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// TestNoOrphans: nobody is there any more to end the plugins of a gateway that was killed.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up) + "\nprovider \"echo\" {\n  plugin = \"echo\"\n}\n"})
	streams := openAll(t, g, up, g.account(t, 1_000_000))
	plugins := g.children(t)
	require.Len(t, plugins, 2)
	g.kill()
	killed := time.Now()
	for _, p := range plugins {
		require.True(t, p.hasEnded(3*time.Second-time.Since(killed)), "plugin %d is left", p.pid)
	}
	for _, s := range shapes {
		t.Run("SSE-37 "+s.name, func(t *testing.T) {
			rest, _ := io.ReadAll(streams[s.name].r) // it ends in whatever way
			require.NotContains(t, streams[s.name].read.String()+string(rest), s.end)
		})
	}
}

// inProcess keeps the traffic of a configuration's providers in their processes.
func inProcess(hcl string) string {
	return strings.ReplaceAll(hcl, `carry  = "host"`, `carry  = "process"`)
}

func TestPluginComesBack(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": inProcess(hcl(up))})
	key := g.account(t, 1_000_000)
	streams := openAll(t, g, up, key)
	plugins := g.children(t)
	require.Len(t, plugins, 1)
	plugins[0].kill(t)

	for _, s := range shapes {
		t.Run("SSE-29 SSE-36 BILL-25 "+s.name, func(t *testing.T) {
			reply := streams[s.name].all(t)
			require.NotContains(t, reply, s.end)
			if s.name == "messages" { // whose errors have no code
				require.Contains(t, reply, "event: error")
			} else {
				require.Contains(t, reply, `"stream_error"`)
			}
		})
	}
	g.settled(t)
	require.EqualValues(t, 1_000_000*1_000_000, worth(t, g, key), "a failure of the service is free")

	// It starts again by itself.
	eventually(t, func() (bool, string) {
		state := g.metrics(t)[`fareway_provider_state{provider="up",state="ready"}`]
		return state == 1 && len(g.children(t)) == 1, strconv.FormatFloat(state, 'f', -1, 64)
	})
	require.NotEqual(t, pids(plugins), pids(g.children(t)))
	shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, shapes[0])

	g.terminate(t)
	<-g.ended
	require.NoError(t, g.err)
	require.Contains(t, g.stderr.String(), `"provider":"up"`, "the operator is told by name")
}

func pids(children []child) []int {
	var all []int
	for _, c := range children {
		all = append(all, c.pid)
	}
	return slices.Sorted(slices.Values(all))
}

// settled waits until nothing is on hold.
func (g *gateway) settled(t testing.TB) {
	t.Helper()
	eventually(t, func() (bool, string) {
		m := g.metrics(t)
		return m["fareway_held_microcents"] == 0 && g.verify(t).Holds == 0, "something is on hold"
	})
}

// metrics reads the gateway's own from the admin API, by name and labels.
func (g *gateway) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	resp, err := g.admin.Get("http://localhost/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	all := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "fareway_") && !strings.HasPrefix(line, "go_gc_g") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		require.NoError(t, err, line)
		all[line[:i]] = n
	}
	return all
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		for _, stream := range []bool{false, true} {
			require.Equal(t, http.StatusOK, s.send(t, http.DefaultClient, g.URL, key, "hello", stream).StatusCode)
		}
	}
	up.Enqueue(upstream.Refuse(upstream.ServerError()))
	require.Equal(t, http.StatusBadGateway, shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", false).StatusCode)
	g.settled(t)

	// The request is counted after its reply has ended.
	want := map[string]float64{
		`fareway_requests_total{endpoint="chat",status="200"}`:            2,
		`fareway_requests_total{endpoint="responses",status="200"}`:       2,
		`fareway_requests_total{endpoint="messages",status="200"}`:        2,
		`fareway_requests_total{endpoint="chat",status="502"}`:            1,
		`fareway_tokens_total{class="input",route="standard"}`:            6 * 2,
		`fareway_tokens_total{class="output",route="standard"}`:           6,
		`fareway_charged_microcents_total{route="standard"}`:              float64(6 * price(2, 1)),
		`fareway_upstream_errors_total{kind="upstream",route="standard"}`: 1,
		`fareway_provider_state{provider="up",state="ready"}`:             1,
		`fareway_ledger_duration_seconds_count{operation="settle"}`:       7,
		`fareway_time_to_first_event_seconds_count{endpoint="chat"}`:      3,
		`fareway_request_duration_seconds_count{endpoint="messages"}`:     2,
		`fareway_held_microcents`:                                         0,
		`fareway_config_number`:                                           1,
		`go_gc_gogc_percent`:                                              150,
	}
	eventually(t, func() (bool, string) {
		got := g.metrics(t)
		for name, n := range want {
			if value, ok := got[name]; !ok || value != n {
				return false, name + ": " + strconv.FormatFloat(value, 'f', -1, 64) + " of " +
					strings.Join(slices.Sorted(maps.Keys(got)), "\n")
			}
		}
		return true, ""
	})
}
