package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// Health, restarts, memory, streams, last words.
func TestInfoTellsHowAProviderRuns(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	p := acquire(t, h, spec("script"))
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)

	i := p.Info()
	require.Equal(t, "test", i.Provider)
	require.Equal(t, host.Origin{Plugin: "script"}, i.Origin)
	require.Equal(t, host.Ready, i.State)
	require.Equal(t, processID(t, p), i.PID)
	require.Equal(t, "host", i.About.Name[:4])
	require.NotEmpty(t, i.About.Version)
	require.Len(t, i.About.Schema.Attributes, 2)
	require.Equal(t, host.Capabilities{CancelUsage: true, CountTokens: true, Receipts: true}, i.About.Capabilities)
	require.Equal(t, []string{"cancel_usage", "count_tokens", "receipts"}, i.About.Capabilities.Names())
	require.Equal(t, []string{"endpoint", "models", "screen", "predict"},
		host.Capabilities{Endpoint: true, Models: true, Screen: true, Predict: true}.Names())
	if runtime.GOOS == "linux" {
		require.Greater(t, i.Memory, int64(1<<20), "a Go program has more than a MiB")
		require.Less(t, i.Memory, int64(1<<32))
	}
	require.Zero(t, i.Streams)
	require.Zero(t, i.Restarts)
	require.Nil(t, i.Crash)

	stream := open(t, t.Context(), p, ask("wait"))
	require.Equal(t, 1, p.Info().Streams)
	stream.Close()
	require.Zero(t, p.Info().Streams)

	_, err := talk(t.Context(), p, "exit")
	require.Error(t, err)
	require.Equal(t, host.Restarting, <-states)
	i = p.Info()
	require.Equal(t, host.Restarting, i.State)
	require.Zero(t, i.PID)
	require.Zero(t, i.Memory)
	require.NotEmpty(t, i.About.Version, "what it was is still known")
	require.Equal(t, &host.Crash{At: time.Time{}, Cause: host.CauseCrash,
		Why: "its process died (exit status 7); its last words: out of paper"}, i.Crash)
	require.Equal(t, map[host.Cause]int{host.CauseCrash: 1}, i.Failures)
	c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	i = p.Info()
	require.Equal(t, 1, i.Restarts)
	require.NotNil(t, i.Crash)
	require.NotZero(t, i.PID)
}

func TestInfoTellsWhyAProviderIsUnwell(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	p := acquire(t, h, spec("sickly"))
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	c.next(t, 10*time.Second, 10*time.Second).fire()
	require.Equal(t, host.Unhealthy, <-states)
	require.Equal(t, "feeling unwell", p.Info().Problem)
	c.next(t, 10*time.Second, 10*time.Second).fire()
	require.Equal(t, host.Ready, <-states)
	require.Empty(t, p.Info().Problem)
}

func TestInfoCountsTheCallsThatTheHostMakes(t *testing.T) {
	t.Parallel()
	up, p := carries(t, newHost(t), "")
	up.Enqueue(upstream.Say("hello"))
	call, err := p.Carry(t.Context(), ask("hello"))
	require.NoError(t, err)
	require.Equal(t, 1, p.Info().Streams)
	call.Close()
	call.Close()
	require.Zero(t, p.Info().Streams)
}

func TestAboutAsksAPluginThatDoesNotRun(t *testing.T) {
	t.Parallel()
	dir, digest := install(t, "file-only", 0o755)
	file := filepath.Join(dir, "fareway-provider-file-only")
	h := newHost(t)
	origin, about, err := h.About(t.Context(), host.Source{Plugin: "file-only", Dir: dir})
	require.NoError(t, err)
	require.Equal(t, host.Origin{Plugin: "file-only", File: file, SHA256: digest}, origin)
	require.Len(t, about.Schema.Attributes, 2)
	found, err := h.Find(host.Source{Plugin: "file-only", Dir: dir})
	require.NoError(t, err)
	require.Equal(t, origin, found)

	require.NoError(t, os.Chmod(file, 0o777))
	_, _, err = h.About(t.Context(), host.Source{Plugin: "file-only", Dir: dir})
	require.ErrorContains(t, err, "chmod go-w")
	origin, about, err = h.AboutFile(t.Context(), file, 0)
	require.NoError(t, err, "an author may look at anything")
	require.Equal(t, host.Origin{Plugin: "file-only", File: file, SHA256: digest}, origin)
	require.True(t, about.Capabilities.CountTokens)

	_, _, err = h.AboutFile(t.Context(), file+"s", 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = h.About(t.Context(), host.Source{Plugin: "dies"})
	require.ErrorContains(t, err, `cannot find\x1b[2J\x0d my libraries`)
	h.Close()
	_, _, err = h.About(t.Context(), host.Source{Plugin: "script"})
	require.ErrorContains(t, err, "closed")
}

func TestFilesListsAPluginFolder(t *testing.T) {
	t.Parallel()
	dir, digest := install(t, "good", 0o755)
	require.NoError(t, os.Link(filepath.Join(dir, "fareway-provider-good"), filepath.Join(dir, "fareway-provider-Bad")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fareway-provider-plain"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), nil, 0o644))
	files, err := host.Files(dir)
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Equal(t, "Bad", files[0].Plugin)
	require.ErrorContains(t, files[0].Problem, "rename "+filepath.Join(dir, "fareway-provider-Bad"))
	require.Equal(t, host.File{Origin: host.Origin{
		Plugin: "good", File: filepath.Join(dir, "fareway-provider-good"), SHA256: digest,
	}}, files[1])
	require.ErrorContains(t, files[2].Problem, "chmod +x")
	_, err = host.Files(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
