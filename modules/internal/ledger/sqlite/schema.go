package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed schema/[0-9]*.sql
var schemaFiles embed.FS

// newest is what all migrations make of an empty database, in one step (TestNewestSchema writes it).
//
//go:embed schema/newest.sql
var newest string

// migrations lead from an empty file to the newest schema: migrations[0], of schema/1.sql, makes version 1. Released
// ones are never edited; each of the later ones is written for a database that the one before it left.
var migrations = func() (all []string) {
	for {
		text, err := schemaFiles.ReadFile(fmt.Sprintf("schema/%d.sql", len(all)+1))
		if err != nil {
			return all // it was the last one
		}
		all = append(all, string(text))
	}
}()

// ErrVersion: the database was written by a newer fareway, or is not a ledger.
var ErrVersion = errors.New("unusable ledger database")

// schemaVersion is 0 for an empty database.
func schemaVersion(conn *sqlite.Conn) (int, error) {
	var tables, meta, version int
	err := run(conn, `SELECT count(*), coalesce(sum(name = 'meta'), 0) FROM sqlite_schema WHERE type = 'table'`,
		to(&tables, &meta))
	switch {
	case sqlite.ErrCode(err) == sqlite.ResultNotADB:
		return 0, fmt.Errorf("%w: the file is not an SQLite database; set store.path to another name", ErrVersion)
	case err != nil:
		return 0, fmt.Errorf("reading the schema version: %w", failure(err))
	case tables == 0:
		return 0, nil
	case meta == 0:
		return 0, fmt.Errorf("%w: the file is another program's database; set store.path to another name", ErrVersion)
	}
	err = run(conn, `SELECT version FROM meta`, to(&version))
	if err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", failure(err))
	}
	if version > len(migrations) {
		return 0, fmt.Errorf("%w: it has schema version %d and this fareway knows up to %d; "+
			"run the newer fareway, or restore the backup from before the upgrade", ErrVersion, version, len(migrations))
	}
	return version, nil
}

// CheckVersion is an ErrVersion where this program cannot take up the ledger at a path. Another process may have it,
// and it need not be there yet.
func CheckVersion(path string) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return failure(err)
	}
	conn.SetBusyTimeout(patience)
	_, err = schemaVersion(conn)
	return errors.Join(err, conn.Close())
}

// migrate brings the database to the newest version, one transaction a step: a crash leaves it at a step.
func migrate(conn *sqlite.Conn, from int) error {
	if from == 0 {
		if err := createTables(conn); err != nil {
			return fmt.Errorf("making the ledger's tables: %w", failure(err))
		}
		return nil
	}
	for v := from; v < len(migrations); v++ {
		if err := migrateTo(conn, v+1); err != nil {
			return fmt.Errorf("migrating the ledger to schema version %d: %w", v+1, failure(err))
		}
	}
	return nil
}

func createTables(conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	return sqlitex.ExecuteScript(conn, newest, nil)
}

func migrateTo(conn *sqlite.Conn, version int) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	if err := sqlitex.ExecuteScript(conn, migrations[version-1], nil); err != nil {
		return err
	}
	if version == len(migrations) {
		if err := sumAll(conn); err != nil {
			return err
		}
	}
	return run(conn, `UPDATE meta SET version = ?`, nil, version)
}
