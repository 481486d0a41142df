package ledgertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testExamples(t *testing.T, open Open) {
	t.Run("E01 BILL-04 BILL-05 BILL-06 ACCT-06 ACCT-10 ACCT-11 accrual and whole-credit debit", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		f.charge(250_000)
		require.Equal(t, ledger.Balance{Credits: 10, Accrued: 250_000}, f.balance())
		require.EqualValues(t, 9, f.balance().Available())
		for _, step := range []struct{ charge, credits, accrued, available, net int64 }{
			{1_336_350, 9, 586_350, 8, 8_413_650},
			{1_234, 9, 587_584, 8, 8_412_416},
			{412_416, 8, 0, 8, 8_000_000},
			{2_999_999, 6, 999_999, 5, 5_000_001},
		} {
			b := f.charge(step.charge)
			require.Equal(t, ledger.Balance{Credits: step.credits, Accrued: step.accrued}, b)
			require.Equal(t, b, f.balance())
			require.Equal(t, step.available, b.Available())
			require.Equal(t, step.net, b.Net())
		}
	})

	t.Run("E02 BILL-03 BILL-08 BILL-30 ACCT-05 life of one request", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		f.charge(250_000)
		const screening = 1_350
		estimate := ledger.HoldFor(1_000, 2_000, prices["example"]) + screening
		require.EqualValues(t, 3_301_350, estimate)

		h := f.hold("example", estimate)
		b := f.balance()
		require.EqualValues(t, 10, b.Credits)
		require.EqualValues(t, 4, b.Reserved())
		require.EqualValues(t, 250_000, b.Accrued)
		require.EqualValues(t, 5, b.Available())

		s := ok(h, usage(950, 700))
		s.Surcharge = screening
		c := f.settle(s)
		require.EqualValues(t, 1_336_350, c.Microcents)
		require.False(t, c.Pending)
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 586_350}, f.balance())
		require.Zero(t, f.balance().Reserved())
		require.EqualValues(t, 8, f.balance().Available())
	})

	t.Run("E04 BILL-16 ACCT-04 negative balance and top-up", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1)
		h := f.hold("unit", 1_000_000)
		c := f.settle(ok(h, usage(0, 3_400_000)))
		require.Equal(t, ledger.Balance{Credits: -2, Accrued: 400_000}, c.Balance)
		require.EqualValues(t, -3, c.Balance.Available())
		for _, step := range []struct{ credits, balance, available int64 }{{2, 0, -1}, {1, 1, 0}} {
			f.refused(1)
			b := f.topUp(step.credits)
			require.Equal(t, step.balance, b.Credits)
			require.Equal(t, step.available, b.Available())
		}
		f.refused(1)
		require.EqualValues(t, 1, f.topUp(1).Available())
		f.refused(1_000_001)
		f.hold("unit", 1_000_000)
	})

	t.Run("E05 the default allowance sizes the hold", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct {
			allowance, hold int64
			reserved        int64
		}{{32_768, 49_154_400, 50}, {100, 152_400, 1}, {8_192, 12_290_400, 13}} {
			estimate := ledger.HoldFor(8, row.allowance, prices["example"])
			require.Equal(t, row.hold, estimate)
			f := newFixture(t, open, row.reserved)
			h := f.hold("example", estimate)
			require.Equal(t, row.reserved, f.balance().Reserved())
			f.settle(ok(h, usage(8, 2)))
			if row.reserved > 1 {
				f.newAccount(row.reserved - 1)
				f.refused(estimate)
			}
		}
	})

	t.Run("E07 BILL-23 failed fallback attempts are charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		a, b := f.fallback()
		c := f.settle(a.with(b, ledger.Failed, usage(100, 0), usage(100, 20)))
		require.EqualValues(t, 90_000, c.Microcents)
		require.False(t, c.Pending)
	})
	t.Run("E07 BILL-28 what is not proven is not billed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		a, b := f.fallback()
		c := f.settle(a.with(b, ledger.Unproven, nil, usage(100, 20)))
		require.EqualValues(t, 60_000, c.Microcents)
		require.True(t, c.Pending)
		require.Zero(t, f.balance().Held)
	})
	t.Run("E07 BILL-21 BILL-33 a failed request is charged and on record", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		a, b := f.fallback()
		s := a.with(b, ledger.Failed, usage(100, 0), nil)
		s.Status, s.Reason = 502, "upstream_error"
		s.Results[1].Outcome = ledger.Failed
		require.EqualValues(t, 30_000, f.settle(s).Microcents)
		require.EqualValues(t, 10_000_000-30_000, f.balance().Net())
		record := f.settle(ledger.Settlement{Request: a.Request})
		require.EqualValues(t, 30_000, record.Microcents)
	})
	t.Run("E07 BILL-24 the seats of a panel are charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10)
		h := f.hold("example", 1_000_000)
		s := ok(h, usage(100, 50))
		for _, u := range []*llm.Usage{usage(100, 50), usage(100, 50), usage(400, 80)} {
			a := f.attempt("example")
			require.NoError(t, f.store.Begin(soon(t), h.Request, a, 1_000_000))
			s.Results = append(s.Results, ledger.Result{Attempt: a.ID, Outcome: ledger.Finished, Usage: u})
		}
		require.EqualValues(t, 555_000, f.settle(s).Microcents)
	})
}

