package gateway

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSocketPath(t *testing.T) {
	t.Parallel()
	t.Run("in the data folder", func(t *testing.T) {
		t.Parallel()
		path, err := MakeSocketPath("/srv/fareway", AdminSocket)
		require.NoError(t, err)
		require.Equal(t, "/srv/fareway/admin.sock", path)
		require.Equal(t, path, FindSocketPath("/srv/fareway", AdminSocket))
	})
	t.Run("elsewhere when it is long", func(t *testing.T) {
		t.Parallel()
		data := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
		path, err := MakeSocketPath(data, AdminSocket)
		require.NoError(t, err)
		require.LessOrEqual(t, len(path), maxSocketPath)
		info, err := os.Stat(filepath.Dir(path))
		require.NoError(t, err)
		require.EqualValues(t, 0o700, info.Mode().Perm())

		ln, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		require.Equal(t, path, FindSocketPath(data, AdminSocket))

		other, err := MakeSocketPath(data+"2", AdminSocket)
		require.NoError(t, err)
		require.NotEqual(t, path, other)
	})
	t.Run("never in a folder that others can enter", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o755))
		require.ErrorContains(t, makePrivate(dir, "/data"), "not a private folder")
	})
}
