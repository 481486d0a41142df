package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Strings, comments and lists may look like settings and tables.
func TestTOMLFindsItsPlaces(t *testing.T) {
	t.Parallel()
	file := "a = \"q\\\" # [x]\" # c\n" +
		"b = '''\nmodel = 1\n[agents]\n''''\n" +
		"c = [\"]\", '#', # ]\n  '[y]' ] # d\n" +
		"'e f'.\"g\\\"\" = 1\r\n" +
		"d = \"\"\"\\\"\"\"\nmodel = 2\n\"\"\"\n" +
		"[[ list . inner ]]\nmodel = 3\n"
	members := []Member{{Path: []string{"model"}, Value: "new"}, {Path: []string{"agents", "enabled"}, Value: true}}
	got, changes, err := Apply(TOML, []byte(file), members)
	require.NoError(t, err)
	first := len(file) - len("[[ list . inner ]]\nmodel = 3\n")
	require.Equal(t, file[:first]+"model = \"new\"\n"+file[first:]+"\n[agents]\nenabled = true\n", string(got))
	require.Equal(t, "new", Lookup(TOML, got, "model"))
	back, kept, err := Undo(TOML, got, changes)
	require.NoError(t, err)
	require.Empty(t, kept)
	require.Equal(t, file, string(back))

	require.Equal(t, "x", Lookup(TOML, []byte("'a b'.\"c\\\"\" = 'x'"), "a b", `c"`))
	require.Equal(t, []string{"a b", `c"`, "d"}, scan("['a b'.\"c\\\"\"]\nd = 1")[1].path)
	require.Equal(t, "x", Lookup(TOML, []byte("'\\n' = 'x'"), `\n`), "no escape")
	require.Equal(t, []string{`\n`}, scan("'\\n' = 1")[0].path)
	require.Equal(t, []string{"list", "inner", "[]", "d"}, scan("[[ list . inner ]]\nd = 1")[1].path)
	for value, want := range map[string]string{
		"1": "1", "[1, 2] # x": "[1, 2]", "{a = '}'}": "{a = '}'}", "\"a\\\\\" # x": `"a\\"`, "''": "''",
		"\"\"\"a\"\"\"\"":         `"""a""""`,
		"1979-05-27 07:32:00 # x": "1979-05-27 07:32:00",
	} {
		lines := scan("k = " + value + "\nz = 1\n")
		require.Len(t, lines, 2, value)
		text := "k = " + value + "\n"
		require.Equal(t, want, text[lines[0].value:lines[0].valueEnd])
		require.Equal(t, len(text), lines[0].end)
	}
}

// TestTOMLTablesStandApart: a table that is added stands behind one empty line, and in an empty file behind none.
func TestTOMLTablesStandApart(t *testing.T) {
	t.Parallel()
	member := []Member{{Path: []string{"agents", "enabled"}, Value: true}}
	const table = "[agents]\nenabled = true\n"
	for file, want := range map[string]string{
		"": table, "\n": "\n\n" + table, "\n\n": "\n\n" + table, "a = 1": "a = 1\n\n" + table,
		"a = 1\n": "a = 1\n\n" + table, "a = 1\n\n": "a = 1\n\n" + table,
	} {
		got, _, err := Apply(TOML, []byte(file), member)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%q", file)
	}
}

func TestTOMLWithoutALineEnd(t *testing.T) {
	t.Parallel()
	member := []Member{{Path: []string{"model"}, Value: "new"}}
	for file, want := range map[string]string{
		"A = 1":             "A = 1\nmodel = \"new\"\n",
		"# mine":            "# mine\nmodel = \"new\"\n",
		"  A = 1\n\t[B]\n":  "  A = 1\nmodel = \"new\"\n\t[B]\n",
		"# mine\n  [B]\n":   "# mine\nmodel = \"new\"\n\n  [B]\n",
		"  model = 'old'\n": "  model = \"new\"\n",
	} {
		got, changes, err := Apply(TOML, []byte(file), member)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		back, _, err := Undo(TOML, got, changes)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(file), strings.TrimSpace(strings.ReplaceAll(string(back), "\n\n", "\n")))
	}
}
