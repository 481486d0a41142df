package ledgertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testRace(t *testing.T, open Open) {
	t.Run("BILL-13 GAP-49 1,000 requests race for the last 50 credits", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 50, ledger.Terms{})
		ctx := soon(t)
		var admitted, refused atomic.Int64
		var holds sync.Map
		var wg sync.WaitGroup
		for range 1_000 {
			h := f.newHold("unit", 5_000_000)
			wg.Go(func() {
				switch _, err := f.store.Hold(ctx, h); {
				case err == nil:
					admitted.Add(1)
					holds.Store(h.Request, h)
				case errors.Is(err, ledger.ErrInsufficient): // any other error makes the counts below disagree
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 10, admitted.Load())
		require.EqualValues(t, 990, refused.Load())
		require.Equal(t, ledger.Balance{Credits: 50, Held: 50_000_000}, f.balance())
		require.EqualValues(t, 10, f.verify().Holds)
		holds.Range(func(id, h any) bool {
			f.running[id.(string)] = h.(ledger.Hold)
			return true
		})
	})

	t.Run("BILL-20 GAP-53 a cap that is reached refuses everyone, and one that is not admits all at once",
		func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, 1_000, ledger.Terms{SpendCap: 1_000})
			ctx := soon(t)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 200 {
				h := f.newHold("unit", 1_000)
				f.running[h.Request] = h
				wg.Go(func() {
					if _, err := f.store.Hold(ctx, h); err == nil {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 200, admitted.Load(), "nothing was settled, so each fits alone")
			for _, id := range sortedKeys(f.running) {
				require.EqualValues(t, 1_000, f.settle(ok(f.running[id], usage(0, 1_000))).Microcents)
			}
			f.refused(0, ledger.ErrSpendCap)
		})
}

func testSettlementRace(t *testing.T, open Open) {
	f := newFixture(t, open, 50, ledger.Terms{FairUse: 1_000_000})
	ctx := soon(t)
	var total, waived atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		h := f.hold("unit", 1_000_000)
		s := ok(h, usage(0, int64(123_457+i)))
		s.ServiceLimit = i%2 == 0
		delete(f.running, h.Request)
		for range 4 {
			wg.Go(func() {
				// All four are given the first one's charge, so a quarter of the sum is what was taken.
				if c, err := f.store.Settle(ctx, s); err == nil {
					total.Add(c.Microcents)
					waived.Add(c.Waived)
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, total.Load()%4)
	require.Zero(t, waived.Load()%4)
	require.EqualValues(t, 40*123_457+39*40/2, (total.Load()+waived.Load())/4)
	period := f.period()
	require.Equal(t, total.Load()/4, period.Spent)
	require.Equal(t, waived.Load()/4, period.Waived)
	require.EqualValues(t, 1_000_000, period.Waived,
		"GAP-135: the allowance is used up to its end under any concurrency, and holds")
	require.Equal(t, int64(50_000_000)-total.Load()/4, f.balance().Net())
	require.Zero(t, f.balance().Held)
}

func testReceiptRace(t *testing.T, open Open) {
	t.Run("BILL-29 GAP-56 a receipt that many deliver at once is added once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 50, ledger.Terms{})
		ctx := soon(t)
		var applied, closed atomic.Int64
		var wg sync.WaitGroup
		const attempts = 30
		for range attempts {
			h := f.unproven("unit", nil)
			for range 5 {
				wg.Go(func() {
					if _, first, err := f.store.AddReceipt(ctx, h.Attempt.ID, *usage(0, 1_000)); err == nil && first {
						applied.Add(1)
					}
				})
			}
		}
		f.clock.add(1)
		wg.Go(func() {
			if n, err := f.store.CloseUnproven(ctx, f.clock.now()); err == nil {
				closed.Add(n.Attempts)
			}
		})
		wg.Wait()
		require.EqualValues(t, attempts, applied.Load()+closed.Load(), "each attempt is proven or closed, never both")
		require.Equal(t, 50_000_000-1_000*applied.Load(), f.balance().Net())
		require.Equal(t, 1_000*applied.Load(), f.period().Spent)
	})

	t.Run("a reference that many use at once counts once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, ledger.Terms{})
		var applied atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				c := ledger.Credit{Account: f.account.ID, Credits: 1, Reference: "invoice 1"}
				if _, first, err := f.store.AddCredit(context.Background(), c); err == nil && first {
					applied.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, applied.Load())
		require.Equal(t, ledger.Balance{Credits: 1}, f.balance())
	})

	t.Run("ACCT-08 a period that many end at once is ended once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, monthly)
		f.clock.set(start.AddDate(0, 3, 0))
		ctx := soon(t)
		var wg sync.WaitGroup
		for i := range 60 {
			h := f.newHold("unit", 1)
			f.running[h.Request] = h
			wg.Go(func() {
				// Whoever fails leaves its mark below.
				switch i % 3 {
				case 0:
					_, _ = f.store.Account(ctx, f.account.ID)
				case 1:
					_, _ = f.store.EndPeriods(ctx)
				}
				_, _ = f.store.Hold(ctx, h)
			})
		}
		wg.Wait()
		require.Equal(t, ledger.Balance{Credits: 300, Held: 60}, f.balance())
	})
}
