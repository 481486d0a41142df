package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbered repeats a pattern with a running number.
func numbered(pattern string, times int) string {
	var b strings.Builder
	for i := range times {
		fmt.Fprintf(&b, pattern, i)
	}
	return b.String()
}

// Texts that would exhaust the stack, the memory or the patience of a parser without limits, were they as long as a
// file may be. The limits say so before parsing; here the summary proves that it was they.
func TestHostileTextIsRefused(t *testing.T) {
	t.Parallel()
	const n = 1 << 14
	repeat := strings.Repeat
	for name, test := range map[string]struct{ text, summary string }{
		"brackets":            {"a = " + repeat("[", n), "Nested too deeply"},
		"parentheses":         {"a = " + repeat("(", n), "Nested too deeply"},
		"objects":             {"a = " + repeat("{b=", n), "Nested too deeply"},
		"blocks":              {repeat("a {\n", n), "Nested too deeply"},
		"blocks closed first": {repeat("}", n) + repeat("a {\n", n), "Nested too deeply"},
		"templates":           {"a = " + repeat("\"${", n), "Nested too deeply"},
		"directives":          {"a = \"" + repeat("%{if true}", n) + "\"", "Expression too long"},
		"unary":               {"a = " + repeat("!", n) + "true", "Expression too long"},
		"binary":              {"a = 1" + repeat("+1", n), "Expression too long"},
		"binary over lines":   {"a = (1" + repeat("\n+1", n) + ")", "Expression too long"},
		"conditional":         {"a = 1" + repeat("?1:1", n), "Expression too long"},
		"index":               {"a = b" + repeat("[c]", n), "Expression too long"},
		"attributes":          {"a = b" + repeat(".c", n), "Expression too long"},
		"zeros":               {repeat("\x00", n), "Expression too long"},
		"digits":              {"a = " + repeat("1", n), "Number too long"},
		"loops": {"gateway { keepalive = [for a in [1,2,3] : [for b in [1,2,3] : b]] }\n" + minimal,
			"Unsupported expression"},
		"huge number":  {"gateway { keepalive = \"${1e99999999}\" }\n" + minimal, "Number out of range"},
		"huge product": {"gateway { max_body = 1e30" + repeat("*1e30", 400) + " }\n" + minimal, "Invalid max_body"},
		"huge to text": {"gateway { keepalive = \"${1e30" + repeat("*1e30", 400) + "}\" }\n" + minimal,
			"Invalid keepalive"},
		"infinity":       {"gateway { max_body = 1/0 }\n" + minimal, "Invalid max_body"},
		"infinity minus": {"gateway { max_body = 1/0 - 1/0 }\n" + minimal, "Operation failed"},
		"nothing over 0": {"gateway { max_body = 0/0 }\n" + minimal, "Operation failed"},
		"long name":      {repeat("a", n) + " = 1\n" + minimal, "Unknown attribute \"" + repeat("a", 64) + "...\""},
		"one long line":  {"gateway { namespace = \"" + repeat("x", n) + "\" }\n" + minimal, "Invalid namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, diags := loadText(t, test.text)
			require.Nil(t, config)
			require.Len(t, diags.All(), 1)
			require.Equal(t, test.summary, diags.All()[0].Summary)
			require.Less(t, len(printed(t, diags)), 1000)
		})
	}
}

func FuzzLoad(f *testing.F) {
	const apart = "\n#### more/part.hcl\n" // what is behind it is another file
	f.Add([]byte("include \"more/*.hcl\"\n" + minimal + apart + "locals {\n  a = upper(env(\"SECRET_TOKEN\"))\n}\n"))
	f.Add([]byte(minimal + "include \"more/part.hcl\" # here\n" + apart + minimal + "include \"../gateway.hcl\"\n"))
	for _, pattern := range []string{"testdata/good/*.hcl", "testdata/bad/*.hcl", "testdata/tree/*/gateway.hcl"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		require.NotEmpty(f, files)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(f, err)
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		main, part, _ := strings.Cut(string(text), apart)
		dir := t.TempDir()
		path := write(t, dir, "gateway.hcl", main)
		write(t, dir, "more/part.hcl", part)
		config, diags := testLoad(t, path)
		if config != nil {
			require.Equal(t, config.Hash, Digest(path))
		}
		require.Equal(t, diags.HasErrors(), config == nil)
		lines := strings.Count(string(text), "\n") + 1
		for _, d := range diags.All() {
			require.NotEmpty(t, d.Summary)
			require.NotEmpty(t, d.Detail)
			require.LessOrEqual(t, d.Line, lines)
		}
		out := printed(t, diags)
		require.Equal(t, -1, strings.IndexFunc(out, func(r rune) bool { return r != '\n' && (r < ' ' || r == 0x7f) }),
			"control character")

		// What comes from outside reaches neither the findings nor the printed settings. (Literals may: the fuzzer moves
		// them to where they are public.)
		if !strings.Contains(string(text), secretToken) {
			require.NotContains(t, out, secretToken)
			if config != nil {
				require.NotContains(t, fmt.Sprint(config.Providers), secretToken)
			}
		}
	})
}
