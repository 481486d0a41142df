//go:build linux

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// size is what a gateway takes at a moment.
type size struct {
	goroutines int
	heap       int64 // bytes of the gateway's own heap that are in use, after a collection
	resident   int64 // bytes of memory of the gateway and its plugins
	files      int   // descriptors of the gateway and its plugins
}

func (s size) String() string {
	return fmt.Sprintf("%d goroutines, a heap of %.1f MiB, %d MiB in memory, %d files", s.goroutines,
		float64(s.heap)/(1<<20), s.resident>>20, s.files)
}

var (
	profiledGoroutines = regexp.MustCompile(`(?m)^goroutine profile: total (\d+)$`)
	profiledHeap       = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	residentKiB        = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
)

// size looks at a gateway from outside, and by the profiles of its admin API.
func (g *gateway) size(t testing.TB) size {
	t.Helper()
	s := size{
		goroutines: int(found(t, profiledGoroutines, g.profile(t, "goroutine?debug=1"))),
		heap:       found(t, profiledHeap, g.profile(t, "heap?gc=1&debug=1")),
	}
	pids := []int{g.cmd.Process.Pid}
	for _, p := range g.children(t) {
		pids = append(pids, p.pid)
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		s.resident += found(t, residentKiB, status) << 10
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(t, err)
		s.files += len(fds)
	}
	return s
}

// profile reads one of the runtime's profiles.
func (g *gateway) profile(t testing.TB, name string) []byte {
	t.Helper()
	resp, err := g.admin.Get("http://localhost/debug/pprof/" + name)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return b
}

// found is the number that a pattern finds.
func found(t testing.TB, pattern *regexp.Regexp, text []byte) int64 {
	t.Helper()
	m := pattern.FindSubmatch(text)
	require.NotNil(t, m, "%s in %s", pattern, text[:min(len(text), 500)])
	n, err := strconv.ParseInt(string(bytes.TrimSpace(m[1])), 10, 64)
	require.NoError(t, err)
	return n
}
