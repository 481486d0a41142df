//go:build linux

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// healthy is a gateway that runs, with nothing wrong: its process and machine are files of the test's.
func healthy(t *testing.T) *Subject {
	t.Helper()
	dir := t.TempDir()
	s := &Subject{Data: filepath.Join(dir, "data"), Proc: filepath.Join(dir, "proc"),
		Cgroups:   filepath.Join(dir, "cgroup"),
		Systemctl: filepath.Join(dir, "systemctl"), Running: errors.New("no gateway is running"),
		OfflineError: errors.New("there is no ledger"), User: os.Getuid(), EnvOf: "the test",
		Env:         func(string) (string, bool) { return "", false },
		Diagnostics: new(config.Diagnostics)}
	s.HCL = filepath.Join(s.Data, "gateway.hcl")
	require.NoError(t, os.Mkdir(s.Data, 0o700))
	s.Status = &admin.Status{PID: 42, Data: s.Data, Ready: true,
		Routes:    []admin.Route{{Name: "small", Provider: "up", Model: "m", State: "serves"}},
		Providers: []admin.Provider{{Name: "up", Plugin: "openai", Ready: true, State: "ready"}}}
	s.Config = &config.Config{Path: s.HCL, Store: config.DefaultStore(),
		Gateway: config.Gateway{RequestTimeout: 10 * time.Minute, DrainTimeout: 5 * time.Minute, MaxStreams: 10000,
			MaxBody: 32 << 20, MaxBodyMemory: 1 << 30, Keepalive: 15 * time.Second},
		Providers: []config.Provider{{Name: "up", Plugin: "openai",
			Settings: settingsOf(t, map[string]any{"preset": "openai"})}},
		Routes: []config.Route{{Name: "small", Provider: "up", Model: "m", ContextWindow: 128000, MaxOutput: 8192,
			Tools:      true,
			JSONObject: true, Timeout: 5 * time.Minute, Price: config.Price{Input: 100_000_000, Output: 200_000_000},
			Cost: config.Price{Input: 50_000_000, Output: 100_000_000}}}}
	s.write(t, "proc/42/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"+
		"Max file size             unlimited            unlimited            bytes     \n"+
		"Max open files            1048576              1048576              files     \n")
	s.write(t, "proc/42/status", fmt.Sprintf("Uid:\t%d\nVmRSS:\t100000 kB\nVmSwap:\t0 kB\n", os.Getuid()))
	s.write(t, "proc/42/cgroup", "0::/system.slice/fareway.service\n")
	s.write(t, "proc/meminfo", "MemTotal:       16000000 kB\n")
	s.write(t, "proc/loadavg", "0.10 0.10 0.10 1/100 4242\n")
	s.write(t, "proc/sys/net/core/somaxconn", "4096\n")
	s.write(t, "proc/sys/net/core/rmem_max", "7500000\n")
	s.write(t, "proc/sys/net/core/wmem_max", "7500000\n")
	require.NoError(t, os.Symlink("/bin/sh", s.proc("exe")))
	s.systemd(t, unit{"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "Restart": "on-failure",
		"KillMode": "mixed", "TimeoutStopUSec": "7min", "WatchdogUSec": "1min", "NRestarts": "0"})
	s.serve(t, "", "127.0.0.1:8484")
	s.measured(t, "")
	s.upstream("")
	s.Fill()
	return s
}

func settingsOf(t *testing.T, set map[string]any) settings.Values {
	t.Helper()
	text, err := json.Marshal(set)
	require.NoError(t, err)
	return text
}

// write writes a file of the machine.
func (s *Subject) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(s.Data), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// systemd has the stand-in of systemctl say this of the unit.
func (s *Subject) systemd(t *testing.T, u unit) {
	t.Helper()
	var text strings.Builder
	for name, value := range u {
		fmt.Fprintf(&text, "echo '%s=%s'\n", name, value)
	}
	require.NoError(t, os.WriteFile(s.Systemctl, []byte("#!/bin/sh\n"+text.String()), 0o700))
}

// serve has the Caddyfile say that the gateway is served at an address, with more of a server, and of everything.
func (s *Subject) serve(t *testing.T, more, listen string) {
	t.Helper()
	if more != "" {
		more = ", " + more
	}
	host, _, err := net.SplitHostPort(listen)
	require.NoError(t, err)
	if host == "" {
		host = "203.0.113.9"
	}
	text := fmt.Sprintf(`{"apps": {"http": {"servers": {"a": {"listen": [%q],
		"routes": [{"handle": [{"handler": "subroute", "routes": [{"handle": [{"handler": "fareway"}]}]}]}]%s}}}}}`,
		listen, more)
	require.True(t, json.Valid([]byte(text)), text)
	s.Caddyfile = "/etc/fareway/Caddyfile"
	s.Site = &Site{JSON: []byte(text), Listen: []string{listen},
		Public: []Endpoint{{URL: "http://" + net.JoinHostPort(host, "80"), Dial: listen}}}
}

