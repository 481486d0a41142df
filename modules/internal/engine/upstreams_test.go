package engine

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/host"
)

// Bad input: an unreachable upstream at start, a model that it does not have and a window larger than its
// are reported, never delay serving, and are looked for again until all is well.
func TestUpstreamsAreAskedBesideServing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, list := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "models")
	text := strings.ReplaceAll(liveHCL("1"), "/nowhere", dir)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	h := host.New(host.Options{Builtin: builtinArchivist})
	cfg, diags := config.Load(t.Context(), path, optionsOf(h))
	h.Close()
	require.NoError(t, diags.Err())
	log, pauses := new(safe), make(chan timer, 1)
	e, err := Open(Options{OpenStore: stores.Open, DataDir: filepath.Join(dir, "data"), Builtin: builtinArchivist,
		Logger: slog.New(slog.NewTextHandler(log, nil)), After: func(d time.Duration) <-chan time.Time {
			one := timer{d, make(chan time.Time, 1)}
			if d == lookEvery || d == settleFor {
				return nil // the file stays as it is
			}
			select {
			case pauses <- one:
			default: // of a chore
			}
			return one.fire
		}}, cfg)
	require.NoError(t, err)
	e.background.loops, e.alerting.service = nil, nil
	live, err := e.Live(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, live.gen.Upstreams())
	live.Start()
	t.Cleanup(func() {
		live.Retire()
		require.NoError(t, e.Close())
	})
	g := e.Current()
	require.NotNil(t, g, "it serves before it knows")

	after := func(models string, want time.Duration) (found string) {
		pause := <-pauses
		require.Equal(t, want, pause.d)
		found = g.Upstreams().Text()
		if models != "" {
			require.NoError(t, os.WriteFile(list, []byte(models), 0o600))
		}
		pause.fire <- time.Time{}
		return found
	}
	away := after("", time.Minute)
	require.Contains(t, away, `The upstream of provider "upstream" does not answer`)
	require.Contains(t, away, fmt.Sprintf("at %s:5:3", path))
	require.Equal(t, away, after(`[{"ID":"other"}]`, 2*time.Minute))
	require.Equal(t, 1, log.count("does not fit its upstreams"), "what is as it was is not said again")
	require.Contains(t, after(`[{"ID":"m","ContextWindow":999}]`, 4*time.Minute), `does not offer this model`)
	require.Contains(t, after(`[{"ID":"m","ContextWindow":1000}]`, 8*time.Minute), "Write context_window = 999.")
	live.asking.Wait()
	require.Empty(t, g.Upstreams().Text())
	require.Equal(t, 1, log.count("the upstreams fit the configuration now"))
	require.Equal(t, 3, log.count("does not fit its upstreams"))
}

// An upstream that has no list of models is as good as any.
func TestUpstreamsWithoutAList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "models"), []byte("what?"), 0o600))
	w := watch(t, strings.ReplaceAll(liveHCL("1"), "/nowhere", dir))
	w.live.asking.Wait()
	require.Empty(t, w.Current().Upstreams().Text())
	require.Zero(t, w.log.count("upstreams"))
}
