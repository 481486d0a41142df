package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// nowhere is an address at which nobody listens: a gateway at the usual one would answer.
const nowhere = "http://127.0.0.1:1"

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
	for _, c := range connect.Clients {
		require.Contains(t, out, c.Name+" ")
	}
	require.Len(t, runJSON[[]connectListView](t, "connect"), len(connect.Clients))
}

func TestConnectWriteKeepsOtherSettingsAndUndoRestores(t *testing.T) {
	t.Parallel()
	home, key := t.TempDir(), connectKey(t)
	path := filepath.Join(home, ".claude", "settings.json")
	before := "{\"env\":{\"EDITOR\":\"vi\",\"ANTHROPIC_MODEL\":\"mine\"},\n  \"big\": 12345678901234567890, " +
		"\"html\":\"<b>\"}\n"
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
	write := []string{"connect", "claude", "--url", nowhere, "--key", key, "--home", home, "--write"}

	v := runJSON[connectView](t, write...)
	require.Equal(t, &connectFileView{Path: path, Written: true, Backup: path + ".fareway-backup"}, v.File)
	requireText(t, path+".fareway-backup", before)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), `"big": 12345678901234567890`)
	require.Contains(t, string(b), `"html":"<b>"`, "the form stays")
	var settings struct{ Env map[string]string }
	require.NoError(t, json.Unmarshal(b, &settings))
	require.Equal(t, map[string]string{"EDITOR": "vi", "ANTHROPIC_MODEL": "service/auto", "ANTHROPIC_AUTH_TOKEN": key,
		"ANTHROPIC_BASE_URL": nowhere, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"CLAUDE_CODE_ATTRIBUTION_HEADER": "0", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "16384"}, settings.Env)
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
	require.ErrorIs(t, err, connect.ErrNothingToUndo)
}

// Where no gateway runs and nothing says where one will, it is where `up` would listen.
func TestConnectKnowsTheUsualAddress(t *testing.T) {
	t.Parallel()
	require.Equal(t, endpoint{url: "http://127.0.0.1:8484", dial: "127.0.0.1:8484"},
		publicAddress(t.Context(), t.TempDir()))
}

// What a client wrote between two writes of ours is in no backup.
func TestConnectUndoKeepsWhatCameBetweenTwoWrites(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", `{"theme":"dark"}`} {
		home := t.TempDir()
		path := filepath.Join(home, ".claude", "settings.json")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if before != "" {
			require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		}
		write := []string{"connect", "claude", "--url", nowhere, "--key", connectKey(t), "--home", home, "--write"}
		runJSON[connectView](t, write...)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		var file map[string]any
		require.NoError(t, json.Unmarshal(b, &file))
		file["between"] = true
		b, err = json.Marshal(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o600))

		runJSON[connectView](t, write...)
		runJSON[connectView](t, write...)
		v := runJSON[connectView](t, "connect", "claude", "--home", home, "--undo")
		require.True(t, v.File.Restored)
		b, err = os.ReadFile(path)
		require.NoError(t, err)
		want := `{"between":true}`
		if before != "" {
			want = `{"between":true,"theme":"dark"}`
		}
		require.JSONEq(t, want, string(b))
		require.Len(t, folder(t, filepath.Dir(path)), 1, "the backup and the note are gone")
	}
}

func TestConnectUndoRemovesANewFile(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"claude", "cline", "codex", "opencode", "qwen"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			v := runJSON[connectView](t, "connect", client, "--url", nowhere, "--key", connectKey(t), "--home", home, "--write")
			require.FileExists(t, v.File.Path)
			require.Empty(t, v.File.Backup)
			v = runJSON[connectView](t, "connect", client, "--home", home, "--undo")
			require.True(t, v.File.Restored)
			require.Empty(t, folder(t, filepath.Dir(v.File.Path)))
		})
	}
}

