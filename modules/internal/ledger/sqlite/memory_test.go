package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestCacheForgetsWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	c := newCache[int, int](8)
	for i := range 100 {
		c.put(i, i*i)
		c.age()
		n, ok := c.get(0)
		require.True(t, ok, "it is used all the time")
		require.Zero(t, n)
		for last := max(i-2, 0); last <= i; last++ {
			n, ok := c.get(last)
			require.True(t, ok)
			require.Equal(t, last*last, n)
		}
		require.LessOrEqual(t, len(c.young)+len(c.old), 8+4, "and those that were used since")
	}
	_, ok := c.get(50)
	require.False(t, ok)
}

// An id that is settled is never taken for a new one, whatever the order of ids and however many there are.
func TestSettledIDsKnowEveryOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s settledIDs
		first := rapid.IntRange(0, 50).Draw(t, "first")
		s.reset(fmt.Sprintf("req_%06d", first))
		s.max = 5
		all := map[string]bool{}
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			id := fmt.Sprintf("req_%06d", max(0, first+i+rapid.IntRange(-20, 20).Draw(t, "jitter")))
			require.False(t, all[id] && s.unknown(id), "%s is settled", id)
			s.add(id)
			all[id] = true
			require.LessOrEqual(t, len(s.ids), 5)
		}
		for id := range all {
			require.False(t, s.unknown(id), "%s is settled", id)
		}
		require.True(t, s.unknown("req_999999"))
	})
}

// Whatever fails half way leaves the memory as the database is, and its neighbours in the batch are done.
func TestRollbackForgets(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	require.NoError(t, p.hold("r1"))
	refusal := errors.New("refused")
	spoil := func(t *tx) error {
		a, err := t.account(p.account)
		if err != nil {
			return err
		}
		t.change(a)
		a.Credits, a.Held, a.ever.spent = 99, 99, 99
		delete(t.live, "r1")
		return refusal
	}
	var holds [2]error
	open := gate(t, p.Store)
	var wg sync.WaitGroup
	queued := func(n int) {
		require.Eventually(t, func() bool { return len(p.writer.queue) == n }, eventually, time.Millisecond)
	}
	wg.Go(func() { holds[0] = p.hold("r2") })
	queued(1)
	var spoiled error
	wg.Go(func() { spoiled = p.write(context.Background(), "test", spoil) })
	queued(2)
	wg.Go(func() { holds[1] = p.hold("r3") })
	queued(3)
	open()
	wg.Wait()
	require.ErrorIs(t, spoiled, refusal)
	require.NoError(t, holds[0])
	require.NoError(t, holds[1])
	require.Equal(t, ledger.Balance{Credits: 10, Held: 3_000_000}, p.balance())
	for _, id := range []string{"r1", "r2", "r3"} {
		_, err := p.settle(id, 5)
		require.NoError(t, err)
	}
	require.Equal(t, ledger.Balance{Credits: 10, Accrued: 15}, p.balance())
	p.verified()
}

// An operation that is refused before it changed anything costs its neighbours nothing, and ends a period all the same.
func TestRefusedOperationEndsThePeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	p := newTill(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Terms = func(plan string) ledger.Terms {
			if plan == "" {
				return ledger.Terms{}
			}
			return ledger.Terms{MonthlyCredits: 3, SpendCap: 1}
		}
	})
	_, err := p.SetPlan(t.Context(), p.account, "pro")
	require.NoError(t, err)
	now = now.AddDate(0, 1, 0) // March 3
	require.ErrorIs(t, p.hold("r1"), ledger.ErrSpendCap)
	require.Equal(t, ledger.Balance{Credits: 13}, p.balance())
	p.verified()
}

// Two keys that take turns have one counter each, on whichever row it is.
func TestKeysThatTakeTurns(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	ctx := t.Context()
	keys := []string{p.key}
	for i := range 2 {
		k, err := p.CreateKey(ctx, p.account, fmt.Sprint(i), [32]byte{byte(10 + i)}, "", ledger.KeyChange{})
		require.NoError(t, err)
		keys = append(keys, k.ID)
	}
	want := map[string]int64{}
	for i := range 30 {
		p.key = keys[i*i%3]
		id := fmt.Sprintf("r%02d", i)
		require.NoError(t, p.hold(id))
		_, err := p.settle(id, int64(i))
		require.NoError(t, err)
		want[p.key] += int64(i)
		if i%7 == 0 { // and memory may forget in between
			require.NoError(t, p.write(ctx, "test", func(*tx) error { p.db.dataVersion = -1; return nil }))
		}
		got := map[string]int64{}
		require.NoError(t, p.Keys(ctx, p.account, func(k ledger.Key) error {
			if k.Spent > 0 {
				got[k.ID] = k.Spent
			}
			return nil
		}))
		require.Equal(t, nonZero(want), got)
	}
	p.verified()
}

func nonZero(m map[string]int64) map[string]int64 {
	kept := map[string]int64{}
	for k, n := range m {
		if n != 0 {
			kept[k] = n
		}
	}
	return kept
}
