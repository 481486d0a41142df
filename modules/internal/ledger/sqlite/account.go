package sqlite

import (
	"fmt"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// account is an account's rows in memory, with the lines of keys that were used.
type account struct {
	n int64
	book.Account
	last int64 // number of its last entry, 0 without one

	// payer is the root of the line of keys that paid last, and owed what it spent and its own row does not say yet:
	// so a request of an account that uses one key writes one row. Both are 0 or none is.
	payer int64
	owed  int64

	lines map[int64]*keyLine // by root
	dirty bool
}

// keyLine is a line of keys in memory.
type keyLine struct {
	root int64
	book.Line
	of    *account
	row   int64 // Spent, as its row has it
	dirty bool
}

// accountColumns are of accounts AS a and balances AS b.
const accountColumns = `a.n, a.id, a.name, a.plan, a.state, a.created, a.period, a.period_end,
	a.spent_before, a.tokens_before, a.waived_before, b.credits, b.accrued, b.head, b.last, b.entries, b.requests,
	b.spent, b.tokens, b.waived, b.line, b.line_spent, a.acts, a.trail, a.allotted, ` + settingColumns

// accountHeld is what accounts AS a hold. It reads all running requests, so it is for one account.
const accountHeld = `(SELECT coalesce(sum(h.hold), 0) FROM holds AS h WHERE h.account = a.n)`

// heldInMemory stands for accountHeld where the writer reads, which knows it.
const heldInMemory = `0`

// accountWidth is how many columns accountColumns names, balanceColumn is one of the last of them that is of a
// balance.
const (
	accountWidth  = 25 + settingsWidth
	balanceColumn = 21
)

// scanRow reads an account without what it holds, which its rows do not say.
func scanRow(row *sqlite.Stmt) *account {
	a := &account{}
	var period *int64
	var end time.Time
	var allotted bool
	readColumns(row, 0, &a.n, &a.ID, &a.Name, &a.Plan, (*string)(&a.State), &a.Created, &period, &end, &a.Before.Spent,
		&a.Before.Tokens, &a.Before.Waived, &a.Credits, &a.Accrued, &a.Head, &a.last, &a.Entries, &a.Requests,
		&a.Ever.Spent, &a.Ever.Tokens, &a.Ever.Waived, &a.payer, &a.owed, &a.Trail.Acts, &a.Trail.Head, &allotted)
	if period != nil {
		a.Period = book.Period{Number: *period, End: end, Allotted: allotted}
	}
	a.Settings = scanSettings(row, accountWidth-settingsWidth)
	return a
}

// readAccount reads one account, with what it holds.
func (m *memory) readAccount(conn *sqlite.Conn, id string) (a *account, err error) {
	err = run(conn, `SELECT `+accountColumns+` FROM accounts AS a JOIN balances AS b ON b.n = a.n WHERE a.id = ?`,
		func(row *sqlite.Stmt) error {
			a = scanRow(row)
			a.Held = m.held[a.n]
			return nil
		}, id)
	if err == nil && a == nil {
		err = book.NoAccount(id)
	}
	return a, err
}

// scanLine reads four columns from col on: the root, the cap, and what was spent ever and before the period.
func scanLine(row *sqlite.Stmt, col int) *keyLine {
	l := &keyLine{}
	readColumns(row, col, &l.root, &l.Cap, &l.Spent, &l.Before)
	return l
}

// keep remembers a line of the account, which has just been read.
func (a *account) keep(l *keyLine) {
	if a.lines == nil {
		a.lines = make(map[int64]*keyLine)
	}
	l.of, l.row = a, l.Spent
	if l.root == a.payer {
		l.row -= a.owed
	}
	a.lines[l.root] = l
}

// line finds a line of keys of the account.
func (a *account) line(conn *sqlite.Conn, root int64) (*keyLine, error) {
	if l, ok := a.lines[root]; ok {
		return l, nil
	}
	var l *keyLine
	err := run(conn, `SELECT r.n, r.spend_cap, r.spent + iif(b.line = r.n, b.line_spent, 0), r.spent_before
		FROM keys AS r JOIN balances AS b ON b.n = r.account WHERE r.n = ?`, func(row *sqlite.Stmt) error {
		l = scanLine(row, 0)
		return nil
	}, root)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("%w: the first key of a line, number %d", ledger.ErrNotFound, root)
	}
	a.keep(l)
	return l, nil
}

const saveBalance = `INSERT OR REPLACE INTO balances
	(n, credits, accrued, head, last, entries, requests, spent, tokens, waived, line, line_spent)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// bindBalance is what requests and credits change of an account. The rest, which is indexed, is written where it
// changes.
func bindBalance(row *rows, changed **account) {
	a := *changed
	row.number(a.n, a.Credits, a.Accrued)
	row.bytes(a.Head[:])
	row.optionalNumber(a.last)
	row.number(a.Entries, a.Requests, a.Ever.Spent, a.Ever.Tokens, a.Ever.Waived)
	row.optionalNumber(a.payer)
	row.number(a.owed)
	a.dirty = false
}

// saveAccount writes what operators and periods change of an account. What it requires SetRequires writes, so that a
// text that cannot be read stays.
func (t *tx) saveAccount(a *account) error {
	var number, end, allotted any
	if p := a.Period; p.Begun() {
		number, end, allotted = p.Number, p.End, p.Allotted
	}
	args := []any{a.Name, a.Plan, string(a.State), number, end, allotted, a.Before.Spent, a.Before.Tokens,
		a.Before.Waived, a.Trail.Acts, a.Trail.Head, a.Profile}
	for _, limit := range a.Limits {
		args = append(args, limit)
	}
	return t.exec(updateAccount, append(args, a.n)...)
}

var updateAccount = `UPDATE accounts SET name = ?, plan = ?, state = ?, period = ?, period_end = ?, allotted = ?,
	spent_before = ?, tokens_before = ?, waived_before = ?, acts = ?, trail = ?, profile = ?, ` +
	strings.Join(limitColumns[:], ` = ?, `) + ` = ? WHERE n = ?`

const updateLine = `UPDATE keys SET spent = ? WHERE n = ?`

func (l *keyLine) save(stmt *sqlite.Stmt) error {
	stmt.BindInt64(1, l.Spent)
	stmt.BindInt64(2, l.root)
	if err := execStatement(stmt); err != nil {
		return fmt.Errorf("writing what a key spent: %w", err)
	}
	l.row = l.Spent
	return nil
}
