package command

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// withPlugins is a data folder with a running gateway that has two providers, and files in its plugin folder.
func withPlugins(t *testing.T) (data, folder string) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	broken := []byte("#!/bin/sh\necho out of paper >&2\nexit 3\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "fareway-provider-spare"), broken, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "fareway-provider-plain"), broken, 0o644))
	e := enginetest.Start(t, &config.Config{
		Gateway: config.Gateway{PluginDir: folder},
		Providers: []config.Provider{
			{Name: "local", Plugin: "echo", Settings: settings.Values("{}"), StartTimeout: time.Minute, Carry: config.CarryHost},
			{Name: "up", Plugin: "openai", Settings: settings.Values(`{"base_url": "http://127.0.0.1:1/v1"}`),
				StartTimeout: time.Minute, Carry: config.CarryHost},
		},
	}, engine.Options{})
	serve(t, e)
	return e.DataDir(), folder
}

// `plugin list` shows what the gateway has.
func TestPluginListShowsWhatTheGatewayHas(t *testing.T) {
	t.Parallel()
	data, folder := withPlugins(t)
	list := runJSON[[]admin.Plugin](t, "plugin", "list", "--data", data)
	byName := make(map[string]admin.Plugin)
	for _, p := range list {
		byName[p.Name] = p
		require.Nil(t, p.Settings, "a list has no settings")
		require.NotNil(t, p.Capabilities)
	}
	require.Equal(t, []string{"echo", "openai"}, []string{list[0].Name, list[1].Name}, "what is used comes first")
	echo := byName["echo"]
	require.True(t, echo.Builtin)
	require.Empty(t, echo.SHA256)
	require.NotEmpty(t, echo.Version)
	require.Len(t, echo.Providers, 1)
	local := echo.Providers[0]
	require.NotZero(t, local.PID)
	require.NotNil(t, local.Started)
	local.PID, local.Started, local.MemoryBytes = 0, nil, 0
	require.Equal(t, admin.PluginProvider{Name: "local", State: "ready", Ready: true, Carry: "process",
		Confined: host.Confine{}.InForce()}, local)
	require.Equal(t, "host", byName["openai"].Providers[0].Carry)

	sum := sha256.Sum256([]byte("#!/bin/sh\necho out of paper >&2\nexit 3\n"))
	require.Equal(t, admin.Plugin{Name: "spare", File: filepath.Join(folder, "fareway-provider-spare"),
		SHA256: hex.EncodeToString(sum[:]), Capabilities: []string{}, Providers: []admin.PluginProvider{}}, byName["spare"])
	require.Contains(t, byName["plain"].Problem, "chmod +x")

	out, err := run(t, "plugin", "list", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^echo +\S+ +local +ready +by itself +\S+( MiB)? +0 +0 +built in$`, out)
	require.Regexp(t, `(?m)^openai +\S+ +up +ready +by the gateway +\S+( MiB)? +0 +0 +built in$`, out)
	require.Regexp(t, `(?m)^spare +- +- +not used +- +- +- +- +`+folder+`/fareway-provider-spare$`, out)
	require.Contains(t, out, "\nPlugin plain cannot be used: "+folder+"/fareway-provider-plain is not executable; run:")
}

func TestPluginInfoShowsOne(t *testing.T) {
	t.Parallel()
	data, folder := withPlugins(t)
	out, err := run(t, "plugin", "info", "openai", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^plugin +openai, built in\n`, out)
	require.Regexp(t, `provider up +ready, calls are made by the gateway\n +process \d+ since 20`, out)
	require.Contains(t, out, "0 streams, 0 restarts\n")
	require.Contains(t, out, "\n  base_url (string")
	require.Contains(t, out, `  api_key (string, a secret: from env("NAME") or file("path") only)`)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "    ") && !strings.Contains(line, "process ") {
			require.LessOrEqual(t, len(line), 81, line)
		}
	}
	v := runJSON[admin.Plugin](t, "plugin", "info", "openai", "--data", data)
	require.NotEmpty(t, v.Settings.Attributes)
	require.Contains(t, v.Capabilities, "endpoint")

	// It is asked what it is, though nothing uses it.
	out, err = run(t, "plugin", "info", "spare", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, folder+"/fareway-provider-spare")
	require.Contains(t, out, "it ended before the handshake (exit status 3); its last words: out of paper.")

	for name, want := range map[string]string{
		"local": `the provider "local" runs the plugin "echo"`, "opneai": `did you mean "openai"?`,
		"zzzzzzzz": "there are echo, openai,",
	} {
		_, err = run(t, "plugin", "info", name, "--data", data)
		require.ErrorContains(t, err, want)
	}
}

