package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testCaps(t *testing.T, open Open) {
	t.Run("BILL-17 GAP-53 token budget", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{TokenBudget: 10_000})
		f.settle(ok(f.hold("cached", 10_000_000), &llm.Usage{
			Input: llm.Count(1_000), CacheRead: llm.Count(2_000), CacheWrite: llm.Count(3_000), Output: llm.Count(3_500),
			Reasoning: llm.Count(3_000),
		}))
		require.EqualValues(t, 9_500, f.period().Tokens, "every class counts once, and reasoning is part of the output")
		crossing := f.newHold("unit", 1)
		for _, tokens := range []int64{501, 600} {
			crossing.Tokens = tokens
			f.refusedHold(crossing, ledger.ErrTokenBudget)
		}
		reaching := f.newHold("unit", 500)
		reaching.Tokens = 500
		f.admit(reaching)
		require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, 1, 500), "what runs is not counted")
		f.settle(ok(reaching, usage(400, 100)))
		require.EqualValues(t, 10_000, f.period().Tokens)
		reached := f.newHold("unit", 0)
		f.refusedHold(reached, ledger.ErrTokenBudget)
	})

	t.Run("BILL-18 GAP-53 spend cap", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{SpendCap: 100_000_000})
		f.charge(98_000_000)
		require.EqualValues(t, 98_000_000, f.period().Spent)
		f.refused(3_000_000, ledger.ErrSpendCap)
		f.refused(2_000_001, ledger.ErrSpendCap)
		reaching := f.hold("unit", 2_000_000)
		require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, 2_000_000, 0), "what runs is not counted")
		f.settle(ok(reaching, usage(0, 1_999_999)))
		require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, 1, 0))
		f.refused(2, ledger.ErrSpendCap)
		f.charge(1)
		f.refused(0, ledger.ErrSpendCap)
	})

	t.Run("BILL-19 before each upstream call", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{SpendCap: 1_000, TokenBudget: 1_000})
		ctx := soon(t)
		h := f.hold("unit", 100)
		begin := func(seq, microcents, tokens int64) error {
			return f.store.Begin(ctx, ledger.Next{
				Request: h.Request, Attempt: f.attempt(h.Request, seq, "unit"), Microcents: microcents, Tokens: tokens,
			})
		}
		require.NoError(t, begin(2, 1_000, 1_000))
		require.ErrorIs(t, begin(3, 1_001, 0), ledger.ErrSpendCap)
		require.ErrorIs(t, begin(3, 0, 1_001), ledger.ErrTokenBudget)
		f.charge(400)
		require.ErrorIs(t, begin(3, 601, 600), ledger.ErrSpendCap)
		require.ErrorIs(t, begin(3, 600, 601), ledger.ErrTokenBudget)
		require.NoError(t, begin(3, 600, 600))

		f.plans.set("starter", ledger.Terms{SpendCap: 400})
		require.ErrorIs(t, begin(4, 0, 0), ledger.ErrSpendCap, "the cap was lowered to what is spent")
		require.NoError(t, begin(3, 600, 600), "an attempt that is repeated changes nothing")
		f.plans.set("starter", ledger.Terms{TokenBudget: 399})
		require.ErrorIs(t, begin(4, 0, 0), ledger.ErrTokenBudget)
		f.plans.set("starter", ledger.Terms{})
		require.NoError(t, begin(4, 600, 600))
		require.Len(t, f.record(h.Request).Attempts, 4)
	})

	t.Run("BILL-20 requests in flight finish beyond the cap", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{SpendCap: 1_000})
		a, b := f.hold("unit", 800), f.hold("unit", 800)
		require.EqualValues(t, 800, f.settle(ok(a, usage(0, 800))).Microcents)
		require.EqualValues(t, 800, f.settle(ok(b, usage(0, 800))).Microcents)
		require.EqualValues(t, 1_600, f.period().Spent)
		f.refused(1, ledger.ErrSpendCap)
	})

	t.Run("GAP-53 only what was charged counts", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{FairUse: 1_000})
		free := ok(f.hold("unit", 100), usage(50, 50))
		free.Free = true
		f.settle(free)
		require.Equal(t, ledger.Period{}, f.period())
		waiting := f.unproven("unit", nil)
		require.Equal(t, ledger.Period{}, f.period())
		f.receipt(waiting.Attempt.ID, usage(3, 4))
		require.Equal(t, ledger.Period{Spent: 7, Tokens: 7}, f.period(), "a receipt counts when it comes")
		f.topUp(1)
		_, _, err := f.store.Correct(soon(t), ledger.Correction{Account: f.account.ID, Microcents: -5, Reason: "r"})
		require.NoError(t, err)
		require.Equal(t, ledger.Period{Spent: 7, Tokens: 7}, f.period())
	})

	t.Run("GAP-53 GAP-60 caps begin anew with the period", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{MonthlyCredits: 1, SpendCap: 1_000, TokenBudget: 5_000})
		f.charge(1_000)
		f.refused(1, ledger.ErrSpendCap)
		running := f.newHold("unit", 1)
		f.plans.set("starter", ledger.Terms{MonthlyCredits: 1})
		f.admit(running)
		f.plans.set("starter", ledger.Terms{MonthlyCredits: 1, SpendCap: 1_000})
		f.clock.set(f.period().End.Add(-time.Nanosecond))
		f.refused(1, ledger.ErrSpendCap)
		f.clock.add(time.Nanosecond)
		f.charge(1_000)
		f.settle(ok(running, usage(0, 1)))
		require.EqualValues(t, 1_001, f.period().Spent, "what runs over the end counts where it is settled")
	})
}

