package host_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
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
	pid, err = strconv.Atoi(strings.Fields(line)[1])
	require.NoError(t, err, line)
	child, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(child)

	require.NoError(t, gateway.Process.Kill())
	require.True(t, endsWithin(t, plugin, 3*time.Second), "the plugin still runs")
	require.True(t, endsWithin(t, child, 3*time.Second), "what it has started still runs")
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

// What has a session of its own is in no group that could be killed with the plugin's, and a daemon has neither the
// plugin's environment nor its parent.
func TestNothingIsLeftOfAPluginThatDied(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"start a child", "leave a child", "leave a daemon"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			leave := func(plugin string) (*host.Plugin, int) {
				p := acquire(t, h, spec(plugin))
				events, err := talk(t.Context(), p, script)
				require.NoError(t, err)
				pid, err := strconv.Atoi(text(events))
				require.NoError(t, err, text(events))
				fd, err := unix.PidfdOpen(pid, 0)
				require.NoError(t, err)
				t.Cleanup(func() { unix.Close(fd) })
				return p, fd
			}
			p, child := leave("script")
			_, neighbour := leave("other")
			require.NoError(t, unix.Kill(p.Info().PID, unix.SIGKILL))
			require.True(t, endsWithin(t, child, time.Minute), "the child still runs")
			require.NoError(t, unix.PidfdSendSignal(neighbour, 0, nil, 0), "and that of another plugin does")
			h.Close()
			require.True(t, endsWithin(t, neighbour, time.Minute), "it ends with its own")
		})
	}
}

func TestABuiltInPluginHasNoHome(t *testing.T) {
	t.Parallel()
	events, err := talk(t.Context(), acquire(t, newHost(t), spec("script")), "environment")
	require.NoError(t, err)
	require.Contains(t, strings.Split(text(events), "\n"), "HOME=/nonexistent")
}

// Memory past max_memory. What is running ends with an error that says why.
func TestAPluginThatTakesTooMuchMemoryIsKilled(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"grow", "grow a child"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			h, c, states := observed(t)
			s := spec("script")
			s.MaxMemory = 300 << 20
			p := acquire(t, h, s)
			require.Equal(t, host.Starting, <-states)
			require.Equal(t, host.Ready, <-states)
			require.EqualValues(t, 300<<20, p.Info().MaxMemory)
			c.next(t, time.Second, time.Second).fire()
			tick := c.next(t, time.Second, time.Second) // the first one found nothing
			stream := open(t, t.Context(), p, ask("wait"))
			_, err := talk(t.Context(), p, script+" to 310 MiB")
			require.NoError(t, err)
			tick.fire()
			require.Equal(t, host.Restarting, <-states)
			_, err = stream.Recv()
			require.Equal(t, llm.ErrDied, kindOf(t, err))
			require.ErrorContains(t, err, "more than its max_memory of 300.0 MiB; its last words: I have grown")
			i := p.Info()
			require.Equal(t, host.CauseMemory, i.Crash.Cause)
			require.Contains(t, i.Crash.Why, "I have grown")
			require.Equal(t, map[host.Cause]int{host.CauseMemory: 1}, i.Failures)
			c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
			require.Equal(t, host.Starting, <-states)
			require.Equal(t, host.Ready, <-states)
			require.Less(t, p.Info().Memory, int64(270<<20))
		})
	}
}

// A bound below what a process takes anyway is refused at the start, and not by killing one process after another.
func TestAPluginThatNeedsMoreThanItsMaxMemoryIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	dir, _ := install(t, "file-only", 0o755)
	s := host.Spec{Name: "test", Source: host.Source{Plugin: "file-only", Dir: dir}}
	s.MaxMemory = 1 << 20
	_, err := h.Acquire(t.Context(), s)
	require.ErrorContains(t, err, "of memory before its first request, and its max_memory is 1.0 MiB: allow it more")
	require.Regexp(t, `takes \d+\.\d MiB`, err.Error())
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, program := range programs {
		if path, err := os.Readlink(program); err == nil { // otherwise it has ended meanwhile
			require.NotContains(t, path, dir, "the process is still there")
		}
	}
}

// What a process maps of files is not its own: the program of a built-in provider is the gateway's, too.
func TestMemoryIsTheProcessesOwn(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	own := p.Info().Memory
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", processID(t, p)))
	require.NoError(t, err)
	var resident, mapped int64
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &resident)
		_, _ = fmt.Sscanf(line, "RssFile: %d kB", &mapped)
	}
	require.Greater(t, mapped, int64(4<<10), "its program")
	require.InDelta(t, (resident-mapped)<<10, own, 8<<20)
	require.Less(t, own, resident<<10)
}

