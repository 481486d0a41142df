package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestCommandAccountRequires: set, shown, changed in part, taken away, and warned of where no route is left.
func TestCommandAccountRequires(t *testing.T) {
	t.Parallel()
	none := new(time.Duration)
	e := enginetest.Start(t, &config.Config{
		Plans: []config.Plan{{Name: "floor", Requires: config.Requires{Regions: []string{"eu", "ch"}}}},
		Routes: []config.Route{
			{Name: "near", Region: "eu", Retention: none}, {Name: "kept", Region: "eu", Retention: new(30 * 24 * time.Hour)},
			{Name: "far", Region: "us", Retention: none}, {Name: "unsaid"},
		},
	}, engine.Options{})
	data := e.DataDir()
	serve(t, e)
	do := func(args ...string) string {
		t.Helper()
		out, err := run(t, append(append([]string{"account"}, args...), "--data", data)...)
		require.NoError(t, err)
		return out
	}
	do("create", "ann", "--plan", "floor")
	require.Regexp(t, `routes must be +in eu or ch \(plan floor\)\nroutes that are +near, kept\n$`, do("show", "ann"))

	require.Equal(t, "Account ann: routes must be of retention none (set for the account).\n"+
		"Routes that are, with what its plan requires: near.\n", do("set-requires", "ann", "--retention", "none"))
	require.Equal(t, "Account ann: routes must be in ch or eu and of retention none (set for the account).\n"+
		"Routes that are, with what its plan requires: near.\n", do("set-requires", "ann", "--region", "eu,ch"))
	require.Equal(t, "Account ann: routes must be in ch or eu and of a retention of at most 60d (set for the account).\n"+
		"Routes that are, with what its plan requires: near, kept.\n", do("set-requires", "ann", "--retention", "60d"))
	require.Regexp(t, `routes must be +in ch or eu and of a retention of at most 60d \(set for the account\)\n`+
		`routes must be +in eu or ch \(plan floor\)\nroutes that are +near, kept\n$`, do("show", "ann"))
	require.Equal(t, "Account ann: routes must be in us (set for the account).\n"+
		"Warning: no route is what is required: every request of ann is refused. Say region and retention of the routes "+
		"that are.\n", do("set-requires", "ann", "--clear", "--region", "us"))
	require.Regexp(t, `routes that are +none: every request is refused\n$`, do("show", "ann"))
	do("set-plan", "ann", "none")
	v := runJSON[admin.Account](t, "account", "show", "ann", "--data", data)
	require.Equal(t, &admin.Requires{Account: config.Requires{Regions: []string{"us"}}, Routes: []string{"far"}},
		v.Requires)
	require.Equal(t, "Account ann: nothing is required of routes but what its plan requires.\n",
		do("set-requires", "ann", "--clear"))
	require.NotContains(t, do("show", "ann"), "routes")
	require.Nil(t, runJSON[admin.Account](t, "account", "show", "ann", "--data", data).Requires)

	for _, tc := range []struct{ flag, value, want string }{
		{"--json", "true", "--region or --retention is missing, or --clear"},
		{"--retention", "", "--retention is empty: write \"none\", a duration such as 30d"},
		{"--retention", "never", `retention "never": it must be a number with a unit: ms, s, m, h or d, as in "10m" or ` +
			`"1m30s", or "none"`},
		{"--retention", "9999d", `retention "9999d": it must be between "1ms" and "3650d"`},
		{"--region", " x", "region \" x\": write a route's `region`, 1 to 64 bytes of letters, digits, \"-\" and \"_\""},
	} {
		_, err := run(t, "account", "set-requires", "ann", "--data", data, tc.flag+"="+tc.value)
		require.ErrorContains(t, err, tc.want)
	}
	_, err := run(t, "account", "set-requires", "bob", "--region", "eu", "--data", data)
	require.ErrorContains(t, err, `no account "bob"`)

	acts := 0
	require.NoError(t, e.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		if a.Action == "account.set_requires" {
			acts++
			require.NotEqual(t, "gateway", a.Actor, "it says who did it")
		}
		return nil
	}))
	require.Equal(t, 5, acts)
}

