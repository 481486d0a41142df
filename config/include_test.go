package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTrees loads configurations of several files (include).
func TestTrees(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	folders, err := filepath.Glob("testdata/tree/*")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(folder, "gateway.hcl")
			config, diags := testLoad(t, path)
			requireNoSecret(t, config, diags)
			if strings.HasPrefix(filepath.Base(folder), "bad_") {
				require.Nil(t, config)
				golden(t, filepath.Join(folder, "want.txt"), []byte(printed(t, diags)))
				return
			}
			require.Empty(t, diags.All())
			require.Equal(t, config.Hash, Digest(path))
			text := strings.ReplaceAll(config.String(), here+string(filepath.Separator), "HERE/")
			golden(t, filepath.Join(folder, "want.json"), []byte(strings.ReplaceAll(text, config.Hash, "HASH")+"\n"))
		})
	}
}

// write makes a file below dir and its folders.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestNamedFollowsIncludes proves what who watches the files relies on, also while they have mistakes.
func TestNamedFollowsIncludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "gateway.hcl", "include \"routes/*.hcl\"\ninclude \"gone.hcl\"\n"+minimal)
	named := func() (names []string) {
		for _, f := range Named(path, nil) {
			name, err := filepath.Rel(dir, f.Path)
			require.NoError(t, err)
			if f.SHA256 == "" {
				name += " unreadable"
			}
			names = append(names, name)
		}
		return names
	}
	seen := make(map[string]bool)
	fresh := func(want ...string) {
		t.Helper()
		require.Equal(t, want, named())
		require.NotContains(t, seen, Digest(path))
		seen[Digest(path)] = true
	}
	fresh("gateway.hcl", "gone.hcl unreadable")
	write(t, dir, "routes/b.hcl", "provider \"b\" {\n  config {\n    a = file(\"../key\")\n  }\n}\n")
	fresh("gateway.hcl", "gone.hcl unreadable", "key unreadable", "routes/b.hcl")
	write(t, dir, "key", "1")
	fresh("gateway.hcl", "gone.hcl unreadable", "key", "routes/b.hcl")
	write(t, dir, "routes/a.hcl", "broken {")
	fresh("gateway.hcl", "gone.hcl unreadable", "key", "routes/a.hcl", "routes/b.hcl")
	write(t, dir, "gone.hcl", "")
	fresh("gateway.hcl", "gone.hcl", "key", "routes/a.hcl", "routes/b.hcl")
	write(t, dir, "routes/a.hcl", "broken {{")
	fresh("gateway.hcl", "gone.hcl", "key", "routes/a.hcl", "routes/b.hcl")
	require.NoError(t, os.Remove(filepath.Join(dir, "routes/b.hcl")))
	fresh("gateway.hcl", "gone.hcl", "routes/a.hcl")
}

// TestIncludesThroughLinks has what Kubernetes mounts: links to a folder that is swapped as a whole.
func TestIncludesThroughLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := func(to, name string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	provider, route, found := strings.Cut(minimal, "route")
	require.True(t, found)
	path := write(t, dir, "gateway.hcl", "include \"mount/*.hcl\"\n"+provider)
	write(t, dir, "mount/..1/small.hcl", "route"+route)
	write(t, dir, "mount/..2/small.hcl", "route"+strings.Replace(route, "0.45", "0.5", 1))
	link("..1", "mount/..data")
	link("..data/small.hcl", "mount/small.hcl")
	first, diags := testLoad(t, path)
	require.NoError(t, diags.Err())
	link("..2", "mount/..data")
	second, diags := testLoad(t, path)
	require.NoError(t, diags.Err())
	require.Equal(t, 0.45, first.Routes[0].Quality)
	require.Equal(t, 0.5, second.Routes[0].Quality)
	require.NotEqual(t, first.Hash, second.Hash)

	link("small.hcl", "mount/again.hcl")
	_, diags = testLoad(t, path)
	require.ErrorContains(t, diags.Err(), "is included twice", "one file by two names")
	link("nowhere", "mount/again.hcl")
	_, diags = testLoad(t, path)
	require.ErrorContains(t, diags.Err(), "a link to one that does not exist")
	require.NoError(t, os.Remove(filepath.Join(dir, "mount/again.hcl")))
	link("..", "mount/up")
	write(t, dir, "mount/..2/small.hcl", "include \"up/mount/small.hcl\"\n")
	_, diags = testLoad(t, path)
	require.ErrorContains(t, diags.Err(), "Include cycle")
}

