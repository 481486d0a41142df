package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// patience is how long a look at a ledger waits for whoever has it locked.
const patience = 5 * time.Second

// Copy copies the ledger at from, as it is at one moment, into a new file with a witness of its own, both on the disk
// when it returns. A gateway may be running on the ledger: what it writes meanwhile is not in the copy.
func Copy(ctx context.Context, from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copying the ledger %s: %w", from, err)
		}
	}()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) // SQLite would make it for everybody to read
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	conn, err := openReader(from, patience) // a gateway may be at the end of its log just now
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetInterrupt(ctx.Done())
	if err := run(conn, `VACUUM INTO ?`, nil, to); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return failure(err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := bearWitness(to); err != nil {
		return err
	}
	return files.SyncFolder(filepath.Dir(to))
}

// bearWitness makes a witness for a ledger that nobody has open.
func bearWitness(database string) (err error) {
	conn, err := openReader(database, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	has, err := readExtent(conn)
	if err != nil {
		return err
	}
	w, err := openWitness(database)
	if w == nil {
		return err
	}
	return errors.Join(w.write(func(t *testimony) { *t = testimony{extent: has} }), w.file.Sync(), w.file.Close())
}

// ReadExtent reads how much the ledger at a path has, or had by its witness, whichever is more; nothing where there is
// neither.
func ReadExtent(ctx context.Context, database string) (ledger.Extent, error) {
	var e ledger.Extent
	if seen, err := readWitness(database); err == nil {
		e = ledger.Extent{Entries: seen.entries, Acts: seen.acts}
	} else if !errors.Is(err, errNoWitness) {
		return e, err
	}
	if _, err := os.Stat(database); err != nil {
		return e, nil
	}
	books, err := OpenBooks(ctx, database)
	if err != nil {
		return e, err
	}
	err = books.list(ctx, "read_extent", func(conn *sqlite.Conn) error {
		has, err := readExtent(conn)
		e.Entries, e.Acts = max(e.Entries, has.entries), max(e.Acts, has.acts)
		return err
	})
	return e, errors.Join(err, books.Close())
}

// Lock takes the lock of the ledger at a path, which need not be there, until release is called: no gateway starts on
// it. ErrLocked when one runs.
func Lock(path string) (release func() error, err error) {
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	l := newFileLease(path)
	g, err := l.Acquire("restore")
	if err != nil {
		return nil, err
	}
	return func() error { return l.Release(g) }, nil
}
