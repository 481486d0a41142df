package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// dropMonths drops the partitions of months, so that what is settled lies in the rest.
func dropMonths(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	rows, err := conn.Query(ctx, `SELECT relname`+fromMonths)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, name := range names {
		_, err := conn.Exec(ctx, `DROP TABLE `+pgx.Identifier{name}.Sanitize())
		require.NoError(t, err)
	}
}

const (
	fromMonths  = ` FROM pg_class WHERE relkind = 'r' AND relname ~ '^(requests|attempts)_[0-9]'`
	countMonths = `SELECT count(*)` + fromMonths
)

// pay has a request of now's id held and settled.
func pay(ctx context.Context, t *testing.T, store *postgres.Store, c customer, n int) {
	t.Helper()
	request := fmt.Sprintf("req_%012x%020x", time.Now().UnixMilli(), n)
	_, err := store.Hold(ctx, c.hold(request, 1_000))
	require.NoError(t, err)
	_, err = store.Settle(ctx, settlement(request, 700))
	require.NoError(t, err)
}

// TestMonths makes partitions under what can be in their way: rows in the rest that belong there, nodes that make them
// at once, and readers that keep the table. Open succeeds, and requests go on.
func TestMonths(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("rows in the rest", func(t *testing.T) {
		t.Parallel()
		url := databaseOf(t, t.Name())
		store := openStore(t, url, "node")
		c := newCustomer(t, store, 10)
		conn := connect(ctx, t, url)
		dropMonths(ctx, t, conn)
		pay(ctx, t, store, c, 1)
		require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM requests_rest`))
		require.NoError(t, store.Close())
		store = openStore(t, url, "next")
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		require.EqualValues(t, 4, count(ctx, t, conn, countMonths), "those of the next two months")
		pay(ctx, t, store, c, 2)
		require.EqualValues(t, 2, count(ctx, t, conn, `SELECT count(*) FROM requests_rest`))
		verifyOK(ctx, t, store)
	})

	t.Run("nodes at once", func(t *testing.T) {
		t.Parallel()
		url := databaseOf(t, t.Name())
		conn := connect(ctx, t, url)
		dropMonths(ctx, t, conn)
		var opening sync.WaitGroup
		stores := make([]*postgres.Store, 4)
		for i := range stores {
			opening.Go(func() {
				var err error
				stores[i], err = postgres.Open(ctx, postgres.Options{
					Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute}, URL: url, BootID: fmt.Sprint("node ", i)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
		c := newCustomer(t, stores[0], 10)
		for i, store := range stores {
			pay(ctx, t, store, c, i)
		}
		_, err := stores[0].EndPeriods(ctx) // makes what was left
		require.NoError(t, err)
		require.EqualValues(t, 6, count(ctx, t, conn, countMonths))
		verifyOK(ctx, t, stores[0])
		for _, store := range stores {
			require.NoError(t, store.Close())
		}
	})

	t.Run("a reader that keeps the table", func(t *testing.T) {
		t.Parallel()
		url := databaseOf(t, t.Name())
		first := openStore(t, url, "first")
		t.Cleanup(func() { require.NoError(t, first.Close()) })
		c := newCustomer(t, first, 10)
		conn, reader := connect(ctx, t, url), connect(ctx, t, url)
		dropMonths(ctx, t, conn)
		tx, err := reader.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `LOCK TABLE requests, attempts IN ACCESS SHARE MODE`)
		require.NoError(t, err)
		done := make(chan struct{})
		var paying sync.WaitGroup
		paying.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					pay(ctx, t, first, c, i)
				}
			}
		})
		second := openStore(t, url, "second")
		t.Cleanup(func() { require.NoError(t, second.Close()) })
		pay(ctx, t, second, c, 1<<20)
		close(done)
		paying.Wait()
		require.NoError(t, tx.Rollback(ctx))
		_, err = second.EndPeriods(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 4, count(ctx, t, conn, countMonths), "but this one's, whose rows are in the rest")
		verifyOK(ctx, t, second)
	})
}

// TestEmptyMonthsAreDropped prunes what is all of a month, and has its partitions dropped, unless somebody reads them:
// requests go on meanwhile.
func TestEmptyMonthsAreDropped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	conn, reader := connect(ctx, t, url), connect(ctx, t, url)
	month := func(of string, year int) {
		from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s_%d_01 PARTITION OF %[1]s FOR VALUES FROM ('req_%012[3]x')
			TO ('req_%012[4]x')`, of, year, from.UnixMilli(), from.AddDate(0, 1, 0).UnixMilli()))
		require.NoError(t, err)
	}
	old := fmt.Sprintf("req_%012x%020x", time.Date(2024, 1, 5, 0, 0, 0, 0, time.UTC).UnixMilli(), 1)
	for _, year := range []int{2023, 2024} {
		month("requests", year)
		month("attempts", year)
	}
	_, err := store.Hold(ctx, c.hold(old, 1_000))
	require.NoError(t, err)
	_, err = store.Settle(ctx, settlement(old, 700))
	require.NoError(t, err)
	require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM requests_2024_01`))

	_, err = store.Prune(ctx, time.Now().AddDate(0, 0, -1)) // none was settled so long ago
	require.NoError(t, err)
	require.EqualValues(t, 6+2, count(ctx, t, conn, countMonths), "the empty month is gone, the one with rows is not")

	tx, err := reader.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT count(*) FROM requests`)
	require.NoError(t, err)
	done := make(chan struct{})
	var paying sync.WaitGroup
	paying.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				pay(ctx, t, store, c, i)
			}
		}
	})
	before := time.Now()
	_, err = store.Prune(ctx, before)
	require.NoError(t, err)
	close(done)
	paying.Wait()
	require.Zero(t, count(ctx, t, conn, `SELECT count(*) FROM requests_2024_01`), "its detail is removed")
	require.NoError(t, tx.Rollback(ctx))
	_, err = store.Prune(ctx, before)
	require.NoError(t, err)
	require.EqualValues(t, 6, count(ctx, t, conn, countMonths))

	_, err = store.Settle(ctx, settlement(old, 700))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	pruned, err := store.Pruned(ctx, old)
	require.NoError(t, err)
	require.Len(t, pruned.Entries, 1)
	pay(ctx, t, store, c, 1<<20)
	verifyOK(ctx, t, store)
}

