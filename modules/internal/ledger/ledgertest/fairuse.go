package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// atLimit is the settlement of a request that ends at a limit of the service.
func (f *fixture) atLimit(u *llm.Usage) ledger.Settlement {
	hold := int64(1_350)
	if u != nil {
		hold += u.Prompt() + llm.Tokens(u.Output)
	}
	s := ok(f.hold("unit", hold), u)
	s.ServiceLimit, s.Status, s.Reason = true, 504, "time_limit"
	s.Results[0].Outcome = ledger.Failed
	return s
}

func testFairUse(t *testing.T, open Open) {
	fair := ledger.Terms{FairUse: 10_000_000}

	t.Run("E09 BILL-26 BILL-27 GAP-54 GAP-135 a service limit is free as far as it fits", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, fair)
		c := f.settle(f.atLimit(usage(0, 9_800_000)))
		require.Zero(t, c.Microcents)
		require.EqualValues(t, 9_800_000, c.Waived)
		c = f.settle(f.atLimit(usage(0, 150_000)))
		require.Zero(t, c.Microcents)
		require.EqualValues(t, 150_000, c.Waived)
		require.EqualValues(t, 9_950_000, f.period().Waived)
		require.Equal(t, ledger.Balance{Credits: 100}, f.balance())
		require.Zero(t, f.lastEntry().Microcents, "what is free moves no money")

		s := f.atLimit(usage(0, 150_000))
		c = f.settle(s)
		require.EqualValues(t, 100_000, c.Microcents, "only what goes beyond is charged")
		require.EqualValues(t, 50_000, c.Waived)
		require.EqualValues(t, 10_000_000, f.period().Waived)
		require.EqualValues(t, 100_000_000-100_000, f.balance().Net())
		r := f.record(s.Request)
		require.True(t, r.ServiceLimit)
		require.EqualValues(t, 100_000, r.Microcents)
		require.EqualValues(t, 50_000, r.Waived)
		e := f.lastEntry()
		require.Equal(t, []int64{-100_000, 50_000, 100_000}, []int64{e.Microcents, e.Waived, e.Tokens},
			"the entry has both parts")

		c = f.settle(f.atLimit(usage(0, 150_000)))
		require.Equal(t, ledger.Charge{Microcents: 150_000, Balance: f.balance()}, c, "the next one is charged in full")
		require.Equal(t, ledger.Period{Spent: 250_000, Tokens: 250_000, Waived: 10_000_000}, f.period(),
			"tokens that were waived count nowhere")
		require.EqualValues(t, 250_000, f.keyNow(f.key.ID).Spent)
	})

	t.Run("GAP-135 four of 5 with an allowance of 12", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 12})
		for _, charged := range []int64{0, 0, 3, 5} {
			s := f.atLimit(usage(0, 5))
			c := f.settle(s)
			require.Equal(t, ledger.Charge{Microcents: charged, Waived: 5 - charged, Balance: f.balance()}, c)
			require.Equal(t, c, f.settle(s), "once more is the same")
		}
		require.Equal(t, ledger.Period{Spent: 8, Tokens: 8, Waived: 12}, f.period())
	})

	t.Run("GAP-135 GAP-53 of what is free in part, that part of the tokens counts", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 1_000})
		s := f.atLimit(usage(0, 10))
		s.Surcharge = 1_350
		c := f.settle(s)
		require.Equal(t, ledger.Charge{Microcents: 360, Waived: 1_000, Balance: f.balance()}, c)
		require.Equal(t, ledger.Period{Spent: 360, Tokens: 2, Waived: 1_000}, f.period(), "10 x 360 / 1,360, rounded down")
	})

	t.Run("GAP-135 GAP-110 what is over the hold uses up no allowance", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 30})
		s := f.atLimit(usage(0, 20))
		s.Results[0].Usage = usage(0, 2_000)
		c := f.settle(s)
		require.Equal(t, ledger.Charge{Microcents: 1_340, Waived: 30, Over: 630, Balance: f.balance()}, c)
		require.EqualValues(t, 30, f.period().Waived)
	})

	t.Run("GAP-54 only a service limit is free, and it waives its surcharge too", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, fair)
		s := ok(f.hold("unit", 10), usage(0, 10))
		require.EqualValues(t, 10, f.settle(s).Microcents)
		s = f.atLimit(usage(0, 10))
		s.Surcharge = 1_350
		require.EqualValues(t, 1_360, f.settle(s).Waived)
		s = f.atLimit(usage(0, 10))
		s.Free = true
		c := f.settle(s)
		require.Zero(t, c.Microcents, "a failure of the service")
		require.Zero(t, c.Waived, "uses up no allowance")
		require.EqualValues(t, 1_360, f.period().Waived)
		require.Zero(t, f.settle(f.atLimit(usage(0, 0))).Waived)
	})

	t.Run("GAP-54 without an allowance everything is charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{})
		require.EqualValues(t, 1, f.settle(f.atLimit(usage(0, 1))).Microcents)
	})

	t.Run("GAP-54 GAP-60 the allowance begins anew with the period", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{MonthlyCredits: 1, FairUse: 100})
		require.EqualValues(t, 100, f.settle(f.atLimit(usage(0, 100))).Waived)
		f.clock.set(f.period().End.Add(-time.Nanosecond))
		require.EqualValues(t, 1, f.settle(f.atLimit(usage(0, 1))).Microcents)
		f.clock.add(time.Nanosecond)
		require.EqualValues(t, 100, f.settle(f.atLimit(usage(0, 100))).Waived)
		require.Equal(t, ledger.Period{End: f.period().End, Waived: 100}, f.period())
	})

	t.Run("GAP-54 the allowance is the plan's of today", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 100})
		require.EqualValues(t, 60, f.settle(f.atLimit(usage(0, 60))).Waived)
		f.plans.set("starter", ledger.Terms{FairUse: 50})
		require.EqualValues(t, 1, f.settle(f.atLimit(usage(0, 1))).Microcents, "more is waived than the allowance has now")
		f.plans.set("starter", ledger.Terms{FairUse: 61})
		require.EqualValues(t, 1, f.settle(f.atLimit(usage(0, 1))).Waived)
	})

	t.Run("GAP-54 what a receipt adds is judged by itself", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 100})
		pending := func(surcharge int64) ledger.Settlement {
			s := f.atLimit(nil)
			s.Surcharge = surcharge
			s.Results[0].Outcome = ledger.Unproven
			return s
		}
		first := pending(30)
		c := f.settle(first)
		require.EqualValues(t, 30, c.Waived)
		require.True(t, c.Pending)
		c = f.receipt(first.Results[0].Attempt, usage(0, 20))
		require.Equal(t, ledger.Charge{Waived: 50, Balance: f.balance()}, c, "what it adds fits")

		second := pending(10)
		require.EqualValues(t, 10, f.settle(second).Waived)
		c = f.receipt(second.Results[0].Attempt, usage(0, 41))
		require.Equal(t, ledger.Charge{Microcents: 1, Added: 1, Waived: 50, Balance: f.balance()}, c,
			"of what it adds one does not fit")
		require.Equal(t, ledger.Period{Spent: 1, Tokens: 1, Waived: 100}, f.period())

		third := pending(50)
		require.EqualValues(t, 50, f.settle(third).Microcents)
		f.plans.set("starter", ledger.Terms{FairUse: 125})
		c = f.receipt(third.Results[0].Attempt, usage(0, 40))
		require.Equal(t, ledger.Charge{Microcents: 65, Added: 15, Waived: 25, Balance: f.balance()}, c,
			"of what it adds a part fits, the rest stays charged")
		require.Equal(t, ledger.Period{Spent: 66, Tokens: 16, Waived: 125}, f.period())
		r := f.record(third.Request)
		require.EqualValues(t, 65, r.Microcents)
		require.EqualValues(t, 25, r.Waived)
	})
}
