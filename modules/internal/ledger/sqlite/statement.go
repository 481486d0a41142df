package sqlite

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// run executes one statement, which the connection keeps prepared, and gives its rows to row. Statements
// that are open at the same time must differ in their text.
func run(conn *sqlite.Conn, query string, row func(*sqlite.Stmt) error, args ...any) (err error) {
	stmt, err := conn.Prepare(query)
	if err != nil {
		return err
	}
	// Reset repeats the error of a failed step, which is returned already.
	defer func() { _ = stmt.Reset() }()
	for i, a := range args {
		if err := bind(stmt, i+1, a); err != nil {
			return err
		}
	}
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		if row != nil {
			if err := row(stmt); err != nil {
				return err
			}
		}
	}
}

func bind(stmt *sqlite.Stmt, i int, a any) error {
	switch v := a.(type) {
	case nil:
		stmt.BindNull(i)
	case string:
		stmt.BindText(i, v)
	case int64:
		stmt.BindInt64(i, v)
	case int:
		stmt.BindInt64(i, int64(v))
	case bool:
		stmt.BindBool(i, v)
	case [32]byte:
		stmt.BindBytes(i, v[:])
	case time.Time:
		stmt.BindInt64(i, v.UnixNano())
	case *int64:
		if v == nil {
			stmt.BindNull(i)
		} else {
			stmt.BindInt64(i, *v)
		}
	default:
		return fmt.Errorf("binding parameter %d: no rule for %T", i, a)
	}
	return nil
}

// optional stores "" as NULL, which unique indexes pass over.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func columnTime(row *sqlite.Stmt, col int) time.Time {
	return time.Unix(0, row.ColumnInt64(col)).UTC()
}

func columnCount(row *sqlite.Stmt, col int) *int64 {
	if row.ColumnIsNull(col) {
		return nil
	}
	n := row.ColumnInt64(col)
	return &n
}

func columnHash(row *sqlite.Stmt, col int) (h [32]byte) {
	row.ColumnBytes(col, h[:])
	return h
}

// failure puts SQLite's errors into the ledger's terms. A constraint tells about the operation; everything
// else (busy, full, read-only, an I/O error, a corrupt page) about the store.
func failure(err error) error {
	if err == nil || domain(err) {
		return err
	}
	switch code := sqlite.ErrCode(err); {
	case code == sqlite.ResultConstraintForeignKey:
		return fmt.Errorf("%w: the account, key or price version that it names: %w", ledger.ErrNotFound, err)
	case code == sqlite.ResultConstraintUnique, code == sqlite.ResultConstraintPrimaryKey:
		return fmt.Errorf("%w: %w", ledger.ErrExists, err)
	case code.ToPrimary() == sqlite.ResultConstraint:
		return err
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// domain reports whether the ledger itself decided on err.
func domain(err error) bool {
	for _, e := range [...]error{ledger.ErrNotFound, ledger.ErrExists, ledger.ErrInvalid, ledger.ErrInsufficient, ledger.ErrUnavailable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
