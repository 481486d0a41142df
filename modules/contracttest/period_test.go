package contracttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// periodEnd is current_period_end.
func (s *service) periodEnd(t testing.TB) time.Time {
	t.Helper()
	end := s.Summary(t).Credits.PeriodEnd
	require.NotNil(t, end)
	moment, err := time.Parse(time.RFC3339, *end)
	require.NoError(t, err)
	require.Equal(t, moment.UTC().Format("2006-01-02T15:04:05Z"), *end, "UTC, whole seconds")
	return moment
}

// TestPeriods turns the gateway's clock: at the end of a period the plan's credits come, once, and what was counted
// begins anew.
func TestPeriods(t *testing.T) {
	t.Parallel()
	const plans = `
plan "monthly" {
  monthly_credits   = 500
  spend_cap_credits = 10
}
plan "none" {
  monthly_credits = 0
}
`
	day := 24 * time.Hour
	t.Run("ACCT-08 ACCT-09 GAP-60 the allotment comes once a period", func(t *testing.T) {
		t.Parallel()
		clock := newClock(1)
		g := startScripted(t, setup{Clock: clock, Extra: plans, Plan: "monthly", Routes: []route{exact}})
		c := g.caller(t, 7)
		end := c.periodEnd(t)
		require.Equal(t, ledger.PeriodEnd(c.Account.Created, 0).Add(time.Second-1).Truncate(time.Second).UTC(), end)
		require.EqualValues(t, 500, c.Summary(t).Credits.Monthly)
		require.EqualValues(t, 507, c.Summary(t).Credits.Balance, "the first period has its allotment, too (GAP-118)")

		clock.Turn(end.Sub(clock.Now()) - time.Minute)
		require.EqualValues(t, 507, c.Summary(t).Credits.Balance)
		require.Equal(t, end, c.periodEnd(t))

		clock.Turn(2 * time.Minute)
		for range 3 {
			require.EqualValues(t, 1007, c.Summary(t).Credits.Balance)
		}
		next := c.periodEnd(t)
		require.True(t, next.After(end.Add(27*day)) && next.Before(end.Add(32*day)), "%s after %s", next, end)

		clock.Turn(-60 * day) // the clock jumps back, and forward again
		require.EqualValues(t, 1007, c.Summary(t).Credits.Balance)
		require.Equal(t, next, c.periodEnd(t))
		clock.Turn(60 * day)
		require.EqualValues(t, 1007, c.Summary(t).Credits.Balance)

		clock.Turn(next.Sub(clock.Now()) + 40*day) // over one whole period and into the one after
		require.EqualValues(t, 1007+2*500, c.Summary(t).Credits.Balance)
		require.True(t, c.periodEnd(t).After(clock.Now()))

		none := g.caller(t, 3)
		require.EqualValues(t, 503, none.Summary(t).Credits.Balance)
		none.SetPlan("none")
		require.Nil(t, none.Summary(t).Credits.PeriodEnd, "ACCT-09")
		require.Zero(t, none.Summary(t).Credits.Monthly)
		clock.Turn(60 * day)
		require.EqualValues(t, 503, none.Summary(t).Credits.Balance)
	})
	for _, sh := range shapes {
		t.Run("ACCT-08 BILL-18 GAP-60 counters begin anew "+sh.Name, func(t *testing.T) {
			t.Parallel()
			clock := newClock(1)
			g := startScripted(t, setup{Clock: clock, Extra: plans, Plan: "monthly", Routes: []route{exact}})
			c := g.caller(t, 100)
			c.Spend(t, sh, modes[0].Field, 10_000_000, 10_000_000)
			requireError(t, sh, c.Ask(sh, allowance(sh, 1)), 402, "budget_exceeded")
			require.EqualValues(t, 590, c.Summary(t).Credits.Balance)
			clock.Turn(32 * day)
			c.Spend(t, sh, modes[1].Field, 10_000_000, 10_000_000)
			require.EqualValues(t, 590+500-10, c.Summary(t).Credits.Balance)
			requireError(t, sh, c.Ask(sh, allowance(sh, 1)), 402, "budget_exceeded")
		})
	}
	t.Run("GAP-118 periods without credits", func(t *testing.T) {
		t.Parallel()
		clock := newClock(1)
		g := startScripted(t, setup{Clock: clock, Plan: "bare", Routes: []route{exact}, Extra: `
plan "bare" {
  periods           = true
  spend_cap_credits = 10
}
`})
		c, sh := g.caller(t, 100), shapeOf("chat")
		end := c.periodEnd(t)
		c.Spend(t, sh, modes[0].Field, 10_000_000, 10_000_000)
		requireError(t, sh, c.Ask(sh, allowance(sh, 1)), 402, "budget_exceeded")
		clock.Turn(end.Sub(clock.Now()))
		require.True(t, c.periodEnd(t).After(end))
		c.Spend(t, sh, modes[0].Field, 10_000_000, 10_000_000)
		require.EqualValues(t, 80, c.Summary(t).Credits.Balance, "and nothing is added")
	})
	t.Run("GAP-60 BILL-18 a clock that jumps by a year, and back", func(t *testing.T) {
		t.Parallel()
		clock := newClock(1)
		g := startScripted(t, setup{Clock: clock, Extra: plans, Plan: "monthly", Routes: []route{exact}})
		c, sh := g.caller(t, 100), shapeOf("messages")
		c.Blocked(charges(3_000_000))
		done := c.Start(t, sh, allowance(sh, 3_000_000))
		clock.Turn(366 * day)
		c.Upstream.Open(c.Mark)
		require.EqualValues(t, 3_000_000, outcomeOf(t, sh, <-done).Billed(t), "what ran ends as if nothing had been")
		balance := c.Summary(t).Credits.Balance
		require.EqualValues(t, 600-3+12*500, balance, "the periods that the clock has passed")
		c.Spend(t, sh, modes[0].Field, 7_000_000, 7_000_000)
		end := c.periodEnd(t)
		clock.Turn(-366 * day)
		require.EqualValues(t, balance-7, c.Summary(t).Credits.Balance)
		require.Equal(t, end, c.periodEnd(t))
		requireError(t, sh, c.Ask(sh, allowance(sh, 1)), 402, "budget_exceeded")
		g.caller(t, 1).Spend(t, sh, modes[1].Field, 10_000, 10_000)
		clock.Turn(366 * day)
		require.EqualValues(t, balance-7, c.Summary(t).Credits.Balance, "no period is counted twice")
	})
}
