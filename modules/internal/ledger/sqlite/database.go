package sqlite

import (
	"errors"
	"fmt"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// database is the one connection that writes, with what is known of the file.
type database struct {
	tx
	dataVersion int64 // moves when another connection has written
	broken      bool  // to be opened anew
	// failures counts the transactions that the store itself failed.
	failures atomic.Int64
	// unsynced: something may have been committed that is not on the disk.
	unsynced atomic.Bool
	guard    *guard
	// renew closes the connections that read, before a broken one is opened anew with everything that they share.
	renew func()
}

// openDatabase opens the file for writing and brings its schema up to date.
func openDatabase(opts *Options) (*database, error) {
	d := &database{tx: tx{memory: newMemory(), opts: opts, unmade: make(map[string]bool),
		progress: &progress{}}, renew: func() {}}
	var err error
	if d.guard, err = newGuard(opts.Path); err != nil {
		return nil, err
	}
	if err := d.connect(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *database) connect() (err error) {
	if d.conn, err = sqlite.OpenConn(d.opts.Path, sqlite.OpenReadWrite); err != nil {
		d.conn = nil
		return failure(err)
	}
	d.conn.SetBusyTimeout(d.opts.WaitTimeout)
	version, err := schemaVersion(d.conn)
	if err != nil {
		return err
	}
	if version == 0 {
		// Only before there is a page.
		if err := run(d.conn, `PRAGMA auto_vacuum = incremental`, nil); err != nil {
			return fmt.Errorf("setting up: %w", failure(err))
		}
	}
	synchronous := `PRAGMA synchronous = full` // each commit is on the disk before it is answered
	if d.opts.Behind {
		synchronous = `PRAGMA synchronous = normal` // the log is, before it comes into the database, and when Sync is called
	}
	for _, pragma := range []string{
		`PRAGMA journal_mode = wal`,
		synchronous,
		`PRAGMA journal_size_limit = 67108864`,
		`PRAGMA cache_size = -4096`,        // KiB; of a large ledger the inner pages of its indexes
		`PRAGMA wal_autocheckpoint = 1024`, // pages
	} {
		if err := run(d.conn, pragma, nil); err != nil {
			return fmt.Errorf("setting up: %w", failure(err))
		}
	}
	if err := migrate(d.conn, version); err != nil {
		return err
	}
	moved, err := readMove(d.conn)
	if err != nil {
		return failure(err)
	}
	if err := moved.Refuse(); err != nil {
		return err
	}
	if d.stmts, err = prepare(d.conn); err != nil {
		return failure(err)
	}
	// The first look at a database that had no log, such as a copy that SQLite made, makes one.
	if _, err := schemaVersion(d.conn); err != nil {
		return err
	}
	return d.guard.connected()
}

// reconnect opens everything anew.
func (d *database) reconnect() error {
	d.broken = true
	d.renew()
	if err := errors.Join(d.close(), d.connect()); err != nil {
		return err
	}
	if err := d.readExtent(); err != nil {
		return err
	}
	d.broken = false
	return nil
}

// inPlace looks whether the files are where they were. When those beside the database are gone, what the log had is
// brought into the database first, for this connection is the last that can.
func (d *database) inPlace() error {
	err := d.guard.check()
	if !errors.Is(err, errAside) {
		return err
	}
	left := false
	rescue := run(d.conn, `PRAGMA wal_checkpoint(TRUNCATE)`, to(&left))
	if rescue != nil || left {
		return errors.Join(err, rescue)
	}
	if err := d.reconnect(); err != nil {
		return err
	}
	d.opts.Logger.Warn("files beside the ledger were missing; everything in them has been kept", "error", err)
	return nil
}

func (d *database) close() error {
	if d.conn == nil {
		return nil
	}
	err := d.conn.Close()
	d.conn, d.stmts = nil, nil
	return err
}

// transact runs operations in one transaction and sets what each is answered. When one of them has failed half way,
// everything is taken back and nobody has an answer: batch[from:to] are those that may have been it, none when all
// is well. A failure of the store is everybody's.
func (d *database) transact(batch []*operation) (from, to int) {
	fail := func(err error) (int, int) {
		d.rollback()
		d.failures.Add(1)
		for _, op := range batch {
			op.err = err
		}
		return 0, 0
	}
	if err := d.begin(); err != nil {
		if storeFailed(err) && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			d.broken = true
		}
		return fail(fmt.Errorf("beginning a transaction: %w", failure(err)))
	}
	for i, op := range batch {
		d.wrote = false
		if op.err, op.made = errGivenUp, false; !op.begin() {
			continue
		}
		d.op = op
		op.err = failure(op.run(&d.tx))
		switch {
		case op.err == nil || !d.wrote && d.unwritten.err == nil && !d.conn.AutocommitEnabled():
		case storeFailed(op.err):
			// SQLite ends the transaction itself after some errors, such as a full disk.
			return fail(op.err)
		default:
			return d.isolateFailure(batch, i)
		}
	}
	if err := d.flush(); err != nil {
		if err = failure(err); storeFailed(err) {
			return fail(err)
		}
		batch[0].err = err
		return d.isolateFailure(batch, 0)
	}
	if err := execStatement(d.stmts.commit); err != nil {
		// Also the answers that changed nothing go: they may rest on what was rolled back.
		return fail(fmt.Errorf("committing: %w: %w: %w", ledger.ErrUnavailable, errInDoubt, err))
	}
	d.committed()
	return 0, 0
}

// isolateFailure takes everything back because of one operation, or because of a row, which may be anyone's. Who was
// alone keeps its error.
func (d *database) isolateFailure(batch []*operation, culprit int) (from, to int) {
	row := d.unwritten.err != nil
	d.rollback()
	switch {
	case len(batch) == 1:
		return 0, 0
	case row:
		return 0, len(batch)
	}
	return culprit, culprit + 1
}

func (d *database) begin() error {
	if d.broken {
		if err := d.reconnect(); err != nil {
			return err
		}
	}
	if err := d.inPlace(); err != nil {
		return err
	}
	d.evictUnused()
	if err := execStatement(d.stmts.begin); err != nil {
		return err
	}
	version, err := d.readDataVersion()
	if err != nil {
		return err
	}
	if version != d.dataVersion {
		// Another program has written: an operator who repairs something by hand, say.
		d.forget()
		if d.dataVersion != 0 {
			if err := d.readExtent(); err != nil {
				return err
			}
		}
		d.dataVersion = version
	}
	return d.load(d.conn)
}

func (d *database) readDataVersion() (version int64, err error) {
	s := d.stmts.version
	if _, err = s.Step(); err == nil {
		version = s.ColumnInt64(0)
	}
	return version, errors.Join(err, s.Reset())
}

// rollback takes a transaction back, and what memory knows with it. A connection on which no transaction can begin
// any more is opened anew by the next one; after a commit that failed it is not, which might bring the commit back.
func (d *database) rollback() {
	d.forget()
	d.unwritten = unwritten{}
	if d.conn != nil && !d.conn.AutocommitEnabled() {
		// Should it fail, the next BEGIN fails and says so.
		_ = run(d.conn, `ROLLBACK`, nil)
	}
}

// errInDoubt: the commit failed, and yet its end may be in the log, where the next to open the file finds it.
var errInDoubt = errors.New("it is in doubt whether a restart would find it")

// forgetUnmade drops the attempts of requests that have ended.
func (d *database) forgetUnmade() {
	if !d.loaded {
		return // nobody knows which
	}
	for id := range d.unmade {
		request, _, _ := ledger.ParseAttemptID(id)
		if _, running := d.live[request]; !running {
			delete(d.unmade, id)
		}
	}
}
