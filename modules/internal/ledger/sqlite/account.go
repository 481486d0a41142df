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

	acts  int64         // about it
	trail ledger.Digest // of the last of them
	settings

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
	number   int64
	end      time.Time
	allotted bool // it has its plan's credits, or could not take them
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
		ID: a.id, Name: a.name, Plan: a.plan, State: a.state, Created: a.created, Limits: a.limits, Profile: a.profile,
		Requires: a.requires, Balance: a.Balance,
		Period: ledger.Period{Spent: now.spent, Tokens: now.tokens, Waived: now.waived},
	}
	if a.period != nil {
		v.Period.End = a.period.end
	}
	return v
}

// accountColumns are of accounts AS a and balances AS b.
const accountColumns = `a.n, a.id, a.name, a.plan, a.state, a.created, a.period, a.period_end,
	a.spent_before, a.tokens_before, a.waived_before, b.credits, b.accrued, b.head, b.last, b.entries, b.requests,
	b.spent, b.tokens, b.waived, b.line, b.line_spent, a.acts, a.trail, a.allotted, ` + settingColumns

// accountHeld is what accounts AS a hold. It reads all running requests, so it is for one account.
const accountHeld = `(SELECT coalesce(sum(h.hold), 0) FROM holds AS h WHERE h.account = a.n)`

// heldInMemory stands for accountHeld where the writer reads, which knows it.
const heldInMemory = `0`

// accountWidth is how many columns accountColumns names, balanceColumn is one of the last of them that is of a balance.
const (
	accountWidth  = 25 + settingsWidth
	balanceColumn = 21
)

// scanRow reads an account without what it holds, which its rows do not say.
func scanRow(row *sqlite.Stmt) *account {
	a := &account{
		n:        row.ColumnInt64(0),
		id:       row.ColumnText(1),
		name:     row.ColumnText(2),
		plan:     row.ColumnText(3),
		state:    ledger.State(row.ColumnText(4)),
		created:  columnTime(row, 5),
		before:   counters{row.ColumnInt64(8), row.ColumnInt64(9), row.ColumnInt64(10)},
		Balance:  ledger.Balance{Credits: row.ColumnInt64(11), Accrued: row.ColumnInt64(12)},
		head:     columnHash(row, 13),
		last:     row.ColumnInt64(14),
		entries:  row.ColumnInt64(15),
		requests: row.ColumnInt64(16),
		ever:     counters{row.ColumnInt64(17), row.ColumnInt64(18), row.ColumnInt64(19)},
		payer:    row.ColumnInt64(20),
		owed:     row.ColumnInt64(21),
		acts:     row.ColumnInt64(22),
		trail:    columnHash(row, 23),
	}
	if !row.ColumnIsNull(6) {
		a.period = &period{number: row.ColumnInt64(6), end: columnTime(row, 7), allotted: row.ColumnBool(24)}
	}
	a.settings = scanSettings(row, 25)
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
	row.number(a.n)
	row.number(a.Credits)
	row.number(a.Accrued)
	row.bytes(a.head[:])
	row.optionalNumber(a.last)
	row.number(a.entries)
	row.number(a.requests)
	row.number(a.ever.spent)
	row.number(a.ever.tokens)
	row.number(a.ever.waived)
	row.optionalNumber(a.payer)
	row.number(a.owed)
	a.dirty = false
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