func TestLimitsOfIncludes(t *testing.T) {
	t.Parallel()
	t.Run("depth", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path := write(t, dir, "gateway.hcl", "include \"0.hcl\"\n"+minimal)
		for i := range maxIncludeDepth {
			write(t, dir, fmt.Sprintf("%d.hcl", i), fmt.Sprintf("include \"%d.hcl\"\n", i+1))
		}
		write(t, dir, fmt.Sprintf("%d.hcl", maxIncludeDepth), "")
		_, diags := testLoad(t, path)
		require.ErrorContains(t, diags.Err(), "Includes nested too deeply")
		write(t, dir, fmt.Sprintf("%d.hcl", maxIncludeDepth-1), "")
		_, diags = testLoad(t, path)
		require.NoError(t, diags.Err())
	})
	t.Run("size", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path := write(t, dir, "gateway.hcl", "include \"[ab].hcl\"\ninclude \"c.hcl\"\n"+minimal)
		write(t, dir, "a.hcl", "#"+strings.Repeat("x", maxSource/2)+"\n")
		write(t, dir, "b.hcl", "#"+strings.Repeat("x", maxSource/2)+"\n")
		write(t, dir, "c.hcl", "")
		_, diags := testLoad(t, path)
		require.ErrorContains(t, diags.Err(), "Too much to include")
		write(t, dir, "b.hcl", "")
		_, diags = testLoad(t, path)
		require.NoError(t, diags.Err())
	})
	t.Run("number", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path := write(t, dir, "gateway.hcl", "include \"parts/*.hcl\"\n"+minimal)
		for i := range maxSources {
			write(t, dir, fmt.Sprintf("parts/%d.hcl", i), "")
		}
		_, diags := testLoad(t, path)
		require.ErrorContains(t, diags.Err(), "Too many files")
		require.NoError(t, os.Remove(filepath.Join(dir, "parts/0.hcl")))
		_, diags = testLoad(t, path)
		require.NoError(t, diags.Err())
	})
}

// A folder's own name is no pattern.
func TestIncludeInAFolderWithWildcards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "[a]*/gateway.hcl", "include \"b*.hcl\"\ninclude \"c.hcl\"\n")
	write(t, dir, "[a]*/b1.hcl", minimal)
	write(t, dir, "[a]*/c.hcl", "")
	_, diags := testLoad(t, path)
	require.NoError(t, diags.Err())
	write(t, dir, "[a]*/b\x1b[31m.hcl", "")
	_, diags = testLoad(t, path)
	require.ErrorContains(t, diags.Err(), "Unprintable name")
	require.NotContains(t, printed(t, diags), "\x1b")
}

// A candidate may include files that are not installed either.
func TestIncludeFromOverlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "gateway.hcl", "")
	write(t, dir, "b9.hcl", "broken {")
	overlay := Overlay{
		path:                                new("include \"b*.hcl\"\n"),
		filepath.Join(dir, "b1.hcl"):        new(minimal),
		filepath.Join(dir, "c.hcl"):         new("broken {"),
		filepath.Join(dir, "more/b1.hcl"):   new("broken {"),
		filepath.Join(dir, ".b.hcl"):        new("broken {"),
		filepath.Join(dir, "b2.hcl"):        new("include \"b3/*.hcl\"\n"),
		filepath.Join(dir, "b3/a plan.hcl"): new("plan \"p\" {}\n"),
	}
	_, diags := Load(t.Context(), path, Options{Overlay: overlay})
	require.ErrorContains(t, diags.Err(), "b9.hcl", "what is there, and matches")
	overlay[filepath.Join(dir, "b9.hcl")] = nil
	cfg, diags := Load(t.Context(), path, Options{Overlay: overlay})
	require.NoError(t, diags.Err(), "as if it were gone")
	require.Equal(t, cfg.Files, Named(path, overlay))
	require.Len(t, cfg.Files, 4)

	overlay[path] = new("include \"b9.hcl\"\n")
	_, diags = Load(t.Context(), path, Options{Overlay: overlay})
	require.ErrorContains(t, diags.Err(), "There is no such file")
}

// TestExample: examples/several-files is what its README says.
func TestExample(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "examples", "several-files", "gateway.hcl")
	load := func(env map[string]string) *Config {
		env["LLM_KEY"] = secretToken
		config, diags := Load(t.Context(), path, Options{Schema: testSchema, Env: func(name string) (string, bool) {
			text, ok := env[name]
			return text, ok
		}})
		require.Empty(t, diags.All())
		requireNoSecret(t, config, diags)
		return config
	}
	eu := load(map[string]string{})
	require.Len(t, eu.Files, 4)
	require.Equal(t, "large", eu.Routes[0].Name)
	require.Equal(t, "mistral-large", eu.Routes[0].Model)
	require.Equal(t, Price{Input: 6_000_000, CacheRead: 6_000_000, CacheWrite: 6_000_000, Output: 24_000_000},
		eu.Routes[1].Price)
	require.EqualValues(t, 5_000_000, eu.Routes[1].Cost.Input)
	require.EqualValues(t, 2400, eu.Plans[0].RequestsPerMinute.Account)
	require.JSONEq(t, `{"base_url": "https://llm.eu.example.com/v1", "api_key": "`+secretToken+`"}`,
		string(eu.Providers[0].Settings))

	us := load(map[string]string{"FAREWAY_VAR_region": "us", "FAREWAY_VAR_margin": "1.3"})
	require.Equal(t, "llama-70b", us.Routes[0].Model)
	require.EqualValues(t, 6_500_000, us.Routes[1].Price.Input)
	require.NotEqual(t, eu.Providers[0].Settings, us.Providers[0].Settings)

	formatted, diags := Format(path)
	require.NoError(t, diags.Err())
	for _, f := range formatted {
		require.Equal(t, string(f.Before), string(f.After), f.Path)
	}
}
