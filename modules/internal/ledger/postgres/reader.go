package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
)

// Books reads a ledger without being a node: it writes nothing, takes no lease, and needs no primary. Periods that have
// ended since a node looked last are as they were then.
type Books struct {
	ledger.Books
	store *Store
}

// OpenBooks opens the ledger of a database for reading, or of a replica of it.
func OpenBooks(ctx context.Context, url string) (*Books, error) {
	s, err := openReader(ctx, Options{URL: url})
	if err == nil {
		err = s.checkServed(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the books: %w", errors.Join(err, s.Close()))
	}
	return &Books{Books: books{s}, store: s}, nil
}

// Close ends what still reads.
func (b *Books) Close() error { return b.store.Close() }

// Seen is up to which moment the books have what happened, where they are a replica's: the commit that was replayed
// last. It is zero for a primary, and for a replica that has replayed nothing since it was started.
func (b *Books) Seen(ctx context.Context) (at time.Time, replica bool, err error) {
	var replayed *time.Time
	err = b.store.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), pg_last_xact_replay_timestamp()`).
		Scan(&replica, &replayed)
	if replica && replayed != nil {
		at = replayed.UTC()
	}
	return at, replica, unavailable(err)
}

// openReader connects to a database that has the schema of this program, or of one newer by one.
func openReader(ctx context.Context, o Options) (*Store, error) {
	o.fill()
	s := newStore(o)
	if err := s.connect(ctx, toAny); err != nil {
		return s, err
	}
	if err := s.checkVersion(ctx); err != nil {
		return s, err
	}
	var is int64
	err := s.pool.QueryRow(ctx, `SELECT version_id FROM goose_db_version WHERE is_applied ORDER BY id DESC LIMIT 1`).
		Scan(&is)
	var e *pgconn.PgError
	newest, known := newestSchema(), errors.As(err, &e)
	switch {
	case known && e.Code == "42P01":
		return s, fmt.Errorf("%w: there is no ledger in this database: look whether the dsn names the right one",
			ledger.ErrNotFound)
	case err != nil:
		return s, unavailable(err)
	case is > newest+1:
		return s, newerSchema(is, newest)
	case is < newest:
		return s, fmt.Errorf("%w: the database has schema %d, and this fareway reads %d: start a gateway of this version on "+
			"it once, which brings it up to date", ledger.ErrUnavailable, is, newest)
	}
	return s, nil
}

// checkServed is an error while a ledger is being moved into the database, and where one was that is served elsewhere.
func (s *Store) checkServed(ctx context.Context) error {
	source, state := "", ""
	err := queryRows(ctx, s.pool, to(&source, &state), `SELECT source, state FROM moves WHERE state <> 'done'`)
	if err == nil && state == string(move.Undone) {
		return fmt.Errorf("%w: the ledger of %s was moved into this database and brought back, and goes on there: use "+
			"another database, and drop this one", ledger.ErrUnavailable, source)
	}
	if err == nil && source != "" {
		return fmt.Errorf("%w: the ledger of %s is being moved into this database, and not all of it is here: finish it "+
			"with `fareway gateway ledger move` there, or use another database", ledger.ErrUnavailable, source)
	}
	return unavailable(err)
}

// books read as the store does, without what the store does before: periods are not ended, which writes.
type books struct{ *Store }

// Account implements ledger.Books.
func (b books) Account(ctx context.Context, idOrName string) (v ledger.Account, err error) {
	err = b.list(ctx, "account", func(ctx context.Context, tx pgx.Tx) error {
		v, err = findAccount(ctx, tx, idOrName)
		return err
	})
	return v, wrap(listed(err), "reading account %q", idOrName)
}

// Accounts implements ledger.Books.
func (b books) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	return b.listAccounts(ctx, after, each)
}

// Keys implements ledger.Books.
func (b books) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	return b.listKeys(ctx, q, each)
}

// isConflict reports whether a replica has ended a query so that it can go on replaying.
func isConflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && strings.Contains(e.Message, "conflict with recovery")
}

// isEnded reports whether the server has ended a query or its connection. Of a replica whose snapshot is in the way it
// ends the connection where no query runs just then, and says so to nobody who writes before he reads. Whoever asks on
// after that finds the connection closed, or the transaction aborted (25P02).
func isEnded(err error) bool {
	var lost net.Error
	var e *pgconn.PgError
	return isConflict(err) || errors.As(err, &lost) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &e) && e.Code == "25P02"
}

func (s *Store) isReplica(ctx context.Context) (is bool) {
	err := s.pool.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&is)
	return err == nil && is
}

var errConflict = errors.New("the replica has ended the query, for it held up what the replica replays: set " +
	"hot_standby_feedback = on there, or max_standby_streaming_delay to longer than this takes (-1: however long), or " +
	"ask another replica, or the primary")

// tries is how often a verification begins anew that a replica has ended.
const tries = 3
