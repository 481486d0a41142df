package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// goTool runs the Go toolchain in a folder, with no network and without changing go.mod.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), ownHome, []string{"GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off"})
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %s:\n%s", strings.Join(args, " "), out)
}

// `plugin new` makes a module that builds and passes its tests at once.
func TestPluginNewBuildsAndPassesItsTests(t *testing.T) {
	t.Parallel()
	for kind, verbs := range map[string][]string{
		"--dialect own": {"build", "test"}, "--dialect chat": {"vet"}, "--dialect responses": {"vet"},
		"--dialect messages": {"build", "test"}, "--screener": {"build", "test"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "new", "plugin")
			out, err := run(t, append([]string{"plugin", "new", "my-service", "--dir", dir}, strings.Fields(kind)...)...)
			require.NoError(t, err)
			checkout, err := filepath.Abs("../..")
			require.NoError(t, err)
			require.Contains(t, out, "It builds with the checkout in "+checkout+" (replace in go.mod).")
			require.Contains(t, out, "Next: cd "+dir+" && go test ./...\n")
			for _, verb := range verbs {
				goTool(t, dir, verb, "./...")
			}
			formatted, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).Output()
			require.NoError(t, err)
			require.Empty(t, string(formatted))
			readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
			require.NoError(t, err)
			require.Contains(t, string(readme), `plugin = "my-service"`)
			require.Equal(t, kind == "--screener", strings.Contains(string(readme), "screening {"))
			require.Equal(t, kind != "--screener", strings.Contains(string(readme), "route \"my-service\" {"))
			require.NotContains(t, string(readme), "<no value>")
		})
	}
}

// Without a Go to tidy it, go.mod has all that the checkout has, and the plugin builds all the same.
func TestPluginNewNeedsNoGo(t *testing.T) {
	t.Parallel()
	base, err := readCheckout("../..")
	require.NoError(t, err)
	data := map[string]string{"Name": "mine", "Program": "fareway-provider-mine", "Dialect": "own", "Gateway": "fareway"}
	contents, err := pluginContents(data, "example.com/me/mine", base)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, writeNew(dir, contents), "an empty folder will do")
	goTool(t, dir, "build", "-o", os.DevNull, ".")
}

func TestPluginNewWithARelease(t *testing.T) {
	t.Parallel()
	text, err := pluginModule("example.com/me/mine", basis{version: "v1.2.3"})
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	require.Len(t, mod.Require, 1)
	require.Equal(t, "github.com/fareway/fareway v1.2.3", mod.Require[0].Mod.Path+" "+mod.Require[0].Mod.Version)
	require.Empty(t, mod.Replace)
	require.Equal(t, "example.com/me/mine", mod.Module.Mod.Path)
}

func TestPluginNewOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	_, err := run(t, "plugin", "new", "mine", "--dir", dir)
	require.ErrorContains(t, err, dir+" is there already, and not an empty folder: nothing was written")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

func TestPluginNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "go.mod"), []byte("module example.com/x\n"), 0o600))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"My Service"}, `"My Service" cannot be a plugin's name: write lower-case letters`},
		{[]string{"../x"}, "cannot be a plugin's name"},
		{[]string{"echo"}, "echo is the name of a built-in provider"},
		{[]string{"mine", "--dialect", "gemini"}, `--dialect "gemini": write chat, responses or messages`},
		{[]string{"mine", "--dialect", "chat", "--screener"}, "leave one of them out"},
		{[]string{"mine", "--module", "Not A Path"}, `--module "Not A Path" cannot be a module's path`},
		{[]string{"mine", "--replace", t.TempDir()}, "that is no checkout of Fareway"},
		{[]string{"mine", "--replace", other}, "its go.mod is of another module"},
		{nil, "NAME is missing"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		_, err := run(t, append([]string{"plugin", "new", "--dir", dir}, test.args...)...)
		require.ErrorContains(t, err, test.want)
		require.NoDirExists(t, dir)
	}
}

func TestPluginNewAsJSON(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	v := runJSON[pluginNewView](t, "plugin", "new", "mine", "--dir", dir, "--replace", "../..",
		"--module", "example.com/mine")
	require.Equal(t, "mine", v.Plugin)
	require.Equal(t, dir, v.Dir)
	require.Equal(t, "example.com/mine", v.Module)
	require.Equal(t, []string{"main.go", "main_test.go", "README.md", "go.mod", "go.sum"}, v.Files)
}

// An author in another language finds the protocol.
func TestPluginProtoPrintsTheProtocol(t *testing.T) {
	t.Parallel()
	out, err := run(t, "plugin", "proto")
	require.NoError(t, err)
	want, err := os.ReadFile("../../plugins/internal/proto/provider.proto")
	require.NoError(t, err)
	require.Equal(t, string(want), out)
}
