package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func openStore(t testing.TB, change func(*Options)) *Store {
	t.Helper()
	o := Options{Path: filepath.Join(t.TempDir(), "fareway.db"), Logger: slog.New(slog.DiscardHandler),
		WaitTimeout: time.Minute}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// gate occupies the writer until open is called; what queues meanwhile shares the next batch.
func gate(t *testing.T, s *Store) (open func()) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.writer.runOperation(context.Background(), "", "", func(*tx) error {
			close(entered)
			<-leave
			return nil
		})
		if err != nil {
			t.Errorf("the gate failed: %v", err)
		}
	})
	<-entered
	return func() {
		close(leave)
		wg.Wait()
	}
}

// queue hands operations to the writer in order, behind a gate, and returns what they were answered.
func queue(t *testing.T, s *Store, fns ...func(*tx) error) (batches []int, errs []error) {
	batches, errs = make([]int, len(fns)), make([]error, len(fns))
	open := gate(t, s)
	var wg sync.WaitGroup
	for i, fn := range fns {
		before := len(s.writer.queue)
		wg.Go(func() { batches[i], errs[i] = s.writer.runOperation(context.Background(), "", "", fn) })
		require.Eventually(t, func() bool { return len(s.writer.queue) > before }, time.Minute, time.Millisecond)
	}
	open()
	wg.Wait()
	return batches, errs
}

func insertOwner(name string) func(*tx) error {
	return func(t *tx) error {
		return t.exec(`INSERT INTO owners (boot_id, pid, started) VALUES (?, 1, 1)`, name)
	}
}

