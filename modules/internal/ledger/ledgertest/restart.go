package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testRestart(t *testing.T, open Open) {
	t.Run("GAP-99 a crash releases what was held, and its requests wait", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		ctx := soon(t)
		f.charge(1_500_000)
		h := f.hold("unit", 2_000_000)
		require.NoError(t, f.store.Begin(ctx, ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"),
			Microcents: 3_000_000}))
		require.EqualValues(t, 1, f.verify().Holds)
		owner := f.options.BootID

		require.EqualValues(t, 1, f.restart())
		f.waiting = 2 // both attempts
		require.Zero(t, f.restart())
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 500_000}, f.balance(), "what was charged stays")
		require.Zero(t, f.verify().Holds)
		r := f.record(h.Request)
		require.False(t, r.Running)
		require.True(t, r.Pending)
		require.Equal(t, owner, r.Owner)
		require.EqualValues(t, 3_000_000, r.Held, "what it held is on record")
		require.Zero(t, r.Status)
		require.Zero(t, r.Microcents)
		for _, a := range r.Attempts {
			require.Equal(t, ledger.Unproven, a.Outcome)
		}

		late := f.settle(ok(h, usage(0, 2_000_000)))
		require.True(t, late.Pending, "nobody has said what became of the second attempt")
		if f.late() {
			require.EqualValues(t, 2_000_000, late.Microcents, "a settlement after recovery is applied")
			require.EqualValues(t, 6_500_000, f.balance().Net())
			require.Equal(t, late, f.settle(ok(h, usage(0, 2_000_000))), "once")
			f.waiting--
			s := ok(h, nil)
			s.Results[0] = ledger.Result{Attempt: ledger.AttemptID(h.Request, 2), Outcome: ledger.NotMade}
			require.False(t, f.settle(s).Pending, "and resolves what it knows to be nothing")
			f.waiting--
		} else {
			require.Zero(t, late.Microcents, "a settlement after recovery charges nothing")
			require.EqualValues(t, 8_500_000, f.balance().Net())
		}
		require.ErrorIs(t, f.store.Begin(ctx, ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 3, "unit")}),
			ledger.ErrNotFound)
	})

	t.Run("GAP-99 after a crash no account pays for a call that was made beside another one", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		ctx := soon(t)
		beside := func() (ledger.Hold, string) {
			h := f.hold("unit", 1_000)
			next := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 2_000, Beside: true}
			require.NoError(t, f.store.Begin(ctx, next))
			return h, next.Attempt.ID
		}
		h, won := beside()
		s := ok(h, usage(1, 2))
		s.Results[0].Operator = true
		s.Results = append(s.Results, ledger.Result{Attempt: won, Outcome: ledger.Finished, Usage: usage(30, 40)})
		require.EqualValues(t, 70, f.settle(s).Microcents, "it became the reply")
		require.False(t, f.record(h.Request).Attempts[1].Operator)

		h, lost := beside()
		require.EqualValues(t, 1, f.restart())
		r := f.record(h.Request)
		require.Equal(t, ledger.Failed, r.Attempts[1].Outcome)
		require.True(t, r.Attempts[1].Operator)
		_, applied, err := f.store.AddReceipt(ctx, lost, *usage(300, 300))
		require.NoError(t, err)
		require.False(t, applied)
		c, applied, err := f.store.AddReceipt(ctx, ledger.AttemptID(h.Request, 1), *usage(100, 50))
		require.NoError(t, err)
		require.True(t, applied)
		f.waiting = 0
		require.EqualValues(t, 150, c.Microcents, "the first call is the account's")
		require.False(t, c.Pending)
	})

	t.Run("GAP-99 settlements that were spooled are repeated before recovery, and charge", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		ctx := soon(t)
		spooled, lost := f.hold("unit", 2_000_000), f.hold("unit", 1_000_000)
		require.NoError(t, f.store.Close())
		clear(f.running)
		f.options.BootID = f.next("boot")
		f.store = f.open(t, f.options)
		require.EqualValues(t, 3_000_000, f.balance().Held, "until they are recovered they hold")
		require.EqualValues(t, 1_700_000, f.settle(ok(spooled, usage(0, 1_700_000))).Microcents)
		n, err := f.store.Recover(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 700_000}, f.balance())
		require.Equal(t, "ok", f.record(spooled.Request).Reason)
		require.True(t, f.record(lost.Request).Pending)
		f.waiting++
	})

	t.Run("GAP-99 a call for comparison is nobody's charge after a crash, either", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{TokenBudget: 1_000_000})
		h := f.newHold("unit", 0)
		h.Endpoint, h.Attempt.Worst = ledger.Shadow, 0
		f.admit(h)
		before := f.now()
		require.NoError(t, f.store.Close())
		clear(f.running) // it does not wait
		require.EqualValues(t, 1, f.start())
		require.Equal(t, before, f.now())
		r := f.record(h.Request)
		require.False(t, r.Pending)
		require.Equal(t, []any{ledger.Failed, true}, []any{r.Attempts[0].Outcome, r.Attempts[0].Operator})
		_, applied, err := f.store.AddReceipt(soon(t), h.Attempt.ID, *usage(1_000, 2_000))
		require.NoError(t, err)
		require.False(t, applied)
		require.Equal(t, before, f.now())

		own := f.newHold("unit", 0)
		own.Endpoint = ledger.Shadow
		f.admit(own)
		c := f.settle(ok(own, usage(1_000, 2_000)))
		require.Zero(t, c.Microcents+c.Over, "whatever its settlement says")
		require.Equal(t, before, f.now())
	})

	t.Run("GAP-99 recovery leaves the holds of this process", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{})
		f.hold("unit", 1_000_000)
		n, err := f.store.Recover(soon(t))
		require.NoError(t, err)
		require.Zero(t, n)
		require.EqualValues(t, 1_000_000, f.balance().Held)
	})

	t.Run("GAP-99 everything that was answered survives", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, ledger.Terms{MonthlyCredits: 5, FairUse: 100})
		ctx := soon(t)
		spendCap := int64(77_000)
		_, err := f.store.ChangeKey(ctx, f.key.ID, ledger.KeyChange{SpendCap: &spendCap})
		require.NoError(t, err)
		_, _, err = f.store.RotateKey(ctx, f.key.ID, hashOf("fresh"), "", 0)
		require.NoError(t, err)
		f.settle(f.atLimit(usage(0, 50)))
		f.charge(7)
		waiting := f.unproven("fraction", nil)
		f.clock.set(f.period().End)
		f.charge(9)
		_, err = f.store.SetState(ctx, f.account.ID, ledger.Suspended)
		require.NoError(t, err)
		_, err = f.store.MakeCheckpoint(ctx)
		require.NoError(t, err)

		type everything struct {
			accounts    []ledger.Account
			keys        []ledger.Key
			entries     []ledger.Entry
			checkpoints []ledger.Checkpoint
			acts        []ledger.Act
			usage       []ledger.UsageRow
			waiting     ledger.RequestRecord
		}
		see := func() everything {
			return everything{
				f.accounts(), f.keys(""), f.entries(ledger.Query{}), f.checkpoints(), f.acts(ledger.Query{}),
				f.usage(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByKey, ledger.ByRoute, ledger.ByDay}}),
				f.record(waiting.Request),
			}
		}
		before := see()
		for range 2 {
			f.restart()
			require.Equal(t, before, see())
		}
		v, err := f.store.PriceVersion(ctx, "unit", prices["unit"], half(prices["unit"]))
		require.NoError(t, err)
		require.Equal(t, f.version["unit"], v)
		f.receipt(waiting.Attempt.ID, usage(0, 3))
	})
}
