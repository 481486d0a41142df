package testbed

import (
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Run runs a statement on a ledger.
type Run func(sql string, args ...any) error

// WithLedger opens the gateway's database, where it is by default, beside the gateway, to do what no request can.
func (g *Gateway) WithLedger(do func(run Run) error) (err error) {
	conn, err := sqlite.OpenConn(filepath.Join(g.Dir, "fareway.db"), sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("opening the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(func(sql string, args ...any) error {
		if err := sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{Args: args}); err != nil {
			return fmt.Errorf("changing the ledger: %w", err)
		}
		return nil
	})
}
