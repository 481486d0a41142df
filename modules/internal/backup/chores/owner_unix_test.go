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
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534 // root may give what it likes
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, owner, os.Getegid()))
	database := filepath.Join(dir, "fareway.db")
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{File: "a.tar"}, time.Now(), time.Hour))
	info, err := os.Stat(chores.Path(database, chores.Backup))
	require.NoError(t, err)
	require.EqualValues(t, owner, info.Sys().(*syscall.Stat_t).Uid)
}