// Clients write to their files, too: what they wrote stays, and what is not to be read stays whole.
func TestConnectUndoAfterTheClientWrote(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	for name, tt := range map[string]struct {
		client, path        string
		before, now, undone string // %s is the key; "" for no file
		kept                []string
	}{
		"claude writes in its own form": {"claude", ".claude/settings.json",
			`{"env":{"ANTHROPIC_MODEL":"mine"}}`,
			"{\n  \"theme\": \"dark\",\n  \"env\": {\n    \"ANTHROPIC_AUTH_TOKEN\": \"%s\",\n    \"ANTHROPIC_BASE_URL\": " +
				"\"http://gw\",\n    \"ANTHROPIC_MODEL\": \"service/auto\",\n    \"MINE\": \"1\"\n  }\n}\n",
			"{\n  \"theme\": \"dark\",\n  \"env\": {\n    \"ANTHROPIC_MODEL\": \"mine\",\n    \"MINE\": \"1\"\n  }\n}\n", nil},
		"claude adds to a new file": {"claude", ".claude/settings.json", "",
			`{"env":{"ANTHROPIC_AUTH_TOKEN":"%s"},"theme":"dark"}`, `{"theme":"dark"}`, nil},
		"claude writes the same": {"claude", ".claude/settings.json", "",
			`{"env":{"ANTHROPIC_MODEL":"service/auto","ANTHROPIC_AUTH_TOKEN":"%s"}}`, "", nil},
		"comments": {"qwen", ".qwen/settings.json", "{\n  // mine\n  \"ui\": {},\n}\n",
			"{\n  // mine\n  \"ui\": {\"theme\": \"x\"}, // new\n  \"model\": {\"name\": \"service/auto\"}, /* %s */\n}\n",
			"{\n  // mine\n  \"ui\": {\"theme\": \"x\"}, // new\n /* %s */\n}\n", nil},
		"a model that somebody has chosen since": {"qwen", ".qwen/settings.json", "",
			`{"model":{"name":"other"},"env":{"OPENAI_API_KEY":"%s"}}`, `{"model":{"name":"other"}}`, []string{"model.name"}},
		"codex adds a table": {"codex", ".codex/fareway.config.toml", "",
			"model = \"service/auto\" # mine\nmodel_provider = \"fareway\"\n\n[projects.\"/x\"]\ntrust_level = " +
				"\"trusted\"\n\n[model_providers.fareway]\nname = \"Fareway\"\nexperimental_bearer_token = \"%s\"\n",
			"[projects.\"/x\"]\ntrust_level = \"trusted\"\n", nil},
		"cline writes its entry again": {"cline", ".cline/data/settings/providers.json",
			`{"version":1,"lastUsedProvider":"cline","providers":{"cline":{"a":1}}}`,
			`{"version":1,"lastUsedProvider":"openai-compatible","providers":{"cline":{"a":2},` +
				`"openai-compatible":{"settings":{"apiKey":"%s","x":1},"updatedAt":"now"}}}`,
			`{"version":1,"lastUsedProvider":"cline","providers":{"cline":{"a":2}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			path := filepath.Join(home, filepath.FromSlash(tt.path))
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			if tt.before != "" {
				require.NoError(t, os.WriteFile(path, []byte(tt.before), 0o640))
			}
			write := []string{"connect", tt.client, "--key", key, "--url", "http://gw", "--home", home, "--context-window",
				"9000", "--write"}
			runJSON[connectView](t, write...)
			runJSON[connectView](t, write...) // a second time changes nothing about what is undone
			require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(tt.now, "%s", key)), 0o600))
			v := runJSON[connectView](t, "connect", tt.client, "--home", home, "--undo")
			require.Equal(t, tt.kept, v.File.Kept)
			if tt.undone == "" {
				require.Empty(t, folder(t, filepath.Dir(path)))
				return
			}
			requireText(t, path, strings.ReplaceAll(tt.undone, "%s", key))
			info, err := os.Stat(path)
			require.NoError(t, err)
			if tt.before != "" {
				require.EqualValues(t, 0o640, info.Mode().Perm(), "the mode that it had")
			}
			require.Len(t, folder(t, filepath.Dir(path)), 1, "the backup and the note are gone")
		})
	}
	t.Run("a mode that somebody has set since", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		path := filepath.Join(home, ".claude", "settings.json")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("{}"), 0o640))
		runJSON[connectView](t, "connect", "claude", "--url", nowhere, "--key", key, "--home", home, "--write")
		require.NoError(t, os.WriteFile(path, []byte(`{"x":1}`), 0o600))
		require.NoError(t, os.Chmod(path, 0o604))
		out, err := run(t, "connect", "claude", "--home", home, "--undo")
		require.NoError(t, err)
		require.Contains(t, out, "what others have written there since is still there")
		requireText(t, path, `{"x":1}`)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o604, info.Mode().Perm())
	})
	t.Run("another family the second time", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		write := []string{"connect", "qwen", "--url", nowhere, "--key", key, "--home", home, "--write"}
		v := runJSON[connectView](t, write...)
		runJSON[connectView](t, append(write, "--family", "messages")...)
		b, err := os.ReadFile(v.File.Path)
		require.NoError(t, err)
		require.NotContains(t, string(b), "OPENAI_")
		require.NoError(t, os.WriteFile(v.File.Path, append(b, '\n'), 0o600))
		runJSON[connectView](t, "connect", "qwen", "--home", home, "--undo")
		require.Empty(t, folder(t, filepath.Dir(v.File.Path)))
	})
	t.Run("what cannot be read stays", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		v := runJSON[connectView](t, "connect", "codex", "--url", nowhere, "--key", key, "--home", home, "--write")
		require.NoError(t, os.WriteFile(v.File.Path, []byte("mine"), 0o600))
		_, err := run(t, "connect", "codex", "--home", home, "--undo")
		require.ErrorContains(t, err, "it is not TOML: take the settings out by hand, then remove")
		requireText(t, v.File.Path, "mine")
	})
	t.Run("the note of an earlier version", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		v := runJSON[connectView](t, "connect", "codex", "--url", nowhere, "--key", key, "--home", home, "--write")
		b, err := os.ReadFile(v.File.Path)
		require.NoError(t, err)
		note := fmt.Sprintf(`{"existed":false,"written":"%x"}`, sha256.Sum256(b))
		require.NoError(t, os.WriteFile(v.File.Path+".fareway-undo", []byte(note), 0o600))
		require.NoError(t, os.WriteFile(v.File.Path, append(b, '\n'), 0o600))
		_, err = run(t, "connect", "codex", "--home", home, "--undo")
		require.ErrorContains(t, err, "has been changed since an earlier version wrote it")
		require.NoError(t, os.WriteFile(v.File.Path, b, 0o600))
		runJSON[connectView](t, "connect", "codex", "--home", home, "--undo")
		require.Empty(t, folder(t, filepath.Dir(v.File.Path)))
	})
}

// A connection that does not work changes nothing.
func TestConnectProbeFails(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write([]byte(`{"error":{"message":"no credit"}}`))
	}))
	t.Cleanup(s.Close)
	home := t.TempDir()
	path := filepath.Join(home, ".qwen", "settings.json")
	write := []string{"connect", "qwen", "--key", key, "--url", s.URL, "--home", home, "--write", "--probe"}
	_, err := run(t, write...)
	require.ErrorContains(t, err, "no credit: "+path+" is as it was")
	require.NoDirExists(t, filepath.Dir(path))

	runJSON[connectView](t, "connect", "qwen", "--key", key, "--url", "http://first", "--home", home, "--write")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = run(t, write...)
	require.ErrorContains(t, err, "no credit")
	requireText(t, path, string(before))
	runJSON[connectView](t, "connect", "qwen", "--home", home, "--undo")
	require.Empty(t, folder(t, filepath.Dir(path)))
}

// What a client is told of its context window is what the gateway says.
func TestConnectContextWindow(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	reply := `{"data":[{"id":"other","context_length":5},{"id":"service/auto","context_length":123456}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+r.URL.Path != "GET/v1/models" || r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(reply))
	}))
	t.Cleanup(s.Close)
	for client, want := range map[string]string{
		"claude":   `"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "123456"`,
		"codex":    "model_context_window = 123456\n",
		"opencode": `"context": 123456`,
		"qwen":     `"contextWindowSize": 123456`,
		"cline":    `"contextWindow": 123456`,
	} {
		v := runJSON[connectView](t, "connect", client, "--key", key, "--url", s.URL, "--home", t.TempDir())
		require.EqualValues(t, 123456, v.ContextWindow)
		require.Contains(t, v.File.Content, want, client)
		require.Empty(t, v.Warnings)
	}
	for name, tt := range map[string]struct{ url, reply, says string }{
		"nobody":        {nowhere, "", "connection refused"},
		"another model": {s.URL, `{"data":[{"id":"other","context_length":5}]}`, "GET /v1/models has no service/auto"},
		"no list":       {s.URL, "hello", "GET /v1/models got no list of models"},
	} {
		reply = tt.reply
		v := runJSON[connectView](t, "connect", "claude", "--key", key, "--url", tt.url, "--home", t.TempDir())
		require.Zero(t, v.ContextWindow, name)
		require.NotContains(t, v.File.Content, "CONTEXT")
		require.Len(t, v.Warnings, 1)
		require.Contains(t, v.Warnings[0], tt.says)
		require.Contains(t, v.Warnings[0], "--context-window TOKENS")
	}
	out, err := run(t, "connect", "claude", "--key", connectKey(t), "--url", s.URL, "--home", t.TempDir())
	require.NoError(t, err)
	require.Contains(t, out, "Warning: the client will guess its context window")
	require.Contains(t, out, "401")
}

