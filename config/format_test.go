package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after string }{
		"alignment": {"gateway {\nkeepalive=\"15s\"\n   max_body   =  \"1MiB\"\n}", "gateway {\n  keepalive = \"15s\"\n" +
			"  max_body  = \"1MiB\"\n}\n"},
		"includes": {"include   \"a.hcl\"   # here\n  include \"b.hcl\"\n\n\n",
			"include \"a.hcl\" # here\ninclude \"b.hcl\"\n"},
		"nothing":      {" \n", ""},
		"line comment": {"locals {\n# a\na=1// b\n}\n", "locals {\n  # a\n  a = 1 // b\n}\n"},
		"a text of lines": {"locals {\na=<<EOT\n  kept   \n    EOT is not here\nEOT\n}\n",
			"locals {\n  a = <<EOT\n  kept   \n    EOT is not here\nEOT\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, diags := FormatText("-", []byte(test.before))
			require.NoError(t, diags.Err())
			require.Equal(t, test.after, string(after))
		})
	}

	_, diags := FormatText("<standard input>", []byte("gateway {\n  api_key = \"sk-hunter2\n}\n"))
	require.ErrorContains(t, diags.Err(), "<standard input>:2:")
	requireNoSecret(t, nil, diags)

	_, diags = Format(filepath.Join(t.TempDir(), "none.hcl"))
	require.ErrorContains(t, diags.Err(), "no such file")
}

// TestFormatFollowsIncludes: what can be formatted is, and the rest is said.
func TestFormatFollowsIncludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "gateway.hcl", "include  \"parts/*.hcl\"\ninclude \"none.hcl\"\n")
	write(t, dir, "parts/a.hcl", "a=1\n")
	write(t, dir, "parts/b.hcl", "b =\n")
	formatted, diags := Format(path)
	require.Len(t, formatted, 2)
	require.Equal(t, Formatted{filepath.Join(dir, "parts/a.hcl"), []byte("a=1\n"), []byte("a = 1\n")}, formatted[1])
	require.Equal(t, "include \"parts/*.hcl\"\ninclude \"none.hcl\"\n", string(formatted[0].After))
	require.Len(t, diags.All(), 2)
}

// Everything that can be loaded means the same in its usual form, and that has no other form.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.hcl", "testdata/bad/*.hcl", "testdata/tree/*/gateway.hcl"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(f, err)
			f.Add(text)
			f.Add([]byte(strings.ReplaceAll(strings.ReplaceAll(string(text), "  ", ""), " = ", "=")))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, diags := FormatText("-", text)
		if diags.HasErrors() {
			return
		}
		twice, diags := FormatText("-", once)
		require.NoError(t, diags.Err())
		require.Equal(t, string(once), string(twice))
	})
}
