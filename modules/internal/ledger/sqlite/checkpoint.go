package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const selectCheckpoint = `SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints `

func scanCheckpoint(row *sqlite.Stmt) (c ledger.Checkpoint) {
	readColumns(row, 0, &c.N, &c.Entries, &c.Created, &c.Prev, &c.Hash, &c.Format, &c.Acts, &c.Trail)
	return c
}

// newestCheckpoint is the zero Checkpoint when there is none.
func newestCheckpoint(conn *sqlite.Conn) (c ledger.Checkpoint, err error) {
	err = run(conn, selectCheckpoint+`ORDER BY n DESC LIMIT 1`, func(row *sqlite.Stmt) error {
		c = scanCheckpoint(row)
		return nil
	})
	return c, err
}

// Checkpoints implements ledger.Books.
func (b *books) Checkpoints(ctx context.Context, each func(ledger.Checkpoint) error) error {
	err := b.list(ctx, "checkpoints", func(conn *sqlite.Conn) error {
		return run(conn, selectCheckpoint+`ORDER BY n`,
			func(row *sqlite.Stmt) error { return give(each, scanCheckpoint(row)) })
	})
	return wrap(err, "listing checkpoints")
}

// LatestCheckpoints implements ledger.Books.
func (b *books) LatestCheckpoints(ctx context.Context, before int64, most int,
	each func(ledger.Checkpoint) error) error {
	err := b.list(ctx, "latest_checkpoints", func(conn *sqlite.Conn) error {
		return run(conn, selectCheckpoint+`WHERE ?1 = 0 OR n < ?1 ORDER BY n DESC LIMIT ?2`,
			func(row *sqlite.Stmt) error { return give(each, scanCheckpoint(row)) }, before, most)
	})
	return wrap(err, "listing checkpoints")
}

// MakeCheckpoint implements ledger.Store. The heads are read beside the running operations: entries and acts never
// change, so what is true of the first so many stays true. Only the checkpoint's row goes through the writer.
func (s *Store) MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	var last, next ledger.Checkpoint
	err := s.chore(ctx, "read_heads", func(conn *sqlite.Conn) (err error) {
		if last, err = newestCheckpoint(conn); err != nil {
			return err
		}
		next, err = following(conn, last, s.opts.Now().UTC())
		return err
	})
	if err == nil && next.N > last.N {
		err = s.write(ctx, "make_checkpoint", func(t *tx) error {
			newest, err := newestCheckpoint(t.conn)
			if err != nil || newest.N > last.N { // somebody else has just made it
				next = newest
				return err
			}
			err = t.exec(`INSERT INTO checkpoints (n, entries, created, prev, hash, format, acts, trail)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
				next.N, next.Entries, next.Created, [32]byte(next.Prev), [32]byte(next.Hash), next.Format, next.Acts,
				[32]byte(next.Trail))
			if err != nil {
				return err
			}
			return t.exec(`UPDATE meta SET checkpoints = ?, checkpoint = ?`, next.N, next.Hash)
		})
	}
	return wrapResult(next, err, "making a checkpoint")
}

// following is the checkpoint after last over all entries and acts that there are, or last when it has them all.
func following(conn *sqlite.Conn, last ledger.Checkpoint, now time.Time) (ledger.Checkpoint, error) {
	next := ledger.Checkpoint{Format: ledger.CheckpointFormat, N: last.N + 1, Created: now, Prev: last.Hash}
	err := run(conn, `SELECT coalesce((SELECT max(n) FROM entries), 0), coalesce((SELECT max(n) FROM audit), 0)`,
		to(&next.Entries, &next.Acts))
	if err != nil || next.Entries <= last.Entries && next.Acts <= last.Acts {
		return last, err
	}
	return book.SealCheckpoint(next, last, auditRows{conn: conn})
}
