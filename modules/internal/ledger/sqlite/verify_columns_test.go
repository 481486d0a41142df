package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// vandal changes a ledger's file as somebody does who has it and SQLite, and takes each change back.
type vandal struct {
	t    *testing.T
	conn *sqlite.Conn
	kept []ledger.Checkpoint
}

// guarded is what Verify says of a ledger whose only fault is that the vandal removed the triggers.
const guarded = "trigger audit_keep is missing, or not as this fareway makes it"

func newVandal(t *testing.T) *vandal {
	s := newScene(t, "")
	kept := s.everything()
	s.settings()
	path := s.store.opts.Path
	require.NoError(t, s.store.Close())
	v := &vandal{t: t, conn: openForWriting(t, path), kept: kept}
	for _, name := range v.texts(`SELECT name FROM sqlite_schema WHERE type = 'trigger'`) {
		require.NoError(t, run(v.conn, `DROP TRIGGER `+name, nil))
	}
	require.Empty(t, v.problem(nil), "nothing was changed yet")
	return v
}

func openForWriting(t *testing.T, path string) *sqlite.Conn {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func (v *vandal) texts(query string) (texts []string) {
	require.NoError(v.t, run(v.conn, query, func(row *sqlite.Stmt) error {
		texts = append(texts, row.ColumnText(0))
		return nil
	}))
	return texts
}

// problem is what Verify says of the ledger after a change; "" when it sees nothing.
func (v *vandal) problem(change func() error) string {
	require.NoError(v.t, run(v.conn, `BEGIN`, nil))
	defer func() { require.NoError(v.t, run(v.conn, `ROLLBACK`, nil)) }()
	if change != nil {
		if err := change(); err != nil {
			require.Equal(v.t, sqlite.ResultConstraint, sqlite.ErrCode(err).ToPrimary(), "%v", err)
			return "the schema refuses: " + err.Error()
		}
	}
	r, err := verify(v.conn, nil, v.kept)
	require.NoError(v.t, err)
	require.False(v.t, r.OK)
	require.NotEmpty(v.t, r.Entry)
	if r.Problem == guarded {
		return ""
	}
	return r.Entry + ": " + r.Problem
}

// tables are those of the ledger: what was learned of routes and where the ledger is moved is no money, and nobody says
// that Verify sees it.
func (v *vandal) tables() []string {
	return v.texts(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
		AND name NOT IN ('learned', 'moves')`)
}

type column struct {
	table, name, kind string
	nullable          bool
	key               bool // the first of the primary key
}

func (v *vandal) columns(table string) (all []column) {
	require.NoError(v.t,
		run(v.conn, `SELECT name, type, NOT "notnull" AND pk = 0, pk = 1 FROM pragma_table_info(?) ORDER BY cid`,
			func(row *sqlite.Stmt) error {
				all = append(all, column{
					table: table, name: row.ColumnText(0), kind: row.ColumnText(1), nullable: row.ColumnBool(2),
					key: row.ColumnBool(3),
				})
				return nil
			}, table))
	return all
}

// rows are conditions, each of which finds one row of a table.
func (v *vandal) rows(table string) []string {
	names := v.texts(fmt.Sprintf(`SELECT name FROM pragma_table_info('%s') WHERE pk > 0`, table))
	if len(names) == 0 {
		names = []string{"rowid"}
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf(`'%s = ' || quote(%s)`, name, name)
	}
	return v.texts(fmt.Sprintf(`SELECT %s FROM %s`, strings.Join(parts, ` || ' AND ' || `), table))
}

// changes are what can be made of a column's value, as SQL expressions.
func (c column) changes(row func(expression string) string) []string {
	is := row(c.name)
	var all []string
	switch {
	case is == "NULL" && c.kind == "INTEGER":
		return []string{"1", "0"}
	case is == "NULL":
		return []string{"'x'"}
	case c.kind == "INTEGER":
		all = []string{c.name + " + 1"}
		if many[c.table+"."+c.name] {
			all = []string{c.name + " + 1000000000"} // less comes to nothing in rounding
		}
	case c.kind == "TEXT":
		all = []string{c.name + " || 'x'"}
		for _, word := range words[c.table+"."+c.name] {
			if "'"+word+"'" != is {
				all = append(all, "'"+word+"'")
			}
		}
	default:
		all = []string{"randomblob(32)"}
	}
	if c.nullable {
		all = append(all, "NULL")
	}
	return all
}

// many are prices and numbers of tokens.
var many = map[string]bool{
	"prices.input": true, "prices.cache_read": true, "prices.cache_write": true, "prices.output": true,
	"attempts.input": true, "attempts.cache_read": true, "attempts.cache_write": true, "attempts.output": true,
}

// words are those that the schema allows.
var words = map[string][]string{
	"accounts.state":   {"active", "suspended", "inactive"},
	"accounts.profile": {"budget", "balanced", "max"},
	"attempts.outcome": {"finished", "failed", "unproven", "not_made", "closed"},
	"entries.kind":     {"top_up", "charge", "receipt", "closing", "refund", "adjustment", "allotment"},
	"entries.book":     {"payments", "revenue", "adjustments", "allotments"},
}

// excuses are why a column can be changed and Verify does not see it: everywhere, or in rows that contain one of
// these texts. What is not here is seen in every row, in every change that the schema does not refuse.
var excuses = map[string]struct {
	why string
	in  []string
}{
	"owners.pid":     {why: "for people who look for a process; requests name the boot id"},
	"owners.started": {why: "for people, too"},
	"meta.releases":  {why: "nobody reads it"},
	"prices.since":   {why: "attempts name the version that was in force, not the time"},
	"accounts.spent_before": {why: "when a plan gains credits is nowhere recorded, so there are bounds only",
		in: []string{"n = 1", "n = 4"}},
	"accounts.tokens_before": {why: "the same", in: []string{"n = 1", "n = 4"}},
	"accounts.waived_before": {why: "the same", in: []string{"n = 1", "n = 4"}},
	"keys.spent_before":      {why: "like accounts.spent_before", in: []string{"n = 1", "n = 5"}},
	"accounts.allotted": {why: "what a plan gives is nowhere recorded",
		in: []string{"n = 3 -> allotted + 1", "n = 4 -> allotted + 1"}},
	"audit.n": {why: "only the order of the rows", in: []string{"n = 33 -> n + 1"}},

	"holds.n":           {why: "only the order of the rows", in: []string{"-> n + 1"}},
	"holds.reference":   {why: "it is no money: the worst of its attempt bounds what any receipt adds"},
	"waiting.reference": {why: "the same"},
	"days.input":        {why: "tokens that nobody reported are summed like 0", in: none},
	"days.cache_read":   {why: "the same", in: none},
	"days.cache_write":  {why: "the same", in: none},
	"days.output":       {why: "the same", in: none},
	"days.reasoning":    {why: "the same", in: none},
	"meta.unprofiled":   {why: "it says nothing where meta.profiled says that all have their profile"},
	"meta.profiled":     {why: "no request has its charge at or before entry 0"},
}

// none are numbers that are NULL.
var none = []string{"-> 0"}

func TestVerifySeesEveryColumn(t *testing.T) {
	t.Parallel()
	for _, table := range newVandal(t).tables() {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			v := newVandal(t)
			for _, c := range v.columns(table) {
				v.changeColumn(c)
			}
		})
	}
}

// changeColumn changes a column in every row, and compares what goes unseen with the column's excuse.
func (v *vandal) changeColumn(c column) {
	name := c.table + "." + c.name
	excuse, excused := excuses[name]
	used := map[string]bool{}
	changed, unseen := 0, 0
	for _, place := range v.rows(c.table) {
		value := func(expression string) string {
			return v.texts(fmt.Sprintf(`SELECT quote(%s) FROM %s WHERE %s`, expression, c.table, place))[0]
		}
		for _, to := range c.changes(value) {
			changed++
			p := v.problem(func() error {
				return run(v.conn, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s`, c.table, c.name, to, place), nil)
			})
			if p != "" {
				continue
			}
			unseen++
			change := place + " -> " + to
			i := slices.IndexFunc(excuse.in, func(text string) bool { return strings.Contains(change, text) })
			require.True(v.t, excused && (excuse.in == nil || i >= 0), "%s can be changed unseen: %s", name, change)
			if i >= 0 {
				used[excuse.in[i]] = true
			}
		}
	}
	require.NotZero(v.t, changed, "%s has no row in the scene", name)
	if excused && excuse.in == nil {
		require.Equal(v.t, changed, unseen, "%s is seen sometimes, and its excuse does not say when", name)
	}
	require.Len(v.t, used, len(excuse.in), "%s is seen where it has an excuse", name)
}
