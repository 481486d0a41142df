package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func sizeOf(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func pagesOf(t *testing.T, s *Store) (p pages) {
	require.NoError(t, s.read(t.Context(), "pages", func(conn *sqlite.Conn) (err error) {
		p, err = readPages(conn)
		return err
	}))
	return p
}

// clean opens a copy of a ledger as a killed process would leave it, and verifies it with its witness.
func clean(t *testing.T, path string, sums map[string]int64) {
	copied := filepath.Join(t.TempDir(), "fareway.db")
	copyLedger(t, path, filepath.Dir(copied))
	s, err := Open(Options{Path: copied, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.Nil(t, s.Loss(), "GAP-133 nothing is missing")
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.True(t, r.Witnessed)
	require.Equal(t, sums, r.Sums)
	require.NoError(t, s.Close())
}

// The room of what was pruned goes back to the file system in steps, and a crash behind any of them leaves a clean
// ledger.
func TestShrink(t *testing.T) {
	t.Parallel()
	const charges = 4_000
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 10, charges)
	conn := openForWriting(t, path)
	for _, query := range []string{`PRAGMA auto_vacuum = incremental`, `VACUUM`} { // as that of a new ledger
		require.NoError(t, run(conn, query, nil))
	}
	steps := 0
	var s *Store
	var sums map[string]int64
	s, err := Open(Options{Path: path, Logger: slog.New(slog.DiscardHandler),
		Observe: func(operation string, _ time.Duration, _ int) {
			if operation != "shrink" {
				return
			}
			if steps++; steps%3 == 1 {
				clean(t, path, sums)
			}
		}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	sums = r.Sums
	shrunk, err := s.Shrink(t.Context())
	require.NoError(t, err)
	require.Equal(t, shrunk.Before, shrunk.After, "nothing is free")
	_, err = s.Prune(t.Context(), fillStart.AddDate(0, 0, 1))
	require.NoError(t, err)
	free := pagesOf(t, s).free
	require.Greater(t, free, int64(3*shrinkStep))
	before := sizeOf(t, path)
	steps = 0
	shrunk, err = s.Shrink(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, int64(steps), free/shrinkStep)
	require.False(t, shrunk.Waits)
	require.Zero(t, pagesOf(t, s).free)
	require.Less(t, sizeOf(t, path), before*2/3)
	require.Less(t, shrunk.After, shrunk.Before*2/3)
	clean(t, path, sums)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Shrink(ctx)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
}

func TestANewFileCanShrink(t *testing.T) {
	t.Parallel()
	require.True(t, pagesOf(t, openStore(t, nil)).incremental)
}

// A file of before is written anew at the start when much of it is free, once; not while a loss is undecided.
func TestReclaim(t *testing.T) {
	t.Parallel()
	const charges = 8_000
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 10, charges)
	var said bytes.Buffer
	open := func() *Store {
		said.Reset()
		s, err := Open(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, err)
		return s
	}
	s := open()
	require.False(t, pagesOf(t, s).incremental)
	require.NotContains(t, said.String(), "smaller", "nothing is free")
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	_, err = s.Prune(t.Context(), fillStart.AddDate(0, 0, 1))
	require.NoError(t, err)
	shrunk, err := s.Shrink(t.Context())
	require.NoError(t, err)
	require.True(t, shrunk.Waits)
	require.Equal(t, shrunk.Before, shrunk.After)
	require.NoError(t, s.Close())
	before := sizeOf(t, path)

	witness := path + ".witness"
	kept, err := os.ReadFile(witness)
	require.NoError(t, err)
	w, err := openWitness(path)
	require.NoError(t, err)
	require.NoError(t, w.write(func(t *testimony) { t.entries++ }), "an entry that the file does not have")
	require.NoError(t, w.file.Close())
	s = open()
	require.NotNil(t, s.Loss())
	require.False(t, pagesOf(t, s).incremental, "what is left of the newer file stays")
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(witness, kept, 0o600))

	s = open()
	require.Contains(t, said.String(), "the ledger's file was made smaller")
	require.True(t, pagesOf(t, s).incremental)
	require.Less(t, sizeOf(t, path), before*2/3)
	require.Nil(t, s.Loss())
	clean(t, path, r.Sums)
	require.NoError(t, s.Close())
	s = open()
	require.Equal(t, 0, strings.Count(said.String(), "smaller"), "once")
	require.NoError(t, s.Close())
}
