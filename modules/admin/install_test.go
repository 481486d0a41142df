package admin

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestInstall: files are installed whole, behind the links that lead to them, and never over what somebody else has
// saved in the meantime.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, part := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "part.hcl")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	is := func(path, want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	real := filepath.Join(dir, "real.hcl")
	write(real, "old")
	require.NoError(t, os.Chmod(real, 0o640))
	require.NoError(t, os.Symlink("real.hcl", path))
	list := []PlanFile{{Path: path, Text: new("new"), SavedSHA256: config.DigestOf("old")},
		{Path: part, Text: new("part")}}
	at := time.Date(2026, 11, 23, 0, 1, 2, 3_000_000, time.FixedZone("", 3600))

	done, err := Install(list, path, at)
	require.NoError(t, err)
	is(real, "new")
	is(path, "new")
	is(part, "part")
	require.Equal(t, part, done.files[0].path, "the file that names the others comes last")
	require.Empty(t, done.KeptFiles())
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink, "the link stays")
	for _, path := range []string{real, part} {
		info, err = os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), "who could read it still can")
	}
	require.NoError(t, done.Undo())
	is(real, "old")
	require.NoFileExists(t, part)

	// Two editors at once.
	write(real, "theirs")
	_, err = Install(list, path, at)
	require.ErrorContains(t, err, "real.hcl was saved by somebody else in the meantime: look at it, and plan again")
	is(real, "theirs")
	require.NoFileExists(t, part, "what was installed before it is taken back")
	write(real, "old")
	done, err = Install(list, path, at)
	require.NoError(t, err)
	write(real, "theirs again")
	write(part, "this, too")
	err = done.Undo()
	require.ErrorContains(t, err, "real.hcl was saved by somebody else")
	require.ErrorContains(t, err, "part.hcl was saved by somebody else")
	is(real, "theirs again")
	is(part, "this, too")
	requireFiles(t, dir, "gateway.hcl", "part.hcl", "real.hcl")
}

func requireFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	require.Equal(t, names, got)
}

// TestInstallKeepsTexts: no text is lost by a rollback: what was saved and did not serve, and a file that was not
// there then, are kept beside the files, until all is put back.
func TestInstallKeepsTexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, added := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "routes", "b.hcl")
	restored := filepath.Join(dir, "plans", "a.hcl")
	require.NoError(t, os.Mkdir(filepath.Dir(added), 0o700))
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(path, "refused")
	write(filepath.Join(dir, "real.hcl"), "added")
	require.NoError(t, os.Symlink("../real.hcl", added))
	list := []PlanFile{
		{Path: path, Text: new("kept"), SavedSHA256: config.DigestOf("refused"), Unkept: true},
		{Path: added, SavedSHA256: config.DigestOf("added")},
		{Path: restored, Text: new("")},
	}
	at := time.Date(2026, 11, 23, 0, 1, 2, 3_000_000, time.FixedZone("", 3600))
	const suffix = ".aside-20261122T230102.003Z"
	done, err := Install(list, path, at)
	require.NoError(t, err)
	require.Equal(t, []string{path + suffix, added + suffix}, done.KeptFiles())
	for path, want := range map[string]string{path: "kept", path + suffix: "refused", added + suffix: "added",
		restored: ""} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text), path)
	}
	requireFiles(t, filepath.Dir(added), "b.hcl"+suffix)

	require.NoError(t, done.Undo())
	requireFiles(t, dir, "gateway.hcl", "real.hcl", "routes") // and no folder that was made for it
	requireFiles(t, filepath.Dir(added), "b.hcl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "refused", string(text))

	// It came while it was looked at what would change.
	require.NoError(t, os.Mkdir(filepath.Dir(restored), 0o700))
	write(restored, "theirs")
	_, err = Install(list, path, at)
	require.ErrorContains(t, err, "a.hcl was saved by somebody else")
	requireFiles(t, dir, "gateway.hcl", "plans", "real.hcl", "routes")
	requireFiles(t, filepath.Dir(added), "b.hcl")
}
