//go:build unix

package gateway

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// logLines are the lines of a log as they come.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default: // a test that waits for one has read those before it
	}
	return len(b), nil
}

// until returns the lines up to the first that has the text.
func (l logLines) until(t *testing.T, text string) (lines string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if lines += line; strings.Contains(line, text) {
				return lines
			}
		case <-time.After(time.Minute):
			require.Fail(t, "it is not logged", "%s; but %s", text, lines)
		}
	}
}

// lease leases an engine that runs on a file that is not there, and returns what it logs.
func lease(t *testing.T) (*engine.Engine, logLines) {
	t.Helper()
	data, lines := t.TempDir(), make(logLines, 1_000)
	cfg := &config.Config{Store: config.DefaultStore(), Path: filepath.Join(data, "gateway.hcl"),
		Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced}}
	e, err := leaseEngine(data, cfg, slog.New(slog.NewTextHandler(lines, nil)), nil)
	require.NoError(t, err)
	live, err := e.Live(t.Context(), cfg)
	require.NoError(t, err)
	live.Start()
	t.Cleanup(func() {
		live.Retire()
		ended, err := engines.Delete(data)
		require.NoError(t, err)
		require.True(t, ended)
		require.Eventually(t, func() bool { return sqlite.CheckUnlocked(filepath.Join(data, "fareway.db")) == nil },
			time.Minute, time.Millisecond)
	})
	return e, lines
}

// TestHangup is SIGHUP: every engine of the process loads its file, and log files are opened anew, each signal once
// more.
func TestHangup(t *testing.T) { //nolint:paralleltest // it opens the log files of the whole process anew
	first, said := lease(t)
	second, saidBySecond := lease(t)
	require.ElementsMatch(t, []*engine.Engine{first, second}, runningEngines())
	opened := make(chan struct{}, 10)
	var refuse atomic.Bool
	file, err := openFiles.open("some.log", func() (io.WriteCloser, error) {
		opened <- struct{}{}
		if refuse.Load() {
			return nil, errors.New("no room")
		}
		return new(fakeFile), nil
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	<-opened
	handleHangup()
	handleHangup()
	for _, refused := range []bool{false, true} {
		refuse.Store(refused)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		for _, lines := range []logLines{said, saidBySecond} {
			text := lines.until(t, "loading the configuration file, for SIGHUP")
			require.Equal(t, refused, strings.Contains(text, "opening log files anew, for SIGHUP"), text)
			require.Equal(t, refused, strings.Contains(text, "some.log: no room"), text)
		}
		<-opened
		require.Empty(t, opened, "once for each signal")
	}
	for _, e := range []*engine.Engine{first, second} {
		require.Eventually(t, func() bool { return e.FailedLoad() != nil }, time.Minute, time.Millisecond, "there is no file")
	}
}

// signalsArgument makes the test binary a process that gets signals.
const signalsArgument = "take-signals"

func init() {
	if len(os.Args) == 2 && os.Args[1] == signalsArgument {
		takeSignals()
	}
}

// takeSignals takes SIGHUP and SIGINT from whoever had them, and sends itself one and then the other, the latter until
// it ends.
func takeSignals() {
	before, term := make(chan os.Signal, 9), make(chan os.Signal, 9)
	signal.Notify(before, syscall.SIGHUP, syscall.SIGINT)
	signal.Notify(term, syscall.SIGTERM)
	handleHangup()
	handleInterrupt()
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			panic(err)
		}
	}
	send(syscall.SIGHUP)
	send(syscall.SIGINT)
	<-term
	fmt.Println("SIGTERM", len(before))
	for range time.Tick(time.Millisecond) {
		send(syscall.SIGINT)
	}
}

// TestInterrupts: the first SIGINT begins the end as SIGTERM does, the second ends what runs, and the third the
// process; and nobody else gets it or SIGHUP, which would end the process at once.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, signalsArgument)
	var said, log strings.Builder
	child.Stdout, child.Stderr = &said, &log
	require.Error(t, child.Run())
	require.Equal(t, caddy.ExitCodeForceQuit, child.ProcessState.ExitCode(), log.String())
	require.Equal(t, "SIGTERM 0\n", said.String())
	require.Equal(t, 1, strings.Count(log.String(), "ending the requests that run"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "force quit"), log.String())
}
