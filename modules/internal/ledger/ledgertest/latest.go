package ledgertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// testLatest: what is listed from the newest end is what is listed from the oldest, turned around.
func testLatest(t *testing.T, open Open) {
	f, accounts := busy(t, open)
	for _, a := range accounts {
		want := f.entries(ledger.Query{Account: a.ID})
		slices.Reverse(want)
		of := func(q ledger.LatestQuery) (list []ledger.Entry) {
			q.Account = a.ID
			for _, m := range f.latest(q) {
				list = append(list, m.Entry)
			}
			return list
		}
		require.Equal(t, want, of(ledger.LatestQuery{}))
		for _, m := range f.latest(ledger.LatestQuery{Account: a.ID}) {
			if m.Kind != ledger.Charged {
				require.Nil(t, m.Settled)
				continue
			}
			record := f.record(m.Request)
			record.Entries = nil
			require.NotNil(t, m.Settled)
			m.Settled.Owner = record.Owner // which of the stores it was
			require.Equal(t, record, *m.Settled)
		}
		for i, e := range want {
			// As a page asks that goes on where another one ended, which knows the time, or does not.
			for _, until := range []time.Time{{}, e.Created.Add(1)} {
				rest := of(ledger.LatestQuery{Before: e.Seq, Until: until})
				require.Len(t, rest, len(want)-i-1)
				require.Equal(t, want, append(slices.Clone(want[:i+1]), rest...))
			}
			older := slices.IndexFunc(want, func(o ledger.Entry) bool { return o.Created.Before(e.Created) })
			if older < 0 {
				older = len(want)
			}
			require.Len(t, of(ledger.LatestQuery{Until: e.Created}), len(want)-older, "those before %s", e.Created)
			require.Len(t, of(ledger.LatestQuery{Since: e.Created}), older, "those since %s", e.Created)
		}
		moved := slices.DeleteFunc(slices.Clone(want), func(e ledger.Entry) bool { return e.Kind.ByUse() })
		require.NotEmpty(t, moved)
		require.Less(t, len(moved), len(want))
		require.Equal(t, moved, of(ledger.LatestQuery{Moved: true}))
		require.Equal(t, moved[1:], of(ledger.LatestQuery{Moved: true, Before: moved[0].Seq}))
		require.Equal(t, moved, of(ledger.LatestQuery{Moved: true, Until: want[0].Created.Add(1)}))
		f.testNarrowed(a, want)
		f.testCovered(a, want)
		require.Empty(t, of(ledger.LatestQuery{Until: start.AddDate(-1, 0, 0)}))
		require.Empty(t, of(ledger.LatestQuery{Since: start.AddDate(9, 0, 0)}))
	}
	failed := errors.New("enough")
	given := 0
	err := f.store.Latest(context.Background(), ledger.LatestQuery{Account: accounts[0].ID}, func(ledger.Movement) error {
		given++
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.Equal(t, 1, given)
	err = f.store.Latest(context.Background(), ledger.LatestQuery{Account: "acct_none"}, func(ledger.Movement) error {
		return nil
	})
	require.ErrorIs(t, err, ledger.ErrNotFound)

	t.Run("beyond a batch, with a clock that was set back", func(t *testing.T) {
		f := newFixture(t, open, 100_000, ledger.Terms{})
		busyAccount := f.account
		f.newAccount(1)
		quiet := f.account
		for i := range 250 {
			f.clock.add(time.Second)
			if i == 120 {
				f.clock.add(-time.Minute)
			}
			_, _, err := f.store.Correct(context.Background(), ledger.Correction{Account: busyAccount.ID,
				Microcents: int64(1 + i), Reason: "one of many"})
			require.NoError(t, err)
		}
		want := f.entries(ledger.Query{Account: busyAccount.ID})
		slices.Reverse(want)
		var pages []ledger.Entry
		q := ledger.LatestQuery{Account: busyAccount.ID}
		for {
			n := 0
			err := f.store.Latest(context.Background(), q, func(m ledger.Movement) error {
				pages = append(pages, m.Entry)
				q.Before, q.Until = m.Seq, m.Created.Add(1)
				if n++; n == 7 {
					return failed
				}
				return nil
			})
			if err == nil {
				break
			}
			require.ErrorIs(t, err, failed)
		}
		require.Len(t, f.latest(ledger.LatestQuery{Account: quiet.ID}), 1)
		require.Equal(t, want, pages)
	})
}

// testNarrowed: of what is looked for nothing is missing, whatever a store passes over, and it says how many.
func (f *fixture) testNarrowed(a ledger.Account, all []ledger.Entry) {
	charged := map[ledger.LatestQuery]int{}
	has := func(q ledger.LatestQuery, r *ledger.RequestRecord) bool {
		return r != nil && (q.Key == "" || r.Key == q.Key) && (q.Profile == "" || r.Profile == q.Profile) &&
			(q.Route == "" || slices.ContainsFunc(r.Attempts, func(t ledger.AttemptRecord) bool { return t.Route == q.Route }))
	}
	everything := f.latest(ledger.LatestQuery{Account: a.ID})
	queries := map[ledger.LatestQuery]bool{{Route: "none"}: true, {Profile: "none"}: true, {Key: "key_none"}: true}
	for _, m := range everything {
		if r := m.Settled; r != nil {
			for _, t := range r.Attempts {
				queries[ledger.LatestQuery{Key: r.Key, Route: t.Route, Profile: r.Profile}] = true
				queries[ledger.LatestQuery{Route: t.Route}] = true
			}
			queries[ledger.LatestQuery{Key: r.Key}], queries[ledger.LatestQuery{Profile: r.Profile}] = true, true
		}
	}
	for q := range queries {
		q.Account = a.ID
		find := func(list []ledger.Movement) (found []string) {
			for _, m := range list {
				if has(q, m.Settled) {
					found = append(found, m.Request)
				}
			}
			return found
		}
		want := find(everything)
		charged[q] = len(want)
		given := f.latest(q)
		require.Equal(f.t, want, find(given), "%+v", q)
		looked := len(given)
		for _, m := range given {
			looked += m.Passed
		}
		require.LessOrEqual(f.t, looked, len(all))
		for i, m := range given { // as a page goes on
			q.Before, q.Until = m.Seq, m.Created.Add(1)
			require.Equal(f.t, find(given[i+1:]), find(f.latest(q)), "%+v", q)
		}
	}
	require.Contains(f.t, slices.Collect(maps.Values(charged)), 0)
	require.Positive(f.t, slices.Max(slices.Collect(maps.Values(charged))))
}

// testCovered: each entry comes with the first of the checkpoints that list it.
func (f *fixture) testCovered(a ledger.Account, all []ledger.Entry) {
	for range 2 {
		var checkpoints []ledger.Checkpoint
		require.NoError(f.t, f.store.Checkpoints(context.Background(), func(c ledger.Checkpoint) error {
			checkpoints = append(checkpoints, c)
			return nil
		}))
		want := map[int64]ledger.Checkpoint{}
		for _, c := range slices.Backward(checkpoints) {
			for _, e := range f.entries(ledger.Query{Account: a.ID, Checkpoint: c.N}) {
				want[e.Seq] = c
			}
		}
		for _, m := range f.latest(ledger.LatestQuery{Account: a.ID, Covered: true}) {
			if c, ok := want[m.Seq]; ok {
				require.NotNil(f.t, m.Checkpoint)
				require.Equal(f.t, c, *m.Checkpoint)
			} else {
				require.Nil(f.t, m.Checkpoint)
			}
		}
		require.Nil(f.t, f.latest(ledger.LatestQuery{Account: a.ID})[0].Checkpoint, "it was not asked for")
		_, err := f.store.MakeCheckpoint(context.Background())
		require.NoError(f.t, err)
	}
	require.Len(f.t, f.latest(ledger.LatestQuery{Account: a.ID, Covered: true}), len(all))
	require.NotNil(f.t, f.latest(ledger.LatestQuery{Account: a.ID, Covered: true})[0].Checkpoint)
}