func TestConnectTellsOfForeignKeys(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	to := connect.Gateway{URL: "http://gw", Key: key, Family: "messages"}
	foreign := func(name string) string {
		return map[string]string{"ANTHROPIC_API_KEY": "sk-secret", "OPENAI_API_KEY": "sk-secret"}[name]
	}
	warnings := func(client, family string, getenv func(string) string, content string) []string {
		c, err := connect.Find(client)
		require.NoError(t, err)
		to.Family = family
		f := connect.File{}
		if c.File != nil {
			f = c.File(to)
		}
		all := c.Warnings(to, getenv, nil, f, []byte(content))
		for _, w := range all {
			require.NotContains(t, w, "sk-secret")
		}
		return all
	}
	none := func(string) string { return "" }
	for _, client := range []string{"claude", "anthropic"} {
		got := warnings(client, "messages", foreign, "")
		require.Len(t, got, 1, client)
		require.Contains(t, got[0], "ANTHROPIC_API_KEY is set in your environment")
		require.Contains(t, got[0], "would send it to the gateway")
		require.Contains(t, got[0], "`unset ANTHROPIC_API_KEY`")
	}
	got := warnings("claude", "messages", none, `{"env":{"ANTHROPIC_API_KEY":"sk-secret"}}`)
	require.Len(t, got, 1)
	require.Contains(t, got[0], "ANTHROPIC_API_KEY is set in the client's settings file")
	require.Contains(t, warnings("qwen", "chat", foreign, "")[0],
		"OPENAI_API_KEY is set in your environment, and Qwen Code would use it in place")
	require.Contains(t, warnings("qwen", "messages", foreign, "")[0], "ANTHROPIC_API_KEY is set in your environment")
	require.Empty(t, warnings("claude", "messages", func(string) string { return key },
		`{"env":{"ANTHROPIC_API_KEY":"`+key+`"}}`), "it is this gateway's")
	require.Empty(t, warnings("qwen", "chat", none, string(must(connectFileOf(t, "qwen", to).Content()))))
	require.Empty(t, warnings("codex", "responses", foreign, ""))
	for variable, client := range map[string]string{"CLAUDE_CODE_USE_BEDROCK": "claude",
		"CLAUDE_CODE_USE_VERTEX": "claude", "QWEN_CODE_SIMPLE": "qwen"} {
		set := func(name string) string { return map[string]string{variable: "1"}[name] }
		require.Len(t, warnings(client, "messages", set, ""), 1, variable)
	}

	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".claude"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".claude", "settings.json"),
		[]byte(`{"env":{"ANTHROPIC_API_KEY":"sk-secret"}}`), 0o600))
	for _, write := range [][]string{nil, {"--write"}} {
		out, err := run(t, append([]string{"connect", "claude", "--url", nowhere, "--key", key, "--home", home,
			"--context-window", "5"}, write...)...)
		require.NoError(t, err)
		require.Contains(t, out, "Warning: ANTHROPIC_API_KEY is set in the client's settings file")
	}
}

