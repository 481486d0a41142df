package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/move"
)

// movedTable is a table of another store, as this ledger's rows make it.
type movedTable struct {
	name string
	keys string // expressions, each unique in their order; "" for a table that is moved as a whole
	from string // what stands behind FROM, with all that narrows it, and ends in WHERE and a condition
	// columns of the other table, each with the expression that makes it; alone where that is its name.
	columns []string
}

// movedTables are all of them (see postgres/schema). What is numbered here is named by its id there; rows that lie in
// an order here (accounts, keys, acts) have it as what they were made in, before all that is made later by a clock.
var movedTables = []movedTable{
	{"ledger", "", `meta WHERE true`, []string{"pruned_before", "acts", "trail", "checkpoints", "checkpoint"}},
	{"prices", "route, version", `prices WHERE true`, []string{"route", "version", "input", "cache_read", "cache_write",
		"output", "tiers", "cost_input", "cost_cache_read", "cost_cache_write", "cost_output", "cost_tiers", "since"}},
	{"accounts", "a.n", `accounts AS a WHERE true`, []string{"account = a.id", "a.name", "a.plan", "a.state", "a.created",
		"made = a.n", "a.spend_cap", "a.token_budget", "a.fair_use", "a.concurrent_requests", "a.key_requests",
		"a.account_requests", "a.address_requests", "a.profile", "a.requires_region", "a.requires_retention",
		"a.mail", "a.own_spend_cap_microcents"}},
	{"names", "a.n", `accounts AS a WHERE true`, []string{"a.name", "account = a.id"}},
	{"balances", "a.n", `accounts AS a JOIN balances AS b ON b.n = a.n WHERE true`, []string{"account = a.id", "b.credits",
		"b.accrued", "held = 0", "b.head", "b.entries", "b.requests", "b.spent", "b.tokens", "b.waived", "a.spent_before",
		"a.tokens_before", "a.waived_before", "a.period", "a.period_end", "a.allotted", "a.acts", "a.trail"}},
	{"keys", "k.n", `keys AS k JOIN accounts AS a ON a.n = k.account JOIN keys AS o ON o.n = k.root WHERE true`,
		[]string{"account = a.id", "key = k.id", "k.name", "k.hash", "k.last4", "k.revoked", "k.created", "made = k.n",
			"k.expires", "root = o.id"}},
	{"hashes", "k.n", `keys AS k JOIN accounts AS a ON a.n = k.account WHERE true`,
		[]string{"k.hash", "account = a.id", "key = k.id"}},
	// What a line has spent and its row does not say yet is in its account's balance.
	{"lines", "k.n", `keys AS k JOIN accounts AS a ON a.n = k.account JOIN balances AS b ON b.n = a.n WHERE k.root = k.n`,
		[]string{"account = a.id", "root = k.id", "k.spend_cap", "spent = k.spent + iif(b.line = k.n, b.line_spent, 0)",
			"k.spent_before", "held = 0"}},
	{"entries", "e.n", `entries AS e JOIN accounts AS a ON a.n = e.account WHERE true`, []string{"account = a.id", "e.seq",
		"e.kind", "e.book", "e.request", "e.reference", "e.reason", "e.prices", "e.microcents", "e.waived", "e.over",
		"e.tokens", "e.detail", "e.credits", "e.accrued", "e.created", "e.format", "e.prev", "e.hash",
		"n = iif(e.format < 3, e.n, NULL)"}},
	{"acts", "u.n", `audit AS u LEFT JOIN accounts AS a ON a.n = u.account WHERE true`, []string{
		"account = coalesce(a.id, '')", "u.seq", "u.created", "made = u.n", "u.actor", "u.action", "u.subject", "u.before",
		"u.after", "u.format", "u.prev", "u.hash", "n = iif(u.format < 2, u.n, NULL)"}},
	{"checkpoints", "n", `checkpoints WHERE true`, []string{"n", "entries", "acts", "trail", "created", "prev", "hash",
		"format"}},
	// The ends of the chains that each checkpoint was made over, which is here by where rows lie.
	{"heads", "h.checkpoint", `(SELECT c.n AS checkpoint, 0 AS act, a.id AS account, e.seq, e.hash
		FROM (SELECT c.n, max(e.n) AS last
			FROM (SELECT n, lag(entries, 1, 0) OVER (ORDER BY n) AS after, entries FROM checkpoints) AS c
			JOIN entries AS e ON e.n > c.after AND e.n <= c.entries GROUP BY c.n, e.account) AS c
		JOIN entries AS e ON e.n = c.last JOIN accounts AS a ON a.n = e.account
		UNION ALL SELECT c.n, 1, coalesce(a.id, ''), u.seq, u.hash
		FROM (SELECT c.n, max(u.n) AS last
			FROM (SELECT n, lag(acts, 1, 0) OVER (ORDER BY n) AS after, acts FROM checkpoints) AS c
			JOIN audit AS u ON u.n > c.after AND u.n <= c.acts GROUP BY c.n, u.account) AS c
		JOIN audit AS u ON u.n = c.last LEFT JOIN accounts AS a ON a.n = u.account) AS h WHERE true`,
		[]string{"h.account", "h.checkpoint", "h.act", "h.seq", "h.hash"}},
	// A request of before format 3 that was charged nothing has no entry.
	{"requests", "r.id", `requests AS r JOIN accounts AS a ON a.n = r.account JOIN keys AS k ON k.n = r.key
		LEFT JOIN entries AS e ON e.n = r.entry WHERE true`, []string{"account = a.id", "request = r.id", "key = k.id",
		"r.owner", "r.endpoint", "r.profile", "r.hold", "r.status", "r.reason", "r.free", "r.service_limit", "r.surcharge",
		"r.charge", "r.waived", "r.over", "r.tokens", "r.refunded", "r.pending", "r.created", "r.settled",
		"entry = coalesce(e.seq, 0)"}},
	{"attempts", "t.request, t.seq", `attempts AS t JOIN requests AS r ON r.id = t.request
		JOIN accounts AS a ON a.n = r.account WHERE true`, []string{"account = a.id", "t.request", "t.seq", "t.route",
		"t.provider", "t.model", "t.price_version", "t.outcome", "t.input", "t.cache_read", "t.cache_write", "t.output",
		"t.reasoning", "t.estimated", "t.created", "t.receipt", "t.worst", "t.estimate_input", "t.estimate_output",
		"t.provider_key", "t.operator"}},
	{"waiting", "w.provider, w.created, w.request, w.seq", `waiting AS w JOIN requests AS r ON r.id = w.request
		JOIN accounts AS a ON a.n = r.account JOIN attempts AS t ON t.request = w.request AND t.seq = w.seq WHERE true`,
		[]string{"account = a.id", "w.request", "w.seq", "w.provider", "w.route", "w.created",
			"reference = coalesce(w.reference, '')", "t.provider_key"}},
	// Which tokens counted is kept by key, and comes into the first of its rows. There they know no profile.
	{"pruned", "d.day, d.key, d.route", `(SELECT *, row_number() OVER (PARTITION BY key ORDER BY day, route) = 1 AS first
		FROM (SELECT day, key, route, ` + summedUsage + ` FROM days WHERE pruned AND key > 0 GROUP BY day, key, route))
		AS d JOIN keys AS k ON k.n = d.key JOIN accounts AS a ON a.n = k.account
		JOIN pruned AS p ON p.key = d.key WHERE true`, []string{"account = a.id", "key = k.id", "d.day", "d.route",
		"d.parts", "d.settled", "d.requests", "d.pending", "d.whole_requests", "d.whole_pending", "d.attempts",
		"d.microcents", "d.waived", "d.over", "d.refunded", "d.cost", "d.input", "d.cache_read", "d.cache_write", "d.output",
		"d.reasoning", "d.estimated", "tokens = iif(d.first, p.tokens, 0)"}},
	{"learned", "route, model, kind", `learned WHERE true`, []string{"route", "model", "kind", "worked", "failed", "good",
		"bad", "at"}},
	{"nodes", "", `owners WHERE true`, []string{"node = boot_id", "name = 'moved'", "started", "expires = started",
		"ended = started"}},
}

