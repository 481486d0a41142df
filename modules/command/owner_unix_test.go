//go:build unix

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRootIsToldWhoseTheLedgerIs: what root writes beside a ledger its gateway's user could not read.
func TestRootIsToldWhoseTheLedgerIs(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	dir := t.TempDir()
	ledger := filepath.Join(dir, "fareway.db")
	require.NoError(t, checkOwner(ledger), "it is this user's")
	require.NoError(t, checkOwner(filepath.Join(dir, "none", "fareway.db")), "there is none")
	err := os.Chown(dir, nobody, -1)
	if os.Geteuid() != 0 {
		require.Error(t, err)
		return // only root can be somebody else
	}
	require.NoError(t, err)
	require.ErrorContains(t, checkOwner(ledger), "sudo -u nobody ")
}
