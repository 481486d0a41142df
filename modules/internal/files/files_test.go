package files_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/files"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestChangesAreTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, theirs := filepath.Join(dir, "old"), filepath.Join(dir, "new", "theirs")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o640))
	change := func(c *files.Changes) {
		require.NoError(t, c.MakeFolder(filepath.Join(dir, "new", "er"), 0o700))
		require.NoError(t, c.Create(filepath.Join(dir, "new", "er", "file"), []byte("x"), 0o600))
		require.NoError(t, c.Replace(filepath.Join(dir, "new", "other"), []byte("x")))
		require.NoError(t, c.Replace(old, []byte("new")))
		require.Equal(t, "new", read(t, old))
		require.NoError(t, c.Rename(old, filepath.Join(dir, "elsewhere")))
		c.Appears(filepath.Join(dir, "new", "later"))
	}
	var c files.Changes
	change(&c)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new", "later"), nil, 0o600))
	require.NoError(t, c.TakeBack())
	require.Equal(t, []string{"old"}, names(t, dir))
	require.Equal(t, "old", read(t, old))
	info, err := os.Stat(old)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm())
	require.NoError(t, c.TakeBack(), "nothing more")

	change(&c)
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	require.NoError(t, c.TakeBack())
	require.Equal(t, []string{"theirs"}, names(t, filepath.Dir(theirs)), "what others have put there stays")
	require.NoError(t, os.Remove(theirs))

	change(&c)
	c.Keep()
	require.NoError(t, c.TakeBack())
	require.Equal(t, "new", read(t, filepath.Join(dir, "elsewhere")))
	require.ErrorIs(t, c.Create(filepath.Join(dir, "elsewhere"), nil, 0o600), fs.ErrExist)
}

// TestWhatCannotBeChanged: what fails is an error and changes nothing, and what cannot be taken back is one, too.
func TestWhatCannotBeChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	var c files.Changes
	require.Error(t, c.Replace(filepath.Join(file, "below"), nil), "a file has none below it")
	require.Error(t, c.Replace(dir, nil), "a folder is no file")
	require.Error(t, c.Create(filepath.Join(dir, "none", "file"), nil, 0o600))
	require.Error(t, c.Rename(file, filepath.Join(dir, "none", "file")))
	require.NoError(t, c.TakeBack(), "nothing was changed")
	require.Equal(t, []string{"file"}, names(t, dir))

	require.NoError(t, os.Mkdir(folder, 0o700))
	c.Made(folder)
	c.Appears(filepath.Join(dir, "never"))
	require.NoError(t, c.TakeBack())
	require.NoDirExists(t, folder)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	for _, note := range []func(string){c.Made, c.Appears} {
		require.NoError(t, c.Rename(file, file+"2"))
		note(folder)
		require.ErrorContains(t, c.TakeBack(), folder, "it is not empty")
		require.Equal(t, "x", read(t, file), "the others are taken back all the same")
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	o, err := files.CreateOutput(path)
	require.NoError(t, err)
	_, err = o.WriteString("one")
	require.NoError(t, err)
	require.NoFileExists(t, path)
	require.NoError(t, o.Place())
	o.Discard()
	require.Equal(t, "one", read(t, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	_, err = files.CreateOutput(path)
	require.ErrorIs(t, err, fs.ErrExist)

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("file", link))
	for _, placed := range []bool{false, true} {
		o, err = files.OpenOutput(link)
		require.NoError(t, err)
		_, err = o.WriteString("two")
		require.NoError(t, err)
		require.Equal(t, "one", read(t, path))
		if placed {
			require.NoError(t, o.Place())
		}
		o.Discard()
	}
	require.Equal(t, "two", read(t, path), "where the link leads to")
	require.Equal(t, []string{"file", "link"}, names(t, dir))

	o, err = files.OpenOutput(os.DevNull)
	require.NoError(t, err)
	_, err = o.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, o.Place())
	_, err = files.OpenOutput(filepath.Join(dir, "none", "file"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
