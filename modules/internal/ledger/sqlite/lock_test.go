package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

func TestFileLease(t *testing.T) {
	t.Parallel()
	ledgertest.RunLease(t, func(t *testing.T) ledgertest.LeaseCase {
		path := filepath.Join(t.TempDir(), "fareway.db")
		return ledgertest.LeaseCase{Process: func() ledger.Lease { return newFileLease(path) }}
	})
}

// The file says who has it; one that an older fareway wrote, or that is damaged, has no generation of its own.
func TestFileLeaseOverWhatIsThere(t *testing.T) {
	t.Parallel()
	for text, generation := range map[string]int64{
		"": 0, "12 OLD\n": 0, "12 OLD 7\n": 7, "12 OLD 7\nleft from a longer line": 7, "12 OLD x\n": 0, "12 OLD -7\n": 0,
		"12 OLD 9223372036854775807\n": 0, "12 OLD 9223372036854775808\n": 0,
	} {
		path := filepath.Join(t.TempDir(), "fareway.db")
		require.NoError(t, os.WriteFile(path+".lock", []byte(text), 0o600))
		l := newFileLease(path)
		g, err := l.Acquire("ME")
		require.NoError(t, err)
		require.Greater(t, g.Generation, generation, text)
		requireHolder(t, path, g)
		_, err = newFileLease(path).Acquire("YOU")
		require.ErrorContains(t, err,
			"ledger in use: process "+strconv.Itoa(os.Getpid())+" has "+path+".lock; stop it first")
		g, err = l.raise(g, 5)
		require.NoError(t, err)
		require.EqualValues(t, max(5, generation+1), g.Generation, text)
		requireHolder(t, path, g)
		require.NoError(t, l.Release(g))
		_, err = l.raise(g, 9)
		require.ErrorIs(t, err, ledger.ErrLapsed)
	}
}

// requireHolder checks that the lock file of a ledger says who has it: this process.
func requireHolder(t *testing.T, path string, g ledger.Grant) {
	t.Helper()
	is, err := os.ReadFile(path + ".lock")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d %s %d\n", os.Getpid(), g.Owner, g.Generation), string(is))
}

// A store's generation goes up from one opening of the ledger to the next, whatever became of the lock file.
func TestGenerationsOfAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	last := int64(0)
	for i, harm := range []func() error{
		func() error { return nil },
		func() error { return nil },
		func() error { return os.Remove(path + ".lock") },
		func() error { return os.Truncate(path+".lock", 0) },
		func() error { return os.WriteFile(path+".lock", []byte("12 OLD\n"), 0o600) },
		func() error { return os.WriteFile(path+".lock", []byte("12 OLD 40\n"), 0o600) },
	} {
		require.NoError(t, harm())
		s, err := Open(Options{Path: path, BootID: "boot " + strconv.Itoa(i)})
		require.NoError(t, err)
		require.Greater(t, s.grant.Generation, last)
		last = s.grant.Generation
		requireHolder(t, s.opts.Path, s.grant)
		require.NoError(t, s.Close())
	}
	require.EqualValues(t, 41, last)
}

// A lock on a file that is not at its path any more keeps nobody out.
func TestRenewOfALostFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	l, other := newFileLease(path), newFileLease(path)
	g, err := l.Acquire("ME")
	require.NoError(t, err)
	_, err = l.Renew(g)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path+".lock"))
	_, err = l.Renew(g)
	require.ErrorIs(t, err, ledger.ErrLapsed)
	theirs, err := other.Acquire("YOU")
	require.NoError(t, err)
	_, err = l.Renew(g)
	require.ErrorIs(t, err, ledger.ErrLapsed)
	_, err = l.raise(g, 9)
	require.ErrorIs(t, err, ledger.ErrLapsed)
	requireHolder(t, path, theirs)
	require.NoError(t, l.Release(g), "and it leaves the other's alone")
	_, err = other.Renew(theirs)
	require.NoError(t, err)
	_, err = l.Acquire("ME")
	require.ErrorIs(t, err, ledger.ErrLocked)
	require.NoError(t, other.Release(theirs))
}