// A file that is no longer what runs is told of.
func TestPluginListTellsOfAReplacedFile(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(folder, "fareway-provider-shelf")
	script := "#!/bin/sh\nexec '" + self + "' gateway provider echo\n"
	write := func(text string) string {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o755))
		require.NoError(t, os.Rename(file+".new", file))
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	first := write(script)
	e := enginetest.Start(t, &config.Config{
		Gateway: config.Gateway{PluginDir: folder},
		Providers: []config.Provider{{Name: "local", Plugin: "shelf", Settings: settings.Values("{}"),
			StartTimeout: time.Minute, Carry: config.CarryHost}},
	}, engine.Options{})
	serve(t, e)
	v := runJSON[admin.Plugin](t, "plugin", "info", "shelf", "--data", e.DataDir())
	require.Equal(t, first, v.SHA256)
	require.Empty(t, v.ReplacedBy)

	second := write(script + "# version 2\n")
	v = runJSON[admin.Plugin](t, "plugin", "info", "shelf", "--data", e.DataDir())
	require.Equal(t, []string{first, second}, []string{v.SHA256, v.ReplacedBy})
	for _, command := range []string{"list", "info shelf"} {
		args := append(append([]string{"plugin"}, strings.Fields(command)...), "--data", e.DataDir())
		out, err := run(t, args...)
		require.NoError(t, err)
		require.Contains(t, out, "The file of plugin shelf has changed since it was started (its sha256 is "+second+" now)")
		require.Contains(t, out, " reload` starts it, and a crash would, too.")
	}
}

func TestPluginInfoNeedsNoGateway(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	v := runJSON[admin.Plugin](t, "plugin", "info", "echo", "--data", data)
	require.True(t, v.Builtin)
	require.NotEmpty(t, v.Version)
	require.Equal(t, []string{"count_tokens"}, v.Capabilities)
	require.NotEmpty(t, v.Settings.Attributes)

	file := filepath.Join(data, "fareway-provider-dies")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho out of paper >&2\nexit 3\n"), 0o777))
	for given, want := range map[string]string{
		file: "out of paper", file + "s": "no such file", data: "is a folder: name the plugin's file",
		"nothing": "nothing is no built-in plugin and no file",
	} {
		_, err := run(t, "plugin", "info", given, "--data", data)
		require.ErrorContains(t, err, want)
	}
	_, err := run(t, "plugin", "list", "--data", data)
	require.ErrorIs(t, err, admin.ErrNoGateway)
}

func TestPluginSettingsAsDocumentation(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	printSettings(&b, admin.ViewSchema(settings.Schema{
		Attributes: []settings.Attribute{{Name: "base_url", Type: settings.String, Required: true, Doc: "Where."}},
		Blocks: []settings.Block{{Name: "retry", Many: true, Doc: "When to try again.", Schema: settings.Schema{
			Attributes: []settings.Attribute{{Name: "tokens", Type: settings.ListString, Secret: true,
				Doc: strings.Repeat("word ", 20)}},
		}}, {Name: "one", Doc: "One."}},
	}), "  ")
	require.Equal(t, `
  base_url (string, required)
    Where.

  retry (a block, may be repeated)
    When to try again.

    tokens (list(string), a secret: from env("NAME") or file("path") only)
      word word word word word word word word word word word word word word word
      word word word word word

  one (a block)
    One.
`, b.String())
}

