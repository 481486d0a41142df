package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testReceipts(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})
	ctx := soon(t)

	t.Run("BILL-29 GAP-56 a receipt is added exactly once", func(t *testing.T) {
		h := f.unproven("unit", nil)
		f.clock.add(time.Hour)
		before := f.balance().Net()
		c := f.receipt(h.Attempt.ID, usage(3, 4))
		require.Equal(t, ledger.Charge{Microcents: 7, Added: 7, Balance: f.balance()}, c)
		require.Equal(t, before-7, f.balance().Net())
		e := f.lastEntry()
		require.Equal(t, ledger.Receipt, e.Kind)
		require.Equal(t, ledger.Revenue, e.Book)
		require.Equal(t, h.Request, e.Request)
		require.Equal(t, "unit@1", e.Prices)
		require.EqualValues(t, -7, e.Microcents)
		r := f.record(h.Request)
		require.EqualValues(t, 7, r.Microcents)
		require.False(t, r.Pending)
		require.Equal(t, *usage(3, 4), r.Attempts[0].Usage)
		require.True(t, r.Attempts[0].Receipt.Equal(f.clock.now()))
		require.Equal(t, ledger.Unproven, r.Attempts[0].Outcome, "it stays what it was")

		for range 2 {
			c, applied, err := f.store.AddReceipt(ctx, h.Attempt.ID, *usage(30, 40))
			require.NoError(t, err)
			require.False(t, applied)
			require.EqualValues(t, 7, c.Microcents)
			require.Zero(t, c.Added)
			require.Equal(t, before-7, f.balance().Net())
			f.restart()
		}
		require.EqualValues(t, 7, f.settle(ok(h, usage(9, 9))).Microcents,
			"a settlement that is repeated says what is charged in all")
	})

	t.Run("GAP-48 a receipt raises the charge to what one division over all attempts makes", func(t *testing.T) {
		h := f.hold("fraction", 100)
		f.begin(h, 2, "fraction")
		f.begin(h, 3, "fraction")
		s := ok(h, usage(2, 0)) // 0.666666
		for seq := int64(2); seq <= 3; seq++ {
			s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(h.Request, seq), Outcome: ledger.Unproven})
		}
		c := f.settle(s)
		require.Zero(t, c.Microcents)
		require.True(t, c.Pending)
		entries := len(f.entries(ledger.Query{}))
		c = f.receipt(ledger.AttemptID(h.Request, 3), usage(1, 0)) // 0.999999
		require.Zero(t, c.Microcents)
		require.True(t, c.Pending, "the second attempt waits")
		require.Len(t, f.entries(ledger.Query{}), entries+1, "a receipt that adds nothing is on record, too")
		require.Zero(t, f.lastEntry().Microcents)
		c = f.receipt(ledger.AttemptID(h.Request, 2), usage(1, 0)) // 1.333332
		require.EqualValues(t, 1, c.Microcents)
		require.False(t, c.Pending)
		require.EqualValues(t, 7+4, f.period().Tokens, "with those of the receipt before")
	})

	t.Run("GAP-55 a request that was free stays free", func(t *testing.T) {
		before := f.now()
		h := f.hold("unit", 100)
		s := ok(h, nil)
		s.Free, s.Results[0].Outcome = true, ledger.Unproven
		require.False(t, f.settle(s).Pending)
		c, _, err := f.store.AddReceipt(ctx, h.Attempt.ID, *usage(3, 4))
		require.NoError(t, err)
		require.Zero(t, c.Microcents)
		require.Equal(t, before, f.now())
		require.Zero(t, f.record(h.Request).Microcents)
	})

	t.Run("only unproven attempts wait", func(t *testing.T) {
		h := f.hold("unit", 100)
		for seq := int64(2); seq <= 4; seq++ {
			f.begin(h, seq, "unit")
		}
		s := ok(h, usage(0, 5))
		for i, outcome := range []ledger.Outcome{ledger.Failed, ledger.NotMade, ledger.Unproven} {
			s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(h.Request, int64(i+2)), Outcome: outcome})
		}
		require.True(t, f.settle(s).Pending)
		for seq := int64(1); seq <= 3; seq++ {
			_, applied, err := f.store.AddReceipt(ctx, ledger.AttemptID(h.Request, seq), *usage(0, 1))
			require.NoError(t, err)
			require.False(t, applied, "attempt %d", seq)
		}
		require.EqualValues(t, 6, f.receipt(ledger.AttemptID(h.Request, 4), usage(0, 1)).Microcents)
	})

	t.Run("GAP-56 usage that is proven is charged at once, and no receipt changes it", func(t *testing.T) {
		for _, receipt := range []int64{3, 5, 6} {
			h := f.hold("unit", 100)
			s := ok(h, usage(0, 5))
			s.Results[0].Outcome = ledger.Unproven
			c := f.settle(s)
			require.EqualValues(t, 5, c.Microcents, "whatever the outcome")
			require.False(t, c.Pending)
			before := f.now()
			_, applied, err := f.store.AddReceipt(ctx, h.Attempt.ID, *usage(0, receipt))
			require.NoError(t, err)
			require.False(t, applied)
			require.Equal(t, before, f.now())
		}
	})

	t.Run("the price is that of the attempt", func(t *testing.T) {
		h := f.unproven("unit", nil)
		newer := prices["unit"]
		newer.Output *= 2
		_, err := f.store.PriceVersion(ctx, "unit", newer, newer)
		require.NoError(t, err)
		require.EqualValues(t, 10, f.receipt(h.Attempt.ID, usage(0, 10)).Microcents)
		require.Equal(t, "unit@1", f.lastEntry().Prices)
	})

	t.Run("a receipt is taken whatever the account has", func(t *testing.T) {
		h := f.unprovenOf(f.hold("unit", 2_500_000), nil)
		_, _, err := f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Microcents: -f.balance().Net(),
			Reason: "empty"})
		require.NoError(t, err)
		_, err = f.store.SetState(ctx, f.account.ID, ledger.Suspended)
		require.NoError(t, err)
		c := f.receipt(h.Attempt.ID, usage(0, 2_500_000))
		require.Equal(t, ledger.Balance{Credits: -2, Accrued: 500_000}, c.Balance)
	})
}

