package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fareway/fareway/modules/internal/ledger"
)

//go:embed schema
var schemas embed.FS

// migrate brings the tables to the version of this program, or finds that they are. One node does it, and others wait
// meanwhile: the lock is a row of a table, for a lock of a session would not survive PgBouncer. A schema that is
// newer by one is a newer node's, beside which this one works; one that is newer by more is an error, and nothing is
// undone.
func migrate(ctx context.Context, pool *pgxpool.Pool, options Options) error {
	files, err := fs.Sub(schemas, "schema")
	if err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLogger(options.Logger))
	if err != nil {
		return fmt.Errorf("locking the schema: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithLocker(locker), goose.WithSlog(options.Logger), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading the schema: %w", err)
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	is, err := p.GetDBVersion(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the version of the schema: %w", explain(err))
	case is == newest+1: // of a newer node beside this one, which works with both
		return nil
	case is > newest:
		return newerSchema(is, newest)
	case is == newest:
		return nil
	}
	// A lock that is not to be had at once is asked for again, a little later: who waits for one holds up all others.
	for left := lockTries; ; left-- {
		_, err := p.Up(ctx)
		switch {
		case err == nil:
			return nil
		case left == 1 || !isLocked(err):
			return fmt.Errorf("bringing the schema from version %d to %d: %w", is, newest, explain(err))
		}
		options.Logger.Info("the ledger's tables are in use, and are brought up to date a little later", "tries_left",
			left-1)
	}
}

// lockTries is how often a lock is asked for that a migration needs, for a second each time.
const lockTries = 10

func newerSchema(is, newest int64) error {
	return fmt.Errorf("%w: the database has schema %d, and this fareway knows %d: it belongs to a newer one; start that",
		ledger.ErrUnavailable, is, newest)
}

// newestSchema is the version of this program: that of the last file, whose names begin with theirs.
func newestSchema() (newest int64) {
	files, _ := fs.Glob(schemas, "schema/*.sql") // the pattern is a good one
	for _, name := range files {
		if n, err := goose.NumericComponent(name); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// hints are what to do about errors of the server, by SQLSTATE or its class (PostgreSQL, appendix A).
var hints = map[string]string{
	"28":    "the server does not let this user in: check user and password of the dsn, and pg_hba.conf",
	"3D000": "there is no database of this name: create it, or correct the dsn",
	"42501": "the user may not do this: make it the owner of the database",
	"42P07": "the database has a table of this name already, which is not fareway's: give fareway a database of its own",
	"25006": "this server is read-only, a replica perhaps: the dsn has to lead to the primary",
	"53100": "the server's disk is full",
	"53300": "the server has no connection left: raise max_connections, or put PgBouncer before it",
	"57P03": "the server is starting up, or is not the primary yet",
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	var e *pgconn.PgError
	if unreached, is := errors.AsType[*pgconn.ConnectError](err); is && !errors.As(err, &e) {
		if errors.Is(err, pgconn.ErrReadOnlyConnection) {
			return &unreachedError{unreached, hints["25006"]}
		}
		return &unreachedError{unreached, "look whether the server runs there, and lets this machine in"}
	}
	if !errors.As(err, &e) {
		return err
	}
	for _, code := range [...]string{e.Code, e.Code[:min(2, len(e.Code))]} {
		if hint := hints[code]; hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
	}
	return err
}

// unreachedError is that of a server that nobody reached, in one line and with what to do about it.
type unreachedError struct {
	error
	next string
}

func (e *unreachedError) Unwrap() error { return e.error }

func (e *unreachedError) Error() string {
	return strings.Join(strings.Fields(e.error.Error()), " ") + "; " + e.next
}