// public has clients from elsewhere reach the gateway, by a proxy with TLS.
func (s *Subject) public(t *testing.T) {
	s.serve(t, `"trusted_proxies": {"source": "static", "ranges": ["10.0.0.1/32"]}, "trusted_proxies_strict": 1`, ":80")
}

// measured has the gateway's metrics be these.
func (s *Subject) measured(t *testing.T, text string) {
	t.Helper()
	s.metrics.Do(func() {})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	series, err := parser.TextToMetricFamilies(strings.NewReader("fareway_requests_total 1000\n" + text))
	require.NoError(t, err)
	s.series = series
}

// upstream has the provider's upstream be at an address.
func (s *Subject) upstream(address string) {
	s.upstreams.Do(func() {})
	s.looked = engine.Looked{Diagnostics: new(config.Diagnostics), Upstreams: map[string]engine.Upstream{
		"up": {Asked: true, Address: engine.Address{URL: address}}}}
}

// planted are faults: each is found by the check, which says this, and no other check of the table says anything.
var planted = []struct {
	check, what string
	plant       func(t *testing.T, s *Subject)
	severity    Severity
	seen        string
}{
	{"clock", "an hour behind", func(t *testing.T, s *Subject) {
		s.upstream(serverAt(t, time.Hour))
	}, Error, "this machine's clock is 60 minutes behind that of 127.0.0.1"},
	{"clock", "half a minute ahead", func(t *testing.T, s *Subject) {
		s.upstream(serverAt(t, -30*time.Second))
	}, Warning, "seconds ahead of that of 127.0.0.1"},
	{"clock-back", "set back below a file", func(t *testing.T, s *Subject) {
		s.write(t, "data/fareway.db-wal", "")
		later := time.Now().Add(26 * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(s.Data, "fareway.db-wal"), later, later))
	}, Error, "fareway.db-wal is of "},
	{"clock-back", "set back below what is in force", func(_ *testing.T, s *Subject) {
		s.Status.InForce = new(time.Now().Add(time.Hour))
	}, Error, "the configuration in force is of "},
	{"disk-space", "100 MB left", func(_ *testing.T, s *Subject) {
		s.disk = func(string) (disk, error) { return disk{free: 100 << 20, whole: 100 << 30, kind: "ext4"}, nil }
	}, Error, "100 MiB free of 100.0 GiB (0.1 %) for data"},
	{"disk-space", "no inodes", func(_ *testing.T, s *Subject) {
		s.disk = func(string) (disk, error) {
			return disk{free: 1 << 40, whole: 2 << 40, inodes: 1000, inodesFree: 3, kind: "ext4"}, nil
		}
	}, Error, "3 of 1,000 inodes free"},
	{"disk-space", "read-only", func(_ *testing.T, s *Subject) {
		s.disk = func(string) (disk, error) {
			return disk{free: 1 << 40, whole: 2 << 40, readOnly: true, kind: "ext4"}, nil
		}
	}, Error, "is mounted read-only"},
	{"file-system", "NFS", func(_ *testing.T, s *Subject) {
		s.disk = func(string) (disk, error) {
			return disk{free: 1 << 40, whole: 2 << 40, network: true, kind: "NFS"}, nil
		}
	}, Error, "is on NFS, a file system of a network"},
	{"file-system", "memory", func(t *testing.T, s *Subject) {
		dir, err := os.MkdirTemp("/dev/shm", "doctor-") //nolint:usetesting // it has to be in memory
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		s.Data = dir
	}, Error, "is on tmpfs, which is memory"},
	{"file-limit", "1,024 files", func(t *testing.T, s *Subject) {
		s.write(t, "proc/42/limits", "Max open files            1024                 1048576              files     \n")
	}, Warning, "the process may open 1,024 files, and max_streams = 10000 needs 20,200"},
	{"file-limit", "small files", func(t *testing.T, s *Subject) {
		s.write(t, "proc/42/limits", "Max open files            unlimited            unlimited            files     \n"+
			"Max file size             1073741824           unlimited            bytes     \n")
	}, Error, "files of 1.0 GiB at most (RLIMIT_FSIZE)"},
	{"memory", "a small container in public", func(t *testing.T, s *Subject) {
		s.public(t)
		s.write(t, "cgroup/system.slice/fareway.service/memory.max", "536870912\n")
	}, Warning, "come to 2.2 GiB, and the control group "},
	{"memory", "killed", func(t *testing.T, s *Subject) {
		s.write(t, "cgroup/system.slice/fareway.service/memory.events", "low 0\noom_kill 3\n")
	}, Warning, "3 kills in "},
	{"memory", "GOMEMLIMIT above all there is", func(_ *testing.T, s *Subject) {
		s.Env = func(name string) (string, bool) { return "64GiB", name == "GOMEMLIMIT" }
	}, Warning, "GOMEMLIMIT is 64GiB"},
	{"memory", "swapped", func(t *testing.T, s *Subject) {
		s.write(t, "proc/42/status", fmt.Sprintf("Uid:\t%d\nVmSwap:\t300000 kB\n", os.Getuid()))
	}, Warning, "293 MiB of the process are in swap"},
	{"cpu", "throttled", func(t *testing.T, s *Subject) {
		s.write(t, "cgroup/system.slice/cpu.max", "50000 100000\n")
		s.write(t, "cgroup/system.slice/cpu.stat", "nr_periods 1000\nnr_throttled 400\n")
	}, Warning, "a quota of 0.50 CPUs"},
	{"temporary-folder", "gone", func(_ *testing.T, s *Subject) {
		s.Env = func(name string) (string, bool) { return "/nonexistent/tmp", name == "TMPDIR" }
	}, Error, "/nonexistent/tmp: no such file"},
	{"temporary-folder", "too long", func(t *testing.T, s *Subject) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("x", 90))
		require.NoError(t, os.Mkdir(dir, 0o700))
		s.Env = func(name string) (string, bool) { return dir, name == "TMPDIR" }
	}, Error, "the path of the temporary folder "},
	{"queues", "short in public", func(t *testing.T, s *Subject) {
		s.public(t)
		s.write(t, "proc/sys/net/core/somaxconn", "128\n")
	}, Warning, "net.core.somaxconn is 128"},
	{"data-folder", "open to all", func(t *testing.T, s *Subject) {
		require.NoError(t, os.Chmod(s.Data, 0o755))
	}, Error, "is open to every user of this machine (mode 0755)"},
	{"data-folder", "gone", func(t *testing.T, s *Subject) {
		s.Data = filepath.Join(t.TempDir(), "none")
	}, Error, "none: no such file or directory"},
	{"secrets", "a token that all can read", func(t *testing.T, s *Subject) {
		openWay(t, s.Data)
		s.write(t, "data/admin.token", "secret")
		require.NoError(t, os.Chmod(filepath.Join(s.Data, "admin.token"), 0o644))
	}, Error, "every user of this machine can read "},
	{"admin-socket", "open to all", func(t *testing.T, s *Subject) {
		openWay(t, s.Data)
		ln, err := net.Listen("unix", filepath.Join(s.Data, "admin.sock"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ln.Close()) })
		require.NoError(t, os.Chmod(filepath.Join(s.Data, "admin.sock"), 0o666))
	}, Error, "every user of this machine can use the admin socket"},
	{"leftovers", "a trial in public", func(t *testing.T, s *Subject) {
		s.public(t)
		s.write(t, "data/trial.key", "fwk_secret")
	}, Warning, "the trial's key is in "},
	{"plugins", "not executable", func(t *testing.T, s *Subject) {
		s.plugin(t, "#!/bin/sh\n", 0o644)
	}, Error, "fareway-provider-mine, of provider mine, is not executable (mode 0644)"},
	{"plugins", "of another machine", func(t *testing.T, s *Subject) {
		elf := make([]byte, 64) // an ELF header for a Motorola 68000
		copy(elf, "\x7fELF\x02\x01\x01")
		elf[16], elf[18], elf[20], elf[52] = 2, 4, 1, 64
		s.plugin(t, string(elf), 0o755)
	}, Error, "is for EM_68K, and this machine is"},
	{"plugins", "not what is pinned", func(t *testing.T, s *Subject) {
		s.plugin(t, "#!/bin/sh\n", 0o755)
		s.Config.Providers[1].SHA256 = strings.Repeat("0", 64)
	}, Error, "and the configuration pins 000000"},
	{"providers", "down", func(_ *testing.T, s *Subject) {
		s.Status.Providers[0] = admin.Provider{Name: "up", Plugin: "openai", State: "restarting", Problem: "it crashed"}
	}, Error, "provider up (openai) is restarting: it crashed"},
	{"providers", "restarts", func(_ *testing.T, s *Subject) { s.Status.Providers[0].Restarts = 7 }, Warning,
		"was started again 7 times"},
	{"service-manager", "stops too soon", func(t *testing.T, s *Subject) {
		s.systemd(t, unit{"LoadState": "loaded", "KillMode": "mixed", "TimeoutStopUSec": "1min 30s", "Restart": "always"})
	}, Warning, "TimeoutStopSec=90 seconds, and drain_timeout is 5 minutes"},
	{"service-manager", "kills providers", func(t *testing.T, s *Subject) {
		s.systemd(t, unit{"LoadState": "loaded", "KillMode": "control-group", "Restart": "always"})
	}, Warning, "has KillMode=control-group"},
	{"service-manager", "never again", func(t *testing.T, s *Subject) {
		s.systemd(t, unit{"LoadState": "loaded", "KillMode": "mixed", "TimeoutStopUSec": "infinity", "Restart": "no"})
	}, Warning, "has Restart=no"},
	{"service-manager", "not enabled", func(t *testing.T, s *Subject) {
		s.systemd(t, unit{"LoadState": "loaded", "KillMode": "mixed", "Restart": "always", "UnitFileState": "disabled"})
	}, Warning, "fareway.service is disabled"},
	{"service-manager", "not read again", func(t *testing.T, s *Subject) {
		s.systemd(t, unit{"LoadState": "loaded", "KillMode": "mixed", "Restart": "always", "NeedDaemonReload": "yes"})
	}, Warning, "systemd has not read it"},
	{"in-force", "refused", func(_ *testing.T, s *Subject) {
		s.Status.FailedLoad = &admin.FailedLoad{At: time.Now(), Config: s.HCL, Problem: "no route"}
	}, Error, "is refused since "},
	{"in-force", "not ready", func(_ *testing.T, s *Subject) { s.Status.Reason = "no provider is ready" }, Error,
		"the gateway is not ready: no provider is ready"},
	{"credentials", "a line break", func(t *testing.T, s *Subject) { s.key(t, "sk-proj-s3cretmark\n") }, Error,
		"api_key of provider up has blanks or a line break around it"},
	{"credentials", "quotes", func(t *testing.T, s *Subject) { s.key(t, `"sk-proj-s3cretmark"`) }, Error,
		"stands in quotes"},
	{"credentials", "empty", func(t *testing.T, s *Subject) { s.key(t, "") }, Error, "is empty"},
	{"credentials", "a placeholder", func(t *testing.T, s *Subject) { s.key(t, "sk-your-key-here") }, Error,
		"is a placeholder"},
	{"credentials", "another word", func(t *testing.T, s *Subject) { s.key(t, "Bearer sk-proj-s3cretmark") }, Error,
		`begins with "Bearer"`},
	{"credentials", "another service", func(t *testing.T, s *Subject) { s.key(t, "sk-ant-api03-s3cretmark") }, Error,
		`looks like a key of anthropic (it begins with "sk-ant-"), and goes to openai`},
	{"prices", "of one token", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price = config.Price{Input: 25, Output: 200_000_000}
		s.Config.Routes[0].Cost = config.Price{}
	}, Error, "it looks"},
	{"prices", "a thousand times", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price = config.Price{Input: 250_000_000_000, Output: 1_500_000_000_000}
	}, Error, "US$2500 for a million tokens"},
	{"prices", "of a thousand tokens", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price = config.Price{Input: 300_000, Output: 1_500_000}
		s.Config.Routes[0].Cost = config.Price{}
	}, Warning, "route small has input = 0.003"},
	{"prices", "of a hundred million", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price = config.Price{Input: 25_000_000_000, Output: 50_000_000_000}
	}, Warning, "route small has input = 250"},
	{"prices", "no output", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price.Output, s.Config.Routes[0].Cost.Output = 0, 0
	}, Warning, "route small charges nothing for output"},
	{"limits", "connections refused", func(t *testing.T, s *Subject) {
		s.measured(t, `fareway_connections_refused_total{of="address"} 100`+"\n")
	}, Warning, "100 connections were refused"},
	{"prices", "below cost", func(_ *testing.T, s *Subject) { s.Config.Routes[0].Cost.Output = 900_000_000 }, Warning,
		"US$2 for output, which costs US$9"},
	{"prices", "two units", func(_ *testing.T, s *Subject) {
		other := s.Config.Routes[0]
		other.Name, other.Price.Input, other.Cost = "other", 100_000, config.Price{}
		s.Config.Routes = append(s.Config.Routes, other)
	}, Error, "routes small and other are the same model (m)"},
	{"routes", "refused", func(_ *testing.T, s *Subject) {
		s.Status.Routes = append(s.Status.Routes, admin.Route{Name: "deep", Provider: "up", Model: "d", State: "refused"})
	}, Error, "route deep (d of up) is refused"},
	{"routes", "none serves", func(_ *testing.T, s *Subject) { s.Status.Routes[0].State = "open" }, Error,
		"none of the 1 route serves"},
	{"routes", "often fails", func(t *testing.T, s *Subject) {
		s.measured(t, histogram("fareway_attempt_duration_seconds", 100, 1)+
			`fareway_upstream_errors_total{route="small",kind="upstream"} 40`+"\n")
	}, Warning, `40 of 100 attempts of route small failed`},
	{"offers", "no tools", func(_ *testing.T, s *Subject) { s.Config.Routes[0].Tools = false }, Warning,
		"no route offers tools"},
	{"offers", "a cap below what is given", func(_ *testing.T, s *Subject) {
		s.Config.Plans = []config.Plan{{Name: "pro", MonthlyCredits: 500, Limits: config.Limits{SpendCapCredits: 100}}}
	}, Warning, "plan pro gives 500 credits a month, and lets 100 be spent"},
	{"time-outs", "shorter than replies", func(t *testing.T, s *Subject) {
		s.Config.Routes[0].Timeout = 30 * time.Second
		s.measured(t, histogram("fareway_attempt_duration_seconds", 100, 30))
	}, Warning, "and its timeout is 30 seconds"},
	{"time-outs", "the Caddyfile cuts off", func(t *testing.T, s *Subject) {
		s.serve(t, `"write_timeout": 60000000000`, "127.0.0.1:8484")
	}, Error, "`timeouts { write 60 seconds }` is shorter than request_timeout (10 minutes)"},
	{"time-outs", "first byte", func(t *testing.T, s *Subject) {
		s.Config.Providers[0].Settings = settingsOf(t, map[string]any{"first_byte_timeout": "2s"})
	}, Warning, "provider up has first_byte_timeout = 2 seconds"},
	{"limits", "all clients are one", func(t *testing.T, s *Subject) {
		s.measured(t, `fareway_limited_total{reason="ip_requests_per_minute"} 300`+"\n")
	}, Warning, `300 of 1000 requests were refused for the limit "ip_requests_per_minute"`},
	{"limits", "full", func(t *testing.T, s *Subject) { s.measured(t, "fareway_running_requests 9900\n") }, Warning,
		"9900 of max_streams = 10000 are in progress"},
	{"limits", "a proxy's connections", func(t *testing.T, s *Subject) {
		s.measured(t, `fareway_connections_refused_total{of="address"} 12`+"\n")
	}, Warning, "12 connections were refused, for there were too many of one address"},
	{"logs", "nowhere to write", func(_ *testing.T, s *Subject) {
		s.Site.JSON = []byte(strings.Replace(string(s.Site.JSON), "{",
			`{"logging": {"logs": {"x": {"writer": {"output": "file", "filename": "/nonexistent/log/a.log"}}}}, `, 1))
	}, Warning, "cannot write logs into /nonexistent/log"},
	{"collector", "nobody listens", func(_ *testing.T, s *Subject) {
		s.Config.Telemetry.Metrics = true
		s.Env = func(name string) (string, bool) {
			return "http://127.0.0.1:1", name == "OTEL_EXPORTER_OTLP_ENDPOINT"
		}
	}, Warning, "nobody takes traces and metrics at 127.0.0.1:1"},
	{"prices", "a later one in another unit", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].LaterPrices = []config.Dated{{From: time.Now().Add(time.Hour),
			Price: config.Price{Input: 100_000, Output: 200_000}}}
	}, Error, "route small charges US$1 for a million tokens of input, and US$0.001 from "},
	{"logs", "debug in public", func(t *testing.T, s *Subject) {
		s.public(t)
		s.Site.JSON = []byte(strings.Replace(string(s.Site.JSON), "{",
			`{"logging": {"logs": {"x": {"level": "DEBUG"}}}, `, 1))
	}, Warning, `the log "x" of the Caddyfile has level DEBUG`},
	{"logs", "lost lines", func(t *testing.T, s *Subject) { s.measured(t, "fareway_decisions_unlogged_total 5\n") },
		Warning, "5 requests are missing in the decision log"},
	{"upstream-network", "nobody listens", func(t *testing.T, s *Subject) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		s.upstream("http://" + ln.Addr().String())
	}, Error, "connection refused"},
	{"upstream-network", "a certificate of nobody", func(t *testing.T, s *Subject) {
		server := httptest.NewTLSServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		s.upstream(server.URL)
	}, Error, "TLS: this machine does not know who has issued its certificate"},
	{"upstream-network", "a proxy that is not used", func(t *testing.T, s *Subject) {
		s.Resolver = resolver(t, nil)
		s.upstream("https://api.example.com/v1")
		s.Env = func(name string) (string, bool) { return "http://10.1.1.1:3128", name == "HTTPS_PROXY" }
	}, Error, "its name has no address"},
	{"unproven", "many", func(t *testing.T, s *Subject) {
		s.measured(t, `fareway_unproven_attempts{provider="up"} 400`+"\n")
	}, Warning, "400 attempts of provider up wait for a receipt"},
	{"ledger", "a loss", func(_ *testing.T, s *Subject) { s.Status.Loss = new(ledger.Loss) }, Error,
		"a part of the ledger is missing"},
	{"spool", "undecided", func(_ *testing.T, s *Subject) { s.Status.Spool = admin.Spool{Undecided: 2, Aside: "/x"} },
		Error, "2 items wait in /x to be decided about"},
	{"spool", "waiting", func(_ *testing.T, s *Subject) { s.Status.Spool.Waiting = 9 }, Error,
		"9 settlements wait in the spool for the ledger"},
	{"backups", "never in public", func(t *testing.T, s *Subject) {
		s.public(t)
		s.Status.Backups = &admin.Backups{}
	}, Error, "no backup was ever made"},
	{"backups", "late", func(t *testing.T, s *Subject) {
		done := time.Now().Add(-50 * time.Hour)
		s.backup(t, chores.Record{Done: &done, Due: new(done.Add(30 * time.Hour)), Since: &done})
	}, Error, "and the next one was due at "},
	{"backups", "failed", func(t *testing.T, s *Subject) {
		s.backup(t, chores.Record{Failed: &chores.Failure{At: time.Now(), Text: "no room"}})
	}, Error, "the last backup failed at "},
	{"backups", "sent in clear", func(t *testing.T, s *Subject) {
		now := time.Now()
		s.backup(t, chores.Record{Done: &now, Since: &now, Sent: true})
	}, Warning, "backups are sent elsewhere without encryption"},
	{"durability", "a power cut", func(t *testing.T, s *Subject) {
		s.public(t)
		s.Config.Store.Durability = config.DurableProcess
	}, Warning, `durability is "process"`},
	{"exposure", "keys in clear", func(t *testing.T, s *Subject) { s.serve(t, "", ":8080") }, Error,
		"the gateway is served without TLS at :8080"},
	{"exposure", "metrics for all", func(t *testing.T, s *Subject) {
		s.Site.JSON = []byte(strings.Replace(string(s.Site.JSON), `"servers": {`,
			`"servers": {"m": {"listen": [":9180"], "routes": [{"handle": [{"handler": "metrics"}]}]}, `, 1))
	}, Warning, "metrics are served at :9180, which others reach"},
	{"exposure", "administration for all", func(_ *testing.T, s *Subject) { s.Site.Admin = "0.0.0.0:2020" }, Warning,
		"the admin API listens at 0.0.0.0:2020"},
	{"exposure", "health for all", func(_ *testing.T, s *Subject) { s.Site.Health = ":2021" }, Warning,
		"health checks are answered at :2021"},
	{"ports", "taken", func(t *testing.T, s *Subject) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ln.Close()) })
		s.serve(t, "", ln.Addr().String())
		s.Status, s.Proc = nil, "/proc"
	}, Error, fmt.Sprintf("is taken by process %d", os.Getpid())},
	{"udp-buffers", "small", func(t *testing.T, s *Subject) {
		s.serve(t, `"tls_connection_policies": [{}]`, "127.0.0.1:443")
		s.write(t, "proc/sys/net/core/rmem_max", "212992\n")
	}, Note, "net.core.rmem_max is 208 KiB, and HTTP/3 wants 7 MiB"},
	{"dns", "no address", func(t *testing.T, s *Subject) {
		s.URLs = []string{"https://gone.example.com"}
		s.Resolver = resolver(t, nil)
	}, Error, "gone.example.com has no address"},
	{"dns", "elsewhere, as far as can be seen", func(t *testing.T, s *Subject) {
		s.URLs = []string{"https://api.example.com"}
		s.Resolver = resolver(t, map[string][]string{"api.example.com.": {"192.0.2.1", "2001:db8::1"}})
		s.Status, s.Running = nil, errors.New("no gateway is running")
	}, Note, "this machine has none of these addresses"},
	{"certificates", "cannot be renewed", func(_ *testing.T, s *Subject) {
		until := time.Now().Add(time.Hour)
		s.Status.Certificates = []engine.Certificate{{Host: "api.example.com", Expires: &until,
			Failed: &engine.CertificateFailure{At: time.Now(), Text: "no such host"}}}
	}, Warning, "getting a certificate for api.example.com failed at "},
	{"client-address", "everybody is trusted", func(t *testing.T, s *Subject) {
		s.serve(t, `"trusted_proxies": {"source": "static", "ranges": ["0.0.0.0/0"]}, "trusted_proxies_strict": 1`,
			"127.0.0.1:8484")
	}, Error, "trusted_proxies has 0.0.0.0/0"},
}

