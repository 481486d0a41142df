package command

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/golden"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
)

func testStarter(data string) starter {
	return starter{Data: data, Bind: "127.0.0.1", Port: "8484"}
}

func TestStarterCaddyfile(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		caddyFile: "testdata/starter.Caddyfile", listenFile: "testdata/starter.listen", adminFile: "testdata/starter.admin",
	} {
		s := testStarter("/var/lib/fareway")
		s.Admin = "10.0.0.1:2443"
		got, err := s.content(name)
		require.NoError(t, err)
		golden.Equal(t, file, got)
		require.Equal(t, string(caddyfile.Format(got)), string(got), "as `fareway fmt` writes it")
		for line := range strings.Lines(string(got)) {
			require.LessOrEqual(t, len(line), 120)
		}
	}
}

func TestStarterFilesWork(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "with a space")
	require.NoError(t, new(upRun).checkDataDir(data))
	made, err := testStarter(data).write(new(files.Changes))
	require.NoError(t, err)
	require.Equal(t, []string{"gateway.hcl", "Caddyfile"}, made)

	cfg, diags := engine.CheckConfig(t.Context(), filepath.Join(data, "gateway.hcl"), slog.New(slog.DiscardHandler))
	var text bytes.Buffer
	require.NoError(t, diags.Write(&text, false))
	require.Empty(t, text.String())
	require.Len(t, cfg.Routes, 2)
	require.Equal(t, "trial", cfg.Plans[0].Name)

	site, err := readSite(filepath.Join(data, "Caddyfile"))
	require.NoError(t, err)
	require.Equal(t, data, site.data)
	require.Equal(t, filepath.Join(data, "gateway.hcl"), site.config)
	require.Empty(t, site.admin)
	require.Equal(t, []endpoint{{url: "http://127.0.0.1:8484", dial: "127.0.0.1:8484"}}, site.public)
}

// A copy of a data folder is a gateway of its own: nothing in it points back.
func TestStarterFilesCanBeCopied(t *testing.T) {
	t.Parallel()
	data, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	_, err := testStarter(data).write(new(files.Changes))
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	site, err := readSite(filepath.Join(copied, "Caddyfile"))
	require.NoError(t, err)
	require.Equal(t, copied, site.data)
	require.Equal(t, filepath.Join(copied, "gateway.hcl"), site.config)
	require.NotContains(t, string(site.json), data)
}

func TestStarterKeepsWhatItWasTold(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	public := func(s starter) string {
		t.Helper()
		s.Data = data
		_, err := s.write(new(files.Changes))
		require.NoError(t, err)
		site, err := readSite(filepath.Join(data, "Caddyfile"))
		require.NoError(t, err)
		return site.public[0].dial + " " + site.admin
	}
	require.Equal(t, "127.0.0.1:8484 ", public(starter{Bind: "127.0.0.1", Port: "8484"}))
	require.Equal(t, "127.0.0.1:9000 ", public(starter{Port: "9000", SetListen: true}))
	require.Equal(t, "127.0.0.1:9000 127.0.0.1:9001",
		public(starter{Bind: "127.0.0.1", Port: "8484", Admin: "127.0.0.1:9001", SetAdmin: true}))
	require.Equal(t, "127.0.0.1:9000 127.0.0.1:9001", public(starter{Bind: "127.0.0.1", Port: "8484"}))
}

// The commented examples in the starter file are what people take the # from: they have to work.
func TestStarterExamplesWork(t *testing.T) {
	var out strings.Builder
	for line := range strings.Lines(string(starterHCL)) {
		rest, commented := strings.CutPrefix(line, "# ")
		code := commented && (strings.HasPrefix(rest, "  ") || strings.HasPrefix(rest, "}") ||
			strings.HasPrefix(rest, "provider ") || strings.HasPrefix(rest, "route \""))
		if code {
			line = rest
		}
		out.WriteString(line)
	}
	file := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
	t.Setenv("OPENAI_API_KEY", "sk-not-a-key")
	cfg, diags := engine.CheckConfig(t.Context(), file, slog.New(slog.DiscardHandler))
	require.NoError(t, diags.Err())
	require.Len(t, cfg.Providers, 2)
	require.Len(t, cfg.Routes, 3)
}

func TestStarterKeepsWhatExists(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	mine := []byte("# mine\n")
	require.NoError(t, os.WriteFile(filepath.Join(data, "gateway.hcl"), mine, 0o640))
	made, err := testStarter(data).write(new(files.Changes))
	require.NoError(t, err)
	require.Equal(t, []string{"Caddyfile"}, made)
	got, err := os.ReadFile(filepath.Join(data, "gateway.hcl"))
	require.NoError(t, err)
	require.Equal(t, mine, got)

	made, err = testStarter(data).write(new(files.Changes))
	require.NoError(t, err)
	require.Empty(t, made)
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 4, "no temporary file is left")
}

func TestStarterRefusesWhatACaddyfileCannotHold(t *testing.T) {
	t.Parallel()
	for _, bind := range []string{`a"b`, "a{b", "a}b", "a\nb", "a b", "a`b"} {
		_, err := starter{Data: t.TempDir(), Bind: bind, Port: "1"}.write(new(files.Changes))
		require.ErrorContains(t, err, "listen address")
		_, err = starter{Data: t.TempDir(), Admin: bind}.write(new(files.Changes))
		require.ErrorContains(t, err, "admin address")
	}
}

func TestCreateFileNeverReplaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, files.CreateFile(path, []byte("one"), 0o600))
	require.ErrorIs(t, files.CreateFile(path, []byte("two"), 0o600), os.ErrExist)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
	require.NoError(t, files.ReplaceFile(path, []byte("three")))
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "three", string(got))
}

// TestNoTrialOnALedgerOfCustomers: a folder that has a ledger and nothing else, as behind a restore, is given no
// starter's configuration, and nothing is written.
func TestNoTrialOnALedgerOfCustomers(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "fareway.db"), nil, 0o600))
	made, err := testStarter(data).write(new(files.Changes))
	require.ErrorContains(t, err, "put its gateway.hcl (and Caddyfile) into "+data)
	require.Empty(t, made)
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	// Where there is either, the operator has been here.
	require.NoError(t, os.WriteFile(filepath.Join(data, "Caddyfile"), nil, 0o600))
	made, err = testStarter(data).write(new(files.Changes))
	require.NoError(t, err)
	require.Equal(t, []string{"gateway.hcl"}, made)
}