func owners(t *testing.T, s *Store) (names []string) {
	err := s.read(t.Context(), "test", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT boot_id FROM owners WHERE pid = 1 ORDER BY boot_id`, func(row *sqlite.Stmt) error {
			names = append(names, row.ColumnText(0))
			return nil
		})
	})
	require.NoError(t, err)
	return names
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	refusal := errors.New("refused")
	batches, errs := queue(t, s, insertOwner("a"), func(*tx) error { return ledger.ErrInsufficient }, insertOwner("b"))
	require.Equal(t, []int{3, 3, 3}, batches, "all that waited share one commit")
	require.NoError(t, errs[0])
	require.Equal(t, ledger.ErrInsufficient, errs[1])
	require.NoError(t, errs[2])
	require.Equal(t, []string{"a", "b"}, owners(t, s))

	_, errs = queue(t, s,
		insertOwner("c"),
		func(t *tx) error { return errors.Join(insertOwner("half")(t), refusal) },
		insertOwner("a"), // exists
		insertOwner("d"),
	)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], refusal)
	require.ErrorIs(t, errs[2], ledger.ErrExists)
	require.NoError(t, errs[3])
	require.Equal(t, []string{"a", "b", "c", "d"}, owners(t, s),
		"an operation that failed half way left nothing, and its neighbours are whole")
}

// A commit begins at once when none is on its way, and takes all that came while the one before was.
func TestCommitTakesWhoCame(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	none := func(*tx) error { return nil }
	alone, err := s.writer.runOperation(t.Context(), "", "", none)
	require.NoError(t, err)
	require.Equal(t, 1, alone)
	var (
		crowd   sync.WaitGroup
		batches [40]int
	)
	first, err := s.writer.runOperation(t.Context(), "", "", func(*tx) error {
		for i := range batches {
			crowd.Go(func() { batches[i], _ = s.writer.runOperation(context.Background(), "", "", none) })
		}
		for len(s.writer.queue) < len(batches) {
			runtime.Gosched()
		}
		return nil
	})
	crowd.Wait()
	require.NoError(t, err)
	require.Equal(t, 1, first)
	for _, batch := range batches {
		require.Equal(t, len(batches), batch)
	}
}

func TestFailedCommitIsToldToAll(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	require.NoError(t, run(s.db.conn, `PRAGMA foreign_keys = on`, nil))
	_, errs := queue(t, s,
		insertOwner("a"),
		func(*tx) error { return ledger.ErrInsufficient },
		func(t *tx) error {
			// A reference to nothing that is only noticed at the commit.
			if err := t.exec(
				`CREATE TABLE child (n INTEGER REFERENCES accounts (n) DEFERRABLE INITIALLY DEFERRED)`); err != nil {
				return err
			}
			return t.exec(`INSERT INTO child (n) VALUES (4711)`)
		},
	)
	for _, err := range errs {
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	}
	require.NotErrorIs(t, errs[1], ledger.ErrInsufficient)
	require.Empty(t, owners(t, s))
	_, err := s.writer.runOperation(t.Context(), "", "", insertOwner("b"))
	require.NoError(t, err, "the next transaction works")
}

func TestContext(t *testing.T) {
	t.Parallel()
	t.Run("ends while queued: the operation never runs", func(t *testing.T) {
		t.Parallel()
		s := openStore(t, nil)
		open := gate(t, s)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the client left")
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = s.writer.runOperation(ctx, "", "", insertOwner("a")) })
		require.Eventually(t, func() bool { return len(s.writer.queue) == 1 }, time.Minute, time.Millisecond)
		cancel(cause)
		wg.Wait()
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorIs(t, err, cause)
		open()
		_, err = s.writer.runOperation(t.Context(), "", "", insertOwner("b"))
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, owners(t, s))
	})
	t.Run("ends while it runs: the outcome is told", func(t *testing.T) {
		t.Parallel()
		s := openStore(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.writer.runOperation(ctx, "", "", func(t *tx) error {
			cancel()
			return insertOwner("a")(t)
		})
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, owners(t, s))
	})
	t.Run("ended before", func(t *testing.T) {
		t.Parallel()
		s := openStore(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.CreateAccount(ctx, "a", "")
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Account(ctx, "a")
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestCloseFinishesWhatWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	s := openStore(t, func(o *Options) { o.Path = path })
	open := gate(t, s)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = s.writer.runOperation(context.Background(), "", "", insertOwner("a")) })
	require.Eventually(t, func() bool { return len(s.writer.queue) == 1 }, time.Minute, time.Millisecond)
	wg.Go(func() { _ = s.Close() })
	open()
	wg.Wait()
	require.NoError(t, err)

	_, err = s.CreateAccount(t.Context(), "late", "")
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = s.Lookup(t.Context(), [32]byte{})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NoError(t, s.Close(), "closing twice is closing once")

	again := openStore(t, func(o *Options) { o.Path = path })
	require.Equal(t, []string{"a"}, owners(t, again))
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("another program writes", func(t *testing.T) {
		t.Parallel()
		s := openStore(t, func(o *Options) { o.WaitTimeout = 200 * time.Millisecond })
		other, err := sqlite.OpenConn(s.opts.Path, sqlite.OpenReadWrite)
		require.NoError(t, err)
		require.NoError(t, run(other, `BEGIN IMMEDIATE`, nil))
		_, err = s.CreateAccount(t.Context(), "a", "")
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		_, err = s.Account(t.Context(), "a")
		require.ErrorIs(t, err, ledger.ErrNotFound, "reading goes on")
		require.NoError(t, other.Close())
		require.Eventually(t, func() bool {
			_, err := s.CreateAccount(t.Context(), "a", "")
			return err == nil
		}, 10*time.Second, time.Millisecond)
	})
	t.Run("the disk is full", func(t *testing.T) {
		t.Parallel()
		s := openStore(t, nil)
		limit := func(pragma string) {
			_, err := s.writer.runOperation(t.Context(), "", "", func(t *tx) error { return t.query(pragma, nil) })
			require.NoError(t, err)
		}
		limit(`PRAGMA max_page_count = 1`) // as many as there are
		var err error
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = s.CreateAccount(t.Context(), time.Duration(i).String(), "")
		}
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		limit(`PRAGMA max_page_count = 1000000`)
		_, err = s.CreateAccount(t.Context(), "a", "")
		require.NoError(t, err)
		r, err := s.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.OK, r.Problem)
	})
}

func TestObserve(t *testing.T) {
	t.Parallel()
	type seen struct {
		operation string
		d         time.Duration
		batch     int
	}
	var all []seen
	now := time.Unix(1_000, 0)
	s := openStore(t, func(o *Options) {
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
		o.Observe = func(operation string, d time.Duration, batch int) { all = append(all, seen{operation, d, batch}) }
	})
	_, err := s.PriceVersion(t.Context(), "route", prices(1), prices(1))
	require.NoError(t, err)
	_, err = s.Account(t.Context(), "a")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.Equal(t, []seen{{"price_version", 2 * time.Second, 1}, {"account", time.Second, 0}}, all)
}