// heldRequest is a request on hold.
type heldRequest struct{ ledger.Hold }

// fallback holds a request and begins its second attempt.
func (f *fixture) fallback() (heldRequest, ledger.Attempt) {
	h := f.hold("example", 1_000_000)
	b := f.attempt("example")
	require.NoError(f.t, f.store.Begin(soon(f.t), h.Request, b, 1_000_000))
	return heldRequest{h}, b
}

// with settles the request: its first attempt ended so and proved first, its second one finished.
func (h heldRequest) with(b ledger.Attempt, outcome ledger.Outcome, first, second *llm.Usage) ledger.Settlement {
	s := ok(h.Hold, first)
	s.Results[0].Outcome = outcome
	s.Results = append(s.Results, ledger.Result{Attempt: b.ID, Outcome: ledger.Finished, Usage: second})
	return s
}

// refused expects a hold to be refused, and to leave everything as it is.
func (f *fixture) refused(microcents int64) {
	before := f.balance()
	_, err := f.store.Hold(soon(f.t), f.newHold("unit", microcents))
	require.ErrorIs(f.t, err, ledger.ErrInsufficient)
	require.Equal(f.t, before, f.balance())
}

func testAdmission(t *testing.T, open Open) {
	for _, row := range []struct {
		credits, reserved, accrued, available, hold int64
		admitted                                    bool
	}{
		{6, 0, 1, 5, 5_000_000, true},
		{5, 0, 0, 5, 5_000_000, true},
		{5, 0, 1, 4, 5_000_000, false},
		{9, 4, 0, 5, 5_000_000, true},
		{9, 4, 1, 4, 5_000_000, false},
		{1, 0, 1, 0, 1, false},
		{1, 0, 1, 0, 0, false},
		{1, 0, 0, 1, 1_000_000, true},
		{0, 0, 0, 0, 1, false},
		{5, 0, 0, 5, 5_000_001, false},
	} {
		name := fmt.Sprintf("E03 BILL-12 BILL-13 BILL-14 balance %d reserved %d accrued %d hold %d",
			row.credits, row.reserved, row.accrued, row.hold)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, row.credits)
			if row.accrued > 0 {
				f.charge(row.accrued)
			}
			if row.reserved > 0 {
				f.hold("unit", row.reserved*ledger.MicrocentsPerCredit)
			}
			b := f.balance()
			require.Equal(t, row.credits, b.Credits)
			require.Equal(t, row.reserved, b.Reserved())
			require.Equal(t, row.accrued, b.Accrued)
			require.Equal(t, row.available, b.Available())
			if !row.admitted {
				f.refused(row.hold)
				return
			}
			f.hold("unit", row.hold)
			require.Equal(t, b.Held+row.hold, f.balance().Held)
		})
	}

	t.Run("GAP-49 a hold grows for the next attempt", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 5)
		ctx := soon(t)
		h := f.hold("unit", 1_500_000)
		require.NoError(t, f.store.Begin(ctx, h.Request, f.attempt("unit"), 1_000_000))
		require.EqualValues(t, 1_500_000, f.balance().Held, "a smaller total changes no hold")
		require.NoError(t, f.store.Begin(ctx, h.Request, f.attempt("unit"), 4_500_000))
		require.EqualValues(t, 4_500_000, f.balance().Held)
		err := f.store.Begin(ctx, h.Request, f.attempt("unit"), 4_500_001)
		require.ErrorIs(t, err, ledger.ErrInsufficient)
		require.EqualValues(t, 4_500_000, f.balance().Held)
		require.NoError(t, f.store.Begin(ctx, h.Request, f.attempt("unit"), 4_500_000), "what is held already needs nothing")
	})

	t.Run("GAP-51 available may fall below zero while requests run", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 2)
		first := f.hold("unit", 500_000)
		f.hold("unit", 500_000)
		f.hold("unit", 1_000_000)
		c := f.settle(ok(first, usage(0, 500_000)))
		require.EqualValues(t, -1, c.Balance.Available())
		require.EqualValues(t, 0, c.Balance.Net()-c.Balance.Held)
	})
}