func (t *movedTable) keyColumns() []string {
	if t.keys == "" {
		return nil
	}
	return strings.Split(t.keys, ", ")
}

// query reads the rows of the table behind a key, if there is one.
func (t *movedTable) query(after []any) string {
	selected := t.keyColumns()
	for _, c := range t.columns {
		if _, expression, made := strings.Cut(c, " = "); made {
			c = expression
		}
		selected = append(selected, c)
	}
	sql := `SELECT ` + strings.Join(selected, ", ") + ` FROM ` + t.from
	if len(after) > 0 {
		sql += ` AND (` + t.keys + `) > (?` + strings.Repeat(`, ?`, len(after)-1) + `)`
	}
	if t.keys != "" {
		sql += ` ORDER BY ` + t.keys
	}
	return sql
}

// counted is the table that has about as many rows: what is joined to it narrows it little, and takes minutes.
func (t *movedTable) counted() string {
	switch t.name {
	case "heads": // at least one for each
		return "checkpoints"
	case "pruned":
		return "days WHERE pruned AND key > 0"
	}
	name, _, _ := strings.Cut(t.from, " ")
	return name
}

func findMovedTable(name string) (*movedTable, error) {
	for i := range movedTables {
		if movedTables[i].name == name {
			return &movedTables[i], nil
		}
	}
	return nil, fmt.Errorf("there is no table %q to be moved", name)
}

