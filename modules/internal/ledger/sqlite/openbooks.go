package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

const (
	// maxLists bounds the lists and verifications that run at the same time; more of them wait.
	maxLists = 4
	// listCache is the page cache of one of them, in KiB: what SQLite may keep of the file, and of a sort.
	listCache = 16 * 1024
)

// source runs an operation on a connection that cannot write.
type source func(ctx context.Context, operation string, fn func(*sqlite.Conn) error) error

// books is ledger.Books over a file. Store and BooksFile are the same code over different connections.
type books struct {
	path    string
	log     string // the path of the spool
	busy    time.Duration
	observe func(operation string, d time.Duration, batch int)
	// brief is for what a request of a client may wait for. Everything else is a list, on a connection of its
	// own: an export to somebody who reads slowly takes none from those who admit requests.
	brief source

	lists   chan struct{} // one for each list that runs
	chores  chan struct{} // the same for the gateway's own
	ctx     context.Context
	cancel  context.CancelFunc
	closing sync.Once

	order order
}

// newBooks reads the ledger at path, which exists. brief may be nil: then brief reads are lists, too.
func newBooks(path, log string, busy time.Duration, observe func(string, time.Duration, int), brief source) *books {
	b := &books{
		path: path, log: log, busy: busy, observe: observe, brief: brief,
		lists: make(chan struct{}, maxLists), chores: make(chan struct{}, 1),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if brief == nil {
		b.brief = b.list
	}
	return b
}

// close ends the lists that run, with ErrUnavailable, and lets no more begin.
func (b *books) close() {
	b.cancel()
	b.closing.Do(func() {
		for _, places := range []chan struct{}{b.lists, b.chores} {
			for range cap(places) {
				places <- struct{}{}
			}
		}
		b.order.ended.Wait()
	})
}

// list runs an operation for somebody who may read slowly.
func (b *books) list(ctx context.Context, operation string, fn func(*sqlite.Conn) error) error {
	return b.runOnSnapshot(ctx, b.lists, operation, fn)
}

// chore runs an operation of the gateway's own, which waits for no list.
func (b *books) chore(ctx context.Context, operation string, fn func(*sqlite.Conn) error) error {
	return b.runOnSnapshot(ctx, b.chores, operation, fn)
}

// runOnSnapshot runs an operation on a connection of its own, in one snapshot.
func (b *books) runOnSnapshot(ctx context.Context, places chan struct{}, operation string,
	fn func(*sqlite.Conn) error) (err error) {
	start := time.Now()
	defer func() { b.observe(operation, time.Since(start), 0) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.ctx, func() { cancel(errClosed) })()
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return gaveUp(ctx)
	}
	defer func() { <-places }()

	conn, err := openReader(b.path, b.busy)
	if err != nil {
		return err
	}
	defer func() {
		if closing := conn.Close(); err == nil {
			err = failure(closing)
		}
	}()
	conn.SetInterrupt(ctx.Done())
	err = run(conn, `BEGIN`, nil) // never committed: there is nothing to commit but temporary tables
	if err == nil {
		err = fn(conn)
	}
	var own *passedError
	switch {
	case errors.As(err, &own):
		return own.error
	case err != nil && ctx.Err() != nil:
		return gaveUp(ctx) // rather than SQLite's word for it
	}
	return failure(err)
}

func openReader(path string, busy time.Duration) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, failure(err)
	}
	conn.SetBusyTimeout(busy)
	if err := run(conn, fmt.Sprintf(`PRAGMA cache_size = -%d`, listCache), nil); err != nil {
		return nil, errors.Join(failure(err), conn.Close())
	}
	return conn, nil
}

// passedError carries an error past failure, which would take it for SQLite's.
type passedError struct{ error }

// give hands rows to a caller's each.
func give[T any](each func(T) error, row T) error {
	if err := each(row); err != nil {
		return &passedError{err}
	}
	return nil
}

// BooksFile reads a ledger's file without admitting requests: no lock, beside a gateway that runs or after one that
// was killed. It changes nothing that is recorded, ends no periods, and holds of dead processes count as live until
// the gateway starts again.
type BooksFile struct{ *books }

// OpenBooks opens the ledger at path for reading, with what a killed process left in the write-ahead log. It
// returns ErrVersion when this fareway cannot read it, and ErrUnavailable when nobody can. SQLite needs to write
// beside it (PATH-shm): a copy on a medium that cannot be written has to be copied to one that can.
func OpenBooks(ctx context.Context, path string) (*BooksFile, error) {
	fail := func(err error) (*BooksFile, error) {
		return nil, fmt.Errorf("opening the books of %s: %w", path, err)
	}
	log := spool.Path(path) // it lies beside the link, where that is one
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	b := newBooks(path, log, patience, func(string, time.Duration, int) {}, nil)
	err = b.list(ctx, "open_books", func(conn *sqlite.Conn) error {
		version, err := schemaVersion(conn)
		switch {
		case errors.Is(err, ErrVersion):
			return &passedError{err}
		case err != nil:
			return err
		case version == 0:
			return &passedError{fmt.Errorf("%w: the database is empty", ErrVersion)}
		case version < len(migrations):
			return &passedError{fmt.Errorf("%w: it has schema version %d and this fareway reads version %d; "+
				"start the gateway on it once, which brings it up to date", ErrVersion, version, len(migrations))}
		}
		return nil
	})
	if sqlite.ErrCode(err) == sqlite.ResultNotADB {
		err = fmt.Errorf("%w: the file is not an SQLite database", ErrVersion)
	}
	if err != nil {
		return fail(err)
	}
	return &BooksFile{books: b}, nil
}

// Close ends what still reads.
func (f *BooksFile) Close() error {
	f.close()
	return nil
}

var _ ledger.Books = (*BooksFile)(nil)
