package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestEveryKeyTakesTheSameWork: a key that nobody has takes what one takes that was revoked or has expired: the same
// statement, with one row.
func TestEveryKeyTakesTheSameWork(t *testing.T) {
	t.Parallel()
	store, err := Open(Options{Path: t.TempDir() + "/ledger.db"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	_, err = store.Lookup(t.Context(), [32]byte{1})
	require.ErrorIs(t, err, ledger.ErrNotFound, "with no key at all")
	a, err := store.CreateAccount(t.Context(), "acme", "")
	require.NoError(t, err)
	past := time.Now().Add(time.Hour)
	for n, change := range []ledger.KeyChange{{}, {}, {Expires: &past}} {
		key, err := store.CreateKey(t.Context(), a.ID, string(rune('a'+n)), [32]byte{byte(n)}, "abcd", change)
		require.NoError(t, err)
		if n == 1 {
			_, err = store.RevokeKey(t.Context(), key.ID)
			require.NoError(t, err)
		}
	}
	work := func(hash [32]byte) (rows int) {
		require.NoError(t, store.read(t.Context(), "lookup", func(conn *sqlite.Conn) error {
			return run(conn, lookupQuery, func(row *sqlite.Stmt) error {
				rows++
				require.Equal(t, hash[0] < 3, row.ColumnBool(0), "whether it is known")
				return nil
			}, hash)
		}))
		return rows
	}
	for _, hash := range [][32]byte{{0}, {1}, {2}, {9}} {
		require.Equal(t, 1, work(hash), hash[0])
	}
	for n := range byte(3) {
		p, err := store.Lookup(t.Context(), [32]byte{n})
		require.NoError(t, err)
		require.Equal(t, n == 1, p.Key.Revoked)
	}
	p, err := store.Lookup(t.Context(), [32]byte{9})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.Zero(t, p, "what was read in its place is nobody's business")
}
