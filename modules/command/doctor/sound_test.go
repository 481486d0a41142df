//go:build linux

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
)

// TestAnotherMachine: the process, files and machine of a gateway that is elsewhere are not looked for here, and
// commands lead to it.
func TestAnotherMachine(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Status.Command = []string{"fareway", "run"}
	s.write(t, "proc/42/cmdline", "fareway\x00run\x00")
	s.TakeProcess(true)
	require.False(t, s.NoProcess, "it is this one")
	require.Empty(t, s.Elsewhere)

	s.write(t, "proc/42/cmdline", "postgres\x00") // what has its number here
	require.NoError(t, os.Chmod(s.Data, 0o755))   // what is wrong here is not the gateway's
	s.TakeProcess(true)
	s.Flags = " --admin 10.0.0.5:2020"
	checks, err := Find([]string{"machine", "files", "processes", "ports"})
	require.NoError(t, err)
	r := Run(t.Context(), s, checks, time.Minute)
	require.Empty(t, r.Findings)
	for _, skip := range r.Skipped {
		if skip.Check == "clock" {
			continue
		}
		require.Contains(t, skip.Why, "on another machine, or in a container")
	}
	require.Len(t, r.Skipped, len(checks)-1, "but for the providers, which the admin API tells of: %+v", r)
	require.Equal(t, "fareway gateway reload --admin 10.0.0.5:2020", s.command("reload"))
}

// TestContainer: of a gateway whose socket and files are here, and whose process is in a container, no other process is
// looked at.
func TestContainer(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Status.Command = []string{"fareway", "run"}
	s.write(t, "proc/42/limits", "Max open files            1024                 1048576              files     \n")
	s.TakeProcess(false)
	require.Empty(t, find(t, s, "file-limit").Findings)
	require.Contains(t, find(t, s, "file-limit").Skipped[0].Why, "it may be in a container")
	require.NoError(t, os.Chmod(s.Data, 0o755))
	require.Len(t, find(t, s, "data-folder").Findings, 1, "its files are here")
}

// TestOtherNodes: behind a balancer a request that comes to another node is sent again, and none is a stranger's.
func TestOtherNodes(t *testing.T) {
	t.Parallel()
	balanced := func(ours func(n int64) bool) *Subject {
		var n atomic.Int64
		return behind(t, true, func(to http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !ours(n.Add(1)) {
					http.Error(w, "no key", http.StatusUnauthorized)
					return
				}
				to.ServeHTTP(w, r)
			})
		})
	}
	alternately := balanced(func(n int64) bool { return n%2 == 0 })
	require.NotEmpty(t, find(t, alternately, "streams").Findings, "one gateway alone does not answer so")
	alternately.Status.Ledger = &admin.LedgerServer{Up: true, Nodes: 2}
	for _, name := range []string{"streams", "body-size"} {
		r := find(t, alternately, name)
		require.Empty(t, r.Findings)
		require.Equal(t, []string{name}, r.Passed)
	}
	never := balanced(func(int64) bool { return false })
	never.Status.Ledger = &admin.LedgerServer{Up: true, Nodes: 2}
	for _, name := range []string{"streams", "body-size", "client-address"} {
		r := find(t, never, name)
		require.Empty(t, r.Findings)
		require.Contains(t, r.Skipped[0].Why, "of several gateways another one has answered each time")
	}
}

// TestBrokenCaddyfile: a mistake in the Caddyfile is found where no gateway runs.
func TestBrokenCaddyfile(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Status, s.Site, s.SiteError = nil, nil, errors.New("Caddyfile:3: unrecognized directive: farway")
	r := find(t, s, "configuration")
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Equal(t, Error, r.Findings[0].Severity)
	require.Contains(t, r.Findings[0].Seen, "unrecognized directive: farway")
	require.Equal(t, "fareway validate --config /etc/fareway/Caddyfile", r.Findings[0].Next)
}

