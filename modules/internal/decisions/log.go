package decisions

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitemigration"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
)

// ErrNotFound: there is no record of a request, or there is none any more.
var ErrNotFound = errors.New("not in the decision log")

const (
	// waiting is how many records may wait for the writer; more are lost.
	waiting = 8192
	// blockSize is how many records are written in one row, where so many come within flushEvery.
	blockSize  = 512
	flushEvery = 5 * time.Second
	// pruneAtOnce bounds how long the writer is busy with what is old.
	pruneAtOnce = 256
)

//go:embed schema/1.sql
var schema1 string

// schema is the way to the newest version. What is released is never edited, only followed by more.
var schema = sqlitemigration.Schema{AppID: 0x66776463, Migrations: []string{schema1}}

// Options say where the log is and how much of it is kept.
type Options struct {
	// Path of the file. Its folder exists.
	Path string
	// Settings may change while the log is open.
	Settings func() config.DecisionLog
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Logger is told when the file cannot be written. nil: slog.Default.
	Logger *slog.Logger
	// Lost is told of records that could not be written, because of the disk or of too many at once. nil: nobody.
	Lost func(records int)
}

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
}

// Log writes records in a goroutine of its own, from Open to Close. A nil Log keeps nothing.
type Log struct {
	opts    Options
	records chan *Record
	full    chan struct{} // capacity 1: there are records for a block
	flushes chan chan error
	stop    chan struct{}
	done    chan struct{}

	// The rest is the writer's.
	conn    *sqlite.Conn
	block   block
	kept    int64 // requests in the file
	failing bool
}

// Open continues the log in a file. One process writes it at a time, which is the caller's to see to.
func Open(o Options) (*Log, error) {
	o.fill()
	l := &Log{opts: o, records: make(chan *Record, waiting), full: make(chan struct{}, 1),
		flushes: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{})}
	l.block.reset()
	if err := l.open(); err != nil {
		if l.conn != nil {
			err = errors.Join(err, l.conn.Close())
		}
		return nil, fmt.Errorf("opening the decision log %s: %w; if this stays so, remove the file: no money is in it",
			o.Path, err)
	}
	go l.run()
	return l, nil
}

// makePrivate makes a database its owner's only: SQLite gives new files beside it the same permissions, and those of
// an older fareway were everybody's to read.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Chmod(path+beside, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (l *Log) open() (err error) {
	if err := makePrivate(l.opts.Path); err != nil {
		return err
	}
	if l.conn, err = sqlite.OpenConn(l.opts.Path, sqlite.OpenReadWrite, sqlite.OpenCreate); err != nil {
		return err
	}
	for _, pragma := range []string{
		`PRAGMA journal_mode = wal`,
		`PRAGMA synchronous = normal`, // whole after any crash, and seldom a sync
		`PRAGMA journal_size_limit = 67108864`,
	} {
		if err := sqlitex.ExecuteTransient(l.conn, pragma, nil); err != nil {
			return err
		}
	}
	if err := sqlitemigration.Migrate(context.Background(), l.conn, schema); err != nil {
		return err
	}
	return sqlitex.Execute(l.conn, `SELECT coalesce(sum(requests), 0) FROM blocks`,
		&sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
			l.kept = row.ColumnInt64(0)
			return nil
		}})
}

// On reports whether records are wanted.
func (l *Log) On() bool { return l != nil && l.opts.Settings().Mode == config.DecisionsOn }

// Add gives the log a record, which nobody changes any more. It never waits.
func (l *Log) Add(r *Record) {
	if l == nil {
		return
	}
	select {
	case l.records <- r:
	default:
		l.opts.Lost(1)
	}
	if len(l.records) < blockSize {
		return // to wake the writer for each of them costs more than the record
	}
	select {
	case l.full <- struct{}{}:
	default:
	}
}

// Flush writes what was added before, and removes what is older than it may be.
func (l *Log) Flush(ctx context.Context) error {
	if l == nil {
		return nil
	}
	flushed := make(chan error, 1)
	select {
	case l.flushes <- flushed:
		return <-flushed
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the decision log: %w", context.Cause(ctx))
	}
}

// Close writes what waits. Nothing may be added after it.
func (l *Log) Close() {
	if l == nil {
		return
	}
	close(l.stop)
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.full:
			l.takeAll()
		case flushed := <-l.flushes:
			flushed <- l.drain()
		case <-tick.C:
			_ = l.drain() // it has been logged
		case <-l.stop:
			_ = l.drain()
			if err := l.conn.Close(); err != nil {
				l.opts.Logger.Error("closing the decision log", "error", err)
			}
			return
		}
	}
}

// takeAll takes what waits, and writes what is a block.
func (l *Log) takeAll() {
	for len(l.records) > 0 {
		l.block.add(<-l.records)
		if l.block.records >= blockSize {
			_ = l.write()
		}
	}
}

// drain takes what waits, writes it, and prunes.
func (l *Log) drain() error {
	l.takeAll()
	return errors.Join(l.write(), l.logStreak(0, l.prune()))
}

// write writes the block.
func (l *Log) write() error {
	b := &l.block
	if b.records == 0 {
		return nil
	}
	err := sqlitex.Execute(l.conn, `INSERT INTO blocks (low, high, last, requests, data) VALUES (?, ?, ?, ?, ?)`,
		&sqlitex.ExecOptions{Args: []any{b.low, b.high, b.last, b.records, b.data()}})
	if err == nil {
		l.kept += int64(b.records)
	}
	err = l.logStreak(b.records, err)
	b.reset()
	return err
}

// prune removes whole blocks from the oldest end: what is too old, and what is too much.
func (l *Log) prune() error {
	s := l.opts.Settings()
	before := l.opts.Now().Add(-s.Keep).UnixMilli()
	for more := true; more; {
		through, gone, blocks := int64(0), int64(0), 0
		more = true
		err := sqlitex.Execute(l.conn, `SELECT n, last, requests FROM blocks ORDER BY n LIMIT ?`, &sqlitex.ExecOptions{
			Args: []any{pruneAtOnce}, ResultFunc: func(row *sqlite.Stmt) error {
				if more = more && (row.ColumnInt64(1) < before || l.kept-gone > s.MaxRequests); more {
					through, gone, blocks = row.ColumnInt64(0), gone+row.ColumnInt64(2), blocks+1
				}
				return nil
			}})
		if err != nil || blocks == 0 {
			return err
		}
		err = sqlitex.Execute(l.conn, `DELETE FROM blocks WHERE n <= ?`, &sqlitex.ExecOptions{Args: []any{through}})
		if err != nil {
			return err
		}
		l.kept -= gone
	}
	return nil
}

// logStreak logs the first error of a streak, and its end. Records say what was lost with the error, or was written
// without one.
func (l *Log) logStreak(records int, err error) error {
	switch {
	case err != nil:
		l.opts.Lost(records)
		if !l.failing {
			l.opts.Logger.Error("the decision log cannot be written; what is missing in it can be neither explained nor "+
				"planned again", "error", err)
		}
		l.failing = true
	case l.failing && records > 0:
		l.failing = false
		l.opts.Logger.Info("the decision log can be written again")
	}
	return err
}
