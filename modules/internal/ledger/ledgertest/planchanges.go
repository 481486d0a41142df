package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testPlanChanges(t *testing.T, open Open) {
	t.Run("GAP-60 GAP-118 a plan that adds credits begins periods, with its credits, and the counters anew",
		func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, 10, ledger.Terms{FairUse: 100})
			f.plans.set("pro", monthly)
			f.charge(7)
			f.settle(f.atLimit(usage(0, 5)))
			require.Equal(t, ledger.Period{Spent: 7, Tokens: 7, Waived: 5}, f.period())

			f.clock.set(start.AddDate(0, 4, 3))
			a := f.setPlan("pro")
			require.Equal(t, ledger.Period{End: start.AddDate(0, 5, 0)}, a.Period, "counted from the account's creation")
			require.EqualValues(t, 60_000_000-7, a.Balance.Net(), "what passed without the plan adds nothing")
			require.Zero(t, f.keyNow(f.key.ID).Spent)
			f.charge(3)
			require.Equal(t, ledger.Period{End: start.AddDate(0, 5, 0), Spent: 3, Tokens: 3}, f.period())
			require.EqualValues(t, 3, f.keyNow(f.key.ID).Spent)

			a = f.setPlan("starter")
			require.Equal(t, ledger.Period{Spent: 10, Tokens: 10, Waived: 5}, a.Period,
				"without periods the counters count for ever")
			require.EqualValues(t, 10, f.keyNow(f.key.ID).Spent)
			f.clock.set(start.AddDate(1, 0, 0))
			require.EqualValues(t, 60_000_000-10, f.balance().Net())
		})

	t.Run("GAP-118 once a period, whatever plan changes in it", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.plans.set("pro", ledger.Terms{MonthlyCredits: 500})
		f.plans.set("bare", ledger.Terms{Periods: true})
		for _, plan := range []string{"pro", "bare", "", "pro", "starter", ""} {
			f.clock.add(time.Hour)
			require.EqualValues(t, 50, f.setPlan(plan).Balance.Credits)
		}
		f.clock.set(start.AddDate(0, 1, 0))
		require.EqualValues(t, 50, f.setPlan("bare").Balance.Credits, "the next period has none yet")
		f.charge(5)
		end := f.period().End
		a := f.setPlan("pro")
		require.EqualValues(t, 550_000_000-5, a.Balance.Net(),
			"the first plan that has credits gives them, in the midst of a period")
		require.Equal(t, ledger.Period{End: end, Spent: 5, Tokens: 5}, a.Period, "which goes on")
		require.EqualValues(t, 550_000_000-5, f.setPlan("starter").Balance.Net())
		f.clock.set(end)
		require.EqualValues(t, 600_000_000-5, f.balance().Net())
	})

	t.Run("GAP-118 periods without credits renew caps and budgets", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{Periods: true, SpendCap: 10_000, TokenBudget: 10_000, FairUse: 5})
		for _, end := range []time.Time{start.AddDate(0, 1, 0), start.AddDate(0, 2, 0)} {
			require.Equal(t, ledger.Period{End: end}, f.period())
			f.settle(f.atLimit(usage(0, 5)))
			f.charge(10_000)
			f.refused(1, ledger.ErrSpendCap)
			require.Equal(t, ledger.Period{End: end, Spent: 10_000, Tokens: 10_000, Waived: 5}, f.period())
			f.clock.set(end)
		}
		require.EqualValues(t, 10_000_000-20_000, f.balance().Net(), "nothing is added")
	})

	t.Run("GAP-118 EndPeriods begins what a reload makes due", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, ledger.Terms{})
		f.newAccount(0)
		for _, step := range []struct {
			terms    ledger.Terms
			accounts int64
			credits  int64
		}{
			{ledger.Terms{Periods: true}, 2, 0}, {ledger.Terms{Periods: true}, 0, 0}, {monthly, 2, 50},
			{ledger.Terms{MonthlyCredits: 7}, 0, 50},
			{ledger.Terms{}, 2, 50}, {monthly, 2, 50},
		} {
			f.plans.set("starter", step.terms)
			n, err := f.store.EndPeriods(soon(t))
			require.NoError(t, err)
			require.Equal(t, step.accounts, n, "%v", step)
			for _, a := range f.accounts() {
				require.Equal(t, step.credits, a.Balance.Credits)
			}
		}
	})

	t.Run("a balance that cannot take its credits goes without, once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, ledger.Terms{})
		for range ledger.MaxBalance / ledger.MaxTopUp {
			f.topUp(ledger.MaxTopUp)
		}
		f.plans.set("starter", monthly)
		require.EqualValues(t, ledger.MaxBalance, f.balance().Credits)
		n, err := f.store.EndPeriods(soon(t))
		require.NoError(t, err)
		require.Zero(t, n, "nobody looks at it again")
		require.True(t, f.period().End.Equal(start.AddDate(0, 1, 0)))
	})

	t.Run("GAP-60 a new plan gives at the next end, what is due under the old one at once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.plans.set("pro", ledger.Terms{MonthlyCredits: 7})
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 150, f.setPlan("pro").Balance.Credits)
		f.charge(3)
		end := f.period().End
		a := f.setPlan("starter")
		require.True(t, a.Period.End.Equal(end), "a change between plans with credits leaves the period")
		require.EqualValues(t, 3, a.Period.Spent)
		f.setPlan("pro")
		f.clock.set(end)
		require.EqualValues(t, 157_000_000-3, f.balance().Net())
	})

	t.Run("GAP-60 a reload that changes a plan acts like a change of plan", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		f.charge(5)
		f.plans.set("starter", monthly)
		require.Equal(t, ledger.Period{End: start.AddDate(0, 1, 0)}, f.period())
		require.EqualValues(t, 60_000_000-5, f.balance().Net())
		f.clock.set(start.AddDate(0, 1, 0))
		require.EqualValues(t, 110_000_000-5, f.balance().Net())
		f.charge(2)
		f.plans.set("starter", ledger.Terms{MonthlyCredits: 1})
		f.clock.set(start.AddDate(0, 2, 0))
		require.EqualValues(t, 111_000_000-7, f.balance().Net())
		f.plans.set("starter", ledger.Terms{})
		require.Equal(t, ledger.Period{Spent: 7, Tokens: 7}, f.period())
		f.clock.set(start.AddDate(2, 0, 0))
		require.EqualValues(t, 111_000_000-7, f.balance().Net())
	})

	t.Run("GAP-60 a period's credits are added once, also when the plan goes and comes while the clock goes back",
		func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, 0, monthly)
			f.clock.set(start.AddDate(0, 2, 0))
			require.EqualValues(t, 150, f.balance().Credits)
			f.setPlan("")
			f.clock.set(start)
			f.setPlan("starter")
			f.clock.set(start.AddDate(0, 1, 0))
			require.EqualValues(t, 150, f.balance().Credits, "the second period's are given already")
			f.clock.set(start.AddDate(0, 2, 0))
			require.EqualValues(t, 150, f.balance().Credits, "the third's too")
			f.clock.set(start.AddDate(0, 3, 0))
			require.EqualValues(t, 200, f.balance().Credits)
		})

	t.Run("a plan that the configuration does not know has no terms", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, monthly)
		require.Equal(t, ledger.Period{}, f.setPlan("unknown").Period)
		f.clock.set(start.AddDate(0, 3, 0))
		require.EqualValues(t, 60, f.balance().Credits, "what the plan before gave stays")
	})
}