// TestMonthThatIsFilledMeanwhile has a row committed while its partition is about to be dropped, in a database whose
// transactions see one moment unless they say otherwise: the partition stays.
func TestMonthThatIsFilledMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	conn, watcher := connect(ctx, t, url), connect(ctx, t, url)
	_, err := conn.Exec(ctx, `ALTER DATABASE `+databaseName(url)+` SET default_transaction_isolation = 'repeatable read'`)
	require.NoError(t, err)
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	pay(ctx, t, store, newCustomer(t, store, 10), 1)
	month := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	id := func(at time.Time) string { return fmt.Sprintf("req_%012x", at.UnixMilli()) }
	_, err = conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE requests_2020_01 PARTITION OF requests
		FOR VALUES FROM ('%s') TO ('%s')`, id(month), id(month.AddDate(0, 1, 0))))
	require.NoError(t, err)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `INSERT INTO requests SELECT (jsonb_populate_record(o,
		jsonb_build_object('request', $1::text))).* FROM requests AS o LIMIT 1`, id(month.AddDate(0, 0, 3)))
	require.NoError(t, err)
	pruned := make(chan error, 1)
	go func() { _, err := store.Prune(ctx, month.AddDate(1, 0, 0)); pruned <- err }()
	isSoon(t, func() bool {
		return len(pruned) > 0 || count(ctx, t, watcher, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%'`) > 0
	}, "it waits for the table")
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-pruned)
	require.EqualValues(t, 1, count(ctx, t, watcher, `SELECT count(*) FROM requests_2020_01`))
}
