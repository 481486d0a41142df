package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// A ledger with more accounts than memory keeps rows of: what does not fit goes to temporary tables and comes back.
func TestMoreGroupsThanMemoryKeeps(t *testing.T) {
	t.Parallel()
	const accounts, charges = maxGroups + 500, maxGroups + 5_000
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, accounts, charges)
	conn := openForWriting(t, path)

	t.Run("usage", func(t *testing.T) {
		b, err := OpenBooks(t.Context(), path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		var rows []ledger.UsageRow
		require.NoError(t, b.Usage(t.Context(), ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount}},
			func(r ledger.UsageRow) error {
				rows = append(rows, r)
				return nil
			}))
		i := 0
		// SQLite's own sums, of requests and attempts apart.
		require.NoError(t, run(conn, `SELECT a.id, a.name, r.requests, r.charge, t.attempts, t.input, t.cache_read, t.output
			FROM (SELECT account, count(*) AS requests, sum(charge) AS charge FROM requests GROUP BY account) AS r
			JOIN (SELECT r.account, count(*) AS attempts, sum(t.input) AS input, sum(t.cache_read) AS cache_read, `+
			`sum(t.output) AS output
				FROM attempts AS t JOIN requests AS r ON r.id = t.request GROUP BY r.account) AS t ON t.account = r.account
			JOIN accounts AS a ON a.n = r.account ORDER BY a.name`, func(row *sqlite.Stmt) error {
			got := rows[i]
			i++
			require.Equal(t, ledger.UsageRow{
				Account: row.ColumnText(0), AccountName: row.ColumnText(1), Requests: row.ColumnInt64(2),
				Microcents: row.ColumnInt64(3),
				Attempts:   row.ColumnInt64(4), Cost: got.Cost,
				Tokens: llm.Usage{
					Input: llm.Count(row.ColumnInt64(5)), CacheRead: llm.Count(row.ColumnInt64(6)),
					Output: llm.Count(row.ColumnInt64(7)),
				},
			}, got)
			require.LessOrEqual(t, got.Cost, got.Microcents, "of attempts by themselves, rounded down")
			return nil
		}))
		require.Len(t, rows, i)
		require.Greater(t, i, maxGroups)
	})

	t.Run("verification", func(t *testing.T) {
		require.NoError(t, run(conn, `BEGIN`, nil))
		r, err := verify(conn, nil, nil)
		require.NoError(t, err)
		require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
		require.EqualValues(t, charges, r.Requests)
		require.EqualValues(t, accounts+charges, r.Entries)
		require.EqualValues(t, accounts, r.Accounts)
		require.NoError(t, run(conn, `ROLLBACK`, nil))
	})
}

// Days are those of UTC, also before 1970, when a clock was wrong.
func TestUsageByDay(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("main", "")
	s.topUp(10, "")
	var want []string
	for _, at := range []time.Time{
		time.Date(1969, 12, 31, 23, 59, 58, 0, time.UTC),
		time.Date(1970, 1, 1, 12, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 20, 23, 59, 58, 0, time.FixedZone("west", -3600)),
	} {
		s.now = at
		s.hold(at.Format("r2006"), "small")
		s.now = at
		s.settle(at.Format("r2006"), nil, used(1, 1))
		want = append(want, s.now.UTC().Format(time.DateOnly))
	}
	require.Equal(t, []string{"1969-12-31", "1970-01-01", "2026-11-21"}, want)
	var days []string
	require.NoError(t, s.store.Usage(t.Context(), ledger.UsageQuery{By: []ledger.Dimension{ledger.ByDay}},
		func(r ledger.UsageRow) error {
			days = append(days, r.Day)
			return nil
		}))
	require.Equal(t, want, days)
}
