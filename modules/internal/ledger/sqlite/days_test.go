package sqlite

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// usageOn lists usage as a connection sees it.
func usageOn(t *testing.T, conn *sqlite.Conn, q ledger.UsageQuery) (rows []ledger.UsageRow) {
	t.Helper()
	u, err := newUsage(conn, q)
	require.NoError(t, err)
	require.NoError(t, u.sum())
	require.NoError(t, u.list(func(r ledger.UsageRow) error {
		rows = append(rows, r)
		return nil
	}))
	require.NoError(t, run(conn, `DROP TABLE temp.usage_rows`, nil))
	require.NoError(t, run(conn, `DROP TABLE IF EXISTS temp.usage_keys`, nil))
	return rows
}

// Whatever is asked for, the sums of days say what the requests say one by one; also where only a part of them is
// summed yet, and where they were made by an upgrade.
func TestDaysAreTheirRequests(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	path, first, last := s.store.opts.Path, time.Time{}, s.now
	require.NoError(t, s.store.Close())
	conn := openForWriting(t, path)
	var account, key string
	require.NoError(t, run(conn, `SELECT a.id, k.id, r.settled FROM requests AS r JOIN accounts AS a ON a.n = r.account
		JOIN keys AS k ON k.n = r.key ORDER BY r.settled LIMIT 1`, func(row *sqlite.Stmt) error {
		account, key, first = row.ColumnText(0), row.ColumnText(1), columnTime(row, 2)
		return nil
	}))
	for _, change := range []string{
		`UPDATE meta SET version = version`,
		`UPDATE meta SET summed = (SELECT max(n) FROM entries WHERE n < 15 AND kind = 'charge')`,
	} {
		require.NoError(t, run(conn, `BEGIN`, nil))
		require.NoError(t, run(conn, `DELETE FROM days WHERE NOT pruned`, nil))
		require.NoError(t, run(conn, `UPDATE meta SET summed = 0`, nil))
		queries := 0
		type asked struct {
			q    ledger.UsageQuery
			rows []ledger.UsageRow
		}
		var all []asked
		for _, by := range [][]ledger.Dimension{
			nil, {ledger.ByAccount}, {ledger.ByKey}, {ledger.ByRoute}, {ledger.ByDay}, {ledger.ByRoute, ledger.ByDay},
			{ledger.ByProfile}, {ledger.ByProfile, ledger.ByKey, ledger.ByDay},
			{ledger.ByAccount, ledger.ByRoute, ledger.ByDay, ledger.ByKey, ledger.ByProfile},
		} {
			for _, q := range []ledger.UsageQuery{
				{}, {Query: ledger.Query{Account: account}}, {Keys: []string{key}}, {Route: "small"},
				{Route: "small", Keys: []string{key}}, {Profile: "max"}, {Profile: "budget", Route: "small"},
				{Query: ledger.Query{Since: first.Truncate(24*time.Hour).AddDate(0, 0, 1)}},
				{Query: ledger.Query{Until: first.Truncate(24*time.Hour).AddDate(0, 0, 1)}},
				{Query: ledger.Query{Until: last}},
			} {
				q.By = by
				all = append(all, asked{q, usageOn(t, conn, q)})
				queries += len(all[len(all)-1].rows)
			}
		}
		require.Greater(t, queries, 100)
		require.NoError(t, sumAll(conn))
		require.NoError(t, run(conn, change, nil))
		if conn.Changes() > 0 {
			require.NoError(t, run(conn, `DELETE FROM days WHERE NOT pruned`, nil))
			cells, err := newCells(conn, math.MaxInt)
			require.NoError(t, err)
			require.NoError(t, eachDetail(conn, `WHERE coalesce(r.entry, 0) <= (SELECT summed FROM meta)`, cells.count))
			require.NoError(t, addToDays(conn, cells, false, 1))
		}
		for _, a := range all {
			require.Equal(t, a.rows, usageOn(t, conn, a.q), "%+v", a.q)
		}
		require.NoError(t, run(conn, `ROLLBACK`, nil))
	}
}

