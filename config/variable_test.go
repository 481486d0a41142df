package config

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// loadLocals loads a configuration with these locals, of which one is the cap of a plan.
func loadLocals(t *testing.T, locals, result string) (*Config, *Diagnostics) {
	t.Helper()
	return loadText(t, "locals {\n"+locals+"}\nplan \"p\" {\n  spend_cap_credits = "+result+"\n}\n"+minimal)
}

// TestFunctions proves that each function does what its line in the README says.
func TestFunctions(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"abs":        `abs(-7)`,
		"ceil":       `ceil(6.1)`,
		"coalesce":   `coalesce(null, 7, 8)`,
		"concat":     `concat([1], [7])[1]`,
		"contains":   `contains(["a", "b"], "b") ? 7 : 8`,
		"floor":      `floor(7.9)`,
		"join":       `join("-", ["a", "b"]) == "a-b" ? 7 : 8`,
		"jsondecode": `jsondecode("{\"a\": 7}").a`,
		"keys":       `keys({ b = 1, a = 2 }) == ["a", "b"] ? 7 : 8`,
		"length":     `length([1, 2, 3, 4, 5, 6, 7])`,
		"lower":      `lower("AB") == "ab" ? 7 : 8`,
		"max":        `max(1, 7, 3)`,
		"merge":      `merge({ a = 1, b = 2 }, { a = 7 }).a`,
		"min":        `min(9, 7, 8)`,
		"replace":    `replace("aba", "a", "c") == "cbc" ? 7 : 8`,
		"split":      `split(",", "a,b")[1] == "b" ? 7 : 8`,
		"substr":     `substr("abcd", 1, -1) == "bcd" ? 7 : 8`,
		"tobool":     `tobool("true") ? 7 : 8`,
		"tonumber":   `tonumber("7")`,
		"tostring":   `tostring(7) == "7" ? 7 : 8`,
		"trimprefix": `trimprefix("abc", "a") == "bc" ? 7 : 8`,
		"trimspace":  `trimspace(" a\n") == "a" ? 7 : 8`,
		"trimsuffix": `trimsuffix("abc", "c") == "ab" ? 7 : 8`,
		"upper":      `upper("ab") == "AB" ? 7 : 8`,
	}
	for name := range builtins {
		require.Contains(t, cases, name)
	}
	for name, expression := range cases {
		require.Contains(t, builtins, name)
		config, diags := loadText(t, "plan \"p\" {\n  spend_cap_credits = "+expression+"\n}\n"+minimal)
		require.NoError(t, diags.Err(), name)
		require.EqualValues(t, 7, config.Plans[0].SpendCapCredits, name)
	}
}

// TestLocalsOfAnyDepth: neither their number nor the length of a chain takes the stack or the patience.
func TestLocalsOfAnyDepth(t *testing.T) {
	t.Parallel()
	chain := ""
	for i := range 2000 {
		chain += fmt.Sprintf("  a%d = local.a%d + 1\n", i, i+1)
	}
	chain += "  a2000 = 0\n"
	config, diags := loadLocals(t, chain, "local.a0")
	require.NoError(t, diags.Err())
	require.EqualValues(t, 2000, config.Plans[0].SpendCapCredits)

	_, diags = loadLocals(t, strings.Replace(chain, "a2000 = 0", "a2000 = local.a0", 1), "1")
	require.Len(t, diags.All(), 1)
	require.Equal(t, "Cycle of locals", diags.All()[0].Summary)

	_, diags = loadLocals(t, numbered("  a%d = 1\n", maxLocals+1), "1")
	require.ErrorContains(t, diags.Err(), "Too many locals")
	_, diags = loadLocals(t, numbered("  a%d = 1\n", maxLocals), "1")
	require.NoError(t, diags.Err())
}

// TestValuesThatGrow are small texts whose values would not fit into memory.
func TestValuesThatGrow(t *testing.T) {
	t.Parallel()
	doubled := func(first, pattern string) string {
		text := "  a0 = " + first + "\n"
		for i := range 60 {
			text += fmt.Sprintf("  a%d = "+pattern+"\n", i+1, i)
		}
		return text
	}
	for name, test := range map[string]struct{ locals, want string }{
		"texts":       {doubled(`"abcdefgh"`, "\"${local.a%[2]d}${local.a%[2]d}\""), "Value too large"},
		"lists":       {doubled(`[1]`, "[local.a%[2]d, local.a%[2]d]"), "Value too large"},
		"maps":        {doubled(`{}`, "{ a = local.a%[2]d, b = local.a%[2]d }"), "Value too large"},
		"numbers":     {doubled(`1e29`, "local.a%[2]d * local.a%[2]d"), "out of range"},
		"small":       {doubled(`1e-29`, "local.a%[2]d * local.a%[2]d"), "out of range"},
		"replaced":    {doubled(`"abcdefgh"`, "replace(local.a%[2]d, \"\", local.a%[2]d)"), "Error in function call"},
		"joined":      {doubled(`"abcdefgh"`, "join(local.a%[2]d, [local.a%[2]d, local.a%[2]d])"), "Error in function call"},
		"from a text": {"  a = tonumber(\"1e999999999\")\n", "Error in function call"},
		"all of them": {"  big = \"" + strings.Repeat("x", maxValue-100) + "\"\n" + numbered("  a%d = local.big\n", 70),
			"Too much in all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, diags := loadLocals(t, test.locals, "1")
			require.True(t, diags.HasErrors())
			require.Contains(t, diags.All()[0].Summary, test.want)
			require.Less(t, len(printed(t, diags)), 20000)
		})
	}
}

