package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testPrune(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{MonthlyCredits: 5, FairUse: 500})
	ctx := ledger.WithActor(soon(t), "mary")
	prune := func(before time.Time) int64 {
		n, err := f.store.Prune(ctx, before)
		require.NoError(t, err)
		return n
	}
	gone := func(id string) {
		_, err := f.store.Request(ctx, id)
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }

	old := f.hold("fraction", 100)
	f.settle(ok(old, usage(100, 100)))
	f.settle(f.atLimit(usage(0, 50)))
	waiting := f.unproven("unit", func(s *ledger.Settlement) { s.Surcharge = 3 })
	f.waiting++
	long := f.hold("unit", 100) // begins early and ends late
	f.clock.set(day(1))
	f.settle(ok(long, usage(0, 7)))
	exactly := f.hold("unit", 100)
	f.settle(ok(exactly, usage(0, 8)))
	slip := ledger.Correction{Request: exactly.Request, Microcents: 8, Reference: "slip", Reason: "r"}
	_, refunded, err := f.store.Correct(ctx, slip)
	require.NoError(t, err)
	require.True(t, refunded)
	f.clock.set(day(2))
	young := f.hold("unit", 100)
	f.settle(ok(young, usage(0, 9)))
	running := f.hold("unit", 100)
	_, err = f.store.MakeCheckpoint(ctx)
	require.NoError(t, err)

	entries, before, period := f.entries(ledger.Query{}), f.now(), f.period()
	acts := len(f.acts(ledger.Query{}))
	whole, used := f.record(old.Request), f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount}})
	since, err := f.store.PrunedBefore(ctx)
	require.NoError(t, err)
	require.Zero(t, since, "nothing was pruned yet")
	require.Zero(t, prune(start))
	require.EqualValues(t, 2, prune(day(1)), "what was settled before then")
	gone(old.Request)
	require.True(t, f.record(waiting.Request).Pending, "what waits stays")
	require.EqualValues(t, 7, f.record(long.Request).Microcents, "the settlement counts, not the beginning")
	require.EqualValues(t, 8, f.record(exactly.Request).Microcents, "before then, not at it")
	require.True(t, f.record(running.Request).Running)
	require.Equal(t, entries, f.entries(ledger.Query{}), "entries stay")
	require.Equal(t, before, f.now())
	require.Equal(t, period, f.period())
	r := f.verify(f.checkpoints()...)
	require.EqualValues(t, 4, r.Requests)
	require.EqualValues(t, len(entries), r.Entries)
	rows := f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByAccount}})
	require.Len(t, rows, 1)
	require.EqualValues(t, 6, rows[0].Requests, "usage keeps the sums")
	require.EqualValues(t, 2, rows[0].Pruned)
	rows[0].Pruned = 0
	require.Equal(t, used, rows, "nothing else of them has changed")

	t.Run("the journal still has what was charged", func(t *testing.T) {
		p, err := f.store.Pruned(ctx, old.Request)
		require.NoError(t, err)
		require.Equal(t, ledger.PrunedRequest{
			ID: old.Request, Account: f.account.ID, Settled: whole.Settled, Reason: whole.Reason,
			Prices:     whole.Entries[0].Prices,
			Microcents: whole.Microcents, Over: whole.Over, Tokens: whole.Entries[0].Tokens, Entries: whole.Entries,
		}, p)
		for _, id := range []string{waiting.Request, running.Request, "nobody's"} {
			_, err := f.store.Pruned(ctx, id)
			require.ErrorIs(t, err, ledger.ErrNotFound, "it is not pruned")
		}
		since, err := f.store.PrunedBefore(ctx)
		require.NoError(t, err)
		require.True(t, since.Equal(day(1)), since)
	})

	require.EqualValues(t, 2, prune(day(2)))
	require.Zero(t, prune(day(2)))
	require.Zero(t, prune(day(1)), "earlier than before changes nothing")
	f.verify()
	trail := f.acts(ledger.Query{})
	require.Greater(t, len(trail), acts)
	require.Equal(t, "mary", trail[len(trail)-1].Actor)

	t.Run("what was pruned is not refunded or charged again", func(t *testing.T) {
		_, _, err := f.store.Correct(ctx, ledger.Correction{Request: old.Request, Microcents: 1, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		var pruned *ledger.PrunedError
		require.ErrorAs(t, err, &pruned)
		require.Equal(t, whole.Entries, pruned.Entries)
		_, _, err = f.store.Correct(ctx,
			ledger.Correction{Request: old.Request, Account: "another", Microcents: 1, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		require.NotErrorAs(t, err, &pruned, "it is not that account's")
		_, _, err = f.store.Correct(ctx, ledger.Correction{Request: "nobody's", Microcents: 1, Reason: "r"})
		require.NotErrorAs(t, err, &pruned)
		all := slip
		all.Microcents = 0
		for _, again := range []ledger.Correction{slip, all} {
			balance, applied, err := f.store.Correct(ctx, again)
			require.NoError(t, err, "a script that lost the answer asks again")
			require.False(t, applied)
			require.Equal(t, f.balance(), balance)
		}
		slip.Microcents = 7
		_, _, err = f.store.Correct(ctx, slip)
		require.ErrorAs(t, err, &pruned, "with other figures it is another one")
		_, applied, err := f.store.AddReceipt(ctx, old.Attempt.ID, *usage(0, 1))
		require.False(t, applied)
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrNotFound)
		}
		require.Equal(t, before.Balance, f.balance())
	})

	t.Run("the receipt of an old request comes, and then it can go", func(t *testing.T) {
		require.EqualValues(t, 7, f.receipt(waiting.Attempt.ID, usage(0, 4)).Microcents)
		f.waiting--
		f.verify()
		require.EqualValues(t, 1, prune(day(2)))
		gone(waiting.Request)
		f.verify()
	})

	t.Run("requests go on meanwhile", func(t *testing.T) {
		for range 300 {
			f.settle(ok(f.hold("unit", 10), usage(0, 1)))
		}
		f.clock.set(day(3))
		charged := make(chan int64, 1)
		go func() {
			defer close(charged)
			h := f.newHold("unit", 10)
			if _, err := f.store.Hold(context.Background(), h); err != nil {
				return
			}
			if c, err := f.store.Settle(context.Background(), ok(h, usage(0, 2))); err == nil {
				charged <- c.Microcents
			}
		}()
		require.EqualValues(t, 301, prune(day(3)))
		require.EqualValues(t, 2, <-charged)
		require.EqualValues(t, 1, f.verify().Holds)
	})
}
