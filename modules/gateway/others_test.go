package gateway

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// writeIn writes files with these modes into a folder of this test's own.
func writeIn(t *testing.T, modes map[string]fs.FileMode, contents map[string]string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, mode := range modes {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(contents[name]), 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	return dir
}

// TestFilesThatOthersCanChangeAreSaid: also where they can change a folder above.
func TestFilesThatOthersCanChangeAreSaid(t *testing.T) {
	t.Parallel()
	dir := writeIn(t, map[string]fs.FileMode{"good": 0o600, "bad": 0o666, "above/in/a": 0o600, "above/in/b": 0o600}, nil)
	above := filepath.Join(dir, "above")
	require.NoError(t, os.Chmod(above, 0o777))
	said := func(names ...string) string {
		var b strings.Builder
		for i, name := range names {
			names[i] = filepath.Join(dir, name)
		}
		warnOfOthers(slog.New(slog.NewTextHandler(&b, nil)), names)
		return b.String()
	}
	one := said("good", "bad")
	require.Equal(t, 1, strings.Count(one, "\n"), one)
	require.Contains(t, one, "level=WARN")
	require.Contains(t, one, "file="+filepath.Join(dir, "bad")+" ")
	require.Contains(t, one, "can be written by everybody (mode 0666)")

	folder := said("above/in/a", "above/in/b", "above/none")
	require.Equal(t, 1, strings.Count(folder, "\n"), "once, for all that is below it: %s", folder)
	require.Contains(t, folder, "file="+filepath.Join(above, "in/a")+" ")
	require.Contains(t, folder, above+" can be written by everybody (mode 0777)")
	require.NoError(t, os.Chmod(above, 0o777|fs.ModeSticky))
	require.Empty(t, said("above/in/a"))
}

// TestFilesOfACaddyfile: what it imports, and the files that flags name, are read like itself.
func TestFilesOfACaddyfile(t *testing.T) {
	t.Parallel()
	const main = "{\n\tdebug\n}\n(snippet) {\n\theader x y\n}\nimport sites/*.caddy\nimport {$FAREWAY_TEST_NONE:other}\n" +
		"import none/*\n:1 {\n\timport snippet\n\timport inner 7 {\n\t}\n\trespond \"import bad\"\n}\nimport"
	dir := writeIn(t, map[string]fs.FileMode{"Caddyfile": 0o600, "sites/a.caddy": 0o600, "sites/b.caddy": 0o600,
		"sites/no": 0o600, "other": 0o600, "inner": 0o600, "deep": 0o600, "bad": 0o600}, map[string]string{
		"Caddyfile": main, "inner": "import deep", "deep": "import Caddyfile"})
	got := withImports([]string{filepath.Join(dir, "Caddyfile"), filepath.Join(dir, "absent")})
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], dir+"/")
	}
	require.Equal(t, []string{"Caddyfile", "absent", "sites/a.caddy", "sites/b.caddy", "sites", "other", "none", "inner",
		"deep"}, got)

	cfg := &config.Config{Files: []config.File{{Path: "a.hcl"}, {Path: "b.hcl"}}}
	caddyfile := filepath.Join(dir, "inner")
	require.Equal(t, []string{"given", caddyfile, filepath.Join(dir, "deep"), filepath.Join(dir, "Caddyfile")},
		filesOf(cfg, &caddyfile, []string{"run", "--config", "given"})[:4])
	require.Equal(t, []string{"a.hcl", "b.hcl"}, filesOf(cfg, nil, nil))

	require.Empty(t, flagFiles([]string{"fareway", "run", "--adapter", "caddyfile"}))
	require.Equal(t, []string{"a", "b", "c", "d", "e,f"}, flagFiles([]string{"fareway", "run", "--config", "a",
		"--envfile=b", "--envfile", "c,d", "-c=e,f"}))
}

// TestTheCaddyfileIsOneOfTheFiles: the one that was adapted last, by its whole path.
func TestTheCaddyfileIsOneOfTheFiles(t *testing.T) {
	t.Parallel()
	adapt(t, []byte("{\n fareway {\n config gateway.hcl\n }\n}\n")) // as all tests here, of the file Caddyfile
	path, err := filepath.Abs("Caddyfile")
	require.NoError(t, err)
	require.Equal(t, []string{path}, filesOf(new(config.Config), adapted.Load(), nil))
}
