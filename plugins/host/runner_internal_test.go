//go:build linux

package host

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// newShell is a child that runs a script.
func newShell(t *testing.T, script string) *child {
	t.Helper()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	c := newChild(executable{plugin: "sh", argv: []string{sh, "-c", script}}, nil,
		slog.New(slog.DiscardHandler))
	c.prepare(nil)
	return c
}

// ends waits for the end of the child, which must come.
func (c *child) ends(t *testing.T) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(2 * time.Minute):
		require.Fail(t, "it does not end")
	}
}

func TestAPinnedFileIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "started")
	file := filepath.Join(t.TempDir(), "plugin")
	start := func(digest string) error {
		c := newChild(executable{plugin: "p", argv: []string{file}, digest: digest, pinned: true, guarded: true}, nil,
			slog.New(slog.DiscardHandler))
		c.prepare(nil)
		err := c.Start(t.Context())
		if err == nil {
			c.ends(t)
		}
		return err
	}
	require.ErrorContains(t, start(strings.Repeat("00", 32)), "verifying "+file, "it is gone")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o700))
	require.ErrorContains(t, start(strings.Repeat("00", 32)), "no longer has the pinned sha256")
	require.ErrorContains(t, start("no digest"), "no longer has the pinned sha256")
	require.NoFileExists(t, marker)
	digest, err := Digest(file)
	require.NoError(t, err)
	require.NoError(t, start(digest))
	require.FileExists(t, marker)
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil { // the folder's own is gone
			require.NotEqual(t, file, target, "it is still open")
		}
	}
}

// TestWhatWasHashedIsExecuted: a pinned plugin's file, or a folder above it, is exchanged behind the last look at it.
func TestWhatWasHashedIsExecuted(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	for name, exchange := range map[string]func(t *testing.T, folder, evil string){
		"nothing": func(*testing.T, string, string) {},
		"the file": func(t *testing.T, folder, evil string) {
			require.NoError(t, os.Rename(evil, filepath.Join(folder, "plugins", "fareway-provider-dies")))
		},
		"the folder": func(t *testing.T, folder, evil string) {
			require.NoError(t, os.Rename(folder, folder+".away"))
			require.NoError(t, os.MkdirAll(filepath.Join(folder, "plugins"), 0o700))
			require.NoError(t, os.Rename(evil, filepath.Join(folder, "plugins", "fareway-provider-dies")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "folder")
			file := filepath.Join(folder, "plugins", "fareway-provider-dies")
			evil, marker := filepath.Join(t.TempDir(), "evil"), filepath.Join(t.TempDir(), "marker")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, content, 0o700))
			require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o700))
			digest, err := Digest(file)
			require.NoError(t, err)
			c := newChild(executable{plugin: "dies", argv: []string{file}, digest: digest, pinned: true, guarded: true}, nil,
				slog.New(slog.DiscardHandler))
			c.prepare(nil)
			o, err := c.exe.open(os.Geteuid())
			require.NoError(t, err)
			exchange(t, folder, evil)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, c.launch(o, write, write))
			o.close()
			require.NoError(t, write.Close())
			said, err := io.ReadAll(read)
			require.NoError(t, err)
			require.Error(t, c.cmd.Wait())
			require.Equal(t, 3, c.cmd.ProcessState.ExitCode(), string(said))
			require.Contains(t, string(said), "my libraries")
			require.NoFileExists(t, marker)
			if name != "nothing" {
				_, err = c.exe.open(os.Geteuid())
				require.ErrorContains(t, err, "no longer has the pinned sha256", "as a restart has it")
			}
		})
	}
}

func TestAChildThatIsDoomedBeforeItStartsEnds(t *testing.T) {
	t.Parallel()
	c := newShell(t, "exec sleep 1000")
	c.killGroup()
	require.NoError(t, c.Start(t.Context()))
	c.ends(t)
	require.Contains(t, c.exitText(), "killed")
}

// go-plugin kills by this one what does not end when it is asked to.
func TestAChildCanBeKilled(t *testing.T) {
	t.Parallel()
	c := newShell(t, "exec sleep 1000")
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.Kill(t.Context()))
	c.ends(t)
	require.Contains(t, c.exitText(), "killed")
}

// A plugin that is not made with the SDK can fail a call with any text.
func TestAFailedCallTellsNoSecret(t *testing.T) {
	t.Parallel()
	c := newShell(t, "exec sleep 1000")
	require.NoError(t, c.Start(t.Context()))
	defer c.ends(t)
	defer c.killGroup()
	c.scrub.learn(&settings.Schema{Attributes: []settings.Attribute{{Name: "key", Secret: true}}},
		settings.Values(`{"key": "hunter2"}`))
	p := &process{exe: c.exe, child: c}
	err := p.callError(t.Context(), "configuring it", errors.New("no such key: hunter2"))
	require.EqualError(t, err, `starting plugin "sh": configuring it: no such key: [redacted]`)
}

// What a child leaves in its group is killed with it, also what has cleared its environment.
func TestTheGroupOfAChildEndsWithIt(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "pid")
	c := newShell(t, "env -i sleep 1000 & echo $! > "+out+".tmp; mv "+out+".tmp "+out+"; read wait < "+out+".fifo")
	require.NoError(t, unix.Mkfifo(out+".fifo", 0o600))
	require.NoError(t, c.Start(t.Context()))
	var pid int
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(out)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	}, 30*time.Second, time.Millisecond)
	fd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, os.WriteFile(out+".fifo", []byte("go\n"), 0o600))
	c.ends(t)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 3000)
	require.NoError(t, err)
	require.Equal(t, 1, n, "its child still runs")
	c.mu.Lock()
	defer c.mu.Unlock()
	require.True(t, c.reaped, "its id may be another's from now on")
}

// The mark is found wherever in the environment it stands, and is no part of another.
func TestMarkedProcessesAreKilled(t *testing.T) {
	t.Parallel()
	mark := "MARK_" + rand.Text() + "=value"
	m := newMark(mark)
	start := func(env ...string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		require.NoError(t, cmd.Start())
		return cmd
	}
	endedBy := func(cmd *exec.Cmd) string {
		_ = cmd.Process.Signal(syscall.SIGTERM) // of who has ended, it changes nothing
		return cmd.Wait().Error()
	}
	others := []*exec.Cmd{start(mark + "2"), start("X="+mark, "Y"+mark)}
	marked := []*exec.Cmd{start(mark), start(mark, "X=1"), start("X=1", mark), start("X=1", mark, "Y=2")}
	limited, otherwise := start("X=1"), start("X=1")
	m.put(limited.Process.Pid)
	newMark(mark + "2").put(otherwise.Process.Pid)
	marked, others = append(marked, limited), append(others, otherwise)
	m.killAll()
	var ends []string
	for _, cmd := range slices.Concat(marked, others) {
		ends = append(ends, endedBy(cmd))
	}
	require.Equal(t, slices.Concat(slices.Repeat([]string{"signal: killed"}, len(marked)),
		slices.Repeat([]string{"signal: terminated"}, len(others))), ends)
}