// One that leaks is replaced before it is too late, and nothing breaks.
func TestAPluginThatNearsItsMaxMemoryIsReplaced(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	s := spec("script")
	s.MaxMemory, s.DrainTimeout = 300<<20, time.Hour
	p := acquire(t, h, s)
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	first := processID(t, p)
	old, err := unix.PidfdOpen(first, 0)
	require.NoError(t, err)
	defer unix.Close(old)
	stream := open(t, t.Context(), p, ask("flood"))
	_, err = talk(t.Context(), p, "grow to 280 MiB")
	require.NoError(t, err)
	c.next(t, time.Second, time.Second).fire()
	c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
	require.Eventually(t, func() bool { return processID(t, p) != first }, time.Minute, time.Millisecond)
	require.Equal(t, host.CauseMemory, p.Info().Crash.Cause)
	for range 100 {
		_, err = stream.Recv()
		require.NoError(t, err, "a stream goes on")
	}
	require.Empty(t, states, "it was ready all the time")
	stream.Close()
	require.True(t, endsWithin(t, old, time.Minute), "the old process ends with its last stream")
}

// Confinement, where the host allows it, and plain words where it does not.
func TestAPluginIsConfined(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "fw") //nolint:usetesting // one that another user can look into
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fareway-provider-file-only"), self, 0o755))
	var log *strings.Builder
	h := newHost(t, func(o *host.Options) { log = capture(o) })
	p := acquire(t, h, host.Spec{Name: "test", Source: host.Source{Plugin: "file-only", Dir: dir},
		Confine: host.Confine{User: "nobody", MaxFiles: 123, MaxProcesses: 150}})
	tell := func(script string) string {
		events, err := talk(t.Context(), p, script)
		require.NoError(t, err)
		return text(events)
	}
	require.Contains(t, tell("status"), "NoNewPrivs:\t1")
	limits := tell("limits")
	require.Regexp(t, `(?m)^Max open files +123 +123 `, limits)
	confine := p.Info().Confine
	if os.Geteuid() != 0 {
		require.Equal(t, []string{"no new privileges", "max_files 123"}, confine.InForce())
		missing := strings.Join(confine.Missing(), "\n")
		require.Contains(t, missing, "user: only root can run a process as another user")
		require.Contains(t, missing, "max_processes: it counts those of a user of its own")
		h.Close()
		require.Contains(t, log.String(), "provider is not confined as its confine block says")
		return
	}
	require.Equal(t, []string{"no new privileges", "user nobody", "max_files 123", "max_processes 150"}, confine.InForce())
	require.Empty(t, confine.Missing())
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	status := tell("status")
	require.Regexp(t, `(?m)^Uid:(\s+`+nobody.Uid+`){4}$`, status)
	require.Regexp(t, `(?m)^Gid:(\s+`+nobody.Gid+`){4}$`, status)
	require.Regexp(t, `(?m)^Groups:\s*$`, status)
	require.Regexp(t, `(?m)^CapEff:\s+0+$`, status)
	require.Regexp(t, `(?m)^Max processes +150 +150 `, limits)
	started, err := strconv.Atoi(tell("fork bomb"))
	require.NoError(t, err)
	require.Less(t, started, 150, "a fork bomb is limited")
	_, err = talk(t.Context(), acquire(t, h, spec("script")), "start a child")
	require.NoError(t, err, "nobody else is")
	h.Close()
	require.NotContains(t, log.String(), "not confined")
}

func TestAConfinementThatCannotBe(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		require.NotEmpty(t, host.Confine{User: "root"}.Missing())
		return
	}
	dir, err := os.MkdirTemp("", "fw") //nolint:usetesting // one that another user can look into
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "fareway-provider-file-only")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	for _, test := range []struct {
		confine host.Confine
		want    string
	}{
		{host.Confine{User: "root"}, `user "root" is root: name another`},
		{host.Confine{User: "nobody-of-that-name"}, `there is no user "nobody-of-that-name" on this machine`},
		{host.Confine{User: "nobody"}, `user "nobody" may not run it`}, // the folder is closed to it
		{host.Confine{MaxFiles: 1 << 40}, "it cannot be more than the gateway's own limit"},
	} {
		_, err := newHost(t).Acquire(t.Context(), host.Spec{Name: "test",
			Source: host.Source{Plugin: "file-only", Dir: dir}, Confine: test.confine})
		require.ErrorContains(t, err, test.want)
	}
}
