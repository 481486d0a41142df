package sqlite

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// entriesBy are the numbers of an account's entries, found in one of the two ways.
func entriesBy(t *testing.T, conn *sqlite.Conn, query string, account, since, until, covered int64) (numbers []int64) {
	require.NoError(t, run(conn, query, func(row *sqlite.Stmt) error {
		numbers = append(numbers, scanEntry(row).N)
		return nil
	}, account, since, until, covered))
	return numbers
}

func TestBothWaysLeadToTheSameEntries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 20, 500)
	conn := openForWriting(t, path)
	since, until := ledger.Query{}.Bounds()
	total := 0
	for account := range int64(20) {
		byLinks := entriesBy(t, conn, chainOfAccount, account+1, since, until, int64(math.MaxInt64))
		require.Equal(t, byLinks, entriesBy(t, conn, scanForAccount, account+1, since, until, int64(math.MaxInt64)))
		require.IsIncreasing(t, byLinks)
		total += len(byLinks)
		some := fillStart.UnixNano() + int64(10e9)
		require.Equal(t, entriesBy(t, conn, chainOfAccount, account+1, some, some+int64(10e9), int64(400)),
			entriesBy(t, conn, scanForAccount, account+1, some, some+int64(10e9), int64(400)))
	}
	require.Equal(t, 520, total)
	query, err := wayTo(conn, 1)
	require.NoError(t, err)
	require.Equal(t, chainOfAccount, query, "one of twenty")
	require.NoError(t, run(conn, `UPDATE balances SET entries = 100 WHERE n = 1`, nil))
	query, err = wayTo(conn, 1)
	require.NoError(t, err)
	require.Equal(t, scanForAccount, query, "one of five")

	require.NoError(t, run(conn, `DROP TRIGGER entries_stay`, nil))
	require.NoError(t, run(conn, `UPDATE entries SET before = n + 40 WHERE n = (SELECT last FROM balances WHERE n = 2)`,
		nil))
	require.Len(t, entriesBy(t, conn, chainOfAccount, 2, since, until, int64(math.MaxInt64)), 1,
		"links that lead on for ever are not followed")
}

// What reads a large table reads it in its own order: nothing is sorted, and nothing is kept.
func TestLargeTablesAreNotSorted(t *testing.T) {
	t.Parallel()
	conn := openForWriting(t, newScene(t, "").store.opts.Path)
	for query, want := range map[string]string{
		wholeJournal: "SEARCH e USING INTEGER PRIMARY KEY (rowid<?); SEARCH a USING INTEGER " +
			"PRIMARY KEY (rowid=?)",
		scanForAccount: "SEARCH e USING INTEGER PRIMARY KEY (rowid<?); SEARCH a USING INTEGER " +
			"PRIMARY KEY (rowid=?)",
		entryByNumber: "SEARCH e USING INTEGER PRIMARY KEY (rowid=?); SEARCH a USING INTEGER " +
			"PRIMARY KEY (rowid=?)",
		laterEntries: "SEARCH e USING INDEX later (request=?); SEARCH a USING INTEGER PRIMARY " +
			"KEY (rowid=?)",
		selectDetails + ` ORDER BY r.id, t.seq`: "SCAN r; SEARCH t USING PRIMARY KEY (request=?) LEFT-JOIN",
		selectDetails +
			`WHERE r.account = ? ORDER BY r.id, t.seq`: "SCAN r; SEARCH t USING PRIMARY KEY (request=?) LEFT-JOIN",
		selectDetails + `WHERE r.id = ? ORDER BY r.id, t.seq`: "SEARCH r USING PRIMARY KEY (id=?); SEARCH t USING " +
			"PRIMARY KEY (request=?) LEFT-JOIN",
		accountsWithBalances: "SCAN a; SEARCH b USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
		strayBalances:        "SCAN b; SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
		auditEntries + `WHERE e.n BETWEEN ? AND ? ORDER BY e.n`: "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" +
			"; SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
		selectPrunable:             "SEARCH r USING PRIMARY KEY (id>?)",
		selectAct + `ORDER BY u.n`: "SCAN u; SEARCH a USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
		allAccounts: "SEARCH a USING INTEGER PRIMARY KEY (rowid>?); " +
			"SEARCH b USING INTEGER PRIMARY KEY (rowid=?)",
		selectKey + `ORDER BY k.n`: "SCAN k; SEARCH a USING INTEGER PRIMARY KEY (rowid=?); SEARCH b USING INTEGER PRIMARY " +
			"KEY (rowid=?); SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
	} {
		var plan []string
		require.NoError(t, run(conn, `EXPLAIN QUERY PLAN `+query, func(row *sqlite.Stmt) error {
			plan = append(plan, row.ColumnText(3))
			return nil
		}))
		require.Equal(t, want, strings.Join(plan, "; "), query)
	}
}