// Claude Code also sends the key that its login has kept, and the one that a program of the person's prints.
func TestConnectTellsOfKeptKeys(t *testing.T) {
	t.Parallel()
	home, key := t.TempDir(), connectKey(t)
	put := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(content), 0o600))
	}
	connectClaude := func(more ...string) string {
		args := []string{"connect", "claude", "--url", nowhere, "--key", key, "--home", home, "--context-window", "5"}
		out, err := run(t, append(args, more...)...)
		require.NoError(t, err)
		require.NotContains(t, out, "sk-secret")
		return out
	}
	require.NotContains(t, connectClaude(), "is set in")
	require.Contains(t, connectClaude(), "not in shell profiles")
	put(".claude.json", `{"primaryApiKey":"sk-secret"}`)
	put(".claude/settings.json", `{"apiKeyHelper":"echo sk-secret"}`)
	for _, out := range []string{connectClaude(), connectClaude("--write")} {
		require.Contains(t, out, "Warning: apiKeyHelper is set in the client's settings file, and Claude Code would send it")
		require.Contains(t, out, "Warning: primaryApiKey is set in "+filepath.Join(home, ".claude.json"))
	}
}

func connectFileOf(t *testing.T, client string, to connect.Gateway) connect.File {
	t.Helper()
	c, err := connect.Find(client)
	require.NoError(t, err)
	return c.File(to)
}