func testLateReceipts(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})
	ctx := soon(t)

	t.Run("GAP-56 an attempt is closed at its age, and its receipt is too late then", func(t *testing.T) {
		old := f.hold("unit", 100)
		f.clock.add(time.Hour)
		f.begin(old, 2, "unit") // began later than the first attempt
		f.clock.add(time.Hour)
		s := ok(old, nil)
		s.Surcharge = 3
		f.settle(s)
		young := f.unproven("unit", nil)

		for _, step := range []struct {
			before time.Time
			closed int64
		}{{start, 0}, {start.Add(1), 1}, {start.Add(1), 0}, {start.Add(time.Hour), 0}} {
			n, err := f.store.CloseUnproven(ctx, step.before)
			require.NoError(t, err)
			require.Equal(t, step.closed, n.Attempts, "%s", step.before)
		}
		r := f.record(old.Request)
		require.True(t, r.Pending, "its second attempt waits")
		require.Equal(t, ledger.Closed, r.Attempts[0].Outcome)
		require.Equal(t, ledger.Unproven, r.Attempts[1].Outcome)
		before := f.balance()
		_, applied, err := f.store.AddReceipt(ctx, old.Attempt.ID, *usage(0, 5))
		require.NoError(t, err)
		require.False(t, applied)
		require.Equal(t, before, f.balance())

		n, err := f.store.CloseUnproven(ctx, start.Add(time.Hour+1))
		require.NoError(t, err)
		require.EqualValues(t, 1, n.Attempts)
		r = f.record(old.Request)
		require.False(t, r.Pending, "nothing of it waits")
		require.EqualValues(t, 3, r.Microcents)
		require.EqualValues(t, 4, f.receipt(young.Attempt.ID, usage(0, 4)).Microcents, "what is young enough goes on waiting")
		require.EqualValues(t, 3, f.settle(ledger.Settlement{Request: old.Request}).Microcents)
	})

	t.Run("GAP-56 closing one attempt leaves its request's others their receipts", func(t *testing.T) {
		h := f.hold("unit", 100)
		f.clock.add(time.Minute)
		f.begin(h, 2, "unit")
		f.settle(ledger.Settlement{Request: h.Request})
		n, err := f.store.CloseUnproven(ctx, f.clock.now())
		require.NoError(t, err)
		require.EqualValues(t, 1, n.Attempts)
		c := f.receipt(ledger.AttemptID(h.Request, 2), usage(0, 8))
		require.EqualValues(t, 8, c.Microcents)
		require.False(t, c.Pending)
	})

	t.Run("GAP-99 BILL-29 what a crash cut short is charged by its receipt", func(t *testing.T) {
		h := f.hold("unit", 1_000)
		f.begin(h, 2, "unit")
		require.EqualValues(t, 1, f.restart())
		f.waiting = 0 // for both are seen to here
		before := f.balance().Net()
		c := f.receipt(ledger.AttemptID(h.Request, 2), usage(0, 6))
		require.EqualValues(t, 6, c.Microcents)
		require.True(t, c.Pending)
		c = f.receipt(h.Attempt.ID, usage(0, 5))
		require.EqualValues(t, 11, c.Microcents)
		require.False(t, c.Pending)
		require.Equal(t, before-11, f.balance().Net())
	})
}