// openWay lets others get as far as into a folder.
func openWay(t *testing.T, dir string) {
	t.Helper()
	for ; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, info.Mode().Perm()|0o055))
	}
}

// serverAt is a server whose clock is that far from ours.
func serverAt(t *testing.T, offset time.Duration) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// histogram is one of so many observations, all just below a value.
func histogram(name string, n, value int) string {
	return fmt.Sprintf("# TYPE %[1]s histogram\n%[1]s_bucket{route=\"small\",le=\"%[2]d\"} 0\n"+
		"%[1]s_bucket{route=\"small\",le=\"%[3]d\"} %[4]d\n%[1]s_bucket{route=\"small\",le=\"+Inf\"} %[4]d\n"+
		"%[1]s_sum{route=\"small\"} 1\n%[1]s_count{route=\"small\"} %[4]d\n", name, value-1, value, n)
}

// key gives the upstream's provider a key.
func (s *Subject) key(t *testing.T, text string) {
	s.Config.Providers[0].Settings = settingsOf(t, map[string]any{"preset": "openai", "api_key": text})
}

// plugin makes a provider of a program.
func (s *Subject) plugin(t *testing.T, content string, mode os.FileMode) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "fareway-provider-mine")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	s.Config.Gateway.PluginDir = dir
	s.Config.Providers = append(s.Config.Providers, config.Provider{Name: "mine", Plugin: "mine"})
	s.Status = nil
}