// What a provider's health and its last crash say stands below the list.
func TestPluginListTellsOfLastWords(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	printPlugins(&b, []admin.Plugin{{Name: "hello", File: "/p/fareway-provider-hello", Providers: []admin.PluginProvider{{
		Name: "greeter", State: "unhealthy", Problem: "feeling unwell", Streams: 3, Restarts: 2, MemoryBytes: 3 << 19,
		LastCrash: &admin.Crash{At: at, Cause: "crash",
			Why: "its process died (exit status 7); its last words: out of paper"},
	}}}})
	require.Contains(t, b.String(), "unhealthy  by itself  1.5 MiB  3        2")
	require.Contains(t, b.String(), "\nProvider greeter is not healthy: feeling unwell.\n"+
		"Provider greeter crashed at 2026-11-22 18:00:00 UTC: its process died (exit status 7); its last words: out of "+
		"paper.\n")
}

// What failed by cause, and what was broken of the protocol.
func TestPluginListTellsOfFailuresAndViolations(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	p := admin.PluginProvider{Name: "greeter", State: "ready", PID: 7, Started: &at, MemoryBytes: 3 << 20,
		MaxMemoryBytes: 1 << 30, Failures: map[string]int{"memory": 1, "crash": 2},
		LastCrash:  &admin.Crash{At: at, Cause: "memory", Why: "it took 1.1 GiB"},
		Violations: map[string]int{"order": 10, "late": 2}, LastViolation: "usage came with a negative count"}
	require.Equal(t, []string{
		"Provider greeter took too much memory at 2026-11-22 18:00:00 UTC (the last of 3 failures: 2 crash, 1 memory): it " +
			"took 1.1 GiB.",
		"Provider greeter broke the plugin protocol 12 times (2 late, 10 order), the last time so: usage came with a " +
			"negative count.",
	}, providerNotes(p))
	var b strings.Builder
	printPlugin(&b, admin.Plugin{Name: "hello", Providers: []admin.PluginProvider{p}})
	require.Contains(t, b.String(), "process 7 since 2026-11-22 18:00:00 UTC, 3.0 MiB of memory (max_memory 1024.0 MiB)\n")
	p.Confined, p.Unconfined = []string{"no new privileges", "max_files 9"}, []string{"user: not here"}
	require.Contains(t, providerNotes(p), "Provider greeter is not confined as written, without user: not here.")
	printPlugin(&b, admin.Plugin{Name: "hello", Providers: []admin.PluginProvider{p}})
	require.Contains(t, b.String(), "confined: no new privileges, max_files 9\n")
	p.Unconfined = nil
	p.LastCrash.Cause = "one of a later gateway"
	require.Contains(t, providerNotes(p)[0], "Provider greeter failed at ")
	for cause, want := range map[string]string{"crash": "crashed", "hang": "hung", "protocol": "was replaced",
		"slow_start": "did not start in time", "handshake": "did not start", "start": "did not start"} {
		p.LastCrash.Cause = cause
		require.Contains(t, providerNotes(p)[0], "Provider greeter "+want+" at ")
	}
}

// Status tells how each provider does, in a line.
func TestStatusTellsHowProvidersDo(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	for want, p := range map[string]admin.Provider{
		"ready": {State: "ready", Ready: true},
		"ready (the gateway makes its calls; its process is restarting), 2 restarts, the last failure (hang) at " +
			"2026-11-22 18:00:00 UTC; `fareway gateway plugin list` tells more": {State: "restarting", Ready: true, Restarts: 2,
			LastCrash: &admin.Crash{At: at, Cause: "hang", Why: "it hung"}},
		"unhealthy: feeling unwell, 1 restart": {State: "unhealthy", Problem: "feeling unwell.", Restarts: 1},
		"starting":                             {State: "starting"},
	} {
		require.Equal(t, want, providerState(p))
	}
}
