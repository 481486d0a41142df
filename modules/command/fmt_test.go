package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestFmt is `gateway fmt`: the file and what it includes, or what is piped in.
func TestFmt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
		return path
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	main := write("gateway.hcl", "include  \"part.hcl\"\ngateway {\nkeepalive=\"15s\"\n\n  max_body = \"1MiB\"\n}\n\n\n")
	part := write("part.hcl", "plan \"p\" {\n  periods=true\n}")
	link := filepath.Join(dir, "link.hcl")
	require.NoError(t, os.Symlink("part.hcl", link))
	before := read(main)

	out, err := run(t, "fmt", "--check", main)
	require.Error(t, err)
	require.Equal(t, main+"\n"+part+"\n", out)
	out, err = run(t, "fmt", "--diff", main)
	require.NoError(t, err)
	require.Equal(t, strings.NewReplacer("MAIN", main, "PART", part).Replace(`--- MAIN
+++ MAIN
@@ -1,1 +1,1 @@
-include  "part.hcl"
+include "part.hcl"
@@ -3,1 +3,1 @@
-keepalive="15s"
+  keepalive = "15s"
@@ -7,2 +7,0 @@
-
-
--- PART
+++ PART
@@ -2,2 +2,2 @@
-  periods=true
-}
\ No newline at end of file
+  periods = true
+}
`), out)
	_, err = run(t, "fmt", "--diff", "--check", main)
	require.Error(t, err)
	require.Equal(t, before, read(main), "nothing was written")

	out, err = run(t, "fmt", main, link)
	require.NoError(t, err)
	require.Equal(t, main+"\n"+part+"\n", out)
	require.Equal(t, "include \"part.hcl\"\ngateway {\n  keepalive = \"15s\"\n\n  max_body = \"1MiB\"\n}\n", read(main))
	require.Equal(t, "plan \"p\" {\n  periods = true\n}\n", read(part))
	info, err := os.Stat(main)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	out, err = run(t, "fmt", "--check", main)
	require.NoError(t, err)
	require.Empty(t, out)

	write("part.hcl", "plan  \"p\" {}\n")
	_, err = run(t, "fmt", link)
	require.NoError(t, err)
	require.Equal(t, "plan \"p\" {}\n", read(part), "what the link leads to was written")
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "part.hcl", target)

	write("part.hcl", "plan  \"p\" {\n")
	before = read(part)
	out, err = run(t, "fmt", main)
	require.Error(t, err)
	require.Contains(t, out, "part.hcl:1:11", "as `check` prints it")
	require.Equal(t, before, read(part))

	_, err = run(t, "fmt")
	require.ErrorContains(t, err, "which file?")
}

func TestFmtOfStandardInput(t *testing.T) {
	t.Parallel()
	runWith := func(input string, args ...string) (string, error) {
		root := &cobra.Command{Use: "fareway", SilenceUsage: true, SilenceErrors: true}
		cmd := &cobra.Command{}
		setUpCommand(cmd)
		root.AddCommand(cmd)
		var out bytes.Buffer
		root.SetIn(strings.NewReader(input))
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"gateway", "fmt", "-"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := runWith("a  =  1\ninclude  \"none.hcl\"\n")
	require.NoError(t, err)
	require.Equal(t, "a = 1\ninclude \"none.hcl\"\n", out, "includes are not followed: nobody knows from where")
	out, err = runWith("a  =  1\n", "--check")
	require.Error(t, err)
	require.Equal(t, "-\n", out)
	out, err = runWith("a  =  1\n", "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"ok": true, "files": [{"file": "-", "changed": true, "text": "a = 1\n"}], "diagnostics": []}`, out)
	out, err = runWith("a  =\n", "--json")
	require.Error(t, err)
	require.Contains(t, out, `"file": "<standard input>"`)
	out, err = runWith("a  =\n")
	require.Error(t, err)
	require.Contains(t, out, "<standard input>:1:")
}