// TestCommandExplainAccount: `explain --account` has what the account requires, its plan and its profile.
func TestCommandExplainAccount(t *testing.T) {
	t.Parallel()
	data, e := running(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	hcl := write("gateway.hcl", `
provider "p" { plugin = "echo" }
route "near" {
  provider       = "p"
  model          = "m"
  context_window = 32768
  max_output     = 100
  quality        = 0.5
  region         = "eu"
  price {
    input  = 1
    output = 1
  }
}
route "far" {
  provider       = "p"
  model          = "m"
  context_window = 32768
  max_output     = 100
  quality        = 0.5
  region         = "us"
  price {
    input  = 1
    output = 1
  }
}
plan "p" {
  requires {
    region = ["eu", "us"]
  }
}
`)
	body := write("body.json", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`)
	a, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	_, err = e.Store().SetRequires(t.Context(), a.ID, ledger.RequiresChange{Regions: &[]string{"us"}})
	require.NoError(t, err)
	_, err = e.Store().SetProfile(t.Context(), a.ID, "max")
	require.NoError(t, err)
	for _, plan := range []string{"", "p"} {
		v := runJSON[admin.Explanation](t, "explain", body, "--hcl", hcl, "--account", "ann", "--plan", plan, "--data", data)
		require.Len(t, v.Candidates, 1)
		require.Equal(t, "far", v.Candidates[0].Route)
		require.Equal(t, "max", v.Profile.Name)
		require.Equal(t, plan, v.Plan)
	}
	_, err = run(t, "explain", body, "--hcl", hcl, "--account", "bob", "--data", data)
	require.ErrorContains(t, err, `no account "bob"`)
}

// TestCommandExplainCovered: `explain --account` leaves out what the account does not cover (GAP-137).
func TestCommandExplainCovered(t *testing.T) {
	t.Parallel()
	data, e := running(t)
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	routes := ""
	for i, name := range []string{"cheap", "dear", "behind"} {
		routes += fmt.Sprintf(`
route %q {
  provider       = "p"
  model          = "m"
  context_window = 200000
  max_output     = 100000
  quality        = %g
  price {
    input  = 0
    output = %g
  }
}
`, name, 0.9-0.3*float64(i), []float64{0.1, 10, 0.2}[i])
	}
	require.NoError(t, os.WriteFile(path, []byte("provider \"p\" { plugin = \"echo\" }\n"+routes), 0o600))
	body := filepath.Join(t.TempDir(), "body.json")
	require.NoError(t, os.WriteFile(body,
		[]byte(`{"model":"auto","max_tokens":100000,"messages":[{"role":"user","content":"hi"}]}`), 0o600))
	a, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	args := []string{"explain", body, "--hcl", path, "--profile", "max", "--account", "ann", "--data", data}
	explained := func() admin.Explanation { return runJSON[admin.Explanation](t, args...) }
	names := func(v admin.Explanation) (list []string) {
		for _, c := range v.Candidates {
			list = append(list, c.Route)
		}
		return list
	}
	all := names(explained())
	require.Len(t, all, 3)
	require.Equal(t, "cheap", all[0])
	text, err := run(t, args...)
	require.NoError(t, err)
	require.Contains(t, text, "The account does not cover the first choice, which can come to US$0.010000: it gets 402")

	_, _, err = e.Store().AddCredit(t.Context(), ledger.Credit{Account: a.ID, Credits: 50})
	require.NoError(t, err)
	v := explained()
	require.Nil(t, v.NotCovered)
	at := slices.Index(all, "dear")
	require.Equal(t, all[:at], names(v), "GAP-137 the dear one is left out, and what is behind it")
	require.Len(t, v.Rejected, 3-at)
	text, err = run(t, args...)
	require.NoError(t, err)
	require.Contains(t, text, "\n  dear: what the account has available, or a limit of it or of its key, does not cover "+
		"the route, or one before it.\n")

	_, _, err = e.Store().AddCredit(t.Context(), ledger.Credit{Account: a.ID, Credits: 1_000})
	require.NoError(t, err)
	require.Equal(t, all, names(explained()))
	_, err = e.Store().SetLimit(t.Context(), a.ID, ledger.LimitTokenBudget, new(int64(1_000)))
	require.NoError(t, err)
	require.NotNil(t, explained().NotCovered, "a token budget alike")
	_, err = e.Store().SetLimit(t.Context(), a.ID, ledger.LimitTokenBudget, nil)
	require.NoError(t, err)
	_, err = e.Store().SetLimit(t.Context(), a.ID, ledger.LimitSpendCap, new(int64(50_000_000)))
	require.NoError(t, err)
	require.Equal(t, all[:at], names(explained()), "and a spend cap")
}
