package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// shrinkStep is how many free pages one transaction gives back: those of others wait for it.
	shrinkStep = 64
	// A file that cannot give pages back one by one is written anew at the start when so many of its pages are free, and
	// at least one of so many.
	worthVacuum, shareVacuum = 256, 4
)

// pages are those of the file. Those that are free are used by whatever is written next.
type pages struct {
	size, all, free int64
	incremental     bool // free ones can be given back one by one
}

func readPages(conn *sqlite.Conn) (p pages, err error) {
	for _, pragma := range []struct {
		name string
		to   *int64
	}{{"page_size", &p.size}, {"page_count", &p.all}, {"freelist_count", &p.free}} {
		err := run(conn, `PRAGMA `+pragma.name, to(pragma.to))
		if err != nil {
			return p, err
		}
	}
	err = run(conn, `PRAGMA auto_vacuum`, func(row *sqlite.Stmt) error {
		p.incremental = row.ColumnInt(0) == 2
		return nil
	})
	return p, err
}

// worth reports whether the file should be written anew.
func (p pages) worth() bool {
	return !p.incremental && p.free >= worthVacuum && p.free >= p.all/shareVacuum
}

// Shrink implements ledger.Store. Pages from the end of the file move into free ones, a few in each transaction, and
// the file becomes shorter with the next checkpoint of the log, which waits for nobody. A crash leaves a file that has
// given back some of them: no row changes, so that neither the journal nor the witness does.
func (s *Store) Shrink(ctx context.Context) (shrunk ledger.Shrunk, err error) {
	var p pages
	look := func() error {
		return s.read(ctx, "read_pages", func(conn *sqlite.Conn) (err error) {
			p, err = readPages(conn)
			return err
		})
	}
	if err = look(); err == nil {
		shrunk = ledger.Shrunk{Before: p.all * p.size, After: p.all * p.size, Waits: p.worth()}
	}
	for left := p.free + 1; err == nil && p.incremental && p.free > 0 && p.free < left; {
		left = p.free
		err = s.write(ctx, "shrink", func(t *tx) error {
			return t.exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, shrinkStep))
		})
		if err == nil {
			err = look()
		}
	}
	if err == nil && p.incremental {
		shrunk.After = p.all * p.size
		err = s.truncate()
	}
	return shrunk, wrap(err, "giving free pages of the ledger's file back")
}

// truncate brings what the log has into the file, as far as nobody reads what was before.
func (s *Store) truncate() error {
	conn, err := sqlite.OpenConn(s.opts.Path, sqlite.OpenReadWrite)
	if err != nil {
		return failure(err)
	}
	err = run(conn, `PRAGMA wal_checkpoint(PASSIVE)`, nil)
	if closing := conn.Close(); err == nil {
		err = closing
	}
	return failure(err)
}

// reclaim writes the file anew, where much of it is free and its pages cannot be given back one by one; from then on
// they can. It is for the start, when nobody waits, and never while a loss is undecided, for it would wipe what is
// left of the newer file. It needs as much room on the disk as the rows need, twice: without it, everything stays as
// it is.
func (s *Store) reclaim() {
	before, err := readPages(s.db.conn)
	if err != nil || !before.worth() || s.db.progress.lost.Load() != nil {
		return // what cannot be read the next operation says
	}
	for _, query := range []string{`PRAGMA auto_vacuum = incremental`, `VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if err = run(s.db.conn, query, nil); err != nil {
			break
		}
	}
	after, looking := readPages(s.db.conn)
	if err != nil || looking != nil {
		s.opts.Logger.Warn("the ledger's file could not be made smaller; it is as it was, and the next start tries again",
			"ledger", s.opts.Path, "free_bytes", before.free*before.size, "error", err)
		return
	}
	s.opts.Logger.Info("the ledger's file was made smaller", "ledger", s.opts.Path,
		"before_bytes", before.all*before.size, "after_bytes", after.all*after.size)
}
