package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

const root = "../../.."

// imports lists what caddy/main.go imports.
func imports(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "caddy", "main.go"), nil, parser.ImportsOnly)
	require.NoError(t, err)
	var paths []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

// TestSameBuild proves that `make build` and `make xcaddy` make the same program: xcaddy writes a main of
// its own, with Caddy's standard modules and the plugins in it.
func TestSameBuild(t *testing.T) {
	t.Parallel()
	b, err := load(filepath.Join(root, "xcaddy.json"))
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", data, nil)
	require.NoError(t, err)

	t.Run("same modules", func(t *testing.T) {
		t.Parallel()
		var plugins, modules []string
		for _, p := range b.Plugins {
			plugins = append(plugins, p.ModulePath)
		}
		const caddy = "github.com/caddyserver/caddy/v2"
		paths := imports(t)
		require.Contains(t, paths, caddy+"/modules/standard", "xcaddy always links it")
		for _, path := range paths {
			host, _, _ := strings.Cut(path, "/")
			if strings.Contains(host, ".") && path != caddy && !strings.HasPrefix(path, caddy+"/") {
				modules = append(modules, path)
			}
		}
		require.ElementsMatch(t, plugins, modules)
	})
	t.Run("same Caddy", func(t *testing.T) {
		t.Parallel()
		for _, r := range mod.Require {
			if r.Mod.Path == "github.com/caddyserver/caddy/v2" {
				require.Equal(t, r.Mod.Version, b.CaddyVersion, "change both in one commit")
				return
			}
		}
		require.Fail(t, "go.mod does not require Caddy")
	})
	t.Run("this checkout", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, b.Replacements, replacement{Old: mod.Module.Mod.Path, New: "."})
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, content string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "xcaddy.json")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	t.Run("arguments", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		require.NoError(t, run(write(t, `{
			"caddy_version": "v2.0.0",
			"plugins": [{"module_path": "example.com/a"}, {"module_path": "example.com/b", "version": "v1.2.3"}],
			"replacements": [{"old": "example.com/a", "new": "../a"}]
		}`), &out))
		require.Equal(t, []string{
			"v2.0.0", "--with", "example.com/a", "--with", "example.com/b@v1.2.3", "--replace", "example.com/a=../a",
		}, strings.Fields(out.String()))
	})
	t.Run("unknown member", func(t *testing.T) {
		t.Parallel()
		err := run(write(t, `{"caddy": "v2.0.0"}`), &strings.Builder{})
		require.ErrorContains(t, err, `unknown field "caddy"`)
	})
	t.Run("no file", func(t *testing.T) {
		t.Parallel()
		err := run(filepath.Join(t.TempDir(), "none.json"), &strings.Builder{})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}
