package sqlite

import (
	"context"

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
		since, until := q.Bounds()
		return run(conn, selectAct+`WHERE (?1 IS NULL OR u.account = ?1) AND u.created >= ?2 AND u.created < ?3 ORDER BY u.n`,
			func(row *sqlite.Stmt) error { return give(each, scanAct(row)) }, account, since, until)
	})
	return wrap(err, "listing the audit trail")
}

// selectAct reads an account's number of 0 as -1, like auditEntries.
const selectAct = `SELECT u.n, u.created, u.actor, u.action, a.id, a.name, u.subject, u.before, u.after, u.prev, ` +
	`u.hash, iif(u.account = 0, -1, u.account),
	u.seq, u.format
	FROM audit AS u LEFT JOIN accounts AS a ON a.n = u.account `

func scanAct(row *sqlite.Stmt) (a ledger.Act) {
	var n, account int64
	var hash ledger.Digest
	readColumns(row, 0, &n, &a.Created, &a.Actor, &a.Action, &a.Account, &a.AccountName, &a.Subject, &a.Before, &a.After,
		&a.Prev, &hash, &account, &a.Seq, &a.Format)
	if a.Format == 1 {
		a.N = n
	}
	return a
}