// testReferences: what an upstream is asked by is there for whoever asks, however the request ended (GAP-56).
func testReferences(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})
	ctx := soon(t)
	references := func() map[string]string {
		rows, err := f.store.Waiting(ctx, "local", "", 100)
		require.NoError(t, err)
		all := make(map[string]string)
		for _, w := range rows {
			all[w.Attempt] = w.Reference
		}
		return all
	}
	crashed, noted, said, corrected, silent := f.hold("unit", 10), f.hold("unit", 10), f.hold("unit", 10),
		f.hold("unit", 10), f.hold("unit", 10)
	f.begin(crashed, 2, "unit")
	second := ledger.AttemptID(crashed.Request, 2)
	f.store.Refer(crashed.Attempt.ID, "gen-1")
	f.store.Refer(second, "gen-2")
	f.store.Refer(second, "gen-2")
	f.store.Refer(noted.Attempt.ID, "gen-3")
	f.store.Refer(corrected.Attempt.ID, "gen-early")
	for _, nobody := range []string{"", "no attempt", ledger.AttemptID("unknown", 1), ledger.AttemptID(noted.Request, 2)} {
		f.store.Refer(nobody, "gen-nobody")
	}
	before := f.balance()
	f.settle(ledger.Settlement{Request: noted.Request})
	for h, reference := range map[*ledger.Hold]string{&said: "gen-4", &corrected: "gen-5"} {
		s := ok(*h, nil)
		s.Results[0].Outcome, s.Results[0].Reference = ledger.Unproven, reference
		if h == &said {
			s.Results[0].Key = "main"
		}
		f.settle(s)
	}
	s := ok(silent, nil)
	s.Results[0].Outcome = ledger.Unproven
	f.settle(s)
	f.store.Refer(silent.Attempt.ID, "gen-late")
	require.Equal(t, before.Net(), f.balance().Net(), "it is no money")
	want := map[string]string{noted.Attempt.ID: "gen-3", said.Attempt.ID: "gen-4", corrected.Attempt.ID: "gen-5",
		silent.Attempt.ID: ""}
	require.Equal(t, want, references())
	f.verify()

	f.restart()
	want[crashed.Attempt.ID], want[second] = "gen-1", "gen-2"
	require.Equal(t, want, references(), "GAP-99 after a crash")
	rows, err := f.store.Waiting(ctx, "local", "", 100)
	require.NoError(t, err)
	for _, w := range rows {
		require.Equal(t, map[bool]string{true: "main"}[w.Attempt == said.Attempt.ID], w.Key)
	}
	f.restart()
	require.Equal(t, want, references())
	require.EqualValues(t, 7, f.receipt(second, usage(3, 4)).Added)
	delete(want, second)
	require.Equal(t, want, references())
	f.verify()
	f.closeWaiting(5)
	f.waiting = 0
	require.Empty(t, references())
}

func testWaiting(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})
	ctx := soon(t)
	waiting := func(provider, after string, limit int) []string {
		rows, err := f.store.Waiting(ctx, provider, after, limit)
		require.NoError(t, err)
		var ids []string
		for _, w := range rows {
			ids = append(ids, w.Attempt)
			require.Equal(t, "unit", w.Route)
		}
		return ids
	}
	count := func() map[string]int64 {
		n, err := f.store.CountWaiting(ctx)
		require.NoError(t, err)
		return n
	}
	require.Empty(t, waiting("local", "", 10))
	require.Empty(t, count())

	var want []string
	for i := range 7 {
		h := f.newHold("unit", 0)
		f.admit(h)
		if i == 3 {
			f.clock.add(-time.Hour) // the clock goes back: what began "earlier" comes first
		}
		f.clock.add(time.Second)
		f.settle(ledger.Settlement{Request: h.Request})
		want = append(want, h.Attempt.ID)
	}
	want = append(append([]string{}, want[4:]...), want[:4]...)
	other := f.newHold("unit", 0)
	other.Attempt.Provider = "other"
	f.admit(other)
	f.settle(ledger.Settlement{Request: other.Request})

	require.Equal(t, want, waiting("local", "", 100))
	require.Equal(t, []string{other.Attempt.ID}, waiting("other", "", 100))
	require.Empty(t, waiting("nobody", "", 100))
	require.Equal(t, map[string]int64{"local": 7, "other": 1}, count())
	require.Equal(t, want[:3], waiting("local", "", 3))
	require.Equal(t, want[3:6], waiting("local", want[2], 3))
	require.Equal(t, want[6:], waiting("local", want[5], 3))
	require.Empty(t, waiting("local", want[6], 3))

	t.Run("the place of an attempt that no longer waits is kept", func(t *testing.T) {
		f.receipt(want[2], usage(0, 1))
		require.Equal(t, want[3:6], waiting("local", want[2], 3))
		require.Equal(t, []string{want[0], want[1], want[3]}, waiting("local", "", 3))
	})
	rows, err := f.store.Waiting(ctx, "other", "", 1)
	require.NoError(t, err)
	require.True(t, rows[0].Created.Equal(f.record(other.Request).Attempts[0].Created))
	require.EqualValues(t, 7, f.verify().Pending)
	f.restart()
	require.Len(t, waiting("local", "", 100), 6)
	require.Equal(t, map[string]int64{"local": 6, "other": 1}, count())
	f.closeWaiting(7)
	require.Empty(t, waiting("local", "", 100))
	require.Empty(t, count())
}