func must[T any](v T, _ error) T { return v }

func TestConnectFollowsLinks(t *testing.T) {
	t.Parallel()
	home, dotfiles := t.TempDir(), t.TempDir()
	real := filepath.Join(dotfiles, "qwen.json")
	require.NoError(t, os.WriteFile(real, []byte("{}"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(home, ".qwen"), 0o700))
	link := filepath.Join(home, ".qwen", "settings.json")
	require.NoError(t, os.Symlink(real, link))
	_, err := run(t, "connect", "qwen", "--url", nowhere, "--key", connectKey(t), "--home", home, "--write")
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
	for client, byVariable := range map[string]map[string]string{
		"claude": {
			"":                              "/home/ann/.claude/settings.json",
			"CLAUDE_CONFIG_DIR=/elsewhere":  "/elsewhere/settings.json",
			"CLAUDE_CONFIG_DIR= /elsewhere": "/elsewhere/settings.json",
			"CLAUDE_CONFIG_DIR= ":           "/home/ann/.claude/settings.json",
		},
		"codex": {
			"":                      "/home/ann/.codex/fareway.config.toml",
			"CODEX_HOME=/elsewhere": "/elsewhere/fareway.config.toml",
		},
		"opencode": {
			"":                           "/home/ann/.config/opencode/opencode.json",
			"XDG_CONFIG_HOME=/elsewhere": "/elsewhere/opencode/opencode.json",
		},
		"qwen": {
			"":                      "/home/ann/.qwen/settings.json",
			"QWEN_HOME=/elsewhere":  "/elsewhere/settings.json",
			"QWEN_HOME=~/qwen":      "/home/ann/qwen/settings.json",
			"QWEN_HOME=~":           "/home/ann/settings.json",
			"QWEN_HOME=~bob":        "~bob/settings.json",
			"CLAUDE_CONFIG_DIR=/no": "/home/ann/.qwen/settings.json",
		},
		"cline": {
			"":                                    "/home/ann/.cline/data/settings/providers.json",
			"CLINE_DIR=/elsewhere":                "/elsewhere/data/settings/providers.json",
			"CLINE_DATA_DIR=/elsewhere":           "/elsewhere/settings/providers.json",
			"CLINE_DATA_DIR=/data;CLINE_DIR=/dir": "/data/settings/providers.json",
			"CLINE_PROVIDER_SETTINGS_PATH=/some.json;CLINE_DATA_DIR=/data": "/some.json",
		},
	} {
		c, err := connect.Find(client)
		require.NoError(t, err)
		for set, want := range byVariable {
			variables := map[string]string{}
			for v := range strings.SplitSeq(set, ";") {
				name, value, _ := strings.Cut(v, "=")
				variables[name] = value
			}
			getenv := func(name string) string { return variables[name] }
			file := c.File(connect.Gateway{Family: c.Families[0]})
			require.Equal(t, want, file.Locate("/home/ann", getenv), "%s %s", client, set)
		}
	}
}

// Qwen Code reads where its home is from a file, too.
func TestConnectReadsTheClientsVariableFiles(t *testing.T) {
	t.Parallel()
	for _, file := range []string{".qwen/.env", ".env"} {
		home := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(home, ".qwen"), 0o700))
		text := "# QWEN_HOME=no\nOTHER=1\nexport QWEN_HOME = \"~/mine\" # here\n"
		require.NoError(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
		v := runJSON[connectView](t, "connect", "qwen", "--url", nowhere, "--key", connectKey(t), "--home", home, "--write")
		require.Equal(t, filepath.Join(home, "mine/settings.json"), v.File.Path)
		require.FileExists(t, v.File.Path)
		runJSON[connectView](t, "connect", "qwen", "--home", home, "--undo")
		require.NoFileExists(t, v.File.Path)
	}
}

