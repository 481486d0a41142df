package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestCommandWords: what a person reads who has typed something wrong says what it is and what to do, and not what a
// library calls it.
func TestCommandWords(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	_, err := run(t, "account", "create", "ann", "--data", data)
	require.NoError(t, err)
	for command, wants := range map[string][]string{
		"credit add --account ann -500":         {"-500 is below zero", "credit adjust --account NAME --credits -N"},
		"account set-limit ann token_budget -5": {"-5 is below zero", "a limit is a whole number from 0 on", `"none"`},
		"account set-limit ann requests 5":      {`"requests" is ambiguous`, "requests_per_minute.key, requests_per_m"},
		"account set-limit ann request-cap 5":   {`limit "request-cap": there are`},
		"connect codex --context-window abc":    {`--context-window "abc": write a whole number, as in 200000`},
		"connect codex --write=perhaps":         {`--write "perhaps": write true or false`},
		"connect codex --undo --write":          {"--undo and --write do not go together", "takes out what --write has put"},
		"connect --undo --probe":                {"--undo and --probe do not go together"},
		"usage --focus --csv --month 2026-11":   {"--focus and --csv do not go together"},
		"usage --focus --by day":                {"--focus and --by do not go together", "by day, key and route"},
		"usage --month 2026-11 --since 30d":     {"--month and --since do not go together"},
		"usage --month november":                {`--month "november"`, "as in 2026-11"},
		"usage --focus":                         {"--focus needs a beginning: --month 2026-11"},
		"usage --focus --since 2026-11-20T10:00:00Z": {"--since is in the middle of a day, at 2026-11-20 10:00:00 UTC",
			"whole days of UTC, as in 2026-11-20"},
		"usage --issuer acme":               {"--issuer is for --focus"},
		"usage --csv --json":                {"--csv and --json do not go together"},
		"ledger export --json --format csv": {"--json and --format do not go together"},
		"account show ann -x":               {"`fareway gateway account show --help` shows what there is"},
	} {
		_, err := run(t, append(strings.Fields(command), "--data", data)...)
		for _, want := range wants {
			require.ErrorContains(t, err, want, command)
		}
		for _, word := range []string{"strconv", "shorthand flag: '5'", "flags in the group"} {
			require.NotContains(t, err.Error(), word, command)
		}
	}
}

// TestCommandAccountCreateSaysItsBalance: GAP-118, the first period has its credits.
func TestCommandAccountCreateSaysItsBalance(t *testing.T) {
	t.Parallel()
	plans := []config.Plan{{Name: "pro", MonthlyCredits: 500}}
	e := enginetest.Start(t, &config.Config{Plans: plans}, engine.Options{})
	data := e.DataDir()
	serve(t, e)
	out, err := run(t, "account", "create", "ann", "--plan", "pro", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "its balance is 500 credits (US$5.00), which its plan gives for the first month.\n")
	out, err = run(t, "account", "create", "bob", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "its balance is 0.\n")
}
