package ledgertest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testExamples(t *testing.T, open Open) {
	t.Run("E01 BILL-04 BILL-05 BILL-06 ACCT-06 ACCT-10 ACCT-11 accrual and whole-credit debit", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
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
		f := newFixture(t, open, 10, ledger.Terms{})
		f.charge(250_000)
		const screening = 1_350
		estimate := ledger.HoldFor(1_000, 2_000, prices["example"]) + screening
		require.EqualValues(t, 3_301_350, estimate)

		h := f.newHold("example", estimate)
		b := f.admit(h)
		require.Equal(t, b, f.balance())
		require.EqualValues(t, 10, b.Credits)
		require.EqualValues(t, 4, b.Reserved())
		require.EqualValues(t, 250_000, b.Accrued)
		require.EqualValues(t, 5, b.Available())

		s := ok(h, usage(950, 700))
		s.Surcharge = screening
		c := f.settle(s)
		require.EqualValues(t, 1_336_350, c.Microcents)
		require.False(t, c.Pending)
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 586_350}, c.Balance)
		require.Equal(t, c.Balance, f.balance())
		require.Zero(t, f.balance().Reserved())
		require.EqualValues(t, 8, f.balance().Available())
	})

	t.Run("E04 BILL-16 ACCT-04 GAP-51 GAP-52 negative balance and top-up", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 4, ledger.Terms{})
		h := f.unprovenOf(f.hold("unit", 3_400_000), nil)
		f.charge(3_000_000)                               // of what the hold does not keep any more
		c := f.receipt(h.Attempt.ID, usage(0, 3_400_000)) // only a receipt can, once the hold is gone (GAP-110)
		c.Added = 0
		require.Equal(t, ledger.Balance{Credits: -2, Accrued: 400_000}, c.Balance)
		require.EqualValues(t, -3, c.Balance.Available())
		for _, step := range []struct{ credits, balance, available int64 }{{2, 0, -1}, {1, 1, 0}} {
			f.refused(1, ledger.ErrNothingLeft)
			b := f.topUp(step.credits)
			require.Equal(t, step.balance, b.Credits)
			require.Equal(t, step.available, b.Available())
		}
		f.refused(1, ledger.ErrNothingLeft)
		require.EqualValues(t, 1, f.topUp(1).Available())
		f.refused(1_000_001, ledger.ErrInsufficient)
		f.hold("unit", 1_000_000)
	})

	t.Run("E05 the default allowance sizes the hold", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct{ allowance, hold, reserved int64 }{
			{32_768, 49_154_400, 50}, {100, 152_400, 1}, {8_192, 12_290_400, 13},
		} {
			estimate := ledger.HoldFor(8, row.allowance, prices["example"])
			require.Equal(t, row.hold, estimate)
			f := newFixture(t, open, row.reserved, ledger.Terms{})
			h := f.hold("example", estimate)
			require.Equal(t, row.reserved, f.balance().Reserved())
			f.settle(ok(h, usage(8, 2)))
			if row.reserved > 1 {
				f.newAccount(row.reserved - 1)
				f.refused(estimate, ledger.ErrInsufficient)
			}
		}
	})

	t.Run("E07 BILL-23 failed fallback attempts are charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		c := f.settle(f.fallback(ledger.Failed, usage(100, 0), usage(100, 20)))
		require.EqualValues(t, 90_000, c.Microcents)
		require.False(t, c.Pending)
	})
	t.Run("E07 BILL-28 BILL-29 what is not proven is not billed, and its receipt is once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		s := f.fallback(ledger.Unproven, nil, usage(100, 20))
		c := f.settle(s)
		require.EqualValues(t, 60_000, c.Microcents)
		require.True(t, c.Pending)
		require.Zero(t, f.balance().Held, "the hold is released")
		first := s.Results[0].Attempt
		c = f.receipt(first, usage(100, 0))
		require.EqualValues(t, 90_000, c.Microcents)
		require.False(t, c.Pending)
		_, applied, err := f.store.AddReceipt(soon(t), first, *usage(100, 0))
		require.NoError(t, err)
		require.False(t, applied)
		require.EqualValues(t, 10_000_000-90_000, f.balance().Net())
	})
	t.Run("E07 BILL-21 BILL-33 a failed request is charged and on record", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		s := f.fallback(ledger.Failed, usage(100, 0), nil)
		s.Status, s.Reason = 502, "upstream_error"
		s.Results[1].Outcome = ledger.Failed
		require.EqualValues(t, 30_000, f.settle(s).Microcents)
		require.EqualValues(t, 10_000_000-30_000, f.balance().Net())
		r := f.record(s.Request)
		require.EqualValues(t, 30_000, r.Microcents)
		require.Equal(t, 502, r.Status)
		require.Equal(t, "upstream_error", r.Reason)
		require.False(t, r.Pending)
	})
	t.Run("E07 BILL-24 the seats of a panel are charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.hold("example", 1_000_000)
		s := ok(h, usage(100, 50))
		for i, u := range []*llm.Usage{usage(100, 50), usage(100, 50), usage(400, 80)} {
			f.begin(h, int64(i+2), "example")
			s.Results = append(s.Results, ledger.Result{
				Attempt: ledger.AttemptID(h.Request, int64(i+2)), Outcome: ledger.Finished, Usage: u,
			})
		}
		require.EqualValues(t, 555_000, f.settle(s).Microcents)
	})

	t.Run("E08 screening costs its surcharge, also for a refusal", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		for _, row := range []struct {
			reason  string
			outcome ledger.Outcome
			usage   *llm.Usage
			want    int64
		}{
			{"screened", ledger.NotMade, nil, 1_350},
			{"declined", ledger.Failed, usage(40, 0), 1_350 + 12_000},
			{"ok", ledger.Finished, usage(10, 2), 7_350},
		} {
			before := f.balance().Net()
			s := ok(f.hold("example", 100_000), row.usage)
			s.Reason, s.Surcharge, s.Results[0].Outcome = row.reason, 1_350, row.outcome
			require.Equal(t, row.want, f.settle(s).Microcents, row.reason)
			require.Equal(t, before-row.want, f.balance().Net())
		}
	})
}

// fallback is the settlement of a running request with two attempts: the first ended so and proved first, the second
// finished and proved second.
func (f *fixture) fallback(outcome ledger.Outcome, first, second *llm.Usage) ledger.Settlement {
	h := f.hold("example", 1_000_000)
	f.begin(h, 2, "example")
	s := ok(h, first)
	s.Results[0].Outcome = outcome
	s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(h.Request, 2), Outcome: ledger.Finished,
		Usage: second})
	return s
}

// refused expects a hold to be refused, and to leave everything as it is.
func (f *fixture) refused(microcents int64, want error) {
	h := f.newHold("unit", microcents)
	f.refusedHold(h, want)
}

func (f *fixture) refusedHold(h ledger.Hold, want error) {
	before := f.now()
	_, err := f.store.Hold(context.Background(), h)
	require.ErrorIs(f.t, err, want)
	for _, kind := range []error{ledger.ErrHeld, ledger.ErrNothingLeft} {
		require.Equal(f.t, errors.Is(want, kind), errors.Is(err, kind), "%v, and not %v", want, err)
	}
	require.ErrorIs(f.t, f.store.Check(context.Background(), h.Account, h.Key, h.Microcents, h.Tokens), want,
		"Check says what Hold does")
	require.Equal(f.t, before, f.now())
	_, err = f.store.Request(context.Background(), h.Request)
	require.ErrorIs(f.t, err, ledger.ErrNotFound)
}
