package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/human"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// run runs `fareway gateway ARGS` in this process, and returns all that it writes.
func run(t *testing.T, args ...string) (written string, err error) {
	t.Helper()
	var all bytes.Buffer
	err = runInto(t, &all, &all, args)
	return all.String(), err
}

// runApart is run with what goes to the terminal beside the output apart.
func runApart(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, beside bytes.Buffer
	err = runInto(t, &out, &beside, args)
	return out.String(), beside.String(), err
}

func runInto(t *testing.T, stdout, stderr io.Writer, args []string) error {
	t.Helper()
	root := &cobra.Command{Use: "fareway", SilenceUsage: true, SilenceErrors: true}
	cmd := &cobra.Command{}
	setUpCommand(cmd)
	root.AddCommand(cmd)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(append([]string{"gateway"}, args...))
	return root.ExecuteContext(t.Context())
}

func runJSON[T any](t *testing.T, args ...string) T {
	t.Helper()
	out, _, err := runApart(t, append(args, "--json")...)
	require.NoError(t, err, out)
	var v T
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	return v
}

// serve serves the engine's admin API on the socket in its data folder.
func serve(t *testing.T, e *engine.Engine) {
	t.Helper()
	path, err := gateway.MakeSocketPath(e.DataDir(), gateway.AdminSocket)
	require.NoError(t, err)
	l := &admin.Listener{Listen: "unix/" + path}
	require.NoError(t, l.Start(e.DataDir(), e, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { require.NoError(t, l.Cleanup()) })
}

// running is a data folder with a running gateway's admin API.
func running(t *testing.T) (string, *engine.Engine) {
	t.Helper()
	e := enginetest.New(t, nil)
	serve(t, e)
	return e.DataDir(), e
}

func TestCommandSession(t *testing.T) {
	t.Parallel()
	data, _ := running(t)

	out, err := run(t, "account", "create", "bob", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "fareway gateway credit add --account bob 1000 --data "+data+"\n",
		"what it tells works as pasted")
	account := runJSON[map[string]any](t, "account", "create", "ann", "--plan", "starter", "--data", data)
	require.Equal(t, "ann", account["name"])
	require.Equal(t, "starter", account["plan"])
	require.Equal(t, "active", account["state"])

	key := runJSON[map[string]any](t, "key", "create", "--account", "ann", "--name", "laptop", "--data", data)
	for _, field := range []string{"id", "name", "account", "last4", "key"} {
		require.NotEmpty(t, key[field], field)
	}
	require.Equal(t, "ann", key["account"])
	keys := runJSON[[]map[string]any](t, "key", "list", "--data", data)
	require.Len(t, keys, 1)
	require.NotContains(t, keys[0], "key")

	credit := []string{"credit", "add", "--account", "ann", "1000", "--reference", "r1", "--data", data}
	out, err = run(t, credit...)
	require.NoError(t, err)
	require.Equal(t, "Added 1,000 credits (US$10.00) to account ann.\nIts balance is 1,000 credits (US$10.00).\n", out)
	out, err = run(t, credit...)
	require.NoError(t, err)
	require.Contains(t, out, "Nothing was changed: account ann has reference r1 already.")
	require.Equal(t, false, runJSON[map[string]any](t, credit...)["applied"])

	for verb, state := range map[string]string{"suspend": "suspended", "deactivate": "inactive", "activate": "active"} {
		out, err = run(t, "account", verb, "ann", "--data", data)
		require.NoError(t, err)
		require.Equal(t, "Account ann is "+state+".\n", out)
	}

	out, err = run(t, "key", "revoke", key["id"].(string), "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "is revoked")

	out, err = run(t, "account", "show", "ann", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "1,000 credits (US$10.00)")
	require.Len(t, runJSON[[]any](t, "account", "list", "--data", data), 2)
	require.Contains(t, runJSON[map[string]any](t, "status", "--data", data), "ready")

	verified := runJSON[map[string]any](t, "ledger", "verify", "--data", data)
	require.Equal(t, true, verified["ok"])
	require.EqualValues(t, 1, verified["entries"])
}

func TestCommandListsAreArrays(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	for _, what := range []string{"account", "key"} {
		out, err := run(t, what, "list", "--data", data, "--json")
		require.NoError(t, err)
		require.Equal(t, "[]\n", out)
	}
}

func TestCommandMistakes(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"command":    {[]string{"acount"}, "did you mean `fareway gateway account`?"},
		"subcommand": {[]string{"account", "remove", "ann"}, `no command "remove"`},
		"flag":       {[]string{"status", "--jsno"}, "`fareway gateway status --help`"},
		"no name":    {[]string{"account", "create"}, "NAME is missing"},
		"two names":  {[]string{"account", "create", "a", "b"}, `"b" is one argument too many`},
		"credits":    {[]string{"credit", "add", "--account", "ann", "ten", "--data", data}, "whole number"},
		"fraction":   {[]string{"credit", "add", "--account", "ann", "1.5", "--data", data}, "whole number"},
		"key without": {[]string{"key", "create"},
			"--account is missing, as in `fareway gateway key create --account NAME --name NAME"},
		"key without name": {[]string{"key", "create", "--account", "ann"}, "--name is missing"},
		"subcommand's flag": {[]string{"account", "shwo", "ann", "--data", data},
			"did you mean `fareway gateway account show`?"},
		"too many credits": {[]string{"credit", "add", "--account", "ann", "2000000000", "--yes", "--data", data},
			"credits 2,000,000,000: a top-up is 1 to 1,000,000,000 whole credits;"},
		"no adjustment": {[]string{"credit", "adjust", "--account", "ann", "--credits", "0", "--reason", "x", "--data",
			data}, "an adjustment of 0 microcents (0.000000 credits): it is at most"},
		"unknown account": {[]string{"account", "show", "nobody", "--data", data},
			"`fareway gateway account list` shows all"},
		"limit": {[]string{"account", "set-limit", "ann", "spend_cap", "5.5", "--data", data},
			"it is a whole number, or \"none\" for what the account's plan says"},
		"limit unknown": {[]string{"account", "set-limit", "ann", "credits", "5", "--data", data},
			"there are spend_cap_credits, token_budget"},
		"limit without": {[]string{"account", "set-limit", "ann", "token_budget"}, "VALUE is missing"},
		"profile": {[]string{"account", "set-profile", "ann", "best", "--data", data},
			"a profile is one of budget, balanced, max"},
		"name with a dash": {[]string{"account", "create", "--data", data, "--", "-x"}, "and does not begin with -"},
		"dash":             {[]string{"account", "show", "-x", "--data", data}, "is no option stands behind --"},
		"odd account":      {[]string{"account", "show", "a/b?c", "--data", data}, `no account "a/b?c"`},
		"provider": {[]string{"provider", "nope"},
			"there are anthropic, bedrock, echo, gemini, ollama, openai, responses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, tc.args...)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, out, "Usage:")
		})
	}
}

