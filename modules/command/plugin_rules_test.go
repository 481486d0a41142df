package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/conformance"
)

// `plugin test` by name.
func TestPluginTestOfABuiltInProvider(t *testing.T) {
	t.Parallel()
	out, err := run(t, "plugin", "test", "echo", "--limit", "1m")
	require.NoError(t, err, out)
	require.Contains(t, out, "pass  handshake        Its first line on stdout, within 1m0s, is the handshake")
	require.Regexp(t, `skip  carried .*\n {23}it does not claim Endpoint\.\n`, out)
	require.Regexp(t, `\n\n\d\d rules: \d\d kept, 0 broken, \d skipped\.\n$`, out)
}

func TestPluginTestOfABrokenProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fareway-provider-broken")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho hello\necho out of paper >&2\nexit 3\n"), 0o700))
	args := []string{"plugin", "test", file, "--rule", "handshake", "--rule", "usage", "--limit", "1m"}
	out, err := run(t, args...)
	require.Error(t, err)
	require.Contains(t, out, `it printed "hello" on stdout before the handshake.`)
	require.Contains(t, out, "Print nothing before the line 1|1|unix|PATH|grpc|CERT")
	require.Contains(t, out, "5 rules: 0 kept, 1 broken, 4 skipped.")

	out, err = run(t, append(args, "--json")...)
	require.Error(t, err)
	var v pluginTestView
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	require.False(t, v.OK)
	require.Equal(t, file, v.Plugin)
	require.Len(t, v.Rules, 5)
	require.Equal(t, conformance.Fail, v.Rules[0].Outcome)
	require.Equal(t, conformance.Skip, v.Rules[4].Outcome)
}

func TestPluginTestTakesSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"no_usage": true}`), 0o600))
	for _, given := range []string{file, `{"no_usage": true}`} {
		out, err := run(t, "plugin", "test", "echo", "--settings", given, "--rule", "configure", "--limit", "1m")
		require.Error(t, err)
		require.Contains(t, out, "setting no_usage is unknown")
	}
}

func TestPluginTestSaysWhatIsWrongWithItsArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "broken.json")
	require.NoError(t, os.WriteFile(file, []byte("{\n\"api_key\": \"sk-secret\",\n oops}"), 0o600))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ecko"}, "did you mean echo?"},
		{[]string{"nothing-like-it"}, "name a plugin's file, or one of "},
		{[]string{filepath.Join(dir, "missing")}, "no such file"},
		{[]string{"echo", "--rule", "handshakes"}, `there is no rule "handshakes": there are by-hand,`},
		{[]string{"echo", "--settings", "missing.json"}, "write a JSON object"},
		{[]string{"echo", "--settings", file}, file + " is no JSON object (line 3)"},
		{[]string{"echo", "--settings", `{"a":`}, "--settings is no JSON object"},
		{[]string{"echo", "--limit", "0s"}, "--limit 0s: write a time above 0"},
		{nil, "FILE|NAME is missing"},
	} {
		out, err := run(t, append([]string{"plugin", "test"}, test.args...)...)
		require.ErrorContains(t, err, test.want, out)
		require.NotContains(t, err.Error(), "sk-secret")
	}
}
