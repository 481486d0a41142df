package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// A process that was killed leaves the newest commits in the write-ahead log only.
func TestBooksReadTheLogAndChangeNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	kept := s.everything()
	want, err := s.store.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.True(t, want.OK, "%s: %s", want.Entry, want.Problem)

	dir := t.TempDir()
	sums := copyLedger(t, s.store.opts.Path, dir)
	path := filepath.Join(dir, "fareway.db")
	for range 2 {
		b, err := OpenBooks(t.Context(), path)
		require.NoError(t, err)
		got, err := b.Verify(t.Context(), kept...)
		require.NoError(t, err)
		require.Equal(t, want, got)
		a, err := b.Account(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, "pro", a.Plan)
		require.NoError(t, b.Close())
	}
	for name, sum := range sums {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, sum, sha256.Sum256(data), name)
	}
	require.NoFileExists(t, path+".lock")

	beside, err := OpenBooks(t.Context(), s.store.opts.Path)
	require.NoError(t, err, "and it works beside a gateway that runs")
	got, err := beside.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, beside.Close())

	again := newScene(t, path)
	n, err := again.store.Recover(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.Holds, n, "what ran when it was killed")
	r, err := again.store.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Zero(t, r.Holds)
	require.Equal(t, want.Pending+4, r.Pending, "each of their attempts waits")
}

func TestOpenBooksRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(in("empty.db"), nil, 0o600))
	require.NoError(t, os.WriteFile(in("letter.txt"), []byte("Dear Sir or Madam, this is no database at all"), 0o600))
	for name, script := range map[string]string{
		"old.db":   migrations[0],
		"newer.db": `CREATE TABLE meta (version INTEGER); INSERT INTO meta VALUES (99)`,
		"other.db": `CREATE TABLE songs (title TEXT)`,
	} {
		conn, err := sqlite.OpenConn(in(name), sqlite.OpenReadWrite|sqlite.OpenCreate)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		executeScript(t, in(name), script)
	}
	for name, want := range map[string]struct {
		kind error
		text string
	}{
		"empty.db": {ErrVersion, "the database is empty"},
		"old.db": {ErrVersion, "it has schema version 1 and this fareway reads version 21; start the gateway " +
			"on it once"},
		"newer.db":           {ErrVersion, "run the newer fareway"},
		"other.db":           {ErrVersion, "another program's database"},
		"letter.txt":         {ErrVersion, "not an SQLite database"},
		"missing.db":         {ledger.ErrUnavailable, ""},
		"missing/fareway.db": {os.ErrNotExist, "make its folder first"},
	} {
		_, err := OpenBooks(t.Context(), in(name))
		require.ErrorIs(t, err, want.kind, name)
		require.ErrorContains(t, err, want.text, name)
		if errors.Is(want.kind, ErrVersion) {
			require.NotErrorIs(t, err, ledger.ErrUnavailable, "to wait does not help")
		}
	}
	require.NoFileExists(t, in("missing.db"))
}

func executeScript(t *testing.T, path, sql string) {
	require.NoError(t, sqlitex.ExecuteScript(openForWriting(t, path), sql, nil))
}

// Lists take no connection from those who admit requests, more than so many wait, and none outlives the store.
func TestListsHaveConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	leave, entered := make(chan struct{}), make(chan struct{}, maxLists+1)
	leaveAll := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(leaveAll)
	ended := make(chan error, maxLists+1)
	list := func(ctx context.Context) {
		ended <- s.store.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
			if e.Kind == ledger.TopUp && e.Reference == "invoice 3" {
				entered <- struct{}{}
				<-leave
			}
			return nil
		})
	}
	for range maxLists {
		go list(t.Context())
		<-entered
	}
	_, err := s.store.Account(t.Context(), "main")
	require.NoError(t, err)
	_, err = s.store.EndPeriods(t.Context())
	require.NoError(t, err, "nor from the gateway's own chores")
	s.checkpoint()
	s.topUp(5, "")
	s.hold("r90-meanwhile", "small")
	s.settle("r90-meanwhile", nil, used(1, 2))

	ctx, cancel := context.WithCancelCause(t.Context())
	bored := errors.New("bored")
	go list(ctx)
	cancel(bored)
	err = <-ended
	require.ErrorIs(t, err, bored, "a list that waits for its turn gives up with its caller")
	require.ErrorIs(t, err, ledger.ErrUnavailable)

	closed := make(chan struct{})
	go func() {
		s.store.books.close()
		close(closed)
	}()
	<-s.store.books.ctx.Done()
	leaveAll()
	<-closed
	for range maxLists {
		if err := <-ended; err != nil { // it had come to its end already
			require.ErrorIs(t, err, ledger.ErrUnavailable, "what is listed when the store is closed ends")
		}
	}
	require.ErrorIs(t, s.store.Entries(t.Context(), ledger.Query{}, func(ledger.Entry) error { return nil }),
		ledger.ErrUnavailable)
}

func TestListsReturnTheErrorOfTheirCaller(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	enough := errors.New("enough")
	err := s.store.Usage(t.Context(), ledger.UsageQuery{}, func(ledger.UsageRow) error { return enough })
	require.ErrorIs(t, err, enough)
	require.NotErrorIs(t, err, ledger.ErrUnavailable, "it is the caller's, not the store's")
}
