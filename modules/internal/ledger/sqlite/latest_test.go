package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestMovementsHaveTheirIndex: what moved an account's money is found without a look at its charges.
func TestMovementsHaveTheirIndex(t *testing.T) {
	t.Parallel()
	store, err := Open(Options{Path: t.TempDir() + "/ledger.db"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	var plan []string
	require.NoError(t, store.read(t.Context(), "plan", func(conn *sqlite.Conn) error {
		return run(conn, `EXPLAIN QUERY PLAN `+movedOfAccount, func(row *sqlite.Stmt) error {
			plan = append(plan, row.ColumnText(3))
			return nil
		}, 1, 1, 1)
	}))
	require.Contains(t, strings.Join(plan, "\n"), "SEARCH e USING INDEX movements (account=? AND rowid<?)")
	require.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE")
}

// TestLatestPassesOver: whatever is looked for, from wherever on, nothing of it is missing, also where days are passed
// over and an account was quiet for long; and of days that have nothing of it next to nothing is looked at.
func TestLatestPassesOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := newScene(t, "")
		type customer struct{ account, key string }
		var all []customer
		for i := range 3 {
			s.account(fmt.Sprintf("account %d", i), "")
			s.topUp(1_000_000, "")
			all = append(all, customer{s.owner, s.key})
			s.newKey("another")
			all = append(all, customer{s.owner, s.key})
		}
		day := func(at time.Time) string { return at.UTC().Format(time.DateOnly) }
		n, days := 0, map[string]int{} // of account 0, how many entries
		for range rapid.IntRange(1, 12).Draw(r, "days") {
			// On a day some of them make requests, on some routes.
			these := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 3, rapid.ID).Draw(r, "customers")
			route := rapid.SampledFrom([]string{"small", "large"}).Draw(r, "route")
			for range rapid.IntRange(1, 12).Draw(r, "requests") {
				c := rapid.SampledFrom(these).Draw(r, "customer")
				s.owner, s.key = c.account, c.key
				n++
				id := "r" + strings.Repeat("0", n%3) + fmt.Sprintf("%04d", n) // of several profiles
				s.hold(id, route)
				s.settle(id, nil, used(100, 100))
			}
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 50).Draw(r, "hours")) * time.Hour)
		}
		if rapid.Bool().Draw(r, "summed") {
			require.NoError(t, s.store.write(t.Context(), "test", func(t *tx) error { return t.rollUp() }))
		}
		list := func(q ledger.LatestQuery) (given []ledger.Movement) {
			require.NoError(t, s.store.read(t.Context(), "test", func(conn *sqlite.Conn) error {
				l := latest{conn: conn, tariffs: newTariffs(conn), query: &q, batch: 4, window: 3,
					isOrdered: func(int64) bool { return true }, // the clock goes forward
					each:      func(m ledger.Movement) error { given = append(given, m); return nil }}
				return l.list()
			}))
			return given
		}
		account := all[0].account
		everything := list(ledger.LatestQuery{Account: account})
		for _, m := range everything {
			days[day(m.Created)]++
		}
		for _, q := range []ledger.LatestQuery{{}, {Route: "large"}, {Key: all[0].key}, {Key: all[1].key, Route: "small"},
			{Profile: config.ProfileNames()[0]}, {Profile: config.ProfileNames()[1], Route: "large"}} {
			q.Account = account
			if rapid.Bool().Draw(r, "until") {
				q.Until = s.now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(r, "ago")) * time.Hour)
			}
			has := func(m ledger.Movement) bool {
				return (q.Until.IsZero() || m.Created.Before(q.Until)) && (q.Key+q.Route+q.Profile == "" || m.Settled != nil &&
					(q.Key == "" || m.Settled.Key == q.Key) && (q.Profile == "" || m.Settled.Profile == q.Profile) &&
					(q.Route == "" || m.Settled.Attempts[0].Route == q.Route))
			}
			ids := func(list []ledger.Movement) (ids []string) {
				for _, m := range list {
					if has(m) {
						ids = append(ids, m.Request)
					}
				}
				return ids
			}
			given := list(q)
			require.Equal(t, ids(everything), ids(given), "%+v", q)
			// A batch may reach into the days before, and what a day has may be behind the time.
			most, seen := 12+days[day(q.Until)], map[string]bool{}
			for _, m := range everything {
				if has(m) && !seen[day(m.Created)] {
					seen[day(m.Created)] = true
					most += days[day(m.Created)] + 4
				}
			}
			looked, older := len(given), 0
			for _, m := range given {
				require.Less(t, m.Passed, 4)
				looked += m.Passed
			}
			for _, m := range everything {
				if q.Until.IsZero() || m.Created.Before(q.Until) {
					older++
				}
			}
			if isSummed(t, s) {
				require.LessOrEqual(t, looked, most, "%+v", q)
			} else {
				require.Equal(t, older, looked, "nobody knows yet what days have: %+v", q)
			}
		}
	})
}

func isSummed(t *testing.T, s *scene) (summed bool) {
	t.Helper()
	require.NoError(t, s.store.read(t.Context(), "test", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT (SELECT max(n) FROM entries WHERE kind = 'charge') <= summed FROM meta`, to(&summed))
	}))
	return summed
}

// TestLatestWithAWrongClock: where a clock was ahead and was put right, what is looked for is found all the same.
func TestLatestWithAWrongClock(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("main", "")
	s.topUp(1_000_000, "")
	account, a := s.owner, s.key
	s.newKey("b")
	b, n := s.key, 0
	ask := func(key string, count int) {
		s.key = key
		for range count {
			n++
			id := fmt.Sprintf("r%05d", n)
			s.hold(id, "small")
			s.settle(id, nil, used(100, 100))
		}
	}
	find := func() (found int) {
		q := ledger.LatestQuery{Account: account, Key: b}
		require.NoError(t, s.store.Latest(t.Context(), q, func(m ledger.Movement) error {
			if m.Settled != nil && m.Settled.Key == b {
				found++
			}
			return nil
		}))
		return found
	}
	lastEntry := func() (n int64) {
		require.NoError(t, s.store.read(t.Context(), "test", func(conn *sqlite.Conn) error {
			return run(conn, `SELECT max(n) FROM entries`, to(&n))
		}))
		return n
	}
	know := func() bool {
		n := lastEntry()
		s.store.books.isOrdered(n)
		s.store.books.order.ended.Wait()
		return s.store.books.isOrdered(n)
	}
	right := s.now
	ask(a, 8)
	require.True(t, know())
	s.now = right.Add(48 * time.Hour) // a clock that is two days ahead
	ask(b, 3)
	require.True(t, know(), "nobody can tell yet")
	s.now = right.Add(time.Minute) // put right
	ask(b, 2)
	ask(a, 3)
	s.now = right.Add(24 * time.Hour)
	ask(a, 4)
	require.NoError(t, s.store.write(t.Context(), "test", func(t *tx) error { return t.rollUp() }))
	require.False(t, s.store.books.isOrdered(lastEntry()), "nobody has looked at these")
	require.Equal(t, 5, find())
	require.False(t, know())
	require.Equal(t, 5, find())
}
