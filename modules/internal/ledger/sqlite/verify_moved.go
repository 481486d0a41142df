package sqlite

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// moved is what an operator moved, as an entry or an act has it.
type moved struct {
	account                    int64
	action                     string
	microcents                 int64
	request, reference, reason string
	credits                    int64 // the balance after it
}

// Both lists of columns are those of scanMoved, after the number.
const (
	selectMovedEntries = `SELECT e.n, e.account, CASE e.kind WHEN 'top_up' THEN 'credit.add' WHEN 'refund' THEN ` +
		`'credit.refund' ELSE 'credit.adjust' END,
		e.microcents, coalesce(e.request, ''), coalesce(e.reference, ''), e.reason, e.credits, a.id, e.seq
		FROM entries AS e JOIN accounts AS a ON a.n = e.account
		WHERE e.kind IN ('top_up', 'refund', 'adjustment') AND e.format > 1 ORDER BY e.n`
	selectNextMovedAct = `SELECT n, account, action,
		CASE action WHEN 'credit.add' THEN (after ->> 'credits') * 1000000 WHEN 'credit.adjust' THEN after ->> 'microcents'
			ELSE (after ->> 'refunded_microcents') - (before ->> 'refunded_microcents') END,
		iif(action = 'credit.refund', subject, ''), after ->> 'reference', after ->> 'reason', after ->> 'balance_credits'
		FROM audit WHERE n > ? AND action LIKE 'credit.%' ORDER BY n LIMIT 1`
)

func scanMoved(row *sqlite.Stmt) moved {
	return moved{
		account: row.ColumnInt64(1), action: row.ColumnText(2), microcents: row.ColumnInt64(3), request: row.ColumnText(4),
		reference: row.ColumnText(5), reason: row.ColumnText(6), credits: row.ColumnInt64(7),
	}
}

// verifyMoved compares what operators moved with what the audit trail says that they did. Each entry was written in
// one transaction with its act, so they are in the same order. Entries of format 1 are of a ledger that had no trail
// yet.
func (v *verification) verifyMoved() error {
	var act int64 // the last one that was compared
	next := func() (m moved, found bool, err error) {
		err = run(v.conn, selectNextMovedAct, func(row *sqlite.Stmt) error {
			act, m, found = row.ColumnInt64(0), scanMoved(row), true
			return nil
		}, act)
		return m, found, err
	}
	err := run(v.conn, selectMovedEntries, func(row *sqlite.Stmt) error {
		says, found, err := next()
		switch where := whereOf(ledger.Entry{Account: row.ColumnText(8), Seq: row.ColumnInt64(9)}); {
		case err != nil:
			return err
		case !found:
			return entryDisagrees(row.ColumnInt64(0), where, "the audit trail does not say who made it")
		case says != scanMoved(row):
			return entryDisagrees(row.ColumnInt64(0), where,
				"act %d of the audit trail, which should have made it, says otherwise", act)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, found, err := next(); err != nil || !found {
		return err
	}
	return disagree(fmt.Sprintf("act/%d", act), "the journal does not have what it says was moved")
}