func TestCommandHelp(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{}
	setUpCommand(root)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short+cmd.Long, cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() {
			return
		}
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		if cmd.Name() != "help" && !cmd.Hidden {
			require.NotNil(t, cmd.Flags().Lookup("json"), cmd.CommandPath())
		}
	}
	walk(root)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.hcl"), filepath.Join(dir, "bad.hcl")
	require.NoError(t, os.WriteFile(good, starterHCL, 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("provider \"echo\" {\n  plugni = \"echo\"\n}\n"), 0o600))

	out, err := run(t, "check", good)
	require.NoError(t, err)
	require.Equal(t, good+" is fine: 1 provider, 2 routes, 3 profiles, 1 plan.\n", out)

	out, err = run(t, "check", bad)
	require.Error(t, err)
	require.Contains(t, out, bad+":2")
	require.Contains(t, out, `Did you mean "plugin"?`)

	out, err = run(t, "check", bad, "--json")
	require.Error(t, err)
	var v struct {
		OK          bool
		Diagnostics []struct{ Severity, File string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	require.False(t, v.OK)
	require.Equal(t, "error", v.Diagnostics[0].Severity)

	_, err = run(t, "check", filepath.Join(dir, "none.hcl"))
	require.Error(t, err)
}

func TestLedgerVerifyOnFiles(t *testing.T) {
	t.Parallel()
	t.Run("clean", func(t *testing.T) {
		t.Parallel()
		e := enginetest.New(t, nil) // it has the database open, but nobody answers at its admin socket
		account, err := e.Store().CreateAccount(t.Context(), "ann", "")
		require.NoError(t, err)
		_, _, err = e.Store().AddCredit(t.Context(), ledger.Credit{Account: account.ID, Credits: 5})
		require.NoError(t, err)
		v := runJSON[map[string]any](t, "ledger", "verify", "--data", e.DataDir())
		require.Equal(t, true, v["ok"])
		require.Equal(t, filepath.Join(e.DataDir(), "fareway.db"), v["source"])
	})
	t.Run("no database", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		_, err := run(t, "ledger", "verify", "--data", data)
		require.ErrorContains(t, err, filepath.Join(data, "fareway.db"))
		require.ErrorContains(t, err, "--data")
		entries, err := os.ReadDir(data)
		require.NoError(t, err)
		require.Empty(t, entries, "looking makes nothing")
	})
	t.Run("another name in gateway.hcl", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		hcl := append([]byte("store \"sqlite\" {\n  path = \"money.db\"\n}\n"), starterHCL...)
		require.NoError(t, os.WriteFile(filepath.Join(data, "gateway.hcl"), hcl, 0o600))
		_, err := run(t, "ledger", "verify", "--data", data)
		require.ErrorContains(t, err, filepath.Join(data, "money.db"))
	})
	t.Run("in the data folder and the HCL file that a Caddyfile names", func(t *testing.T) {
		t.Parallel()
		etc, data := t.TempDir(), t.TempDir()
		caddyfile := filepath.Join(etc, "Caddyfile")
		require.NoError(t, os.WriteFile(caddyfile, fmt.Appendf(nil, "{\n fareway {\n config conf/my.hcl\n data %s\n"+
			" admin 127.0.0.1:1\n }\n no_such_option\n}\n:1 {\n nobody_knows_this\n}\n", data), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(etc, "conf"), 0o700))
		hcl := filepath.Join(etc, "conf", "my.hcl")
		require.NoError(t, os.WriteFile(hcl, []byte("store \"sqlite\" {\n  path = \"money.db\"\n}\n"+
			"provider \"up\" {\n  plugin = \"never-started\"\n  config {\n    api_key = env(\"FAREWAY_NEVER_SET\")\n  }\n}\n"),
			0o600))
		_, err := run(t, "ledger", "verify", "--config", caddyfile)
		require.ErrorContains(t, err, filepath.Join(data, "money.db"))

		require.NoError(t, os.WriteFile(hcl, []byte("store \"sqlite\" {\n  path = \"/money.db\"\n}\n"), 0o600))
		_, err = run(t, "ledger", "verify", "--config", caddyfile)
		require.ErrorContains(t, err, "must be relative to the data folder", "no other database is taken for it")

		require.NoError(t,
			os.WriteFile(hcl, []byte("store \"sqlite\" {\n  path = \"money.db\"\n}\nplan \"p\" {\n  x = 1\n}\n"+
				"nonsense {\n}\n"), 0o600))
		_, err = run(t, "ledger", "verify", "--config", caddyfile)
		require.ErrorContains(t, err, filepath.Join(data, "money.db"), "what else is wrong does not matter")

		require.NoError(t, os.Remove(hcl))
		_, err = run(t, "ledger", "verify", "--config", caddyfile)
		require.ErrorContains(t, err, "There is no such file", "nor is one guessed")

		_, err = run(t, "ledger", "verify", "--config", caddyfile, "--data", data)
		require.ErrorContains(t, err, "--config and --data do not go together")
		_, err = run(t, "ledger", "verify", "--config", filepath.Join(etc, "none"))
		require.ErrorContains(t, err, "reading the Caddyfile")
		require.NoError(t, os.WriteFile(caddyfile, []byte(":1 {\n respond hello\n}\n"), 0o600))
		_, err = run(t, "ledger", "verify", "--config", caddyfile)
		require.ErrorContains(t, err, "has no gateway in it")
	})
	t.Run("an address to insist on", func(t *testing.T) {
		t.Parallel()
		e := enginetest.New(t, nil)
		_, err := run(t, "ledger", "verify", "--data", e.DataDir(), "--admin", "unix//"+e.DataDir()+"/nothing.sock")
		require.ErrorIs(t, err, admin.ErrNoGateway)
	})
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0:        "0 credits (US$0.00)",
		1:        "1 credit (US$0.01)",
		1000:     "1,000 credits (US$10.00)",
		12345678: "12,345,678 credits (US$123,456.78)",
		-3:       "-3 credits (-US$0.03)",
		-1234:    "-1,234 credits (-US$12.34)",
	} {
		require.Equal(t, want, human.Credits(n))
	}
	require.Equal(t, "0.000190 cents", human.Cents(190))
	require.Equal(t, "12.000001 cents", human.Cents(12_000_001))
}