// A ledger whose sums got profiles later: whatever is asked for between two steps, it is what the requests say one by
// one, also when some of them change or are pruned meanwhile; and it verifies.
func TestProfilesComeLater(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	within := func(run func(t *tx) error) { require.NoError(t, s.store.write(t.Context(), "test", run)) }
	within(func(t *tx) error { return t.rollUp() })
	conn := openForWriting(t, s.store.opts.Path)
	exec := func(queries ...string) {
		t.Helper()
		for _, query := range queries {
			require.NoError(t, run(conn, query, nil))
		}
	}
	exec(`BEGIN IMMEDIATE`, `DELETE FROM days WHERE NOT pruned`, `UPDATE meta SET unprofiled = summed, profiled = ''`)
	cells, err := newCells(conn, math.MaxInt)
	require.NoError(t, err)
	require.NoError(t, eachDetail(conn, ``, cells.count))
	require.NoError(t, cells.spill())
	exec(`COMMIT`)
	count := func(query string) (n int64) {
		require.NoError(t, run(conn, query, to(&n)))
		return n
	}
	require.Greater(t, count(`SELECT sum(parts) FROM days WHERE profile = '?' AND key > 0`), int64(10))

	check := func() { checkSums(t, conn) }
	check()
	step := func() (left bool) {
		within(func(t *tx) (err error) {
			left, err = t.addProfiles(3)
			return err
		})
		check()
		return left
	}
	steps := 0
	for step() {
		if steps++; steps == 1 { // some are before the mark, and some behind it
			refunded := 0
			for _, id := range textsOf(t, conn, `SELECT id FROM requests WHERE charge > refunded`) {
				s.correct(ledger.Correction{Request: id, Microcents: 1, Reason: "sorry"})
				refunded++
			}
			require.Greater(t, refunded, 3)
			check()
			byProfile := func() (rows []ledger.UsageRow) {
				rows = usageOn(t, conn, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByProfile}})
				for i := range rows {
					rows[i].Pruned = 0
				}
				return rows
			}
			had := byProfile()
			before := count(`SELECT settled FROM requests ORDER BY settled LIMIT 1 OFFSET 7`)
			gone, err := s.store.Prune(s.tick(), time.Unix(0, before))
			require.NoError(t, err)
			require.Greater(t, gone, int64(3))
			require.Zero(t, count(`SELECT count(*) FROM days WHERE profile = '?' AND pruned`))
			require.Equal(t, had, byProfile(), "what is pruned keeps its profile")
			check()
		}
	}
	require.GreaterOrEqual(t, steps, 2)
	require.Zero(t, count(`SELECT count(*) FROM days WHERE profile = '?'`))
	require.False(t, step(), "nothing is left")
}

// checkSums: a ledger verifies, and its sums say what its requests say one by one.
func checkSums(t *testing.T, conn *sqlite.Conn) {
	t.Helper()
	exec := func(query string) { require.NoError(t, run(conn, query, nil)) }
	exec(`BEGIN`)
	r, err := verify(conn, nil, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	by := []ledger.Dimension{ledger.ByProfile, ledger.ByKey, ledger.ByRoute, ledger.ByDay}
	queries := []ledger.UsageQuery{{By: by}, {By: by[:1]}, {By: by[1:]}, {Profile: "max"}, {Profile: "max", By: by[1:2]}}
	var has [][]ledger.UsageRow
	for _, q := range queries {
		has = append(has, usageOn(t, conn, q))
	}
	require.Greater(t, len(has[1]), 1, "profiles")
	exec(`UPDATE meta SET summed = 0`)
	require.NoError(t, sumAll(conn))
	for i, q := range queries {
		require.Equal(t, usageOn(t, conn, q), has[i], "%v", q)
	}
	exec(`ROLLBACK`)
}

// Whoever is stopped while profiles are added goes on at the next start.
func TestProfilesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 7, 5*profileBatch)
	conn := openForWriting(t, path)
	for _, query := range []string{`DELETE FROM days`, `UPDATE meta SET unprofiled = summed, profiled = ''`} {
		require.NoError(t, run(conn, query, nil))
	}
	cells, err := newCells(conn, maxGroups)
	require.NoError(t, err)
	require.NoError(t, eachDetail(conn, ``, cells.count))
	require.NoError(t, cells.spill())
	count := func(query string) (n int64) {
		require.NoError(t, run(conn, query, to(&n)))
		return n
	}
	const without = `SELECT coalesce(sum(parts), 0) FROM days WHERE profile = '?' AND key > 0`
	all := count(without)
	require.Greater(t, all, int64(5*profileBatch))
	mark := func() string { return textsOf(t, conn, `SELECT coalesce(profiled, 'done') FROM meta`)[0] }
	for mark() != "done" {
		was := mark()
		s := newScene(t, path)
		require.Eventually(t, func() bool { return mark() != was }, time.Minute, time.Millisecond)
		require.NoError(t, s.store.Close())
		require.NoError(t, verifyDayTotals(conn))
	}
	require.Zero(t, count(without))
	require.Equal(t, all, count(`SELECT sum(parts) FROM days WHERE profile = 'balanced' AND key > 0`))
}

