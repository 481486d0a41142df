package ledgertest

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testCharges(t *testing.T, open Open) {
	f := newFixture(t, open, 100)
	ctx := soon(t)

	t.Run("BILL-03 GAP-48 parts are summed before the one division", func(t *testing.T) {
		h := f.hold("fraction", 10)
		b := f.attempt("fraction")
		require.NoError(t, f.store.Begin(ctx, h.Request, b, 0))
		s := ok(h, usage(1, 1)) // 2.0 microcents less a bit, twice
		s.Results = append(s.Results, ledger.Result{Attempt: b.ID, Outcome: ledger.Finished, Usage: usage(2, 1)})
		// (3 x 333,333 + 2 x 1,666,667) / 1,000,000 = 4.33; each part by itself would make 0 or 1 each.
		require.EqualValues(t, 4, f.settle(s).Microcents)
	})
	t.Run("GAP-109 classes are priced apart and reasoning is part of the output", func(t *testing.T) {
		h := f.hold("cached", 10_000_000)
		c := f.settle(ok(h, &llm.Usage{
			Input: llm.Count(100), CacheRead: llm.Count(1_000), CacheWrite: llm.Count(10), Output: llm.Count(20), Reasoning: llm.Count(15),
		}))
		require.EqualValues(t, 100*300+1_000*30+10*375+20*1_500, c.Microcents)
	})
	t.Run("GAP-48 a class that is not reported counts 0", func(t *testing.T) {
		h := f.hold("example", 10_000_000)
		c := f.settle(ok(h, &llm.Usage{Output: llm.Count(2)}))
		require.EqualValues(t, 3_000, c.Microcents)
		require.False(t, c.Pending)
	})
	t.Run("an explicit zero is proof", func(t *testing.T) {
		h := f.hold("example", 10_000_000)
		c := f.settle(ok(h, usage(0, 0)))
		require.Zero(t, c.Microcents)
		require.False(t, c.Pending)
	})
	t.Run("the price when the attempt began counts", func(t *testing.T) {
		before := f.hold("unit", 1_000_000)
		v, err := f.store.PriceVersion(ctx, "unit", config.Price{Output: 9_000_000})
		require.NoError(t, err)
		require.EqualValues(t, 10, f.settle(ok(before, usage(0, 10))).Microcents)
		f.version["unit"] = v
		after := f.hold("unit", 1_000_000)
		require.EqualValues(t, 90, f.settle(ok(after, usage(0, 10))).Microcents)
	})
	t.Run("BILL-25 GAP-55 a failure of the service is free", func(t *testing.T) {
		before := f.balance()
		h := f.hold("example", 10_000_000)
		s := ok(h, usage(100, 100))
		s.Free, s.Surcharge = true, 1_350
		c := f.settle(s)
		require.Zero(t, c.Microcents)
		require.False(t, c.Pending, "nothing can be added later")
		require.Equal(t, before, f.balance())
	})
	t.Run("a failure without usage is a proven zero, a finish without usage is not", func(t *testing.T) {
		for outcome, pending := range map[ledger.Outcome]bool{
			ledger.Failed: false, ledger.NotMade: false, ledger.Finished: true, ledger.Unproven: true,
		} {
			s := ok(f.hold("unit", 5), nil)
			s.Results[0].Outcome = outcome
			c := f.settle(s)
			require.Zero(t, c.Microcents)
			require.Equal(t, pending, c.Pending, "%s", outcome)
		}
		h := f.hold("unit", 5)
		require.True(t, f.settle(ledger.Settlement{Request: h.Request}).Pending, "nobody reported on the attempt")
	})
}

func testUnusableUsage(t *testing.T, open Open) {
	f := newFixture(t, open, 10)
	for name, u := range map[string]*llm.Usage{
		"negative":  usage(-5, 10),
		"absurd":    usage(0, math.MaxInt64),
		"expensive": usage(0, 1<<40),
		"ten times": {Input: llm.Count(1 << 39), CacheRead: llm.Count(1 << 39), Output: llm.Count(1 << 40)},
		"hidden":    {Input: llm.Count(1), Output: llm.Count(1), Reasoning: llm.Count(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.settle(ok(f.hold("example", 100), u))
			require.Zero(t, c.Microcents)
			require.True(t, c.Pending)
			require.Equal(t, ledger.Balance{Credits: 10}, f.balance(), "the hold is released all the same")
		})
	}
}

func testRepetition(t *testing.T, open Open) {
	f := newFixture(t, open, 10)
	ctx := soon(t)

	h := f.hold("unit", 3_000_000)
	b, err := f.store.Hold(ctx, h)
	require.NoError(t, err)
	require.EqualValues(t, 3_000_000, b.Held)
	next := f.attempt("unit")
	require.NoError(t, f.store.Begin(ctx, h.Request, next, 4_000_000))
	require.NoError(t, f.store.Begin(ctx, h.Request, next, 5_000_000))
	require.EqualValues(t, 4_000_000, f.balance().Held)

	first := f.settle(ok(h, usage(0, 2_000_000)))
	f.topUp(1)
	second := f.settle(ok(h, usage(0, 9_999_999)))
	require.Equal(t, first.Microcents, second.Microcents)
	require.Equal(t, first.Pending, second.Pending)
	require.EqualValues(t, 9, second.Balance.Credits, "the balance is today's")
	require.Equal(t, second.Balance, f.balance())

	_, err = f.store.Hold(ctx, h)
	require.ErrorIs(t, err, ledger.ErrExists, "a settled request must not run again unheld")
	err = f.store.Begin(ctx, h.Request, f.attempt("unit"), 0)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.Equal(t, second.Balance, f.balance())
}