// taken has a process of the machine listen at an address of 127.0.0.1, and serves the gateway there.
func (s *Subject) taken(t *testing.T, pid int, at string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ln.Close()) })
	s.serve(t, "", ln.Addr().String())
	s.Status = nil
	s.write(t, "proc/net/tcp", fmt.Sprintf("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "+
		"retrnsmt   uid  timeout inode\n   0: %s:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     "+
		"0        0 4711 1\n", at, ln.Addr().(*net.TCPAddr).Port))
	s.write(t, fmt.Sprintf("proc/%d/comm", pid), "program\n")
	fds := filepath.Join(s.Proc, fmt.Sprint(pid), "fd")
	require.NoError(t, os.MkdirAll(fds, 0o700))
	require.NoError(t, os.Symlink("socket:[4711]", filepath.Join(fds, "3")))
}

// TestSocketActivation: a port that systemd has for the gateway is in order while the gateway rests, and one that
// another program has is not.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	const loopback = "0100007F"
	s := healthy(t)
	s.systemd(t, unit{"LoadState": "not-found"})
	s.taken(t, 1, loopback)
	require.Empty(t, find(t, s, "ports").Findings)

	s = healthy(t)
	s.systemd(t, unit{"LoadState": "not-found"})
	s.taken(t, 77, loopback)
	r := find(t, s, "ports")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "is taken by process 77 (program)")

	s = healthy(t)
	s.systemd(t, unit{"LoadState": "not-found"})
	s.taken(t, 77, "0200007F")
	require.Contains(t, find(t, s, "ports").Findings[0].Seen, "is taken by another program",
		"who listens at another address has not taken it")
}

// TestPrivateRanges: Caddy's private_ranges are no network of strangers, and 0.0.0.0/0 is.
func TestPrivateRanges(t *testing.T) {
	t.Parallel()
	trusted := func(ranges string) []Finding {
		s := healthy(t)
		s.serve(t, `"trusted_proxies": {"source": "static", "ranges": [`+ranges+`]}, "trusted_proxies_strict": 1`, ":80")
		r := result{check: &proxyChecks[1]}
		s.checkTrusted(&r)
		return r.findings
	}
	require.Empty(t, trusted(`"192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"`))
	require.Len(t, trusted(`"0.0.0.0/0", "::/0"`), 2)
}

// TestWithoutIPv6: an IPv6 address that there is no way to from here says nothing about the gateway.
func TestWithoutIPv6(t *testing.T) {
	t.Parallel()
	fails := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	require.True(t, isWithoutIPv6(fails(syscall.ENETUNREACH)))
	require.True(t, isWithoutIPv6(fails(syscall.EADDRNOTAVAIL)))
	require.False(t, isWithoutIPv6(fails(syscall.ECONNREFUSED)))
}

// TestVariables: those of the unit are taken where no gateway runs, and what may not be read is not called unset.
func TestVariables(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Status = nil
	s.systemd(t, unit{"LoadState": "loaded", "Environment": `OPENAI_KEY=sk-proj-1 "B=c d"`})
	s.TakeEnvironment()
	value, _ := s.Env("OPENAI_KEY")
	require.Equal(t, "sk-proj-1", value)
	value, _ = s.Env("B")
	require.Equal(t, "c d", value)
	require.Empty(t, s.EnvHidden)

	require.Equal(t, []string{"A=b", "C=d e", `F="`}, splitWords(`A=b "C=d e" F=\"`))

	s = healthy(t)
	s.Status = nil
	s.systemd(t, unit{"LoadState": "loaded", "EnvironmentFiles": s.Data}) // no file that could be read
	s.TakeEnvironment()
	require.Contains(t, s.EnvHidden, "cannot be seen")
}

// TestDNSIsDead: a resolver that never answers is found, and is not what nobody looked at.
func TestDNSIsDead(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	s := healthy(t)
	s.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", silent.LocalAddr().String())
	}}
	s.upstream("https://api.example.com/v1")
	checks, err := Find([]string{"upstream-network"})
	require.NoError(t, err)
	r := Run(t.Context(), s, checks, Patience)
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Equal(t, Error, r.Findings[0].Severity)
	require.Contains(t, r.Findings[0].Seen, "DNS does not answer")
}