// backup has the last backup be this one.
func (s *Subject) backup(t *testing.T, r chores.Record) {
	t.Helper()
	if r.Done != nil {
		r.File = filepath.Join(t.TempDir(), "backup.tar")
		require.NoError(t, os.WriteFile(r.File, []byte("x"), 0o600))
	}
	s.Status.Backups = &admin.Backups{Standing: chores.Standing{Backup: r}}
}

// elsewhere are the checks whose faults are planted in other tests.
var elsewhere = []string{"disk-speed", "program", "configuration", "upstreams", "accounts", "margin", "bill",
	"postgres", "redis", "nodes", "streams", "http-versions", "body-size", "redirects", "silence"}

// ofGateway are the checks that ask a gateway, which these tests have none of.
var ofGateway = []string{"accounts", "margin", "bill", "streams", "client-address", "http-versions", "body-size",
	"silence", "clock-back", "redirects", "ports", "disk-speed"}

// TestPlantedFaults: each fault is found by its check, and a gateway without one is in order.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		s := healthy(t)
		checks := slices.DeleteFunc(Checks(), func(c Check) bool { return slices.Contains(ofGateway, c.Name) })
		r := Run(t.Context(), s, checks, time.Minute)
		for _, f := range r.Findings {
			require.Equal(t, Note, f.Severity, "%+v", f)
		}
	})
	seen := make(map[string]bool)
	for _, fault := range planted {
		seen[fault.check] = true
		t.Run(fault.check+" "+fault.what, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			fault.plant(t, s)
			checks, err := Find([]string{fault.check})
			require.NoError(t, err)
			r := Run(t.Context(), s, checks, time.Minute)
			i := slices.IndexFunc(r.Findings, func(f Finding) bool {
				return strings.Contains(f.Seen, fault.seen) || strings.Contains(f.Why, fault.seen)
			})
			require.GreaterOrEqual(t, i, 0, "%+v", r)
			f := r.Findings[i]
			require.Equal(t, fault.severity, f.Severity, "%+v", f)
			require.NotEmpty(t, f.Next, "%+v", f)
			require.NotEmpty(t, f.Why, "%+v", f)
			require.NotContains(t, strings.ReplaceAll(fmt.Sprint(r), filepath.Dir(s.Data), ""), "s3cretmark", "a secret")
		})
	}
	for _, c := range Checks() {
		require.True(t, seen[c.Name] || slices.Contains(elsewhere, c.Name), "no fault is planted for %s", c.Name)
	}
}

