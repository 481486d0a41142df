package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/spool"
)

// readers is how many connections answer short questions beside the one that writes.
const readers = 4

// Options say where the ledger is and whose clock and chance it uses.
type Options struct {
	// Path of the database file. Beside it appear PATH-wal, PATH-shm, PATH.lock and
	// PATH.witness. Its folder exists.
	Path string
	// BootID names this process; it is never used again. Default: 128 random bits.
	BootID string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Rand is where ids come from. Default: crypto/rand.
	Rand io.Reader
	// Terms are what a plan gives and allows now. It is asked at every operation, on the writer's goroutine, and
	// must not call the ledger. Default: nothing is limited, and periods stay as they are.
	Terms func(plan string) ledger.Terms
	// WaitTimeout is how long an operation may wait for the disk, or for another program that writes to the
	// file, before its caller is told ErrUnavailable. Lists and verifications take their time. Default: 5 s.
	WaitTimeout time.Duration
	// Logger gets what happened without a caller: recovery, usage that could not be priced, a file that cannot
	// be written. Default: slog.Default.
	Logger *slog.Logger
	// Observe is told of each operation, by its name in snake case, how long its caller waited and how
	// many shared its commit (0 for a read). It is called on the caller's goroutine. Default: nobody.
	Observe func(operation string, d time.Duration, batch int)
	// Behind has a commit on the disk when Sync was called after it, and not before it is answered: it survives this
	// process, and a power cut may take the last ones. Nothing is corrupted then.
	Behind bool

	machine machineBoot // that it runs in; bootOfMachine
	log     string      // the path of its spool
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
	if o.WaitTimeout == 0 {
		o.WaitTimeout = 5 * time.Second
	}
	if o.machine == (machineBoot{}) {
		o.machine = bootOfMachine()
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, int) {}
	}
}

// Store is a ledger in an SQLite file.
type Store struct {
	*books
	opts    Options
	lease   *fileLease
	grant   ledger.Grant
	db      *database // the writer's once it runs
	writer  *writer
	readers *pool

	stopProfiles func() // see startProfiles

	pinged atomic.Int64 // of db.failures, those that Ping has seen the end of

	closing  sync.Once
	closeErr error
}

// Open locks the ledger for this process and creates or migrates it. Holds that dead processes left stay until
// Recover. It returns ledger.ErrLocked when another process has it and ErrVersion when this fareway cannot read it.
func Open(opts Options) (_ *Store, err error) {
	opts.fill()
	opts.log = spool.Path(opts.Path) // it lies beside the link, where that is one
	if opts.Path, err = resolve(opts.Path); err != nil {
		return nil, err
	}
	s := &Store{opts: opts, lease: newFileLease(opts.Path), stopProfiles: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.grant, err = s.lease.Acquire(opts.BootID); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w%s", opts.Path, err, advice(err))
	}
	return s, nil
}

func (s *Store) open() error {
	created, err := create(s.opts.Path)
	if err != nil {
		return err
	}
	if err := settleLog(s.opts.Path, s.opts.Now()); err != nil {
		return err
	}
	if s.db, err = openDatabase(&s.opts); err != nil {
		return err
	}
	if created {
		if err := files.SyncFolder(filepath.Dir(s.opts.Path)); err != nil {
			return err
		}
	}
	owners, err := s.db.signIn()
	if err != nil {
		return err
	}
	if s.grant, err = s.lease.raise(s.grant, owners); err != nil {
		return err
	}
	if err := s.db.beginWitness(); err != nil {
		return err
	}
	s.reclaim()
	s.readers = newPool(s.opts.Path, readers, s.opts.WaitTimeout)
	s.db.renew = s.readers.renew
	s.books = newBooks(s.opts.Path, s.opts.log, s.opts.WaitTimeout, s.opts.Observe, s.read)
	var without audit.Unprofiled
	if err := readUnprofiled(s.db.conn, &without); err != nil {
		return failure(err)
	}
	s.writer = startWriter(s.db, s.opts.WaitTimeout)
	if err := s.bookPowerCut(); err != nil {
		return err
	}
	if without.After != nil {
		s.startProfiles()
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

// Close finishes the operations that wait and lets the lock go. Live holds stay; the next process releases
// them. Operations after it return ErrUnavailable.
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.books != nil {
			s.books.close()
		}
		s.stopProfiles()
		if s.writer != nil {
			s.writer.close()
		}
		var errs []error
		if s.readers != nil {
			errs = append(errs, s.readers.close())
		}
		if s.db != nil {
			errs = append(errs, s.settleWitness(), s.db.close(), s.db.progress.close())
		}
		errs = append(errs, s.lease.Release(s.grant))
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("closing the ledger: %w", err)
		}
	})
	return s.closeErr
}

// Offer implements live.Store.
func (s *Store) Offer() error { return s.lease.Offer(s.grant) }

// IsAwaited implements live.Store.
func (s *Store) IsAwaited() bool { return s.lease.IsAwaited() }

// Sync has all that was committed on the disk, where Options.Behind leaves that to somebody (GAP-133). It keeps nobody
// waiting: SQLite syncs the log before it copies it into the database, and that before it begins the log anew.
func (s *Store) Sync() error {
	if !s.opts.Behind || !s.db.unsynced.Swap(false) {
		return nil
	}
	if err := syncLogFile(s.opts.Path + "-wal"); err != nil {
		s.db.unsynced.Store(true)
		return fmt.Errorf("syncing the ledger's write-ahead log: %w", err)
	}
	return nil
}

func syncLogFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// settleWitness has the witness say, where the ledger was synced behind, that all of it is on the disk now: what is
// missing later no power cut has taken.
func (s *Store) settleWitness() error {
	if !s.opts.Behind || s.db.progress.witness == nil || s.db.progress.lost.Load() != nil {
		return nil
	}
	if err := s.Sync(); err != nil {
		return err
	}
	s.db.tell(func(t *testimony) { t.behind = false })
	return s.db.progress.witness.file.Sync()
}

// write runs an operation through the writer: durable when it returns nil, but for Options.Behind.
func (s *Store) write(ctx context.Context, operation string, fn func(*tx) error) error {
	return s.perform(ctx, operation, "", "", fn)
}

// perform is write for an operation that makes a hold for a request, or begins an attempt: see operation.
func (s *Store) perform(ctx context.Context, name, holds, begins string, fn func(*tx) error) error {
	start := s.opts.Now()
	batch, err := s.writer.runOperation(ctx, holds, begins, fn)
	s.opts.Observe(name, s.opts.Now().Sub(start), batch)
	return err
}

// read runs a short operation on a connection that cannot write; it sees what was committed before it began.
func (s *Store) read(ctx context.Context, operation string, fn func(*sqlite.Conn) error) (err error) {
	start := s.opts.Now()
	defer func() { s.opts.Observe(operation, s.opts.Now().Sub(start), 0) }()
	conn, err := s.readers.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.readers.release(conn, err) }()
	return failure(fn(conn))
}

var _ ledger.Store = (*Store)(nil)
