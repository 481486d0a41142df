//go:build unix

package chores_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/backup/chores"
)

// TestRootWritesForTheGateway: what root has kept of a backup, the gateway's user can read.
func TestRootWritesForTheGateway(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it takes root")
	}
	const nobody = 65534
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, nobody, nobody))
	database := filepath.Join(dir, "fareway.db")
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{File: "a.tar"}, time.Now(), time.Hour))
	info, err := os.Stat(chores.Path(database, chores.Backup))
	require.NoError(t, err)
	require.EqualValues(t, nobody, info.Sys().(*syscall.Stat_t).Uid)
	require.EqualValues(t, nobody, info.Sys().(*syscall.Stat_t).Gid)
}