// TestSlowDisk: a median of syncs decides, whatever the slowest took.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	judge := func(median time.Duration) []Finding {
		r := result{check: &machineChecks[3]}
		judgeSyncs(&r, "/data", median, time.Second)
		return r.findings
	}
	require.Empty(t, judge(5*time.Millisecond))
	require.Equal(t, Note, judge(30 * time.Millisecond)[0].Severity)
	require.Equal(t, Warning, judge(120 * time.Millisecond)[0].Severity)
	require.Contains(t, judge(120 * time.Millisecond)[0].Seen, "takes 120.0 ms to keep 4 KiB")
}

// TestBills: what is apart by rounding is none, and what is apart by a unit is called that.
func TestBills(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	judge := func(billed, ours float64) []Finding {
		r := result{check: &moneyChecks[2]}
		judgeBill(s, &r, "up", billed, ours, 0, []string{"small"})
		return r.findings
	}
	require.Empty(t, judge(100, 101))
	require.Equal(t, Warning, judge(100, 95)[0].Severity)
	f := judge(100, 70)[0]
	require.Equal(t, Error, f.Severity)
	require.Contains(t, f.Seen, "up has billed US$100.00 ")
	require.Contains(t, f.Seen, "is US$70.00: 30 % apart")
	require.Contains(t, f.Why, "somebody else has it")
	require.Contains(t, judge(100, 0.1)[0].Why, "in another unit")
	require.Contains(t, judge(70, 100)[0].Why, "too high")
}

