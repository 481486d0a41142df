package host

import (
	"os"
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