func testKeyCaps(t *testing.T, open Open) {
	t.Run("GAP-53 a key's cap is its own", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{})
		spendCap := int64(1_000)
		capped := f.newKey("capped", ledger.KeyChange{SpendCap: &spendCap})
		hold := func(k ledger.Key, microcents int64) ledger.Hold {
			h := f.newHold("unit", microcents)
			h.Key = k.ID
			return h
		}
		f.charge(5_000)
		require.Zero(t, f.keyNow(capped.ID).Spent, "what another key spends is not counted")
		require.EqualValues(t, 5_000, f.keyNow(f.key.ID).Spent)
		f.refusedHold(hold(capped, 1_001), ledger.ErrKeySpendCap)
		h := hold(capped, 1_000)
		f.admit(h)
		require.ErrorIs(t, f.store.Begin(soon(t), ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"),
			Microcents: 1_001}),
			ledger.ErrKeySpendCap)
		f.settle(ok(h, usage(0, 999)))
		f.refusedHold(hold(capped, 2), ledger.ErrKeySpendCap)
		last := hold(capped, 1)
		f.admit(last)
		f.settle(ok(last, usage(0, 1)))
		require.EqualValues(t, 1_000, f.keyNow(capped.ID).Spent)
		f.refusedHold(hold(capped, 0), ledger.ErrKeySpendCap)
		f.charge(1)
		require.EqualValues(t, 6_001, f.period().Spent)

		more := int64(1_001)
		_, err := f.store.ChangeKey(soon(t), capped.ID, ledger.KeyChange{SpendCap: &more})
		require.NoError(t, err)
		again := hold(capped, 1)
		f.admit(again)
		none := int64(0)
		_, err = f.store.ChangeKey(soon(t), capped.ID, ledger.KeyChange{SpendCap: &none})
		require.NoError(t, err)
		f.admit(hold(capped, 1_000_000))
	})

	t.Run("GAP-115 it says whether a key's cap is spent or held", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{})
		spendCap := int64(1_000)
		f.key = f.newKey("capped", ledger.KeyChange{SpendCap: &spendCap})
		why := func(microcents int64) error {
			err := f.store.Check(soon(t), f.account.ID, f.key.ID, microcents, 0)
			require.ErrorIs(t, err, ledger.ErrKeySpendCap)
			return err
		}
		runs := f.hold("unit", 600)
		require.ErrorIs(t, why(401), ledger.ErrKeyHeld)
		require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, 400, 0))
		require.ErrorIs(t, why(1_000), ledger.ErrKeyHeld)
		require.NotErrorIs(t, why(1_001), ledger.ErrKeyHeld, "too much, whatever runs")
		next := ledger.Next{Request: runs.Request, Attempt: f.attempt(runs.Request, 2, "unit"), Microcents: 1_001}
		require.NotErrorIs(t, f.store.Begin(soon(t), next), ledger.ErrKeyHeld, "its own hold ends with it")
		other := f.hold("unit", 300)
		next.Microcents = 701
		require.ErrorIs(t, f.store.Begin(soon(t), next), ledger.ErrKeyHeld)
		f.settle(ok(runs, usage(0, 600)))
		f.settle(ok(other, usage(0, 0)))
		require.NotErrorIs(t, why(401), ledger.ErrKeyHeld)
		f.charge(400)
		require.NotErrorIs(t, why(0), ledger.ErrKeyHeld, "spent")
	})

	t.Run("GAP-60 a key's cap begins anew with the account's period", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{MonthlyCredits: 1})
		spendCap := int64(100)
		f.key = f.newKey("capped", ledger.KeyChange{SpendCap: &spendCap})
		f.charge(100)
		f.refused(1, ledger.ErrKeySpendCap)
		f.clock.set(f.period().End)
		require.Zero(t, f.keyNow(f.key.ID).Spent)
		f.charge(60)
		f.clock.set(f.period().End)
		f.charge(70)
		require.EqualValues(t, 70, f.keyNow(f.key.ID).Spent)
		f.refused(31, ledger.ErrKeySpendCap)
		f.clock.set(start)
		require.EqualValues(t, 70, f.keyNow(f.key.ID).Spent, "a clock that goes back changes nothing")

		fresh, _, err := f.store.RotateKey(soon(t), f.key.ID, hashOf("fresh"), "", 0)
		require.NoError(t, err)
		f.key = fresh
		f.refused(31, ledger.ErrKeySpendCap)
		f.charge(30)
		require.EqualValues(t, 100, f.keyNow(fresh.ID).Spent)
	})

	t.Run("what a receipt adds is spent by the key", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{})
		spendCap := int64(100)
		f.key = f.newKey("capped", ledger.KeyChange{SpendCap: &spendCap})
		h := f.unprovenOf(f.hold("unit", 100), nil)
		f.receipt(h.Attempt.ID, usage(0, 100))
		require.EqualValues(t, 100, f.keyNow(f.key.ID).Spent)
		f.refused(1, ledger.ErrKeySpendCap)
	})
}
