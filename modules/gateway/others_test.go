package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestFilesThatOthersCanChangeAreSaid: issue 26, item 14.
func TestFilesThatOthersCanChangeAreSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	require.NoError(t, os.WriteFile(good, nil, 0o600))
	require.NoError(t, os.WriteFile(bad, nil, 0o600))
	require.NoError(t, os.Chmod(bad, 0o666))
	var b strings.Builder
	warnOfOthers(slog.New(slog.NewTextHandler(&b, nil)), []string{good, bad})
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), "level=WARN")
	require.Contains(t, b.String(), "file="+bad+" ")
	require.Contains(t, b.String(), "can be written by everybody (mode 0666)")

	cfg := &config.Config{Files: []config.File{{Path: good}, {Path: bad}}}
	require.Equal(t, []string{good, bad}, filesOf(cfg, nil))
	caddyfile := "Caddyfile"
	require.Equal(t, []string{caddyfile, good, bad}, filesOf(cfg, &caddyfile))
}

// TestTheCaddyfileIsOneOfTheFiles: the one that was adapted last, by its whole path.
func TestTheCaddyfileIsOneOfTheFiles(t *testing.T) {
	t.Parallel()
	adapt(t, []byte("{\n fareway {\n config gateway.hcl\n }\n}\n")) // as all tests here, of the file Caddyfile
	path, err := filepath.Abs("Caddyfile")
	require.NoError(t, err)
	require.Equal(t, []string{path}, filesOf(new(config.Config), adapted.Load()))
}