// TestServers: what a server of PostgreSQL says of itself is judged.
func TestServers(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.public(t)
	judge := func(i stores.Inspection) string {
		r := result{check: &ledgerChecks[3]}
		judgeServer(s, &r, i)
		return fmt.Sprint(r.findings)
	}
	require.Equal(t, "[]", judge(stores.Inspection{SyncCommit: "on", Standbys: "b", Streaming: 1, Archiving: "on"}))
	require.Contains(t, judge(stores.Inspection{SyncCommit: "off"}), "synchronous_commit is off")
	require.Contains(t, judge(stores.Inspection{Fsync: "off"}), "fsync is off")
	require.Contains(t, judge(stores.Inspection{Streaming: 1}), "wait for no standby (1 standby connected)")
	require.Contains(t, judge(stores.Inspection{Standbys: "b"}), "no standby is connected")
	require.Contains(t, judge(stores.Inspection{Standbys: "b", Streaming: 1, Archiving: "on", ArchiveFailed: true}),
		"cannot archive its log")
}

// TestNodesDiffer: nodes that differ, that are gone, or whose clock is elsewhere are told of.
func TestNodesDiffer(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	r := result{check: &serverChecks[2]}
	judgeNodes(s, &r, admin.Nodes{Drift: []string{"a runs version 1, and b version 2"}, Nodes: []admin.Node{
		{Label: "a", State: "lives"}, {Label: "b", State: "lives", Since: time.Now().Add(time.Hour), Machine: "m"},
		{Label: "c", State: "lapsed", Holds: 3, Spooled: 2}}})
	text := fmt.Sprint(r.findings)
	for _, want := range []string{"a runs version 1, and b version 2", "the lease of node c has lapsed",
		"2 settlements wait in the spool of node c", "its clock is ahead of this machine's",
		"2 gateways share the ledger, and each counts requests by itself"} {
		require.Contains(t, text, want)
	}
}

