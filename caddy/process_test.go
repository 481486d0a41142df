//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// child is a process that a gateway has started, held by a descriptor: its id can be taken by another process
// once it has ended.
type child struct {
	pid int
	fd  int
}

// children lists the processes that descend from the gateway.
func (g *gateway) children(t testing.TB) []child {
	t.Helper()
	parents := map[int]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PPID ...; the name may hold anything.
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		require.NoError(t, err)
		parents[pid], err = strconv.Atoi(fields[1])
		require.NoError(t, err)
	}
	var all []child
	for pid, parent := range parents {
		for parent > 1 && parent != g.cmd.Process.Pid {
			parent = parents[parent]
		}
		if parent != g.cmd.Process.Pid {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			continue
		}
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		all = append(all, child{pid, fd})
	}
	return all
}

// hasEnded reports whether the process ends within d.
func (c child) hasEnded(d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		left := max(0, time.Until(deadline).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(left))
		if err != unix.EINTR {
			return err == nil && n == 1
		}
	}
}

// executable is the file that the process runs.
func (c child) executable(t testing.TB) string {
	t.Helper()
	path, err := os.Readlink("/proc/" + strconv.Itoa(c.pid) + "/exe")
	require.NoError(t, err)
	return path
}

// kill ends the process with SIGKILL.
func (c child) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, unix.PidfdSendSignal(c.fd, unix.SIGKILL, nil, 0))
}
