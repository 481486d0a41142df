package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Verify implements ledger.Store. It reads one snapshot, beside the running operations.
func (s *Store) Verify(ctx context.Context) (r ledger.Report, err error) {
	err = s.read(ctx, "verify", func(conn *sqlite.Conn) error {
		r, err = verify(conn)
		return err
	})
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger: %w", err)
	}
	return r, nil
}

// VerifyFile verifies the ledger at path without opening it for admission: it takes no lock, changes nothing
// that is recorded, and includes what a killed process left in the write-ahead log. Holds of dead processes
// count as live until the next Open.
func VerifyFile(ctx context.Context, path string) (_ ledger.Report, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger %s: %w", path, failure(err))
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetBusyTimeout(5 * time.Second)
	conn.SetInterrupt(ctx.Done())
	version, err := schemaVersion(conn)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: the database is empty", ErrVersion)
	}
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger %s: %w", path, err)
	}
	r, err := verify(conn)
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger %s: %w", path, failure(err))
	}
	return r, nil
}

// finding is the first thing that disagrees. It ends the verification.
type finding struct{ where, what string }

func (f *finding) Error() string { return f.where + ": " + f.what }

func disagree(where, format string, args ...any) error {
	return &finding{where: where, what: fmt.Sprintf(format, args...)}
}

// verify keeps one row of each kind in memory, whatever the size of the ledger.
func verify(conn *sqlite.Conn) (ledger.Report, error) {
	var report ledger.Report
	err := func() (err error) {
		defer sqlitex.Transaction(conn)(&err) // one snapshot for all of it
		for _, step := range []func(*sqlite.Conn, *ledger.Report) error{
			verifyAccounts, verifyRequests, verifyStructure,
		} {
			if err := step(conn, &report); err != nil {
				return err
			}
		}
		return nil
	}()
	var f *finding
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case err == nil:
		report.OK = true
	case errors.As(err, &f):
		report.Problem, report.Entry = f.what, f.where
	case code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB:
		report.Problem = "the database file is damaged: " + err.Error()
	default:
		return ledger.Report{}, err
	}
	return report, nil
}

// verifyAccounts walks each account's chain and compares its end, and the sum of its live holds, with the
// account's row.
func verifyAccounts(conn *sqlite.Conn, report *ledger.Report) error {
	return run(conn, `SELECT id, credits, held, accrued, head, entries FROM accounts ORDER BY id`, func(row *sqlite.Stmt) error {
		report.Accounts++
		id := row.ColumnText(0)
		end := purse{account: id}
		if err := verifyChain(conn, &end, report); err != nil {
			return err
		}
		holds, sum, err := liveHolds(conn, id)
		if err != nil {
			return err
		}
		report.Holds += holds
		credits, held, accrued := row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnInt64(3)
		switch {
		case end.entries != row.ColumnInt64(5):
			return disagree(id, "the account counts %d entries and the journal has %d", row.ColumnInt64(5), end.entries)
		case end.head != columnHash(row, 4):
			return disagree(id, "the head of the account's hash chain is not its last entry's hash")
		case credits != end.Credits || accrued != end.Accrued:
			return disagree(id, "the account has %d credits and %d microcents accrued, its entries make %d and %d",
				credits, accrued, end.Credits, end.Accrued)
		case held != sum:
			return disagree(id, "the account has %d microcents on hold, its running requests hold %d", held, sum)
		}
		return nil
	})
}

func liveHolds(conn *sqlite.Conn, account string) (n, microcents int64, err error) {
	err = run(conn, `SELECT count(*), coalesce(sum(hold), 0) FROM requests WHERE account = ? AND state = 'held'`,
		func(row *sqlite.Stmt) error {
			n, microcents = row.ColumnInt64(0), row.ColumnInt64(1)
			return nil
		}, account)
	return n, microcents, err
}

