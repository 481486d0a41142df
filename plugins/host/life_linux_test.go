package host_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestNoPluginIsLeftThreeSecondsAfterItsGatewayWasKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	tmp, err := os.MkdirTemp("", "fw") //nolint:usetesting // t.TempDir is too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(tmp)
	gateway := exec.CommandContext(t.Context(), self, "run-host")
	gateway.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := gateway.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, gateway.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.Fields(line)[0])
	require.NoError(t, err, line)
	plugin, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(plugin)

	require.NoError(t, gateway.Process.Kill())
	require.True(t, endsWithin(t, plugin, 3*time.Second), "the plugin still runs")
	require.Error(t, gateway.Wait())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left, "the plugin removes its socket")
}

// endsWithin waits for the end of the process behind a pidfd.
func endsWithin(t *testing.T, pidfd int, d time.Duration) bool {
	t.Helper()
	deadline := time.Now().Add(d)
	for {
		ended, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}},
			int(time.Until(deadline).Milliseconds()))
		if err != unix.EINTR {
			require.NoError(t, err)
			return ended == 1
		}
	}
}

func TestAPluginHasNoPrivileges(t *testing.T) {
	t.Parallel()
	events, err := talk(t.Context(), acquire(t, newHost(t), spec("script")), "status")
	require.NoError(t, err)
	status := text(events)
	require.Contains(t, status, "NoNewPrivs:\t1")
	require.Contains(t, status, "CapAmb:\t0000000000000000")
}

// A child that a plugin has put into a session of its own is in no group that could be killed with the plugin's.
func TestNothingIsLeftOfAPluginThatDied(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := acquire(t, h, spec("script"))
	events, err := talk(t.Context(), p, "leave a child")
	require.NoError(t, err)
	pid, err := strconv.Atoi(text(events))
	require.NoError(t, err)
	child, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(child)
	other := acquire(t, h, spec("other"))
	events, err = talk(t.Context(), other, "leave a child")
	require.NoError(t, err)
	neighbour, err := strconv.Atoi(text(events))
	require.NoError(t, err)

	require.NoError(t, unix.Kill(processID(t, p), unix.SIGKILL))
	require.True(t, endsWithin(t, child, 3*time.Second), "the child still runs")
	require.NoError(t, unix.Kill(neighbour, 0), "and that of another plugin does")
	h.Close()
	fd, err := unix.PidfdOpen(neighbour, 0)
	if err == nil {
		defer unix.Close(fd)
		require.True(t, endsWithin(t, fd, 3*time.Second), "it ends with its own")
	}
}

func TestABuiltInPluginHasNoHome(t *testing.T) {
	t.Parallel()
	events, err := talk(t.Context(), acquire(t, newHost(t), spec("script")), "environment")
	require.NoError(t, err)
	require.Contains(t, strings.Split(text(events), "\n"), "HOME=/nonexistent")
}
