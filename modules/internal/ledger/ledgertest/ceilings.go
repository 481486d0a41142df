package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// several holds for attempts on "unit" that may cost so much each.
func (f *fixture) several(surcharge int64, worst ...int64) ledger.Hold {
	h := f.newHold("unit", surcharge+worst[0])
	h.Attempt.Worst = worst[0]
	f.admit(h)
	all := h.Microcents
	for i, w := range worst[1:] {
		a := f.attempt(h.Request, int64(i+2), "unit")
		a.Worst = w
		all += w
		require.NoError(f.t, f.store.Begin(soon(f.tb), ledger.Next{Request: h.Request, Attempt: a, Microcents: all}))
	}
	h.Microcents = all
	return h
}

// ended is how the attempts of a request ended: what they used on "unit", or -1 for one that waits for its proof.
func ended(h ledger.Hold, used ...int64) ledger.Settlement {
	s := ledger.Settlement{Request: h.Request, Status: 200, Reason: "ok"}
	for i, n := range used {
		r := ledger.Result{Attempt: ledger.AttemptID(h.Request, int64(i+1)), Outcome: ledger.Unproven}
		if n >= 0 {
			r.Outcome, r.Usage = ledger.Finished, usage(0, n)
		}
		s.Results = append(s.Results, r)
	}
	return s
}

func testCeilings(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})

	t.Run("GAP-123 a panel's judge does not take the room of a seat that waits", func(t *testing.T) {
		h := f.several(0, 100, 100, 800)
		c := f.settle(ended(h, 90, -1, 5_000))
		require.Equal(t, []int64{890, 4_200}, []int64{c.Microcents, c.Over})
		c = f.receipt(ledger.AttemptID(h.Request, 2), usage(0, 95))
		require.Equal(t, []int64{95, 0, 985}, []int64{c.Added, c.OverAdded, c.Microcents})
		require.LessOrEqual(t, c.Microcents, h.Microcents)
	})
	t.Run("GAP-123 a call that was never made leaves no room for others", func(t *testing.T) {
		h := f.newHold("unit", 82_000) // of a dear fallback
		h.Attempt.Worst = 100
		f.admit(h)
		c := f.settle(ended(h, 82_000))
		require.Equal(t, []int64{100, 81_900}, []int64{c.Microcents, c.Over})
		h = f.several(0, 100, 82_000)
		s := ended(h, 82_000, 0)
		s.Results[1].Outcome, s.Results[1].Usage = ledger.NotMade, nil
		c = f.settle(s)
		require.Equal(t, []int64{100, 81_900, 0}, []int64{c.Microcents, c.Over, f.balance().Held})
	})
	t.Run("GAP-123 screening stands beside the attempts", func(t *testing.T) {
		const screening = 1_350
		h := f.several(screening, 100, 50)
		s := ended(h, 1_000, -1)
		s.Surcharge = screening
		c := f.settle(s)
		require.Equal(t, []int64{screening + 100, 900}, []int64{c.Microcents, c.Over})
		c = f.receipt(ledger.AttemptID(h.Request, 2), usage(0, 60))
		require.Equal(t, []int64{50, 10, screening + 150}, []int64{c.Added, c.OverAdded, c.Microcents})
	})
	t.Run("GAP-123 what waits holds no credits", func(t *testing.T) {
		h := f.several(0, 100, 300)
		before := f.balance()
		c := f.settle(ended(h, 10, -1))
		require.Zero(t, c.Balance.Held)
		require.Equal(t, before.Net()-10, c.Balance.Net())
		f.receipt(ledger.AttemptID(h.Request, 2), usage(0, 0))
	})
	t.Run("GAP-123 an estimate is an attempt's as well", func(t *testing.T) {
		h := f.several(0, 100, 300)
		s := ended(h, -1, -1)
		s.Results[0].Estimate, s.Results[1].Estimate = usage(0, 150), usage(0, 250)
		require.Zero(t, f.settle(s).Microcents)
		f.clock.add(1)
		f.closeWaiting(2)
		r := f.record(h.Request)
		require.Equal(t, []int64{350, 50}, []int64{r.Microcents, r.Over})
	})

	t.Run("GAP-123 in any order of settlements, receipts and restarts", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			defer func(before require.TestingT) { f.t = before }(f.t)
			f.t = rt
			worst := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 4).Draw(rt, "worst")
			surcharge := rapid.Int64Range(0, 20).Draw(rt, "surcharge")
			h := f.several(surcharge, worst...)
			used, claimed := make([]int64, len(worst)), rapid.Int64Range(0, 120)
			var late []int
			for i := range used {
				if used[i] = -1; rapid.Bool().Draw(rt, "waits") {
					late = append(late, i)
				} else {
					used[i] = claimed.Draw(rt, "used")
				}
			}
			s := ended(h, used...)
			s.Surcharge = surcharge
			charged := f.settle(s).Microcents
			most := surcharge
			for i, n := range used {
				most += min(max(n, 0), worst[i])
			}
			require.Equal(rt, most, charged, "each is bounded by itself, so nothing else bounds them")
			for _, i := range rapid.Permutation(late).Draw(rt, "order") {
				if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
					f.options.BootID = f.next("boot")
					require.NoError(rt, f.store.Close())
					f.store = f.open(f.tb, f.options)
					_, err := f.store.Recover(soon(f.tb))
					require.NoError(rt, err)
				}
				n := claimed.Draw(rt, "proven")
				c := f.receipt(ledger.AttemptID(h.Request, int64(i+1)), &llm.Usage{Input: llm.Count(0), Output: &n})
				require.Equal(rt, min(n, worst[i]), c.Added)
				require.Equal(rt, max(0, n-worst[i]), c.OverAdded)
				charged += c.Added
			}
			require.LessOrEqual(rt, charged, h.Microcents)
			require.Equal(rt, charged, f.record(h.Request).Microcents)
		})
		f.verify()
	})
}
