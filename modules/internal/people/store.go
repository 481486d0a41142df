package people

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver; the ledger uses the same SQLite by another one

	"github.com/fareway/fareway/modules/internal/ledger"
)

//go:embed schema/*.sql
var schemas embed.FS

const (
	// connections is how many there are to PostgreSQL at most, and readers of a file: the ledger's need the rest.
	connections = 4
	// patience is how long anything waits for the store.
	patience = 5 * time.Second
	// migrating is how long the tables of a new version may take, and lockEvery how often it is looked whether another
	// node has made them.
	migrating = 30 * time.Second
	lockEvery = 100 * time.Millisecond
	// retryEvery is how long a store that could not be opened is left alone: somebody waits for each look.
	retryEvery = time.Second
	// attempts is how often a transaction is begun that others get in the way of.
	attempts = 20
)

// store keeps people in a file of SQLite or in tables of PostgreSQL, by the same statements.
type store struct {
	path, dsn string
	log       *slog.Logger
	now       func() time.Time
	record    func(ctx context.Context, action, account, subject string, after map[string]any) error

	mu     sync.Mutex
	db     *sql.DB
	closed bool
	failed error     // why it could not be opened
	since  time.Time // when that was
}

// unavailable is an error of the store. Its text is not the ledger's, for that may well be there.
type unavailable struct{ err error }

func (u *unavailable) Error() string { return "the store of people is away: " + u.err.Error() }

func (u *unavailable) Unwrap() []error { return []error{ledger.ErrUnavailable, u.err} }

// away wraps what the database says.
func away(err error) error {
	if err == nil {
		return nil
	}
	return &unavailable{err}
}

// ready is the database, with the tables of this program.
func (s *store) ready(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, away(errors.New("the gateway stops, or has no portal any more"))
	case s.db != nil:
		return s.db, nil
	case s.failed != nil && s.now().Sub(s.since).Abs() < retryEvery:
		return nil, s.failed
	}
	// Who asks may leave; whoever comes next wants it, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrating)
	defer cancel()
	db, err := s.open()
	if err == nil {
		if err = s.migrate(ctx, db); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		s.failed, s.since = away(fmt.Errorf("opening it: %w", err)), s.now()
		return nil, s.failed
	}
	s.db, s.failed = db, nil
	return db, nil
}

func (s *store) open() (*sql.DB, error) {
	if s.dsn != "" {
		c, err := pgx.ParseConfig(s.dsn)
		if err != nil {
			return nil, errors.New("its dsn cannot be read; it looks like postgres://user:password@host/database")
		}
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		c.ConnectTimeout = patience
		// No statement is prepared for later, which PgBouncer would not know of.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
		db := stdlib.OpenDB(*c)
		db.SetMaxOpenConns(connections)
		db.SetConnMaxIdleTime(time.Minute)
		return db, nil
	}
	return openFile(s.path)
}

// openFile opens a file for reading and writing, which only its owner may, and makes it where there is none.
func openFile(path string) (*sql.DB, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would make it for everybody to read
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, err := openSQLite(path, url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()), "journal_mode(wal)", "foreign_keys(on)"}})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetConnMaxIdleTime(time.Minute)
	return db, nil
}

// openSQLite opens a file by a URI, in which a path has to be a whole one.
func openSQLite(path string, query url.Values) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
}

