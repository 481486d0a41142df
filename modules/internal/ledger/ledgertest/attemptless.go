package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// newOpening is a hold without an attempt.
func (f *fixture) newOpening(microcents int64) ledger.Hold {
	h := f.newHold("unit", microcents)
	h.Attempt = ledger.Attempt{}
	return h
}

func (f *fixture) opening(microcents int64) ledger.Hold {
	h := f.newOpening(microcents)
	f.admit(h)
	return h
}

// testAttemptless: a request that screening refused, or that the response cache answered, made no attempt.
func testAttemptless(t *testing.T, open Open) {
	const screening = 1_350
	t.Run("BILL-31 a request without an attempt is charged its surcharge", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		running := f.record(h.Request)
		require.True(t, running.Running)
		require.Empty(t, running.Attempts)
		require.EqualValues(t, 5_000, running.Held)
		require.EqualValues(t, 1, f.verify().Holds)

		s := ledger.Settlement{Request: h.Request, Status: 400, Reason: "screened", Surcharge: screening}
		require.Equal(t, ledger.Charge{Microcents: screening}, s.Due(h.Microcents, nil), "as its client is told")
		c := f.settle(s)
		require.EqualValues(t, screening, c.Microcents)
		require.False(t, c.Pending)
		require.EqualValues(t, 10_000_000-screening, f.balance().Net())
		r := f.record(h.Request)
		require.Empty(t, r.Attempts)
		require.EqualValues(t, screening, r.Surcharge)
		require.True(t, r.Created.Equal(running.Created))
		require.Len(t, r.Entries, 1)
		require.Empty(t, r.Entries[0].Prices)
		require.Equal(t, c, f.settle(s), "once")
		require.EqualValues(t, 1, f.verify().Requests)
		require.EqualValues(t, screening, f.period().Spent)
	})
	t.Run("BILL-30 the first attempt may begin after the hold, within it", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		n := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 5_000}
		require.ErrorIs(t, f.store.Begin(soon(t), n), ledger.ErrInvalid, "the first is the first")
		n.Attempt = f.attempt(h.Request, 1, "unit")
		require.NoError(t, f.store.Begin(soon(t), n))
		require.EqualValues(t, 5_000, f.balance().Held)
		n = ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 7_000}
		require.NoError(t, f.store.Begin(soon(t), n))
		require.EqualValues(t, 7_000, f.balance().Held, "a raise")
		f.verify()
		s := ok(ledger.Hold{Request: h.Request, Attempt: f.attempt(h.Request, 1, "unit")}, usage(40, 2))
		s.Surcharge = screening
		s.Results = append(s.Results, ledger.Result{Attempt: n.Attempt.ID, Outcome: ledger.NotMade})
		require.EqualValues(t, 42+screening, f.settle(s).Microcents)
		require.Zero(t, f.balance().Held)
	})
	t.Run("GAP-49 a hold of the surcharge alone is a hold", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1, ledger.Terms{})
		first := f.opening(screening)
		h := f.newOpening(1_000_001)
		_, err := f.store.Hold(soon(t), h)
		require.ErrorIs(t, err, ledger.ErrInsufficient)
		f.settle(ledger.Settlement{Request: first.Request, Status: 400, Reason: "screened", Surcharge: screening})
		h = f.newOpening(screening)
		_, err = f.store.Hold(soon(t), h)
		require.ErrorIs(t, err, ledger.ErrInsufficient, "nothing is left but a part of a credit")
	})
	t.Run("GAP-110 a surcharge above the hold is not charged", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(1_000)
		c := f.settle(ledger.Settlement{Request: h.Request, Status: 400, Reason: "screened", Surcharge: screening})
		require.EqualValues(t, 1_000, c.Microcents)
		require.EqualValues(t, 350, c.Over)
	})
	t.Run("BILL-25 a failure of the screener is free", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		s := ledger.Settlement{Request: h.Request, Status: 500, Reason: "screener", Free: true, Surcharge: screening}
		require.Zero(t, f.settle(s).Microcents)
		require.EqualValues(t, 10_000_000, f.balance().Net())
	})
	t.Run("GAP-99 a crash releases a hold without an attempt, and nothing waits", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		require.EqualValues(t, 1, f.restart())
		f.waiting = 0
		require.Zero(t, f.balance().Held)
		r := f.record(h.Request)
		require.False(t, r.Running)
		require.False(t, r.Pending)
		require.Empty(t, r.Attempts)
		_, err := f.store.Hold(soon(t), h)
		require.ErrorIs(t, err, ledger.ErrExists)
	})
	t.Run("a repeated hold changes nothing", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		f.admit(h)
		require.EqualValues(t, 5_000, f.balance().Held)
		require.EqualValues(t, 1, f.verify().Holds)
	})
	t.Run("it is of no route, and not lost in sums by route", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		f.settle(ledger.Settlement{Request: h.Request, Status: 400, Reason: "screened", Surcharge: screening})
		rows := f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByRoute}})
		require.Equal(t, []ledger.UsageRow{{Requests: 1, Microcents: screening}}, rows)
		require.Empty(t, f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByRoute}, Route: "unit"}))
	})
	t.Run("its detail is pruned like others", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		h := f.opening(5_000)
		f.settle(ledger.Settlement{Request: h.Request, Status: 400, Reason: "screened", Surcharge: screening})
		n, err := f.store.Prune(soon(t), f.clock.now().AddDate(0, 0, 1))
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		f.verify()
	})
}
