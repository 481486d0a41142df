package main_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchServer is a server that is measured, with all its processes.
type benchServer struct {
	url  string
	pids []int
}

func benchGateway(b *testing.B, upstream, carry string) (s *benchServer, key string) {
	b.Helper()
	g := startGateway(b, files{"gateway.hcl": fmt.Sprintf(benchHCL, upstream, carry)})
	s = &benchServer{url: g.URL, pids: []int{g.cmd.Process.Pid}}
	for _, c := range g.children(b) {
		s.pids = append(s.pids, c.pid)
	}
	require.Len(b, s.pids, 2, "the host and the provider")
	return s, g.Key
}

// benchProxy is Caddy's own reverse_proxy, of the same binary, as a gateway needs it: what comes is sent on at once, as
// many connections are kept as are used, and there is a JSON access log.
func benchProxy(b *testing.B, upstream string) *benchServer {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	url := "http://" + free.Addr().String()
	require.NoError(b, free.Close())
	dir := b.TempDir()
	caddyfile := fmt.Sprintf(benchProxyfile, filepath.Join(dir, "access.log"), url, upstream)
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
	return &benchServer{url: url, pids: []int{cmd.Process.Pid}}
}

const benchProxyfile = `{
	admin off
	auto_https off
	log {
		level WARN
		exclude http.log.access
	}
	log access {
		include http.log.access
		output file %s
		format json
	}
}

%s {
	log
	reverse_proxy %s {
		flush_interval -1
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}
}
`

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
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		require.NoError(b, err)
		// PID (NAME) STATE PPID and nine more fields, then utime and stime; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, err := strconv.Atoi(fields[11])
		require.NoError(b, err)
		system, err := strconv.Atoi(fields[12])
		require.NoError(b, err)
		const tick = time.Second / 100 // USER_HZ, which is the same on every Linux that Go runs on
		sum += time.Duration(user+system) * tick
	}
	return sum
}