// TestChecksEnd: a check that hangs, or panics, ends as one that could not look, and the others go on.
func TestChecksEnd(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	checks := []Check{
		{Name: "hangs", run: func(context.Context, *Subject, *result) { <-hung }},
		{Name: "panics", run: func(context.Context, *Subject, *result) { panic("a mistake") }},
		{Name: "finds", Worst: Warning, Why: "why", Next: "next", run: func(_ context.Context, _ *Subject, r *result) {
			r.found("seen \x1b[31m %s", "\u202e\n    Next: rm").as(Error)
			r.found("less")
		}},
		{Name: "passes", run: func(context.Context, *Subject, *result) {}},
		{Name: "needs", needs: gatewayRuns, run: func(_ context.Context, _ *Subject, r *result) { r.found("never") }},
	}
	s := healthy(t)
	s.Status = nil
	r := Run(t.Context(), s, checks, 50*time.Millisecond)
	require.Equal(t, []string{"passes"}, r.Passed)
	require.Equal(t, Warning, r.Findings[1].Severity)
	require.Equal(t, "the check hangs got no answer within 50ms", r.Findings[1].Seen)
	require.Equal(t, []Finding{{"finds", Error, `seen \x1b[31m \u202e     Next: rm`, "why", "next"},
		{"finds", Warning, "less", "why", "next"}}, []Finding{r.Findings[0], r.Findings[2]})
	require.Len(t, r.Skipped, 3)
	require.Equal(t, Skip{"hangs", "no answer within 50ms"}, r.Skipped[0])
	require.Contains(t, r.Skipped[1].Why, "panicked, which is a mistake in this program: a mistake")
	require.Equal(t, Skip{"needs", "no gateway answers: no gateway is running"}, r.Skipped[2])
}