// TestLedgerWithVariables: the ledger's own settings can use names, and names that are wrong elsewhere do not matter.
func TestLedgerWithVariables(t *testing.T) {
	t.Parallel()
	load := func(path string) (Store, *Config, *Diagnostics) {
		text := "variable \"unset\" {}\nlocals {\n  file = \"books.db\"\n  wrong = local.nothing\n}\n" +
			"store \"sqlite\" {\n  path = " + path + "\n}\n" + minimal
		return LoadLedger(write(t, t.TempDir(), "gateway.hcl", text))
	}
	store, config, diags := load("local.file")
	require.NoError(t, diags.Err())
	require.NotNil(t, config)
	require.Equal(t, "books.db", store.Path)
	for _, path := range []string{"var.unset", "local.wrong", "\"${local.wrong}.db\""} {
		_, config, diags = load(path)
		require.Nil(t, config, "where the ledger is is not known")
		require.ErrorContains(t, diags.Err(), "Unknown value")
	}
}

// TestLedgerOfAStoreWithoutItsKind: a store block whose header is wrong is no default store.
func TestLedgerOfAStoreWithoutItsKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"store {\n  path = \"books.db\"\n}\n":                       "store needs a label",
		"store \"sqlite\" \"x\" {\n}\n":                             "store takes one label",
		"store \"sqlite\" {\n}\nstore \"sqlite\" {\n}\nplan {\n}\n": "Second store block",
	} {
		_, config, diags := LoadLedger(write(t, t.TempDir(), "gateway.hcl", text+minimal))
		require.Nil(t, config)
		require.Len(t, diags.All(), 1, "what is wrong in other blocks does not matter")
		require.ErrorContains(t, diags.Err(), want)
	}
	many := strings.Repeat("provider {\n}\n", maxDiagnostics+1) + "store {\n}\n"
	_, config, diags := LoadLedger(write(t, t.TempDir(), "gateway.hcl", many))
	require.Nil(t, config)
	require.Len(t, diags.All(), 1)
	require.ErrorContains(t, diags.Err(), "Unusable store block", "also behind more than what is said")
	require.NotContains(t, printed(t, diags), "more")
	_, config, diags = LoadLedger(write(t, t.TempDir(), "gateway.hcl", "provider {\n}\n"+minimal))
	require.NoError(t, diags.Err())
	require.NotNil(t, config)
}

// TestNamedByVariables: files that are named by way of variables and locals are watched, too.
func TestNamedByVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "gateway.hcl", "variable \"v\" {\n  default = \"keys\"\n}\nvariable \"unset\" {}\n"+
		"locals {\n  dir = \"${var.v}/a\"\n  key = file(\"${local.dir}/key\")\n  other = file(var.unset)\n"+
		"  no = local.no\n}\n")
	named := Named(path, nil)
	require.Len(t, named, 2)
	require.Equal(t, filepath.Join(dir, "keys/a/key"), named[1].Path)
}

// TestVariableFromEnvironment: it goes before the default, and is text without one.
func TestVariableFromEnvironment(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "gateway.hcl", "variable \"cap\" {\n  default = 1\n}\nvariable \"other\" {}\n"+
		"plan \"p\" {\n  spend_cap_credits = var.cap\n  token_budget = var.other\n}\n"+minimal)
	load := func(env map[string]string) (*Config, *Diagnostics) {
		return Load(context.Background(), path, Options{Env: func(name string) (string, bool) {
			text, ok := env[name]
			return text, ok
		}})
	}
	config, diags := load(map[string]string{"FAREWAY_VAR_other": " 5 "})
	require.NoError(t, diags.Err())
	require.EqualValues(t, 1, config.Plans[0].SpendCapCredits)
	require.EqualValues(t, 5, config.Plans[0].TokenBudget)
	config, diags = load(map[string]string{"FAREWAY_VAR_other": "5", "FAREWAY_VAR_cap": "7"})
	require.NoError(t, diags.Err())
	require.EqualValues(t, 7, config.Plans[0].SpendCapCredits)
	_, diags = load(nil)
	require.Len(t, diags.All(), 1, "what uses it is not reported again")
	require.Contains(t, printed(t, diags), "export FAREWAY_VAR_other=")
	_, diags = load(map[string]string{"FAREWAY_VAR_other": "x"})
	require.ErrorContains(t, diags.Err(), "Invalid token_budget")
}
