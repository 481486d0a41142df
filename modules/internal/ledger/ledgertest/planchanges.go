package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testPlanChanges(t *testing.T, open Open) {
	t.Run("GAP-60 a plan that adds credits begins periods, and its counters anew", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{FairUse: 100})
		f.plans.set("pro", monthly)
		f.charge(7)
		f.settle(f.atLimit(usage(0, 5)))
		require.Equal(t, ledger.Period{Spent: 7, Tokens: 7, Waived: 5}, f.period())

		f.clock.set(start.AddDate(0, 4, 3))
		a := f.setPlan("pro")
		require.Equal(t, ledger.Period{End: start.AddDate(0, 5, 0)}, a.Period, "counted from the account's creation")
		require.EqualValues(t, 10_000_000-7, a.Balance.Net(), "what passed without the plan adds nothing")
		require.Zero(t, f.keyNow(f.key.ID).Spent)
		f.charge(3)
		require.Equal(t, ledger.Period{End: start.AddDate(0, 5, 0), Spent: 3, Tokens: 3}, f.period())
		require.EqualValues(t, 3, f.keyNow(f.key.ID).Spent)

		a = f.setPlan("starter")
		require.Equal(t, ledger.Period{Spent: 10, Tokens: 10, Waived: 5}, a.Period, "without periods the counters count for ever")
		require.EqualValues(t, 10, f.keyNow(f.key.ID).Spent)
		f.clock.set(start.AddDate(1, 0, 0))
		require.EqualValues(t, 10_000_000-10, f.balance().Net())
	})

	t.Run("GAP-60 a new plan gives at the next end, what is due under the old one at once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.plans.set("pro", ledger.Terms{MonthlyCredits: 7})
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 100, f.setPlan("pro").Balance.Credits)
		f.charge(3)
		end := f.period().End
		a := f.setPlan("starter")
		require.True(t, a.Period.End.Equal(end), "a change between plans with credits leaves the period")
		require.EqualValues(t, 3, a.Period.Spent)
		f.setPlan("pro")
		f.clock.set(end)
		require.EqualValues(t, 107_000_000-3, f.balance().Net())
	})

	t.Run("GAP-60 a reload that changes a plan acts like a change of plan", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		f.charge(5)
		f.plans.set("starter", monthly)
		require.Equal(t, ledger.Period{End: start.AddDate(0, 1, 0)}, f.period())
		f.clock.set(start.AddDate(0, 1, 0))
		require.EqualValues(t, 60_000_000-5, f.balance().Net())
		f.charge(2)
		f.plans.set("starter", ledger.Terms{MonthlyCredits: 1})
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 61_000_000-7, f.balance().Net())
		f.plans.set("starter", ledger.Terms{})
		require.Equal(t, ledger.Period{Spent: 7, Tokens: 7}, f.period())
		f.clock.set(start.AddDate(2, 0, 0))
		require.EqualValues(t, 61_000_000-7, f.balance().Net())
	})

	t.Run("GAP-60 a period's credits are added once, also when the plan goes and comes while the clock goes back", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 100, f.balance().Credits)
		f.setPlan("")
		f.clock.set(start)
		f.setPlan("starter")
		f.clock.set(start.AddDate(0, 1, 0))
		require.EqualValues(t, 100, f.balance().Credits, "the first period's are given already")
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 100, f.balance().Credits, "the second's too")
		f.clock.set(start.AddDate(0, 3, 0))
		require.EqualValues(t, 150, f.balance().Credits)
	})

	t.Run("a plan that the configuration does not know has no terms", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, monthly)
		require.Equal(t, ledger.Period{}, f.setPlan("unknown").Period)
		f.clock.set(start.AddDate(0, 3, 0))
		require.EqualValues(t, 10, f.balance().Credits)
	})
}
