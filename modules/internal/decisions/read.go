package decisions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Find returns the record of a request that has ended. ErrNotFound when there is none, or none any more.
func (l *Log) Find(ctx context.Context, id string) (Record, error) {
	if l == nil {
		return Record{}, ErrNotFound
	}
	if err := l.Flush(ctx); err != nil {
		return Record{}, err
	}
	return Find(ctx, l.opts.Path, id)
}

// Find looks into a file that nobody may be writing.
func Find(ctx context.Context, path, id string) (found Record, err error) {
	err = reading(ctx, path, func(conn *sqlite.Conn) error {
		// Ids begin with the time, so few blocks match.
		return sqlitex.Execute(conn, `SELECT data FROM blocks WHERE low <= ?1 AND high >= ?1 ORDER BY n DESC`,
			&sqlitex.ExecOptions{Args: []any{id}, ResultFunc: func(row *sqlite.Stmt) error {
				var r Record
				return eachIn(blob(row, nil), &r, func() error {
					if found.ID == "" && r.ID == id {
						found = r.clone()
					}
					return nil
				})
			}})
	})
	switch {
	case err != nil:
		return found, fmt.Errorf("looking into the decision log: %w", err)
	case found.ID == "":
		return found, ErrNotFound
	}
	return found, nil
}

// clone is a record that the next one does not overwrite.
func (r *Record) clone() Record {
	c := *r
	c.Stood, c.Full, c.Attempts = slices.Clone(r.Stood), slices.Clone(r.Full), slices.Clone(r.Attempts)
	c.LeftOut = slices.Clone(r.LeftOut)
	if r.Past != nil {
		c.Past = new(*r.Past)
	}
	return c
}

// Count is how many requests Each comes to, about.
func (l *Log) Count(ctx context.Context, since time.Time) (requests int64, err error) {
	if l == nil {
		return 0, nil
	}
	if err := l.Flush(ctx); err != nil {
		return 0, err
	}
	err = reading(ctx, l.opts.Path, func(conn *sqlite.Conn) error {
		return sqlitex.Execute(conn, `SELECT coalesce(sum(requests), 0) FROM blocks WHERE last >= ?`, &sqlitex.ExecOptions{
			Args: []any{since.UnixMilli()}, ResultFunc: func(row *sqlite.Stmt) error {
				requests = row.ColumnInt64(0)
				return nil
			}})
	})
	return requests, err
}

// Each calls each with the requests that have ended since then, in about the order in which they have. The record is
// overwritten by the next one.
func (l *Log) Each(ctx context.Context, since time.Time, each func(*Record) error) error {
	if l == nil {
		return nil
	}
	return reading(ctx, l.opts.Path, func(conn *sqlite.Conn) error {
		var r Record
		var data []byte
		return sqlitex.Execute(conn, `SELECT data FROM blocks NOT INDEXED WHERE last >= ? ORDER BY n`, &sqlitex.ExecOptions{
			Args: []any{since.UnixMilli()}, ResultFunc: func(row *sqlite.Stmt) error {
				data = blob(row, data)
				return eachIn(data, &r, func() error {
					if r.Ended.Before(since) {
						return nil
					}
					return each(&r)
				})
			}})
	})
}

func blob(row *sqlite.Stmt, to []byte) []byte {
	to = slices.Grow(to[:0], row.ColumnLen(0))[:row.ColumnLen(0)]
	return to[:row.ColumnBytes(0, to)]
}

// reading looks at one moment of the file, which may be missing: then there is nothing.
func reading(ctx context.Context, path string, look func(*sqlite.Conn) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	conn.SetInterrupt(ctx.Done())
	defer conn.Close()
	if err := look(conn); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