// What Qwen Code finds in its files of variables outranks its settings file.
func TestConnectTellsOfForeignKeysInVariableFiles(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	for file, others := range map[string]map[string]string{
		".qwen/.env": {}, ".env": {}, "mine/.env": {".env": "QWEN_HOME=~/mine\n"},
	} {
		home := t.TempDir()
		others[file] += "OPENAI_API_KEY=sk-secret\nOPENAI_MODEL=service/auto\nANTHROPIC_API_KEY=sk-secret\n"
		for name, text := range others {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
		}
		out, err := run(t, "connect", "qwen", "--key", key, "--home", home, "--context-window", "5", "--write",
			"--url", nowhere)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(out, "Warning: "), out)
		require.Contains(t, out, "Warning: OPENAI_API_KEY is set in "+filepath.Join(home, file)+
			", and Qwen Code would use it in place of what is in its settings file: take it out there.\n")
		require.NotContains(t, out, "sk-secret")
	}
	c, err := connect.Find("qwen")
	require.NoError(t, err)
	moved := func(name string) string { return map[string]string{"QWEN_HOME": "/q"}[name] }
	require.Equal(t, []string{"/q/.env", "/h/.qwen/.env", "/h/.env"}, c.VariableFiles("/h", moved))
	path := filepath.Join(t.TempDir(), ".env")
	require.NoError(t, os.WriteFile(path, []byte("OPENAI_API_KEY=sk-secret"), 0o600))
	to := connect.Gateway{Key: key, Family: "chat"}
	ours := func(name string) string { return map[string]string{"OPENAI_API_KEY": key}[name] }
	require.Empty(t, c.Warnings(to, ours, []string{path}, connect.File{}, nil), "the environment outranks the file")
	require.Len(t, c.Warnings(to, func(string) string { return "" }, []string{path}, connect.File{}, nil), 1)
}

