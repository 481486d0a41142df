package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// change gives an installed plugin another content, as a new version does: by a rename, for nobody can write to a
// program that runs.
func change(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, "fareway-provider-"+name)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", append(content, "more"...), 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// replacements opens streams and replaces the provider ten times under them, its file and its settings in turns, as a
// reload of the configuration does. Then the streams end, and each is whole.
func replacements(t *testing.T, streams int) {
	t.Helper()
	const times = 10
	h := newHost(t)
	dir, _ := install(t, "file-only", 0o755)
	gate := filepath.Join(t.TempDir(), "gate")
	s := host.Spec{Name: "f", Source: host.Source{Plugin: "file-only", Dir: dir}, DrainTimeout: time.Hour,
		StartTimeout: time.Minute}
	p := acquire(t, h, s)
	var open []*host.Stream
	pids := make(map[int]bool)
	for round := range times + 1 {
		for len(open) < streams*(round+1)/(times+1) {
			stream, err := p.Generate(t.Context(), ask("until there is "+gate))
			require.NoError(t, err)
			t.Cleanup(stream.Close)
			events, err := stream.Recv()
			require.NoError(t, err)
			require.Equal(t, llm.EventAccepted, events[0].Kind)
			open = append(open, stream)
		}
		require.False(t, pids[p.Info().PID], "a process of its own")
		pids[p.Info().PID] = true
		if round == times {
			break
		}
		if round%2 == 0 {
			change(t, dir, "file-only")
		} else {
			s.Settings = settings.Values(`{"greeting": "version ` + strconv.Itoa(round) + `"}`)
		}
		old := p
		p = acquire(t, h, s)
		require.NotSame(t, old, p)
		require.True(t, p.Ready(), "the new one first")
		old.Release()
	}
	for pid := range pids {
		require.NoError(t, syscall.Kill(pid, 0), "an old process drains")
	}
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	for i, stream := range open {
		events, err := rest(stream)
		require.NoError(t, err, i)
		require.Equal(t, "the end", text(events))
		stream.Close()
	}
	current := p.Info().PID
	for pid := range pids {
		if pid != current {
			require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, time.Millisecond,
				"an old process ends with its last stream")
		}
	}
}

// No stream breaks when a plugin's file or settings change. TestSoakReplacements has more of them.
func TestReplacementsBreakNoStream(t *testing.T) {
	t.Parallel()
	replacements(t, 66)
}

// A file that somebody has open for writing cannot be run; it is waited for.
func TestAFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir, _ := install(t, "file-only", 0o755)
	f, err := os.OpenFile(filepath.Join(dir, "fareway-provider-file-only"), os.O_WRONLY, 0)
	require.NoError(t, err)
	time.AfterFunc(100*time.Millisecond, func() { f.Close() })
	acquire(t, newHost(t), host.Spec{Name: "f", Source: host.Source{Plugin: "file-only", Dir: dir}})
}

// A file that is replaced without a pinned digest is taken by the next Acquire; what runs goes on.
func TestAReplacedFileIsTakenByTheNextAcquire(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	dir, digest := install(t, "file-only", 0o755)
	s := host.Spec{Name: "f", Source: host.Source{Plugin: "file-only", Dir: dir}}
	p := acquire(t, h, s)
	change(t, dir, "file-only")
	_, err := talk(t.Context(), p, "hello")
	require.NoError(t, err)
	require.Equal(t, digest, p.Info().Origin.SHA256, "what runs is the old file")
	next := acquire(t, h, s)
	require.NotSame(t, p, next)
	require.NotEqual(t, digest, next.Info().Origin.SHA256)
}

// After a crash there is nothing to start but the file as it is now.
func TestAReplacedFileIsTakenAfterACrash(t *testing.T) {
	t.Parallel()
	for _, pinned := range []bool{false, true} {
		t.Run(fmt.Sprintf("pinned %t", pinned), func(t *testing.T) {
			t.Parallel()
			h, c, states := observed(t)
			dir, digest := install(t, "file-only", 0o755)
			s := host.Spec{Name: "f", Source: host.Source{Plugin: "file-only", Dir: dir}}
			if pinned {
				s.Source.SHA256 = digest
			}
			p := acquire(t, h, s)
			require.Equal(t, host.Starting, <-states)
			require.Equal(t, host.Ready, <-states)
			change(t, dir, "file-only")
			require.NoError(t, syscall.Kill(p.Info().PID, syscall.SIGKILL))
			require.Equal(t, host.Restarting, <-states)
			c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
			require.Equal(t, host.Starting, <-states)
			if pinned {
				require.Equal(t, host.Restarting, <-states)
				c.next(t, 160*time.Millisecond, 200*time.Millisecond)
				i := p.Info()
				require.Equal(t, host.CauseStart, i.Crash.Cause)
				require.Contains(t, i.Crash.Why, "if you trust the file, set sha256 to")
				require.Equal(t, map[host.Cause]int{host.CauseCrash: 1, host.CauseStart: 1}, i.Failures)
				return
			}
			require.Equal(t, host.Ready, <-states)
			require.NotEqual(t, digest, p.Info().Origin.SHA256, "it is what runs")
			require.Same(t, p, acquire(t, h, s), "and the next load keeps it")
			p.Release()
			p.Release()
			require.NotSame(t, p, acquire(t, h, s), "it is out of the pool")
		})
	}
}