// TestNoProbe: where no credential can be had, nothing passes and nothing is found.
func TestNoProbe(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.URLs = []string{"https://api.example.com"}
	var err error
	s.Client, err = admin.NewClient(s.Data, "unix/"+filepath.Join(t.TempDir(), "none.sock"))
	require.NoError(t, err)
	for _, name := range []string{"streams", "http-versions", "body-size", "redirects"} {
		r := find(t, s, name)
		require.Empty(t, r.Findings, name)
		require.Len(t, r.Skipped, 1, name)
	}
}

// TestTimeOfBills: what is left out of their time is now, and a month before.
func TestTimeOfBills(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	s.Since = now.AddDate(0, 0, -10)
	since, until := s.billed()
	require.Equal(t, []time.Time{s.Since, now}, []time.Time{since, until})
	s.Since, s.Until = time.Time{}, now
	since, _ = s.billed()
	require.Equal(t, now.AddDate(0, -1, 0), since)

	r := result{check: &moneyChecks[2]}
	require.Equal(t, "old (US$12.00)", s.goneRoutes(&r, map[string]admin.Usage{"small": {Cost: perDollar},
		"old": {Cost: 12 * perDollar}}))
	require.Equal(t, Note, r.findings[0].Severity)
}

// TestManyFiles: a data folder with more files than are looked at does not pass.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	dir := filepath.Join(s.Data, "many")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // others may look into it
	s.write(t, "data/one", "")
	for i := range mostFiles + 1 {
		require.NoError(t, os.Link(filepath.Join(s.Data, "one"), filepath.Join(dir, fmt.Sprint(i))))
	}
	require.Contains(t, find(t, s, "secrets").Skipped[0].Why, "more than 20,000 files")
}

// TestBackupsOfPostgres: what only PostgreSQL's tools know of is not called in order.
func TestBackupsOfPostgres(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Status.Backups = nil
	r := find(t, s, "backups")
	require.Empty(t, r.Findings)
	require.Contains(t, r.Skipped[0].Why, "only its own tools")
}

// TestQuoting: a word for a shell is one word.
func TestQuoting(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/var/lib/fareway", quote("/var/lib/fareway"))
	require.Equal(t, `'/srv/a b; rm -rf '\''x'\'''`, quote("/srv/a b; rm -rf 'x'"))
}

// healthySigns are measurements that every gateway has some time, and that ask for nothing.
var healthySigns = []struct {
	check, what string
	plant       func(t *testing.T, s *Subject)
}{
	{"time-outs", "a wide bucket below the time-out", func(t *testing.T, s *Subject) {
		s.Config.Routes[0].Timeout = 30 * time.Second
		s.measured(t, strings.Replace(histogram("fareway_attempt_duration_seconds", 100, 30), `le="29"`, `le="15"`, 1))
	}},
	{"limits", "one connection of a thousand requests", func(t *testing.T, s *Subject) {
		s.measured(t, `fareway_connections_refused_total{of="address"} 1`+"\n")
	}},
	{"memory", "kills of others in a group above", func(t *testing.T, s *Subject) {
		s.write(t, "cgroup/system.slice/memory.events", "low 0\noom_kill 3\n")
	}},
	{"prices", "a cheap and a dear model", func(_ *testing.T, s *Subject) {
		s.Config.Routes[0].Price = config.Price{Input: 15_000_000_000, Output: 60_000_000_000}
		s.Config.Routes[0].Cost = config.Price{}
	}},
}

// TestHealthySigns: none of them is a warning.
func TestHealthySigns(t *testing.T) {
	t.Parallel()
	for _, sign := range healthySigns {
		t.Run(sign.check+" "+sign.what, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			sign.plant(t, s)
			for _, f := range find(t, s, sign.check).Findings {
				require.Equal(t, Note, f.Severity, "%+v", f)
			}
		})
	}
}
