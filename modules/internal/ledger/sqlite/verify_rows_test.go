package sqlite

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Each row of a ledger in which everything has happened is removed once. The scene ends with a rename and a kept
// checkpoint; the last act or checkpoint of another could go.
func TestVerifySeesMissingRows(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	for _, table := range v.tables() {
		for _, place := range v.rows(table) {
			row := table + ` WHERE ` + place
			p := v.problem(func() error { return run(v.conn, `DELETE FROM `+row, nil) })
			require.NotEmpty(t, p, row)
		}
	}
}

// Each row is copied once, under a key of its own.
func TestVerifySeesAddedRows(t *testing.T) {
	t.Parallel()
	harmless := map[string]string{
		"owners": "a process that admitted nothing",
		"prices": "the first price of a route that nobody used",
	}
	v := newVandal(t)
	for _, table := range v.tables() {
		var from, to []string
		for _, c := range v.columns(table) {
			from = append(from, c.name)
			switch {
			case c.key && c.kind == "INTEGER":
				to = append(to, c.name+" + 100")
			case c.key:
				to = append(to, c.name+" || 'copy'")
			default:
				to = append(to, c.name)
			}
		}
		for _, place := range v.rows(table) {
			sql := fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s`,
				table, strings.Join(from, ", "), strings.Join(to, ", "), table, place)
			p := v.problem(func() error { return run(v.conn, sql, nil) })
			require.Equal(t, harmless[table] != "", p == "", "%s: %q", sql, p)
		}
	}
}

func TestVerifySeesExchangedRows(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	exchange := func(table, column, place, other string) func() error {
		return func() error {
			get := func(place string) string {
				return v.texts(fmt.Sprintf(`SELECT quote(%s) FROM %s WHERE %s`, column, table, place))[0]
			}
			a, b := get(place), get(other)
			require.NotEqual(t, a, b)
			for _, sql := range []string{
				fmt.Sprintf(`UPDATE %s SET %s = -1 WHERE %s`, table, column, place),
				fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s`, table, column, a, other),
				fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s = -1`, table, column, b, column),
			} {
				if err := run(v.conn, sql, nil); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, change := range map[string]func() error{
		"entries of an account":           exchange("entries", "n", "n = 5", "n = 6"),
		"entries of two accounts":         exchange("entries", "n", "n = 17", "n = 18"),
		"an account's place in its chain": exchange("entries", "seq", "n = 5", "n = 6"),
		"what entries moved":              exchange("entries", "microcents", "n = 5", "n = 6"),
		"two charges":                     exchange("requests", "entry", "id = 'r03-charged'", "id = 'r04-plain'"),
		"attempts": exchange("attempts", "seq", "request = 'r03-charged' AND seq = 1",
			"request = 'r03-charged' AND seq = 3"),
		"who pays":            exchange("requests", "account", "id = 'r17-second'", "id = 'r04-plain'"),
		"acts":                exchange("audit", "n", "n = 3", "n = 4"),
		"checkpoints":         exchange("checkpoints", "n", "n = 1", "n = 2"),
		"the accounts' money": exchange("balances", "credits", "n = 1", "n = 2"),
		"keys":                exchange("keys", "id", "n = 1", "n = 3"),
	} {
		require.NotEmpty(t, v.problem(change), "%s are exchanged", name)
	}
}

// Places of entries that no ledger comes to are findings, too, however many look at the journal.
func TestVerifySeesEntriesAtAnyPlace(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	add := func(n int64) string {
		var names []string
		for _, c := range v.columns("entries") {
			names = append(names, c.name)
		}
		all := strings.Join(names, ", ")
		return fmt.Sprintf(`INSERT INTO entries (%s) SELECT %s FROM entries WHERE n = 2`, all,
			strings.Replace(all, "n, ", fmt.Sprintf("%d, ", n), 1))
	}
	for change, problem := range map[string]string{
		add(math.MaxInt64):          "of the journal is missing",
		add(-1):                     "entry 1 of the journal is missing",
		add(math.MinInt64):          "entry 1 of the journal is missing",
		`UPDATE entries SET n = -n`: "entry 1 of the journal is missing", // the last one is -1
		`UPDATE entries SET n = n - 9223372036854775807`: "entry 1 of the journal is missing",
		`UPDATE entries SET n = -n - 5`:                  "entry 1 of the journal is missing",
		`UPDATE entries SET n = 9223372036854775807 WHERE n % 2 = 0 AND n =
			(SELECT max(n) FROM entries WHERE n % 2 = 0)`: "of the journal is missing",
	} {
		require.Contains(t, v.problem(func() error { return run(v.conn, change, nil) }), problem, change)
	}
}

func TestVerifyComparesTheSchema(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("main", "")
	require.NoError(t, s.store.Close())
	conn := openForWriting(t, s.store.opts.Path)
	for sql, problem := range map[string]string{
		`DROP INDEX one_reference`:  "index one_reference is missing, or not as this fareway makes it",
		`DROP TRIGGER entries_keep`: "trigger entries_keep is missing, or not as this fareway makes it",
		`DROP INDEX later; ` +
			`CREATE INDEX later ON entries (request) WHERE kind = 'refund'`: "index later is missing, or not as this " +
			"fareway makes it",
		`CREATE TRIGGER thief AFTER INSERT ON entries BEGIN DELETE FROM holds; END`: "trigger thief is not of this fareway",
		`CREATE VIEW worth AS SELECT credits FROM balances`:                         "view worth is not of this fareway",
		`ANALYZE`: "",
	} {
		require.NoError(t, run(conn, `SAVEPOINT change`, nil))
		require.NoError(t, sqlitex.ExecuteScript(conn, sql, nil))
		r, err := verify(conn, nil, nil)
		require.NoError(t, err)
		require.Equal(t, problem, r.Problem)
		require.Equal(t, problem == "", r.OK)
		require.NoError(t, run(conn, `ROLLBACK TO change`, nil))
	}
}