// verifyChain recomputes every entry of an account from the one before it, and leaves the last in end.
func verifyChain(conn *sqlite.Conn, end *purse, report *ledger.Report) error {
	return run(conn, `SELECT e.seq, e.kind, e.request, e.reference, e.reason, e.microcents, e.credits, e.accrued, e.created, e.prev, e.hash,
		r.account, r.charge
		FROM entries AS e LEFT JOIN requests AS r ON r.id = e.request WHERE e.account = ? ORDER BY e.seq`,
		func(row *sqlite.Stmt) error {
			report.Entries++
			e := ledger.Entry{
				Account:    end.account,
				Seq:        row.ColumnInt64(0),
				Kind:       ledger.EntryKind(row.ColumnText(1)),
				Request:    row.ColumnText(2),
				Reference:  row.ColumnText(3),
				Reason:     row.ColumnText(4),
				Microcents: row.ColumnInt64(5),
				Credits:    row.ColumnInt64(6),
				Accrued:    row.ColumnInt64(7),
				Created:    columnTime(row, 8),
				Prev:       columnHash(row, 9),
			}
			where := fmt.Sprintf("%s/%d", e.Account, e.Seq)
			after, err := end.Add(e.Microcents)
			switch {
			case e.Seq != end.entries+1:
				return disagree(where, "entry %d is missing before it", end.entries+1)
			case e.Prev != end.head:
				return disagree(where, "its link to the entry before it is broken")
			case e.Hash() != columnHash(row, 10):
				return disagree(where, "it is not what its hash was made of")
			case err != nil || after.Credits != e.Credits || after.Accrued != e.Accrued:
				return disagree(where, "it leaves %d credits and %d microcents accrued, %d and %d follow from the entry before it",
					e.Credits, e.Accrued, after.Credits, after.Accrued)
			case e.Kind == ledger.Charged && (row.ColumnText(11) != e.Account || row.ColumnInt64(12) != -e.Microcents):
				return disagree(where, "it charges %d microcents, its request %q was settled at %d",
					-e.Microcents, e.Request, row.ColumnInt64(12))
			}
			end.Balance, end.entries, end.head = after, e.Seq, e.Hash()
			return nil
		}, end.account)
}

// verifyRequests recomputes every charge from usage and price, and looks for its entry.
func verifyRequests(conn *sqlite.Conn, report *ledger.Report) error {
	return run(conn, `SELECT id, state, free, surcharge, charge, pending FROM requests ORDER BY id`, func(row *sqlite.Stmt) error {
		report.Requests++
		id, running := row.ColumnText(0), row.ColumnText(1) == held
		charge, pending := row.ColumnInt64(4), row.ColumnBool(5)
		var due bill
		attempts := 0
		err := attemptsOf(conn, id, func(a attempt) error {
			attempts++
			if running != (a.outcome == "") {
				return disagree(id, "the request is %s and its attempt %q has the outcome %q", row.ColumnText(1), a.id, a.outcome)
			}
			if err := due.add(a); err != nil {
				return disagree(id, "its attempt %q: %v", a.id, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		amount, mayGrow, err := due.total(row.ColumnBool(2), row.ColumnInt64(3))
		if err != nil {
			return disagree(id, "its attempts: %v", err)
		}
		entries, posted, err := charges(conn, id)
		switch {
		case err != nil:
			return err
		case attempts == 0:
			return disagree(id, "the request has no attempt")
		case amount != charge:
			return disagree(id, "the request was charged %d microcents, its usage and prices make %d", charge, amount)
		case mayGrow != pending:
			return disagree(id, "the request says pending: %t, its attempts say %t", pending, mayGrow)
		case posted != charge || entries > 1:
			return disagree(id, "the request was charged %d microcents, the journal has %d entries of together %d", charge, entries, posted)
		}
		return nil
	})
}

// charges counts and sums the charge entries of a request.
func charges(conn *sqlite.Conn, request string) (n, microcents int64, err error) {
	err = run(conn, `SELECT count(*), coalesce(-sum(microcents), 0) FROM entries WHERE kind = 'charge' AND request = ?`,
		func(row *sqlite.Stmt) error {
			n, microcents = row.ColumnInt64(0), row.ColumnInt64(1)
			return nil
		}, request)
	return n, microcents, err
}

// verifyStructure lets SQLite look for rows without their parents and for damage in the file itself.
func verifyStructure(conn *sqlite.Conn, _ *ledger.Report) error {
	err := run(conn, `PRAGMA foreign_key_check`, func(row *sqlite.Stmt) error {
		return disagree(row.ColumnText(0), "a row names a row of %s that does not exist", row.ColumnText(2))
	})
	if err != nil {
		return err
	}
	return run(conn, `PRAGMA quick_check(1)`, func(row *sqlite.Stmt) error {
		if text := row.ColumnText(0); text != "ok" {
			return disagree("database", "%s", text)
		}
		return nil
	})
}
