package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// planBlock is a plan "p" that sets a limit.
func planBlock(l *config.Limit, value int64) string {
	block, attribute, inner := strings.Cut(l.Name, ".")
	if !inner {
		return fmt.Sprintf("plan \"p\" {\n  %s = %d\n}\n", block, value)
	}
	return fmt.Sprintf("plan \"p\" {\n  %s {\n    %s = %d\n  }\n}\n", block, attribute, value)
}

// loadPlan reads a configuration with a plan as the gateway does.
func loadPlan(t *testing.T, plan string) (*config.Config, *config.Diagnostics) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`
provider "local" {
  plugin = "echo"
}
route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 0.05
    output = 0.20
  }
}
`+plan), 0o600))
	return config.Load(t.Context(), path, config.Options{})
}

// shownLimit is a limit of an account as the admin API has it, by its name, and where it comes from.
func shownLimit(t *testing.T, data, name string) (value any, from string) {
	t.Helper()
	type object = map[string]any
	value = runJSON[object](t, "account", "show", "ann", "--data", data)["limits"]
	from, _ = value.(object)["from"].(object)[name].(string)
	for member := range strings.SplitSeq(name, ".") {
		require.Contains(t, value, member)
		value = value.(object)[member]
	}
	return value, from
}

// TestEveryLimit puts each row of the table of limits to all that follows from it: a new one is tested by being there.
func TestEveryLimit(t *testing.T) {
	t.Parallel()
	for i := range config.PlanLimits {
		l := &config.PlanLimits[i]
		t.Run("GAP-118 "+l.Name, func(t *testing.T) {
			t.Parallel()
			const ofPlan, own = 4_321, 1_234
			cfg, diags := loadPlan(t, planBlock(l, ofPlan))
			require.Empty(t, diags.All())
			e := enginetest.Start(t, &config.Config{Gateway: cfg.Gateway, Plans: cfg.Plans}, engine.Options{})
			data := e.DataDir()
			serve(t, e)
			do := func(args ...string) string {
				out, err := run(t, append(append([]string{"account"}, args...), "--data", data)...)
				require.NoError(t, err)
				return out
			}
			holds := func(value int64, source, words string) {
				t.Helper()
				got, from := shownLimit(t, data, l.Name)
				require.EqualValues(t, value, got)
				require.Equal(t, source, from)
				number := `4,321|0\.004321`
				if value == own {
					number = `1,234|0\.001234`
				}
				require.Regexp(t, `(?m)^`+regexp.QuoteMeta(l.Shown)+`.* (`+number+`)( credits)? \(`+words+`\)$`, do("show", "ann"))
			}
			do("create", "ann", "--plan", "p")
			holds(ofPlan, admin.FromPlan, "plan p")

			_, diags = loadPlan(t, planBlock(l, l.Most+1))
			require.Len(t, diags.All(), 1)
			require.Contains(t, diags.All()[0].Detail, fmt.Sprintf("must be at most %d", l.Most))
			_, diags = loadPlan(t, planBlock(l, l.Most))
			require.Empty(t, diags.All())

			if i >= len(config.AccountLimits) {
				_, err := run(t, "account", "set-limit", "ann", l.Name, "1", "--data", data)
				require.ErrorContains(t, err, fmt.Sprintf("limit %q: ", l.Name), "only a plan sets it")
				return
			}
			require.Equal(t, l.Trail(), string(ledger.AllLimits[i]))
			require.Regexp(t, `(?m)^  `+regexp.QuoteMeta(l.Name)+` +`+regexp.QuoteMeta(l.What)+`$`, do("set-limit", "--help"))
			require.Equal(t, "Account ann: "+l.Name+" is 1,234 (set for the account).\n",
				do("set-limit", "ann", l.Name, strconv.Itoa(own)))
			holds(own, admin.FromAccount, "set for the account")
			_, err := run(t, "account", "set-limit", "ann", l.Name, strconv.FormatInt(l.Most+1, 10), "--data", data)
			require.ErrorContains(t, err, fmt.Sprintf(`%s %d: it is 0 to %d, or "none"`, l.Name, l.Most+1, l.Most))
			holds(own, admin.FromAccount, "set for the account")
			do("set-limit", "ann", l.Name, "none")
			holds(ofPlan, admin.FromPlan, "plan p")

			var acts []string
			require.NoError(t, e.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
				if a.Action == "account.set_limit" {
					acts = append(acts, a.Before+a.After)
				}
				return nil
			}))
			none, set := fmt.Sprintf(`{"%s":null}`, l.Trail()), fmt.Sprintf(`{"%s":%d}`, l.Trail(), own*l.Factor())
			require.Equal(t, []string{none + set, set + none}, acts)
			report, err := e.Store().Verify(t.Context())
			require.NoError(t, err)
			require.True(t, report.OK, report.Problem)
		})
	}
}
