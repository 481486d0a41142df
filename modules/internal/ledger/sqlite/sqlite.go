package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// readers is how many connections read beside the one that writes.
const readers = 4

// Options say where the ledger is and whose clock and chance it uses.
type Options struct {
	// Path of the database file. Beside it appear PATH-wal, PATH-shm and PATH.lock. Its folder exists.
	Path string
	// BootID names this process; it is never used again. Default: 128 random bits.
	BootID string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Rand is where ids come from. Default: crypto/rand.
	Rand io.Reader
	// Logger gets what happened without a caller: recovery, and usage that could not be priced. Default:
	// slog.Default.
	Logger *slog.Logger
	// BusyTimeout is how long to wait for another program that writes to the file. Default: 5 s.
	BusyTimeout time.Duration
	// Observe is told of each operation, by its name in snake case, how long its caller waited and how
	// many shared its commit (0 for a read). It is called on the caller's goroutine. Default: nobody.
	Observe func(operation string, d time.Duration, batch int)
}

func (o *Options) fill() {
	if o.BootID == "" {
		o.BootID = rand.Text()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, int) {}
	}
}

// Store is a ledger in an SQLite file.
type Store struct {
	opts    Options
	lock    *flock.Flock
	conn    *sqlite.Conn // the writer's
	writer  *writer
	readers *sqlitex.Pool

	closing  sync.Once
	closeErr error
}

// Open locks the ledger for this process, creates or migrates it, and releases the holds that dead processes
// left. It returns ErrLocked when another process has it and ErrVersion when this fareway cannot read it.
func Open(opts Options) (_ *Store, err error) {
	opts.fill()
	if opts.Path, err = resolve(opts.Path); err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.lock, err = lock(opts.Path, opts.BootID); err != nil {
		return nil, err
	}
	if err := s.openWriter(); err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w", opts.Path, err)
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("recovering the ledger %s: %w", opts.Path, err)
	}
	s.readers, err = sqlitex.NewPool(opts.Path, sqlitex.PoolOptions{
		Flags:    sqlite.OpenReadOnly,
		PoolSize: readers,
		PrepareConn: func(conn *sqlite.Conn) error {
			conn.SetBusyTimeout(opts.BusyTimeout)
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w", opts.Path, failure(err))
	}
	s.writer = startWriter(s.conn)
	return s, nil
}

func (s *Store) openWriter() error {
	created, err := create(s.opts.Path)
	if err != nil {
		return err
	}
	if s.conn, err = sqlite.OpenConn(s.opts.Path, sqlite.OpenReadWrite); err != nil {
		return failure(err)
	}
	s.conn.SetBusyTimeout(s.opts.BusyTimeout)
	version, err := schemaVersion(s.conn)
	if err != nil {
		return err
	}
	for _, pragma := range []string{
		`PRAGMA journal_mode = wal`,
		`PRAGMA synchronous = full`, // each commit is on the disk before it is answered
		`PRAGMA foreign_keys = on`,
		`PRAGMA journal_size_limit = 67108864`,
	} {
		if err := run(s.conn, pragma, nil); err != nil {
			return fmt.Errorf("setting up: %w", failure(err))
		}
	}
	if err := migrate(s.conn, version); err != nil {
		return err
	}
	if created {
		return syncDir(filepath.Dir(s.opts.Path))
	}
	return nil
}

// create makes the file before SQLite does, so that only its owner can read it; SQLite gives the same
// permissions to the files beside it.
func create(path string) (created bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating it: %w", err)
	}
	return true, f.Close()
}

// syncDir makes the names of new files durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing its folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing its folder: %w", err)
	}
	return nil
}

// Close finishes the operations that wait and lets the lock go. Live holds stay; the next Open releases them.
// Operations after it return ErrUnavailable.
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.writer != nil {
			s.writer.close()
		}
		var errs []error
		if s.readers != nil {
			errs = append(errs, s.readers.Close())
		}
		if s.conn != nil {
			errs = append(errs, s.conn.Close())
		}
		if s.lock != nil {
			errs = append(errs, s.lock.Unlock())
		}
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("closing the ledger: %w", err)
		}
	})
	return s.closeErr
}

// write runs an operation through the writer: durable when it returns nil.
func (s *Store) write(ctx context.Context, operation string, fn func(*tx) error) error {
	start := s.opts.Now()
	batch, err := s.writer.do(ctx, fn)
	s.opts.Observe(operation, s.opts.Now().Sub(start), batch)
	return err
}

// read runs an operation on a connection that cannot write; it sees what was committed before it began.
func (s *Store) read(ctx context.Context, operation string, fn func(*sqlite.Conn) error) error {
	start := s.opts.Now()
	defer func() { s.opts.Observe(operation, s.opts.Now().Sub(start), 0) }()
	conn, err := s.readers.Take(ctx)
	if err == nil {
		defer s.readers.Put(conn)
		err = fn(conn)
	} else {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	if err != nil && ctx.Err() != nil {
		return gaveUp(ctx) // rather than SQLite's word for it
	}
	return failure(err)
}

// newID makes an id of 96 random bits.
func (s *Store) newID(prefix string) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(s.opts.Rand, b[:]); err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return prefix + hex.EncodeToString(b[:]), nil
}

var _ ledger.Store = (*Store)(nil)