// MovedTables implements move.Source.
func (b *books) MovedTables() (all []move.Table) {
	for i := range movedTables {
		t := move.Table{Name: movedTables[i].name, Keys: len(movedTables[i].keyColumns())}
		for _, c := range movedTables[i].columns {
			name, _, _ := strings.Cut(c, " = ")
			t.Columns = append(t.Columns, name[strings.IndexByte(name, '.')+1:])
		}
		all = append(all, t)
	}
	return all
}

// CountMoved implements move.Source.
func (b *books) CountMoved(ctx context.Context, t move.Table) (n int64, err error) {
	table, err := findMovedTable(t.Name)
	if err != nil {
		return 0, err
	}
	err = b.list(ctx, "count_moved", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT count(*) FROM `+table.counted(), to(&n))
	})
	return n, wrap(err, "counting %s", t.Name)
}

// ReadMoved implements move.Source.
func (b *books) ReadMoved(ctx context.Context, t move.Table, after []any, each func(move.Row) error) error {
	table, err := findMovedTable(t.Name)
	if err != nil {
		return err
	}
	return b.list(ctx, "read_moved", func(conn *sqlite.Conn) error {
		return run(conn, table.query(after), func(row *sqlite.Stmt) error {
			values := make([]any, row.ColumnCount())
			for i := range values {
				values[i] = columnValue(row, i)
			}
			return give(each, move.Row{Key: values[:t.Keys:t.Keys], Values: values[t.Keys:]})
		}, after...)
	})
}

func columnValue(row *sqlite.Stmt, i int) any {
	switch row.ColumnType(i) {
	case sqlite.TypeInteger:
		return row.ColumnInt64(i)
	case sqlite.TypeFloat:
		return row.ColumnFloat(i)
	case sqlite.TypeText:
		return row.ColumnText(i)
	case sqlite.TypeBlob:
		b := make([]byte, row.ColumnLen(i))
		row.ColumnBytes(i, b)
		return b
	default:
		return nil
	}
}

// readMove reads the mark of a ledger that may have an older schema.
func readMove(conn *sqlite.Conn) (m move.Mark, err error) {
	has := false
	if err := run(conn, `SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'moves'`, to(&has)); err != nil || !has {
		return m, err
	}
	err = run(conn, `SELECT move, target, owners, entries, acts, begun, done FROM moves`,
		to(&m.ID, &m.Target, &m.Owners, &m.Entries, &m.Acts, &m.Begun, &m.Done))
	return m, err
}

// ReadMove implements move.Source.
func (b *books) ReadMove(ctx context.Context) (m move.Mark, err error) {
	err = b.list(ctx, "read_move", func(conn *sqlite.Conn) (err error) {
		m, err = readMove(conn)
		return err
	})
	return m, wrap(err, "reading whether the ledger was moved")
}

// MoveState implements move.Source.
func (b *books) MoveState(ctx context.Context) (s move.State, err error) {
	err = b.list(ctx, "move_state", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT (SELECT count(*) FROM owners), (SELECT count(*) FROM entries), (SELECT count(*) FROM audit)`,
			to(&s.Owners, &s.Entries, &s.Acts))
	})
	return s, wrap(err, "reading how far the ledger is")
}

// MarkMove implements move.Source.
func (s *Store) MarkMove(ctx context.Context, m move.Mark) error {
	return s.write(ctx, "mark_move", func(t *tx) error {
		if err := t.exec(`DELETE FROM moves`); err != nil || m.ID == "" {
			return err
		}
		return t.exec(`INSERT INTO moves (move, target, owners, entries, acts, begun, done) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			m.ID, m.Target, m.Owners, m.Entries, m.Acts, m.Begun, optionalTime(m.Done))
	})
}

// ReadMove reads what the ledger at a path says of its move, of any schema, whoever has it open.
func ReadMove(path string) (m move.Mark, err error) {
	if path, err = resolve(path); err != nil {
		return m, err
	}
	if _, err := os.Stat(path); err != nil {
		return m, err
	}
	conn, err := openReader(path, patience)
	if err != nil {
		return m, err
	}
	m, err = readMove(conn)
	return m, errors.Join(failure(err), conn.Close())
}

// UndoMove has a ledger served again that was moved: the mark is gone. ErrLocked while somebody has the ledger.
func UndoMove(path string) (err error) {
	release, err := Lock(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if path, err = resolve(path); err != nil {
		return err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return failure(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetBusyTimeout(patience)
	return failure(run(conn, `DELETE FROM moves`, nil))
}

var _ move.Source = (*Store)(nil)
