package sqlite

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
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
	case float64:
		stmt.BindFloat(i, v)
	case bool:
		stmt.BindBool(i, v)
	case [32]byte:
		stmt.BindBytes(i, v[:])
	case ledger.Digest:
		stmt.BindBytes(i, v[:])
	case time.Time:
		stmt.BindInt64(i, v.UnixNano())
	case *int64:
		bindCount(stmt, i, v)
	default:
		return fmt.Errorf("binding parameter %d: no rule for %T", i, a)
	}
	return nil
}

// optionalTime stores the zero time as NULL.
func optionalTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func bindCount(stmt *sqlite.Stmt, i int, n *int64) {
	if n == nil {
		stmt.BindNull(i)
		return
	}
	stmt.BindInt64(i, *n)
}

// execStatement executes a statement that has its values and gives no rows, and makes it ready for the next ones.
func execStatement(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if reset := stmt.Reset(); err == nil {
		err = reset
	}
	return err
}

func columnTime(row *sqlite.Stmt, col int) time.Time {
	return time.Unix(0, row.ColumnInt64(col)).UTC()
}

// columnOptionalTime reads NULL as the zero time.
func columnOptionalTime(row *sqlite.Stmt, col int) time.Time {
	if row.ColumnIsNull(col) {
		return time.Time{}
	}
	return columnTime(row, col)
}

func columnCount(row *sqlite.Stmt, col int) *int64 {
	if row.ColumnIsNull(col) {
		return nil
	}
	n := row.ColumnInt64(col)
	return &n
}

// columnWorst reads NULL, which is not known, as a number below zero.
func columnWorst(row *sqlite.Stmt, col int) int64 {
	if row.ColumnIsNull(col) {
		return -1
	}
	return row.ColumnInt64(col)
}

// columnEstimate reads two columns, input and output; nil where both are NULL.
func columnEstimate(row *sqlite.Stmt, col int) *llm.Usage {
	u := llm.Usage{Input: columnCount(row, col), Output: columnCount(row, col+1), Estimated: true}
	if !u.Known() {
		return nil
	}
	return &u
}

func columnHash(row *sqlite.Stmt, col int) (h ledger.Digest) {
	row.ColumnBytes(col, h[:])
	return h
}

// failure puts SQLite's errors into the ledger's terms. A constraint tells about the operation; everything
// else (busy, full, read-only, an I/O error, a corrupt page) about the store.
func failure(err error) error {
	if err == nil || isLedgerError(err) {
		return err
	}
	switch code := sqlite.ErrCode(err); {
	case code == sqlite.ResultConstraintUnique, code == sqlite.ResultConstraintPrimaryKey,
		code == sqlite.ResultConstraintRowID:
		return fmt.Errorf("%w: %w", ledger.ErrExists, err)
	case code.ToPrimary() == sqlite.ResultConstraint:
		return err
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// storeFailed reports whether err is the store's and not the operation's: every other operation would meet it, too.
func storeFailed(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultOK, sqlite.ResultError, sqlite.ResultConstraint, sqlite.ResultMismatch, sqlite.ResultTooBig:
		return false
	}
	return true
}

// isLedgerError reports whether the ledger itself decided on err.
func isLedgerError(err error) bool {
	for _, e := range [...]error{
		ledger.ErrNotFound, ledger.ErrExists, ledger.ErrInvalid, ledger.ErrUnavailable, ledger.ErrUsage,
		ledger.ErrInsufficient, ledger.ErrSpendCap, ledger.ErrTokenBudget, ledger.ErrKeySpendCap,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// to reads the columns of a row, all that a query has, into what is pointed to.
func to(into ...any) func(*sqlite.Stmt) error {
	return func(row *sqlite.Stmt) error {
		readColumns(row, 0, into...)
		return nil
	}
}

// appendTo adds what scan makes of each row.
func appendTo[T any](all *[]T, scan func(*sqlite.Stmt) T) func(*sqlite.Stmt) error {
	return func(row *sqlite.Stmt) error {
		*all = append(*all, scan(row))
		return nil
	}
}

// firstText is a row's first column.
func firstText(row *sqlite.Stmt) string { return row.ColumnText(0) }

// readColumns reads columns from col on, in their order. NULL is nil, "", 0 or the zero time.
func readColumns(row *sqlite.Stmt, col int, into ...any) {
	for _, p := range into {
		switch p := p.(type) {
		case *int64:
			*p = row.ColumnInt64(col)
		case *string:
			*p = row.ColumnText(col)
		case *bool:
			*p = row.ColumnBool(col)
		case *time.Time:
			*p = columnOptionalTime(row, col)
		case *ledger.Digest:
			*p = columnHash(row, col)
		case **int64:
			*p = columnCount(row, col)
		case **string:
			if *p = nil; !row.ColumnIsNull(col) {
				*p = new(row.ColumnText(col))
			}
		case *int:
			*p = row.ColumnInt(col)
		case *float64:
			*p = row.ColumnFloat(col)
		default:
			panic("no rule for what a column is read into") // and not its type: p would have to be on the heap
		}
		col++
	}
}

// wrap says what an operation was at that failed.
func wrap(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(what+": %w", append(args, err)...)
}

// wrapResult is what an operation returns, or nothing and what it was at.
func wrapResult[T any](v T, err error, what string, args ...any) (T, error) {
	if err != nil {
		var none T
		return none, wrap(err, what, args...)
	}
	return v, nil
}