// migrate brings the tables to those of this program. In PostgreSQL one node does it, and others wait meanwhile: the
// lock is a row of a table, for a lock of a session would not survive PgBouncer. Tables that are newer by one are
// those of a newer node, beside which this one works.
func (s *store) migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(schemas, "schema")
	if err != nil {
		return err
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithTableName("portal_versions"),
		goose.WithSlog(slog.New(slog.DiscardHandler)), goose.WithDisableGlobalRegistry(true)}
	if s.dsn != "" {
		locker, err := lock.NewPostgresTableLocker(lock.WithTableName("portal_lock"),
			lock.WithTableLockTimeout(lockEvery, uint64(migrating/lockEvery)))
		if err != nil {
			return fmt.Errorf("locking the schema: %w", err)
		}
		dialect, options = goose.DialectPostgres, append(options, goose.WithLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	var is int64
	// Without the lock: it is true each time but the first, and then there may be no such table.
	known := db.QueryRowContext(ctx, `SELECT max(version_id) FROM portal_versions`).Scan(&is)
	if known != nil || is < newest {
		is, err = p.GetDBVersion(ctx)
	}
	switch {
	case err != nil:
		return fmt.Errorf("reading the version of its tables: %w", err)
	case is > newest+1:
		return fmt.Errorf("it has tables of version %d, and this fareway knows %d: they belong to a newer one; start that",
			is, newest)
	case is >= newest:
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bringing its tables from version %d to %d: %w", is, newest, err)
	}
	return nil
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return db.Close()
}

// act is what the audit trail is told of a change.
type act struct {
	action, account, subject string
	after                    map[string]any
}

// reader asks the store: on its own, or within a transaction.
type reader struct {
	ctx context.Context
	q   interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

// tx is a transaction.
type tx struct {
	reader
	acts []act
}

// note has the audit trail told before the transaction is committed.
func (t *tx) note(action, account, subject string, after map[string]any) {
	t.acts = append(t.acts, act{action, account, subject, after})
}

// exec is how many rows a statement has changed.
func (r *reader) exec(query string, args ...any) (int64, error) {
	result, err := r.q.ExecContext(r.ctx, query, args...)
	if err != nil {
		return 0, away(err)
	}
	n, err := result.RowsAffected()
	return n, away(err)
}

// find reads one row, if there is one.
func (r *reader) find(query string, args []any, to ...any) (found bool, err error) {
	switch err := r.q.QueryRowContext(r.ctx, query, args...).Scan(to...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, away(err)
	}
	return true, nil
}

// scanner is a row.
type scanner interface{ Scan(to ...any) error }

// list reads rows.
func list[T any](r *reader, read func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := r.q.QueryContext(r.ctx, query, args...)
	if err != nil {
		return nil, away(err)
	}
	defer func() { err = errors.Join(err, away(rows.Close())) }()
	for rows.Next() {
		v, err := read(rows)
		if err != nil {
			return nil, away(err)
		}
		all = append(all, v)
	}
	return all, away(rows.Err())
}

// read asks without a transaction.
func (s *store) read(ctx context.Context) (*reader, error) {
	db, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return &reader{ctx, db}, nil
}

// transact runs change in a transaction that is as if it were alone, and again where others got in its way. What it
// has to say to the audit trail is there before the change is: nothing changes of which there is no act.
func (s *store) transact(ctx context.Context, change func(*tx) error) error {
	db, err := s.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	var recorded []act
	for n := 1; ; n++ {
		err := s.try(ctx, db, change, &recorded)
		if err == nil || n == attempts || !isInTheWay(err) {
			return err
		}
	}
}

func (s *store) try(ctx context.Context, db *sql.DB, change func(*tx) error, recorded *[]act) error {
	var isolation sql.TxOptions
	if s.dsn != "" {
		isolation.Isolation = sql.LevelSerializable // a file has one writer
	}
	begun, err := db.BeginTx(ctx, &isolation)
	if err != nil {
		return away(err)
	}
	t := &tx{reader: reader{ctx, begun}}
	if err := change(t); err != nil {
		_ = begun.Rollback() // the connection goes where that fails
		return err
	}
	for _, a := range t.acts[min(len(*recorded), len(t.acts)):] {
		if s.record == nil {
			break
		}
		if err := s.record(ctx, a.action, a.account, a.subject, a.after); err != nil {
			_ = begun.Rollback()
			return fmt.Errorf("writing the audit trail: %w", err)
		}
		*recorded = append(*recorded, a)
	}
	return away(begun.Commit())
}

// isInTheWay reports whether a transaction has failed for others, by SQLSTATE (PostgreSQL, appendix A).
func isInTheWay(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}

// nanos and moment are how times are kept; 0 is never.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
