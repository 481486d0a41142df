package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
)

func TestSchemaIsThePluginsOwn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for range 2 {
		schema, err := h.Schema(t.Context(), host.Source{Plugin: "script"})
		require.NoError(t, err)
		require.Equal(t, settings.Schema{Attributes: []settings.Attribute{
			{Name: "greeting", Type: settings.String, Doc: "What to say."},
			{Name: "key", Type: settings.String, Secret: true, Doc: "A secret."},
		}}, schema)
	}
}

func TestAFailedStartSaysWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		plugin string
		want   []string
	}{
		{"dies", []string{`"test"`, `"dies"`, "before the handshake", "exit status 3",
			`cannot find\x1b[2J\x0d my libraries`}},
		{"tcp", []string{`network "tcp"`, "unix socket in PLUGIN_UNIX_SOCKET_DIR"}},
		{"short", []string{`"1|1|unix|/tmp/x"`, "has to be 1|1|unix|PATH|grpc|CERTIFICATE", "plugin proto"}},
		{"panics", []string{"exit status 2", "panic: nothing works"}},
		{"prints", []string{`"hello, I am starting"`, "on stdout", "prints to stderr"}},
		{"incompatible", []string{"version 99", "version 1", "update the gateway, or build it with", "plugin proto"}},
		{"refuses", []string{"setting greeting must be polite"}},
		{"crashes", []string{"configuring it", "exit status 4", "configuring went wrong"}},
		{"sick", []string{"health", "the license has expired"}},
		{"Bad/Name", []string{`"Bad/Name"`, "lower-case"}},
	} {
		t.Run(test.plugin, func(t *testing.T) {
			t.Parallel()
			_, err := newHost(t).Acquire(t.Context(), spec(test.plugin))
			require.Error(t, err)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestAStartThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ plugin, want string }{
		{"silent", "thinking about it"},
		{"hangs", "configuring it"},
	} {
		t.Run(test.plugin, func(t *testing.T) {
			t.Parallel()
			h, s := newHost(t), spec(test.plugin)
			for s.StartTimeout = time.Second; ; s.StartTimeout *= 4 {
				_, err := h.Acquire(t.Context(), s)
				require.ErrorContains(t, err, "start_timeout of "+s.StartTimeout.String())
				if strings.Contains(err.Error(), test.want) {
					return
				}
				// On a busy machine it takes longer to come as far as it does.
				require.Less(t, s.StartTimeout, 4*time.Minute, "%v", err)
			}
		})
	}
}

func TestAcquireGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := newHost(t).Acquire(ctx, spec("hangs"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAFailedStartCanBeRepeated(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bad := spec("script")
	bad.Settings = settings.Values(`{"greeting": 1, "gretting": "x"}`)
	for range 2 {
		_, err := h.Acquire(t.Context(), bad)
		require.ErrorContains(t, err, "setting greeting must be a string")
		require.ErrorContains(t, err, "setting gretting is unknown")
	}
}

// What failed is forgotten: once its reason is gone, the same settings start.
func TestAStartIsTriedAnew(t *testing.T) {
	t.Parallel()
	h, folder := newHost(t), filepath.Join(t.TempDir(), "folder")
	s := spec("needs-folder")
	s.Settings = settings.Values(`{"greeting": ` + strconv.Quote(folder) + `}`)
	_, err := h.Acquire(t.Context(), s)
	require.ErrorContains(t, err, "no such file")
	require.NoError(t, os.Mkdir(folder, 0o700))
	acquire(t, h, s)
}

func TestNoErrorShowsASetting(t *testing.T) {
	t.Parallel()
	s := spec("script")
	s.Settings = settings.Values(`{"key": ["sk-very-secret"]}`)
	_, err := newHost(t).Acquire(t.Context(), s)
	require.ErrorContains(t, err, "setting key")
	require.NotContains(t, err.Error(), "sk-very-secret")
}

// install puts this binary into a new plugin folder.
func install(t *testing.T, name string, mode os.FileMode) (dir, digest string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	in, err := os.Open(self)
	require.NoError(t, err)
	defer in.Close()
	dir, err = filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "fareway-provider-"+name)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, os.Chmod(path, mode))
	return dir, hex.EncodeToString(sum.Sum(nil))
}

func TestAFileInThePluginFolderRuns(t *testing.T) {
	t.Parallel()
	dir, digest := install(t, "file-only", 0o755)
	h := newHost(t)
	for _, sum := range []string{"", digest} {
		p := acquire(t, h, host.Spec{Name: "f", Source: host.Source{Plugin: "file-only", Dir: dir, SHA256: sum}})
		_, err := talk(t.Context(), p, "hello")
		require.NoError(t, err)
	}
}

func TestADigestReplacesABuiltInPlugin(t *testing.T) {
	t.Parallel()
	// The file behaves by its own name; the built-in plugin of that name dies.
	dir, digest := install(t, "script", 0o755)
	require.NoError(t, os.Rename(filepath.Join(dir, "fareway-provider-script"),
		filepath.Join(dir, "fareway-provider-dies")))
	h := newHost(t)
	_, err := h.Acquire(t.Context(), host.Spec{Name: "f", Source: host.Source{Plugin: "dies", Dir: dir}})
	require.ErrorContains(t, err, "run-plugin dies", "without a digest the built-in one is used")
	_, err = h.Acquire(t.Context(), host.Spec{Name: "f", Source: host.Source{Plugin: "dies", Dir: dir, SHA256: digest}})
	require.ErrorContains(t, err, filepath.Join(dir, "fareway-provider-dies"), "with a digest the file is")
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	find := func(t *testing.T, s host.Source) error {
		_, err := newHost(t).Schema(t.Context(), s)
		return err
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		err := find(t, host.Source{Plugin: "file-only", Dir: dir})
		require.ErrorContains(t, err, `"file-only"`)
		require.ErrorContains(t, err, "no file "+dir+"/fareway-provider-file-only")
	})
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only"}), "set plugin_dir")
	})
	t.Run("not executable", func(t *testing.T) {
		t.Parallel()
		dir, _ := install(t, "file-only", 0o644)
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: dir}), "chmod +x")
	})
	t.Run("file that others can write", func(t *testing.T) {
		t.Parallel()
		dir, _ := install(t, "file-only", 0o775)
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: dir}),
			"chmod go-w "+dir+"/fareway-provider-file-only")
	})
	t.Run("folder that others can write", func(t *testing.T) {
		t.Parallel()
		dir, _ := install(t, "file-only", 0o755)
		require.NoError(t, os.Chmod(dir, 0o777))
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: dir}), "chmod go-w "+dir)
	})
	t.Run("folder above it that others can write", func(t *testing.T) {
		t.Parallel()
		dir, digest := install(t, "file-only", 0o755)
		above := t.TempDir()
		require.NoError(t, os.Chmod(above, 0o777))
		inside := filepath.Join(above, "a", "b")
		require.NoError(t, os.MkdirAll(filepath.Dir(inside), 0o755))
		require.NoError(t, os.Rename(dir, inside))
		for _, sum := range []string{"", digest} {
			require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: inside, SHA256: sum}), "chmod go-w "+above)
		}
	})
	t.Run("link into a folder that others can write", func(t *testing.T) {
		t.Parallel()
		open, _ := install(t, "file-only", 0o755)
		require.NoError(t, os.Chmod(open, 0o777))
		dir := t.TempDir()
		require.NoError(t, os.Symlink(filepath.Join(open, "fareway-provider-file-only"),
			filepath.Join(dir, "fareway-provider-file-only")))
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: dir}), "chmod go-w "+open)
	})
	t.Run("other content than pinned", func(t *testing.T) {
		t.Parallel()
		dir, digest := install(t, "file-only", 0o755)
		err := find(t, host.Source{Plugin: "file-only", Dir: dir, SHA256: "00" + digest[2:]})
		require.ErrorContains(t, err, digest)
		require.ErrorContains(t, err, "set sha256")
	})
	t.Run("no program", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "fareway-provider-file-only"), []byte("nothing"), 0o755))
		require.ErrorContains(t, find(t, host.Source{Plugin: "file-only", Dir: dir}), "built for this machine")
	})
	t.Run("pinned, but only built in", func(t *testing.T) {
		t.Parallel()
		err := find(t, host.Source{Plugin: "script", Dir: t.TempDir(), SHA256: "00"})
		require.ErrorContains(t, err, "without sha256, the built-in script is used")
	})
}

func TestALogCannotHurtTheHost(t *testing.T) {
	t.Parallel()
	var log *strings.Builder
	h := newHost(t, func(o *host.Options) { log = capture(o) })
	acquire(t, h, spec("logs"))
	h.Close()
	require.Contains(t, log.String(), `@message`, "a line that go-plugin would panic on is logged as it is")
	require.Regexp(t, `level=WARN msg=well-formed provider=test plugin=logs a=1`, log.String())
	require.Less(t, log.Len(), 100<<10, "a line has a limit")
}

func TestStartTimeoutBoundsTheDescriptionToo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	started := time.Now()
	_, err := h.Schema(t.Context(), host.Source{Plugin: "silent", StartTimeout: 50 * time.Millisecond})
	require.ErrorContains(t, err, "it was not ready within its start_timeout of 50ms")
	require.Less(t, time.Since(started), host.DefaultStartTimeout)
}