// testdata/schema20.db.gz is what the fareway of commit 7de40936 wrote when everything had happened, with profiles.
func TestMigrationOfDays(t *testing.T) {
	t.Parallel()
	path := oldLedger(t, "schema20.db.gz")
	conn := openForWriting(t, path)
	require.NoError(t, migrate(conn, 20))
	checkSums(t, conn)
	unprofiled := func() (n int64) {
		require.NoError(t, run(conn, `SELECT count(*) FROM days WHERE profile = '?' OR profile = '' AND NOT pruned`, to(&n)))
		return n
	}
	require.Positive(t, unprofiled())
	s := newScene(t, path)
	require.Eventually(t, func() bool { return unprofiled() == 0 }, time.Minute, time.Millisecond)
	checkSums(t, conn)
	require.NoError(t, s.store.Close())
}

func textsOf(t *testing.T, conn *sqlite.Conn, query string) (texts []string) {
	t.Helper()
	require.NoError(t, run(conn, query, appendTo(&texts, firstText)))
	return texts
}

// What is not summed yet is summed after a restart, from the tables, and nothing twice.
func TestDaysAfterARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("main", "")
	s.topUp(100, "")
	settle := func(id string) {
		s.hold(id, "small")
		s.settle(id, nil, used(100, 100))
	}
	rows := func() (all []ledger.UsageRow) {
		require.NoError(t, s.store.Usage(t.Context(), ledger.UsageQuery{By: []ledger.Dimension{ledger.ByRoute}},
			func(r ledger.UsageRow) error { all = append(all, r); return nil }))
		return all
	}
	settle("one")
	settle("two")
	before := rows()
	require.EqualValues(t, 2, before[0].Requests)
	path, now, owner, key := s.store.opts.Path, s.now, s.owner, s.key
	require.NoError(t, s.store.Close())
	s = newScene(t, path)
	s.now, s.owner, s.key = now, owner, key
	require.Equal(t, before, rows())
	settle("three") // it is not alone in the sum
	s.correct(ledger.Correction{Request: "one", Microcents: 1, Reason: "sorry"})
	after := rows()
	require.EqualValues(t, 3, after[0].Requests)
	require.EqualValues(t, 1, after[0].Refunded)
	r, err := s.store.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.NoError(t, s.store.read(t.Context(), "test", func(conn *sqlite.Conn) error {
		const query = `SELECT summed, (SELECT sum(requests) FROM days WHERE key > 0) FROM meta`
		return run(conn, query, func(row *sqlite.Stmt) error {
			require.Positive(t, row.ColumnInt64(0))
			require.EqualValues(t, 3, row.ColumnInt64(1))
			return nil
		})
	}))
}

// TestProfilesAllOrNothing: where the sums of profiles fail midway, they are as they were.
func TestProfilesAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	require.NoError(t, s.store.write(t.Context(), "test", func(t *tx) error { return t.rollUp() }))
	conn := openForWriting(t, s.store.opts.Path)
	exec := func(queries ...string) {
		for _, query := range queries {
			require.NoError(t, run(conn, query, nil))
		}
	}
	exec(`BEGIN IMMEDIATE`, `DELETE FROM days WHERE NOT pruned`, `UPDATE meta SET unprofiled = summed, profiled = ''`)
	cells, err := newCells(conn, math.MaxInt)
	require.NoError(t, err)
	require.NoError(t, eachDetail(conn, ``, cells.count))
	require.NoError(t, cells.spill())
	exec(`CREATE TRIGGER boom BEFORE INSERT ON days WHEN NEW.profile <> '?' BEGIN SELECT RAISE(ABORT, 'boom'); END`,
		`COMMIT`)
	parts := func() (n int64) {
		require.NoError(t, run(conn, `SELECT coalesce(sum(parts), 0) FROM days WHERE key > 0 AND NOT pruned`, to(&n)))
		return n
	}
	was := parts()
	require.Positive(t, was)
	require.ErrorContains(t, s.store.write(t.Context(), "test", func(t *tx) error {
		_, err := t.addProfiles(3)
		return err
	}), "boom")
	require.Equal(t, was, parts())
	exec(`DROP TRIGGER boom`)
	for left := true; left; {
		require.NoError(t, s.store.write(t.Context(), "test", func(t *tx) (err error) {
			left, err = t.addProfiles(3)
			return err
		}))
	}
	require.Equal(t, was, parts())
	r, err := verify(conn, nil, nil)
	require.NoError(t, err)
	require.True(t, r.OK, r.Problem)
}
