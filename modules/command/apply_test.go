package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
)

// TestInstall: issue 12, "Before and after": files are installed whole, behind the links that lead to them, and never
// over what somebody else has saved in the meantime.
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
	list := []admin.PlanFile{{Path: path, Text: "new", SavedSHA256: config.DigestOf("old")}, {Path: part, Text: "part"}}

	done, err := install(list, path)
	require.NoError(t, err)
	is(real, "new")
	is(path, "new")
	is(part, "part")
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink, "the link stays")
	info, err = os.Stat(real)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), "who could read it still can")
	require.NoError(t, done.undo())
	is(real, "old")
	require.NoFileExists(t, part)

	// Two editors at once.
	write(real, "theirs")
	_, err = install(list, path)
	require.ErrorContains(t, err, "real.hcl was saved by somebody else in the meantime: look at it, and plan again")
	is(real, "theirs")
	require.NoFileExists(t, part, "what was installed before it is taken back")
	write(real, "old")
	done, err = install(list[:1], path)
	require.NoError(t, err)
	write(real, "theirs again")
	require.ErrorContains(t, done.undo(), "was saved by somebody else")
	is(real, "theirs again")

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "no other file is left")
}

// TestJump: what makes an apply that is watched go back.
func TestJump(t *testing.T) {
	t.Parallel()
	of := func(answered, failed, attempts int64) admin.Traffic {
		return admin.Traffic{Answered: answered, Failed: failed, FailedAttempts: attempts}
	}
	for name, c := range map[string]struct {
		before, now admin.Traffic
		want        string
	}{
		"nothing happens": {of(100, 1, 1), of(100, 1, 1), ""},
		"all goes well":   {of(100, 1, 1), of(900, 1, 1), ""},
		"four failures":   {of(100, 0, 0), of(104, 4, 4), ""},
		"five, all of them": {of(100, 1, 0), of(105, 6, 5),
			"Of 5 requests since then 5 failed, 100%; before it were 1%."},
		"attempts alone": {of(100, 0, 1), of(200, 0, 21),
			"Of 100 requests since then 20 failed, 20%; before it were 1%."},
		"attempts of no reply yet": {of(0, 0, 0), of(1, 0, 5), "Of 1 request since then 5 failed, 100%; before it were 0%."},
		"as before":                {of(100, 30, 0), of(200, 80, 0), ""},
		"twice as many": {of(100, 30, 0), of(200, 90, 0),
			"Of 100 requests since then 60 failed, 60%; before it were 30%."},
		"few of many": {of(1000, 0, 0), of(1200, 9, 0), ""},
		"5 in a hundred": {of(1000, 0, 0), of(1200, 10, 0),
			"Of 200 requests since then 10 failed, 5%; before it were 0%."},
	} {
		require.Equal(t, c.want, jump(c.before, c.now), name)
	}
}
