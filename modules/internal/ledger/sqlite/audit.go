package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Audit implements ledger.Books.
func (b *books) Audit(ctx context.Context, q ledger.Query, each func(ledger.Act) error) error {
	err := b.list(ctx, "audit", func(conn *sqlite.Conn) error {
		var account any // NULL: of all accounts, and of none
		if q.Account != "" {
			n, err := accountNumber(conn, q.Account)
			if err != nil {
				return err
			}
			account = n
		}
		since, until := between(q)
		return run(conn, selectAct+`WHERE (?1 IS NULL OR u.account = ?1) AND u.created >= ?2 AND u.created < ?3 ORDER BY u.n`,
			func(row *sqlite.Stmt) error { return give(each, scanAct(row)) }, account, since, until)
	})
	if err != nil {
		return fmt.Errorf("listing the audit trail: %w", err)
	}
	return nil
}

const selectAct = `SELECT u.n, u.created, u.actor, u.action, a.id, a.name, u.subject, u.before, u.after, u.prev, ` +
	`u.hash, u.account,
	u.seq, u.format
	FROM audit AS u LEFT JOIN accounts AS a ON a.n = u.account `

func scanAct(row *sqlite.Stmt) ledger.Act {
	a := ledger.Act{
		Created:     columnTime(row, 1),
		Actor:       row.ColumnText(2),
		Action:      row.ColumnText(3),
		Account:     row.ColumnText(4),
		AccountName: row.ColumnText(5),
		Subject:     row.ColumnText(6),
		Before:      row.ColumnText(7),
		After:       row.ColumnText(8),
		Prev:        columnHash(row, 9),
		Seq:         row.ColumnInt64(12),
		Format:      row.ColumnInt64(13),
	}
	if a.Format == 1 {
		a.N = row.ColumnInt64(0)
	}
	return a
}
