package sqlite

import (
	"iter"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// sumColumns are those of days that are summed up.
var sumColumns = strings.Fields(`parts settled requests pending whole_requests whole_pending attempts microcents waived
	over refunded cost input cache_read cache_write output reasoning estimated`)

// differing reads the first place of day ?1 where the rows that a condition finds do not come to nothing, with those of
// another counted against them.
func differing(of, where, against, group string) string {
	having := make([]string, len(sumColumns))
	for i, c := range sumColumns {
		having[i] = `sum(iif(` + against + `, -1, 1) * coalesce(` + c + `, 0)) <> 0`
	}
	return `SELECT ` + of + ` FROM days WHERE day = ?1 AND ` + where + ` GROUP BY ` + group +
		` HAVING min(parts) < 1 OR ` + strings.Join(having, ` OR `) + ` LIMIT 1`
}

// differingTotals are queries for what the sums of a day that are sums of others say wrongly: each gives the account,
// or 0 where it is about all of them.
var differingTotals = []string{
	`SELECT d.account FROM days AS d LEFT JOIN keys AS k ON k.n = d.key
		WHERE d.day = ?1 AND d.key <> 0 AND k.account IS NOT d.account LIMIT 1`,
	differing(`account`, `account <> 0`, `key = 0`, `account, route, profile, pruned`),
	differing(`0`, `key = 0`, `account = 0`, `route, profile, pruned`),
}

// verifyDayTotals compares the sums of days of accounts, and those of the whole ledger, with what they are sums of:
// those of keys, which package audit compares with the requests.
func verifyDayTotals(conn *sqlite.Conn) error {
	days := []int64{}
	err := run(conn, `SELECT DISTINCT day FROM days`, appendTo(&days, firstNumber))
	for _, day := range days {
		for _, query := range differingTotals {
			if err != nil {
				return err
			}
			err = firstOf(summed("days", "the sums of a day", rowsOf(conn, query, firstNumber, day)), func(account int64) error {
				return audit.Disagree("day/"+book.DateOf(day), "the sums of account number %d (0: of all) are not what those "+
					"of its keys come to", account)
			})
		}
	}
	return err
}

// firstOf is what found says of the first row; nil where there is none.
func firstOf[T any](rows iter.Seq2[T, error], found func(T) error) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		return found(row)
	}
	return nil
}

func firstNumber(row *sqlite.Stmt) int64 { return row.ColumnInt64(0) }
