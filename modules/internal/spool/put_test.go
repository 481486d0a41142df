package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPutWritesInPlace: what is put into a file of this machine is there, as far as it goes and no farther, and a file
// that cannot be written says so.
func TestPutWritesInPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 4*sectorSize), 0o600))
	f, err := machine{}.Open(path)
	require.NoError(t, err)
	sector := bytes.Repeat([]byte{7}, sectorSize)
	require.NoError(t, f.Put(sector, sectorSize))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	empty := make([]byte, sectorSize)
	require.Equal(t, bytes.Join([][]byte{empty, sector, empty, empty}, nil), content)
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Put(sector, 0), os.ErrClosed)

	reading, err := os.Open(path)
	require.NoError(t, err)
	require.Error(t, file{reading}.Put(sector, 0))
	require.NoError(t, reading.Close())
}
