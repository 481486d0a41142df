package gateway

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// connectKey is a key of the right form.
func connectKey(t *testing.T) string {
	t.Helper()
	key, _, err := ledger.NewKey(rand.Reader)
	require.NoError(t, err)
	return key
}

func TestConnectPrintsWhatWorksAsPasted(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	for client, want := range map[string][]string{
		"openai":    {"export OPENAI_BASE_URL=https://gw.example/v1\n", "export OPENAI_API_KEY=" + key + "\n"},
		"anthropic": {"export ANTHROPIC_BASE_URL=https://gw.example\n", "export ANTHROPIC_AUTH_TOKEN=" + key + "\n"},
		"claude":    {`"ANTHROPIC_BASE_URL": "https://gw.example"`, "Start Claude Code with: claude\n"},
		"codex":     {`base_url = "https://gw.example/v1"`, `wire_api = "responses"`, "codex --profile fareway"},
		"opencode":  {`"baseURL": "https://gw.example/v1"`, "opencode --model fareway/service/auto"},
		"qwen":      {`"OPENAI_BASE_URL": "https://gw.example/v1"`},
		"cline":     {`"baseUrl": "https://gw.example/v1"`},
	} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			out, err := run(t, "connect", client, "--url", "https://gw.example/", "--key", key, "--home", home)
			require.NoError(t, err)
			for _, text := range want {
				require.Contains(t, out, text)
			}
			require.Contains(t, out, key)
			files, err := os.ReadDir(home)
			require.NoError(t, err)
			require.Empty(t, files, "nothing is written")
		})
	}
}

func TestConnectListsClients(t *testing.T) {
	t.Parallel()
	out, err := run(t, "connect")
	require.NoError(t, err)
	for _, c := range connectors {
		require.Contains(t, out, c.name+" ")
	}
	require.Len(t, runJSON[[]connectListView](t, "connect"), len(connectors))
}

func TestConnectWriteKeepsOtherSettingsAndUndoRestores(t *testing.T) {
	t.Parallel()
	home, key := t.TempDir(), connectKey(t)
	path := filepath.Join(home, ".claude", "settings.json")
	before := "{\"env\":{\"EDITOR\":\"vi\",\"ANTHROPIC_MODEL\":\"mine\"},\n  \"big\": 12345678901234567890, \"html\":\"<b>\"}\n"
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
	write := []string{"connect", "claude", "--key", key, "--home", home, "--write"}

	v := runJSON[connectView](t, write...)
	require.Equal(t, &connectFileView{Path: path, Written: true, Backup: path + ".fareway-backup"}, v.File)
	requireText(t, path+".fareway-backup", before)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), `"big": 12345678901234567890`)
	require.Contains(t, string(b), `"html": "<b>"`)
	var settings struct{ Env map[string]string }
	require.NoError(t, json.Unmarshal(b, &settings))
	require.Equal(t, map[string]string{"EDITOR": "vi", "ANTHROPIC_MODEL": "service/auto", "ANTHROPIC_AUTH_TOKEN": key,
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:8484", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}, settings.Env)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm(), "it holds a key")

	// A second time changes nothing about the backup.
	out, err := run(t, append(write, "--url", "http://127.0.0.1:9999")...)
	require.NoError(t, err)
	require.NotContains(t, out, key, "what is written is not shown")
	requireText(t, path+".fareway-backup", before)

	out, err = run(t, "connect", "claude", "--home", home, "--undo")
	require.NoError(t, err)
	require.Equal(t, path+" is as it was before.\n", out)
	requireText(t, path, before)
	require.Len(t, folder(t, filepath.Dir(path)), 1, "the backup and the note are gone")
	_, err = run(t, "connect", "claude", "--home", home, "--undo")
	require.ErrorIs(t, err, errNothingToUndo)
}

func TestConnectUndoRemovesANewFile(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"claude", "cline", "codex", "opencode", "qwen"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			v := runJSON[connectView](t, "connect", client, "--key", connectKey(t), "--home", home, "--write")
			require.FileExists(t, v.File.Path)
			require.Empty(t, v.File.Backup)
			v = runJSON[connectView](t, "connect", client, "--home", home, "--undo")
			require.True(t, v.File.Restored)
			require.Empty(t, folder(t, filepath.Dir(v.File.Path)))
		})
	}
}

func TestConnectUndoLeavesAChangedFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	v := runJSON[connectView](t, "connect", "codex", "--key", connectKey(t), "--home", home, "--write")
	require.NoError(t, os.WriteFile(v.File.Path, []byte("mine"), 0o600))
	_, err := run(t, "connect", "codex", "--home", home, "--undo")
	require.ErrorContains(t, err, "has been changed since it was written")
	requireText(t, v.File.Path, "mine")
}

func TestConnectFollowsLinks(t *testing.T) {
	t.Parallel()
	home, dotfiles := t.TempDir(), t.TempDir()
	real := filepath.Join(dotfiles, "qwen.json")
	require.NoError(t, os.WriteFile(real, []byte("{}"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(home, ".qwen"), 0o700))
	link := filepath.Join(home, ".qwen", "settings.json")
	require.NoError(t, os.Symlink(real, link))
	_, err := run(t, "connect", "qwen", "--key", connectKey(t), "--home", home, "--write")
	require.NoError(t, err)
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, real, target)
	b, err := os.ReadFile(real)
	require.NoError(t, err)
	require.Contains(t, string(b), "service/auto")
}

func TestConnectHonoursTheClientsOwnFolders(t *testing.T) {
	t.Parallel()
	getenv := func(name string) string { return "/elsewhere/" + strings.ToLower(name) }
	for name, want := range map[string]string{
		"claude":   "/elsewhere/claude_config_dir/settings.json",
		"codex":    "/elsewhere/codex_home/fareway.config.toml",
		"opencode": "/elsewhere/xdg_config_home/opencode/opencode.json",
		"qwen":     "/home/ann/.qwen/settings.json",
	} {
		c, err := findConnector(name)
		require.NoError(t, err)
		require.Equal(t, want, c.file(connection{}).locate("/home/ann", getenv))
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	bad := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(bad, ".qwen"), 0o700))
	comments := "{ // sk-secret\n}"
	require.NoError(t, os.WriteFile(filepath.Join(bad, ".qwen", "settings.json"), []byte(comments), 0o600))
	t.Cleanup(func() { requireText(t, filepath.Join(bad, ".qwen", "settings.json"), comments) })
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown client":    {[]string{"codx"}, `there is no client "codx": did you mean codex?`},
		"unspoken family":   {[]string{"codex", "--family", "chat"}, `Codex works with --family responses, not "chat"`},
		"no settings file":  {[]string{"openai", "--write"}, "have no settings file"},
		"no key":            {[]string{"codex", "--data", t.TempDir()}, "give a key with --key"},
		"not a key":         {[]string{"codex", "--key", `x"y`}, "that is no key of this gateway"},
		"url with a path":   {[]string{"codex", "--url", "http://gw.example/v1"}, "write scheme and host only"},
		"url without host":  {[]string{"codex", "--url", "gw.example"}, "write scheme and host only"},
		"write and undo":    {[]string{"codex", "--write", "--undo"}, "write undo"},
		"no client":         {[]string{"--write"}, "CLIENT is missing"},
		"file not readable": {[]string{"qwen", "--key", key, "--home", bad, "--write"}, "it is not one plain JSON object (comments are not read): put the settings in by hand"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, append([]string{"connect"}, c.args...)...)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "sk-secret")
		})
	}
}

func TestConnectProbe(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages" || r.Header.Get("Authorization") != "Bearer "+key {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"content":[{"type":"text","text":"Hello!\nMore."}],"usage":{"billed_microcents":1234},"error":{"message":"no credit"}}`))
	}))
	t.Cleanup(s.Close)
	args := []string{"connect", "claude", "--url", s.URL, "--key", key, "--home", t.TempDir(), "--probe"}
	out, err := run(t, args...)
	require.NoError(t, err)
	require.Contains(t, out, "One messages request was answered: Hello!\nIt cost 0.001234 cents.\n")
	require.Equal(t, &probeView{"Hello!\nMore.", 1234}, runJSON[connectView](t, args...).Probe)

	status = http.StatusPaymentRequired
	_, err = run(t, args...)
	require.ErrorContains(t, err, "no credit")
}

func requireText(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}

func folder(t *testing.T, path string) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(path)
	require.NoError(t, err)
	return files
}