// TestUnitTimes: times as systemd writes them.
func TestUnitTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"7min": 7 * time.Minute, "1min 30s": 90 * time.Second,
		"1d 2h": 26 * time.Hour, "500ms": 500 * time.Millisecond, "90000000": 90 * time.Second} {
		d, ok := unitSpan(text)
		require.True(t, ok, text)
		require.Equal(t, want, d, text)
	}
	_, ok := unitSpan("infinity")
	require.False(t, ok)
	require.Equal(t, 5, countCPUs("0-3,6\n"))
}

// TestProgramReplaced: a program that was replaced on the disk, and one that is gone, are told from the one that runs,
// of a real process.
func TestProgramReplaced(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	content, err := os.ReadFile(sleep)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "fareway")
	put := func() {
		require.NoError(t, os.WriteFile(program+".new", content, 0o700))
		require.NoError(t, os.Rename(program+".new", program))
	}
	put()
	process := exec.Command(program, "600")
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		require.NoError(t, process.Process.Kill())
		_ = process.Wait() // it was killed
	})
	s := healthy(t)
	s.Proc, s.Status.PID, s.Status.Version, s.Version = "/proc", process.Process.Pid, "1.0", "1.0"
	require.Empty(t, find(t, s, "program").Findings)

	put()
	r := find(t, s, "program")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, program+" was replaced on ")
	require.Contains(t, r.Findings[0].Next, "fareway gateway upgrade --data "+s.Data)

	require.NoError(t, os.Remove(program))
	s.Version = "1.1"
	r = find(t, s, "program")
	require.Len(t, r.Findings, 2)
	require.Equal(t, Error, r.Findings[0].Severity)
	require.Contains(t, r.Findings[0].Seen, "and is not there any more")
	require.Contains(t, r.Findings[1].Seen, "the gateway that runs is 1.0, and this program 1.1")
}

// TestRedisEvicts: a limiter's server that throws counts away when it is full is found, asked of a real one.
func TestRedisEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t, "--maxmemory-policy", "allkeys-lru")
	s := healthy(t)
	s.Config.Limiter = config.Limiter{Kind: config.RedisKind, Redis: config.Redis{URL: "redis://" + server.Addr(),
		Timeout: time.Second}}
	r := find(t, s, "redis")
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Contains(t, r.Findings[0].Seen, "the limiter's server, has maxmemory-policy allkeys-lru")

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	s.Config.Limiter.Redis.URL = "redis://:hunter2@" + ln.Addr().String()
	r = find(t, s, "redis")
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Contains(t, r.Findings[0].Seen, "the server of the block limiter, cannot be reached from here")
	require.NotContains(t, fmt.Sprint(r), "hunter2")
}
