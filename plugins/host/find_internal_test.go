package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFileIsOursOrRoots(t *testing.T) {
	t.Parallel()
	const somebody = 12345
	ours, roots, us := t.TempDir(), "/", os.Geteuid()
	if us == 0 {
		us, roots = somebody, t.TempDir()
		require.NoError(t, os.Chown(ours, us, -1))
	}
	require.NoError(t, checkWriters(ours, us))
	require.ErrorContains(t, checkWriters(ours, us+1), "belongs to user")
	require.ErrorContains(t, checkWriters(ours, 0), "chown 0 "+ours, "who runs as root trusts only root")
	require.NoError(t, checkWriters(roots, somebody))
}

func TestAllOnTheWayIsOursOrRoots(t *testing.T) {
	t.Parallel()
	us := os.Geteuid()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	make := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	link := func(name, target string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.Symlink(target, path))
		return path
	}
	safe := make("safe/plugins", 0o755)
	require.NoError(t, checkPath(safe, us))
	open := make("open", 0o777)
	group := make("group", 0o775)
	shared := make("shared", 0o777|os.ModeSticky)
	for _, name := range []string{"open/in/plugins", "group/in/plugins"} {
		path := make(name, 0o755)
		require.ErrorContains(t, checkPath(path, us), "can be written by others", name)
	}
	require.NoError(t, checkPath(make("shared/in/plugins", 0o755), us), "nobody else can take our folder away")

	require.NoError(t, checkPath(link("linked", "safe/plugins"), us))
	require.NoError(t, checkPath(filepath.Join(link("up/linked", "../safe"), "plugins"), us))
	require.NoError(t, checkPath(filepath.Join(link("absolute", filepath.Dir(safe)), "plugins"), us))
	require.NoError(t, checkPath(link("twice", "linked"), us))
	for _, through := range []string{filepath.Join(open, "in", "plugins"), filepath.Join(group, "in", "plugins"),
		"open/in/plugins", "safe/../open/in/plugins"} {
		path := link(filepath.Join(t.Name(), filepath.Base(t.TempDir())), "x")
		require.NoError(t, os.Remove(path))
		if !filepath.IsAbs(through) {
			through = filepath.Join("..", through)
		}
		require.NoError(t, os.Symlink(through, path))
		require.ErrorContains(t, checkPath(path, us), "can be written by others", through)
	}
	require.NoError(t, os.Symlink(safe, filepath.Join(open, "back")))
	require.ErrorContains(t, checkPath(filepath.Join(open, "back"), us), "can be written by others",
		"a link that others can exchange")
	require.ErrorContains(t, checkPath(link("circle", "circle"), us), "too many levels")
	require.Error(t, checkPath(filepath.Join(dir, "none"), us))

	if us == 0 { // only root gives files away
		theirs := filepath.Join(shared, "theirs")
		require.NoError(t, os.Symlink(safe, theirs))
		require.NoError(t, os.Lchown(theirs, 12345, -1))
		require.ErrorContains(t, checkPath(theirs, us), "belongs to user 12345")
		require.NoError(t, os.Chown(filepath.Dir(safe), 12345, -1))
		require.ErrorContains(t, checkPath(safe, us), "belongs to user 12345")
		require.NoError(t, checkPath(safe, 12345))
	}
}