// A client that limits its replies holds less of a balance.
func TestConnectLimitsReplies(t *testing.T) {
	t.Parallel()
	connectTo := func(client string, more ...string) connectView {
		return runJSON[connectView](t, append([]string{"connect", client, "--key", connectKey(t), "--home", t.TempDir(),
			"--url", nowhere}, more...)...)
	}
	for client, text := range map[string]string{
		"claude":   `"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "%s"`,
		"qwen":     `"QWEN_CODE_MAX_OUTPUT_TOKENS": "%s"`,
		"opencode": `"output": %s`,
	} {
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"--context-window", "200000"}, "16384"},
			{[]string{"--context-window", "20000"}, "5000"},
			{[]string{"--context-window", "200000", "--max-output", "50000"}, "50000"},
		} {
			v := connectTo(client, tt.args...)
			require.Contains(t, v.File.Content, strings.Replace(text, "%s", tt.want, 1))
			require.Equal(t, tt.want, fmt.Sprint(v.MaxOutputTokens))
		}
	}
	require.EqualValues(t, 16_384, connectTo("claude").MaxOutputTokens, "nobody says the window")
	require.EqualValues(t, 1, connect.OutputLimit(3))
	for _, client := range []string{"codex", "cline"} {
		v := connectTo(client)
		require.Zero(t, v.MaxOutputTokens)
		require.Contains(t, v.Note, "It has no setting for the longest reply")
	}
}

// Editors on Windows put a mark before UTF-8: the file is read, keeps it, and is as it was after an undo.
func TestConnectKeepsAByteOrderMark(t *testing.T) {
	t.Parallel()
	for client, before := range map[string]string{
		"claude": "\uFEFF{\r\n  \"a\": 1\r\n}\r\n", "codex": "\uFEFFa = 1\r\n",
	} {
		home := t.TempDir()
		c, err := connect.Find(client)
		require.NoError(t, err)
		path := filepath.Join(home, c.File(connect.Gateway{}).Path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		runJSON[connectView](t, "connect", client, "--url", nowhere, "--key", connectKey(t), "--home", home, "--write")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(b), "\uFEFF"))
		require.True(t, strings.HasPrefix(string(b), "\uFEFF"))
		require.Contains(t, string(b), "service/auto")
		require.Contains(t, string(b), "\r\n")
		runJSON[connectView](t, "connect", client, "--home", home, "--undo")
		requireText(t, path, before)
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	key := connectKey(t)
	bad := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(bad, ".qwen"), 0o700))
	list := "[\"sk-secret\"]"
	require.NoError(t, os.WriteFile(filepath.Join(bad, ".qwen", "settings.json"), []byte(list), 0o600))
	t.Cleanup(func() { requireText(t, filepath.Join(bad, ".qwen", "settings.json"), list) })
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"negative output":  {[]string{"claude", "--max-output", "-1"}, "--max-output -1: write a number of tokens"},
		"no such setting":  {[]string{"codex", "--max-output", "100"}, "there is no setting for it in Codex"},
		"unknown client":   {[]string{"codx"}, `there is no client "codx": did you mean codex?`},
		"unspoken family":  {[]string{"codex", "--family", "chat"}, `Codex works with --family responses, not "chat"`},
		"no settings file": {[]string{"openai", "--write"}, "there is no settings file of OpenAI"},
		"no key":           {[]string{"codex", "--data", t.TempDir()}, "give a key with --key"},
		"not a key":        {[]string{"codex", "--key", `x"y`}, "that is no key of this gateway"},
		"url with a path":  {[]string{"codex", "--url", "http://gw.example/v1"}, "write scheme and host only"},
		"url without host": {[]string{"codex", "--url", "gw.example"}, "write scheme and host only"},
		"write and undo":   {[]string{"codex", "--write", "--undo"}, "--undo and --write do not go together"},
		"negative window":  {[]string{"codex", "--context-window", "-5"}, "write a number of tokens"},
		"no client":        {[]string{"--write"}, "CLIENT is missing"},
		"file not readable": {[]string{"qwen", "--url", nowhere, "--key", key, "--home", bad, "--write"},
			"it is not a JSON object: put the settings in by hand"},
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
		_,
			_ = w.Write(
			[]byte(
				`{"content":[{"type":"text","text":"Hello!\nMore."}],"usage":{"billed_microcents":1234},"error":{"message":"no ` +
					`credit"}}`))
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
