package engine_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestWhatIsWrittenIsTheOwnersOnly: nobody else reads what the gateway writes into its data folder.
func TestWhatIsWrittenIsTheOwnersOnly(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	_, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	seen := 0
	require.NoError(t, filepath.WalkDir(e.DataDir(), func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if path == e.DataDir() { // the test's own
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		seen++
		return nil
	}))
	require.Greater(t, seen, 5)
}
