package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// benchServer is a server that is measured, with all its processes.
type benchServer struct {
	url   string
	pids  []int
	admin *http.Client // of Caddy's admin endpoint
}

func benchGateway(b *testing.B, hcl string) (s *benchServer, key string) {
	b.Helper()
	g := startGateway(b, files{"gateway.hcl": hcl})
	s = &benchServer{url: g.URL, pids: []int{g.cmd.Process.Pid}, admin: g.admin}
	for _, c := range g.children(b) {
		s.pids = append(s.pids, c.pid)
	}
	require.Len(b, s.pids, 2, "the host and the provider")
	return s, g.Key
}

// benchProxy is Caddy's own reverse_proxy, of the same binary, as a gateway needs it: what comes is sent on at once,
// as many connections are kept as are used, and there is a JSON access log.
func benchProxy(b *testing.B, upstream string) *benchServer {
	b.Helper()
	return benchSite(b, strings.Replace(benchProxySite, "UPSTREAM", upstream, 1))
}

// benchRespond is a site of the same binary that refuses each request, with a body of the size of ours.
func benchRespond(b *testing.B) *benchServer {
	b.Helper()
	return benchSite(b, `respond "{\"error\":\"`+strings.Repeat("x", 400)+`\"}" 401`)
}

// benchSite is a site of the same binary with these directives and a JSON access log.
func benchSite(b *testing.B, directives string) *benchServer {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	url := "http://" + free.Addr().String()
	require.NoError(b, free.Close())
	dir := b.TempDir()
	caddyfile := fmt.Sprintf(benchCaddyfile, dir, url, directives)
	require.NoError(b, os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(caddyfile), 0o600))
	cmd := fareway(dir, "run", "--config", "Caddyfile")
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	startBench(b, cmd)
	eventually(b, func() (bool, string) {
		conn, err := net.Dial("tcp", free.Addr().String())
		if err == nil {
			err = conn.Close()
		}
		return err == nil, stderr.String()
	})
	return &benchServer{url: url, pids: []int{cmd.Process.Pid}, admin: unixClient(filepath.Join(dir, "admin.sock"))}
}

const benchCaddyfile = `{
	admin unix//%[1]s/admin.sock
	auto_https off
	log {
		level WARN
		exclude http.log.access
	}
	log access {
		include http.log.access
		output file %[1]s/access.log
		format json
	}
}

%[2]s {
	log
	%[3]s
}
`

const benchProxySite = `reverse_proxy UPSTREAM {
		flush_interval -1
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}`

// startUpstream starts the command bench-upstream and returns its URL.
func startUpstream(b *testing.B) string {
	b.Helper()
	cmd := exec.Command("bench-upstream")
	var stdout lockedBuffer
	cmd.Stdout = &stdout
	startBench(b, cmd)
	var url string
	eventually(b, func() (bool, string) {
		url, _ = stdout.line()
		return url != "", "nothing on stdout"
	})
	return url
}

// startBench starts a process that ends with the benchmark.
func startBench(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()         // killed
	})
}

// cpu is the CPU time, user and system, that the server's processes have used.
func (s *benchServer) cpu(b *testing.B) time.Duration {
	b.Helper()
	var sum time.Duration
	for _, pid := range s.pids {
		// The clock of another process, as clock_getcpuclockid(3) makes its number.
		var used unix.Timespec
		require.NoError(b, unix.ClockGettime(int32(^pid<<3|2), &used))
		sum += time.Duration(used.Nano())
	}
	return sum
}

// mallocs is how many objects the server's first process has allocated.
func (s *benchServer) mallocs(b *testing.B) uint64 {
	b.Helper()
	resp, err := s.admin.Get("http://localhost/debug/vars")
	require.NoError(b, err)
	defer resp.Body.Close()
	var vars struct {
		MemStats runtime.MemStats `json:"memstats"`
	}
	require.NoError(b, json.NewDecoder(resp.Body).Decode(&vars))
	return vars.MemStats.Mallocs
}

// memory is what the server's first process holds after a collection of its garbage, stacks included, and what the
// others have in memory, in bytes.
func (s *benchServer) memory(b *testing.B) int64 {
	b.Helper()
	total := heapAndStacks(b, s.admin)
	for _, pid := range s.pids[1:] {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		require.NoError(b, err)
		pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
		require.NoError(b, err)
		total += pages * int64(os.Getpagesize())
	}
	return total
}

// resident is the proportional set size of the server's processes, in MB.
func (s *benchServer) resident(b *testing.B) float64 {
	b.Helper()
	var sum int
	for _, pid := range s.pids {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		require.NoError(b, err)
		_, pss, found := strings.Cut(string(rollup), "\nPss:")
		require.True(b, found)
		kib, err := strconv.Atoi(strings.Fields(pss)[0])
		require.NoError(b, err)
		sum += kib
	}
	return float64(sum) / 1024
}
