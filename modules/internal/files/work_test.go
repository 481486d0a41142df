package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkFolders(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	mine, err := MakeWorkFolder(parent, ".work-")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(mine.Path, "a"), nil, 0o600))
	info, err := os.Stat(mine.Path)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	young, old := filepath.Join(parent, ".work-1"), filepath.Join(parent, ".work-2")
	full, other := filepath.Join(parent, ".work-3"), filepath.Join(parent, "work-4")
	for _, folder := range []string{young, old, full, other} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}
	for _, folder := range []string{full, other} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "a"), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(parent, ".work-file"), nil, 0o600))
	before := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(old, before, before))

	again, err := MakeWorkFolder(parent, ".work-")
	require.NoError(t, err)
	require.DirExists(t, mine.Path, "somebody has it")
	require.DirExists(t, young, "somebody is about to have it")
	require.NoDirExists(t, old)
	require.NoDirExists(t, full)
	require.DirExists(t, other)
	require.FileExists(t, filepath.Join(parent, ".work-file"))
	require.NoError(t, mine.Remove())
	require.NoDirExists(t, mine.Path)
	require.NoError(t, again.Remove())
}