func testRefusals(t *testing.T, open Open) {
	f := newFixture(t, open, 10)
	ctx := soon(t)
	_, err := f.store.Settle(ctx, ledger.Settlement{Request: "unknown"})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.ErrorIs(t, f.store.Begin(ctx, "unknown", f.attempt("unit"), 0), ledger.ErrNotFound)

	running := f.hold("unit", 1)
	for name, change := range map[string]struct {
		apply func(*ledger.Hold)
		want  error
	}{
		"no request id":         {func(h *ledger.Hold) { h.Request = "" }, ledger.ErrInvalid},
		"no attempt id":         {func(h *ledger.Hold) { h.Attempt.ID = "" }, ledger.ErrInvalid},
		"negative":              {func(h *ledger.Hold) { h.Microcents = -1 }, ledger.ErrInvalid},
		"unknown account":       {func(h *ledger.Hold) { h.Account = "acct_0" }, ledger.ErrNotFound},
		"unknown key":           {func(h *ledger.Hold) { h.Key = "key_0" }, ledger.ErrNotFound},
		"unknown price version": {func(h *ledger.Hold) { h.Attempt.PriceVersion = 99 }, ledger.ErrNotFound},
		"attempt id used":       {func(h *ledger.Hold) { h.Attempt.ID = running.Attempt.ID }, ledger.ErrExists},
		"saturated":             {func(h *ledger.Hold) { h.Microcents = math.MaxInt64 }, ledger.ErrInsufficient},
	} {
		h := f.newHold("unit", 5)
		change.apply(&h)
		_, err := f.store.Hold(ctx, h)
		require.ErrorIs(t, err, change.want, name)
		require.EqualValues(t, 1, f.balance().Held, name)
	}

	for name, change := range map[string]struct {
		apply func(*ledger.Settlement)
		want  error
	}{
		"unknown attempt":    {func(s *ledger.Settlement) { s.Results[0].Attempt = "attempt-0" }, ledger.ErrNotFound},
		"two results":        {func(s *ledger.Settlement) { s.Results = append(s.Results, s.Results[0]) }, ledger.ErrInvalid},
		"unknown outcome":    {func(s *ledger.Settlement) { s.Results[0].Outcome = "lost" }, ledger.ErrInvalid},
		"negative surcharge": {func(s *ledger.Settlement) { s.Surcharge = -1 }, ledger.ErrInvalid},
	} {
		s := ok(running, usage(0, 1))
		change.apply(&s)
		_, err := f.store.Settle(ctx, s)
		require.ErrorIs(t, err, change.want, name)
		require.EqualValues(t, 1, f.balance().Held, name)
	}
}

func testRace(t *testing.T, open Open) {
	f := newFixture(t, open, 50)
	ctx := soon(t)
	var admitted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 1_000 {
		h := f.newHold("unit", 5_000_000)
		wg.Go(func() {
			switch _, err := f.store.Hold(ctx, h); {
			case err == nil:
				admitted.Add(1)
			default:
				// A wrong error makes the counts below disagree.
				if isInsufficient(err) {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 10, admitted.Load())
	require.EqualValues(t, 990, refused.Load())
	require.Equal(t, ledger.Balance{Credits: 50, Held: 50_000_000}, f.balance())
	require.EqualValues(t, 10, f.verify().Holds)
}

func testSettlementRace(t *testing.T, open Open) {
	f := newFixture(t, open, 50)
	ctx := soon(t)
	var total atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		h := f.hold("unit", 1_000_000)
		for range 4 {
			wg.Go(func() {
				// All four are given the first one's charge, so a quarter of the sum is what was taken.
				if c, err := f.store.Settle(ctx, ok(h, usage(0, int64(123_457+i)))); err == nil {
					total.Add(c.Microcents)
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, total.Load()%4)
	require.EqualValues(t, 40*123_457+39*40/2, total.Load()/4)
	require.Equal(t, int64(50_000_000)-total.Load()/4, f.balance().Net())
	require.Zero(t, f.balance().Held)
}

func testRestart(t *testing.T, open Open) {
	f := newFixture(t, open, 10)
	ctx := soon(t)
	f.charge(1_500_000)
	h := f.hold("unit", 2_000_000)
	require.NoError(t, f.store.Begin(ctx, h.Request, f.attempt("unit"), 3_000_000))
	require.EqualValues(t, 1, f.verify().Holds)

	for range 2 {
		f.restart()
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 500_000}, f.balance(), "GAP-99: what was charged stays, what was held is released")
		require.Zero(t, f.verify().Holds)
	}
	late := f.settle(ok(h, usage(0, 2_000_000)))
	require.Zero(t, late.Microcents, "a settlement after recovery charges nothing")
	require.True(t, late.Pending, "and the request waits for a receipt")
	require.EqualValues(t, 8_500_000, f.balance().Net())

	p, err := f.store.Account(ctx, f.account.Name)
	require.NoError(t, err)
	require.Equal(t, f.account.ID, p.ID)
}
