package sqlite

import (
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// account is an account's row in memory, with the lines of keys that were used.
type account struct {
	n       int64
	id      string
	name    string
	plan    string
	state   ledger.State
	created time.Time
	ledger.Balance

	head     ledger.Digest // of its chain
	last     int64         // number of the head's entry, 0 without one
	entries  int64
	requests int64 // settled ever

	period *period // nil: it has none
	ever   counters
	before counters // ever, when the period began; zero without periods

	// payer is the root of the line of keys that paid last, and owed what it spent and its own row does not say yet:
	// so a request of an account that uses one key writes one row. Both are 0 or none is.
	payer int64
	owed  int64

	lines map[int64]*line // by root
	dirty bool
}

type period struct {
	number int64
	end    time.Time
}

// counters are what was charged, used and waived.
type counters struct{ spent, tokens, waived int64 }

// line is what a key and those that replaced it share.
type line struct {
	root   int64
	cap    int64 // microcents a period; 0: none
	spent  int64 // ever
	before int64 // spent, when the account's period began
	of     *account
	row    int64 // spent, as its row has it
	dirty  bool
}

// now is what was counted in the current period.
func (a *account) now() counters {
	return counters{
		spent:  a.ever.spent - a.before.spent,
		tokens: a.ever.tokens - a.before.tokens,
		waived: a.ever.waived - a.before.waived,
	}
}

// view is the account as its users see it.
func (a *account) view() ledger.Account {
	now := a.now()
	v := ledger.Account{
		ID: a.id, Name: a.name, Plan: a.plan, State: a.state, Created: a.created, Balance: a.Balance,
		Period: ledger.Period{Spent: now.spent, Tokens: now.tokens, Waived: now.waived},
	}
	if a.period != nil {
		v.Period.End = a.period.end
	}
	return v
}

const accountColumns = `a.n, a.id, a.name, a.plan, a.state, a.created, a.credits,
	(SELECT coalesce(sum(h.hold), 0) FROM holds AS h WHERE h.account = a.n), a.accrued, a.head, a.last, a.entries, a.requests,
	a.period, a.period_end, a.spent, a.tokens, a.waived, a.spent_before, a.tokens_before, a.waived_before,
	a.line, a.line_spent`

// accountWidth is how many columns accountColumns names.
const accountWidth = 23

func scanRow(row *sqlite.Stmt) *account {
	a := &account{
		n:        row.ColumnInt64(0),
		id:       row.ColumnText(1),
		name:     row.ColumnText(2),
		plan:     row.ColumnText(3),
		state:    ledger.State(row.ColumnText(4)),
		created:  columnTime(row, 5),
		Balance:  ledger.Balance{Credits: row.ColumnInt64(6), Held: row.ColumnInt64(7), Accrued: row.ColumnInt64(8)},
		head:     columnHash(row, 9),
		last:     row.ColumnInt64(10),
		entries:  row.ColumnInt64(11),
		requests: row.ColumnInt64(12),
		ever:     counters{row.ColumnInt64(15), row.ColumnInt64(16), row.ColumnInt64(17)},
		before:   counters{row.ColumnInt64(18), row.ColumnInt64(19), row.ColumnInt64(20)},
	}
	a.payer, a.owed = row.ColumnInt64(21), row.ColumnInt64(22)
	if !row.ColumnIsNull(13) {
		a.period = &period{number: row.ColumnInt64(13), end: columnTime(row, 14)}
	}
	return a
}

// readAccount reads one account.
func readAccount(conn *sqlite.Conn, id string) (a *account, err error) {
	err = run(conn, `SELECT `+accountColumns+` FROM accounts AS a WHERE a.id = ?`, func(row *sqlite.Stmt) error {
		a = scanRow(row)
		return nil
	}, id)
	if err == nil && a == nil {
		err = fmt.Errorf("%w: account %q", ledger.ErrNotFound, id)
	}
	return a, err
}

// scanLine reads four columns from col on: the root, the cap, and what was spent ever and before the period.
func scanLine(row *sqlite.Stmt, col int) *line {
	return &line{
		root:   row.ColumnInt64(col),
		cap:    row.ColumnInt64(col + 1),
		spent:  row.ColumnInt64(col + 2),
		before: row.ColumnInt64(col + 3),
	}
}

// keep remembers a line of the account, which has just been read.
func (a *account) keep(l *line) {
	if a.lines == nil {
		a.lines = make(map[int64]*line)
	}
	l.of, l.row = a, l.spent
	if l.root == a.payer {
		l.row -= a.owed
	}
	a.lines[l.root] = l
}

// line finds a line of keys of the account.
func (a *account) line(conn *sqlite.Conn, root int64) (*line, error) {
	if l, ok := a.lines[root]; ok {
		return l, nil
	}
	var l *line
	err := run(conn, `SELECT r.n, r.spend_cap, r.spent + iif(a.line = r.n, a.line_spent, 0), r.spent_before
		FROM keys AS r JOIN accounts AS a ON a.n = r.account WHERE r.n = ?`, func(row *sqlite.Stmt) error {
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

const updateAccount = `UPDATE accounts SET credits = ?, accrued = ?, head = ?, last = ?, entries = ?, requests = ?,
	spent = ?, tokens = ?, waived = ?, line = ?, line_spent = ? WHERE n = ?`

// save writes what requests and credits change of the row. The rest, which is indexed, is written where it changes.
func (a *account) save(stmt *sqlite.Stmt) error {
	stmt.BindInt64(1, a.Credits)
	stmt.BindInt64(2, a.Accrued)
	stmt.BindBytes(3, a.head[:])
	bindNumber(stmt, 4, a.last)
	stmt.BindInt64(5, a.entries)
	stmt.BindInt64(6, a.requests)
	stmt.BindInt64(7, a.ever.spent)
	stmt.BindInt64(8, a.ever.tokens)
	stmt.BindInt64(9, a.ever.waived)
	bindNumber(stmt, 10, a.payer)
	stmt.BindInt64(11, a.owed)
	stmt.BindInt64(12, a.n)
	if err := done(stmt); err != nil {
		return fmt.Errorf("writing account %q: %w", a.id, err)
	}
	a.dirty = false
	return nil
}

const updateLine = `UPDATE keys SET spent = ? WHERE n = ?`

func (l *line) save(stmt *sqlite.Stmt) error {
	stmt.BindInt64(1, l.spent)
	stmt.BindInt64(2, l.root)
	if err := done(stmt); err != nil {
		return fmt.Errorf("writing what a key spent: %w", err)
	}
	l.row = l.spent
	return nil
}
