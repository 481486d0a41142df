package ledgertest

import (
	"context"
	"errors"
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
